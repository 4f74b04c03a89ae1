/* weft show: the mesh before anything runs: who faces whom, in which order, at what
 * bound. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "mesh/ring.h"
#include "report/columns.h"
#include "report/draw.h"
#include "run/graph.h"

/* What is shown, gathered once for people and for JSON. */
struct view {
    const struct scenario *scenario;
    struct scenario_world *world;
    struct mesh_graph graph;
    uint32_t *hosts; /* Owned [n_ranks]: the host of each rank */
};

static bool view_init(struct view *view, const struct scenario *scenario)
{
    memset(view, 0, sizeof(*view));
    view->scenario = scenario;
    if (scenario_to_world(scenario, &view->world) != WEFT_OK) {
        return false;
    }
    run_graph(&view->world->spec, &view->graph);
    view->hosts = weft_calloc(scenario->n_ranks + 1, sizeof(uint32_t));
    for (uint32_t i = 0; i < scenario->n_ranks; i++) {
        view->hosts[i] = scenario->ranks[i].host;
    }
    return true;
}

static void view_fini(struct view *view)
{
    mesh_graph_fini(&view->graph);
    scenario_world_free(view->world);
    free(view->hosts);
}

static const char *host_of(const struct view *view, uint32_t rank)
{
    return view->scenario->hosts[view->hosts[rank]].name;
}

/* The rails from rank `from` to rank `to` as "p0 → p1, c0 → c1", or how many hops
 * there are. */
static uint32_t describe_pair(const struct view *view, uint32_t from, uint32_t to,
                              json_t *rails, struct weft_text *out)
{
    const struct world_host *hosts = view->world->spec.hosts;
    uint32_t a = view->hosts[from];
    uint32_t b = view->hosts[to];
    uint32_t n_hops = mesh_distance(&view->graph, a, b);
    const char *separator = "";

    for (size_t i = 0; i < view->graph.n_edges && n_hops == 1; i++) {
        const struct mesh_edge *edge = &view->graph.edges[i];

        if (edge->from == a && edge->to == b) {
            const char *local = hosts[a].ports[edge->from_port].name;
            const char *remote = hosts[b].ports[edge->to_port].name;

            weft_text_add(out, "%s%s → %s", separator, local, remote);
            json_array_append_new(rails, json_pack("{s:s, s:s, s:I}", "local_port", local,
                                                   "remote_port", remote, "rate_bps",
                                                   (json_int_t)edge->rate_bps));
            separator = ", ";
        }
    }
    if (n_hops == UINT32_MAX) {
        weft_text_add(out, "no path");
    } else if (n_hops != 1) {
        weft_text_add(out, n_hops == 0 ? "same host" : "%u hops: needs a relay", n_hops);
    }
    return n_hops;
}

static json_t *show_pairs(const struct view *view, struct weft_text *out)
{
    static const char *const heads[] = {"from", "to", "rails"};
    uint32_t n = view->scenario->n_ranks;
    json_t *pairs = json_array();
    struct columns columns;

    columns_init(&columns, heads, 3);
    for (uint32_t from = 0; from < n; from++) {
        for (uint32_t to = 0; to < n; to++) {
            struct weft_text rails = {NULL, 0, 0};
            json_t *list = json_array();
            uint32_t n_hops;

            if (from == to) {
                json_decref(list);
                continue;
            }
            n_hops = describe_pair(view, from, to, list, &rails);
            columns_row(&columns);
            columns_cell(&columns, "%u %s", from, host_of(view, from));
            columns_cell(&columns, "→ %u %s", to, host_of(view, to));
            columns_cell(&columns, "%s", rails.bytes);
            json_array_append_new(
                pairs,
                json_pack("{s:i, s:i, s:s, s:s, s:o, s:o}", "from", (int)from, "to",
                          (int)to, "from_host", host_of(view, from), "to_host",
                          host_of(view, to), "rails", list, "hops",
                          n_hops == UINT32_MAX ? json_null()
                                               : json_integer((json_int_t)n_hops)));
            weft_text_fini(&rails);
        }
    }
    weft_text_add(out, "\nranks\n");
    columns_print(&columns, "  ", out);
    columns_fini(&columns);
    return pairs;
}

/* The order of ranks, and a better one if the mesh has it. */
static json_t *show_ring(const struct view *view, struct weft_text *out)
{
    uint32_t n = view->scenario->n_ranks;
    uint32_t *order = weft_calloc((size_t)n + 1, sizeof(*order));
    struct mesh_ring given = mesh_ring_of(&view->graph, view->hosts, n);
    struct mesh_ring best = mesh_ring_order(&view->graph, view->hosts, n, order);
    json_t *names = json_array();

    weft_text_add(out, "\nring  ");
    for (uint32_t i = 0; i < n; i++) {
        weft_text_add(out, "%s%s", i == 0 ? "" : " → ", host_of(view, order[i]));
        json_array_append_new(names, json_string(host_of(view, order[i])));
    }
    if (best.n_missing > 0) {
        weft_text_add(out, "  (%u neighbours share no cable)", best.n_missing);
    }
    if (best.hops < given.hops) {
        weft_text_add(out, "  better than the order of ranks given");
    }
    weft_text_add(out, "\n");
    free(order);
    return json_pack("{s:o, s:i, s:b}", "order", names, "neighbours_without_cable",
                     (int)best.n_missing, "better_than_given", best.hops < given.hops);
}

static enum mesh_collective collective_of(enum scenario_job_kind kind)
{
    static const enum mesh_collective same[SCENARIO_N_JOB_KINDS] = {
        [SCENARIO_ALL_REDUCE] = MESH_ALL_REDUCE,
        [SCENARIO_REDUCE_SCATTER] = MESH_REDUCE_SCATTER,
        [SCENARIO_ALL_GATHER] = MESH_ALL_GATHER,
        [SCENARIO_BROADCAST] = MESH_BROADCAST,
        [SCENARIO_REDUCE] = MESH_REDUCE,
        [SCENARIO_ALL_TO_ALL] = MESH_ALL_TO_ALL,
        [SCENARIO_SEND_RECV] = MESH_SEND_RECV,
        [SCENARIO_BARRIER] = MESH_BARRIER,
    };

    return same[kind];
}

static json_t *show_bounds(const struct view *view, struct weft_text *out)
{
    static const char *const heads[] = {"job", "size", "at least", "busbw at most"};
    uint32_t n = view->scenario->n_ranks;
    json_t *bounds = json_array();
    struct columns columns;

    columns_init(&columns, heads, 4);
    columns_right(&columns, 1);
    columns_right(&columns, 2);
    columns_right(&columns, 3);
    for (uint32_t i = 0; i < view->scenario->n_jobs; i++) {
        const struct scenario_job *job = &view->scenario->jobs[i];
        uint64_t size = job->n_bytes > 0 ? job->bytes[job->n_bytes - 1] : 0;
        enum mesh_collective collective = collective_of(job->kind);
        weft_ps limit = mesh_limit_ps(&view->graph, view->hosts, n, collective, size);
        uint32_t numerator;
        uint32_t denominator;
        double bus;

        mesh_bus_factor(collective, n, &numerator, &denominator);
        bus = limit == 0
                  ? 0
                  : (double)size * numerator / denominator / ((double)limit / 1000);
        columns_row(&columns);
        columns_cell(&columns, "%s", scenario_job_kind_name(job->kind));
        columns_cell(&columns, "%llu B", (unsigned long long)size);
        columns_cell(&columns, "%.3fus", (double)limit / 1e6);
        columns_cell(&columns, "%.2f GB/s", bus);
        json_array_append_new(bounds,
                              json_pack("{s:s, s:I, s:I, s:f}", "job",
                                        scenario_job_kind_name(job->kind), "size_bytes",
                                        (json_int_t)size, "limit_ns",
                                        (json_int_t)(limit / 1000), "limit_gBps", bus));
    }
    if (view->scenario->n_jobs > 0) {
        weft_text_add(out, "\nphysical bounds\n");
        columns_print(&columns, "  ", out);
    }
    columns_fini(&columns);
    return bounds;
}

static int print_view(const struct cli_options *options, const struct view *view)
{
    struct weft_text text = {NULL, 0, 0};
    json_t *document;
    json_t *pairs;
    json_t *ring;
    int code = CLI_OK;

    weft_text_add(&text, "%s%s%s  %s\n\n", options->style.bold, view->scenario->name,
                  options->style.off, view->scenario->description);
    draw_mesh(view->scenario, &text);
    pairs = show_pairs(view, &text);
    ring = show_ring(view, &text);
    document = json_pack("{s:i, s:s, s:o, s:o, s:o}", "schema_version", 1, "scenario",
                         view->scenario->name, "pairs", pairs, "ring", ring, "bounds",
                         show_bounds(view, &text));
    if (options->json != NULL) {
        char *dump = json_dumps(document, JSON_INDENT(2));

        text.n = 0;
        weft_text_add(&text, "%s\n", dump);
        free(dump);
    } else if (options->dot) {
        text.n = 0;
        draw_dot(view->scenario, &text);
    }
    if (!cli_write_file(options->json != NULL ? options->json : "-", text.bytes,
                        text.n)) {
        code = CLI_USAGE;
    }
    json_decref(document);
    weft_text_fini(&text);
    return code;
}

int cli_show(struct cli_options *options)
{
    struct scenario *scenario;
    struct view view;
    int code = CLI_USAGE;

    if (options->n_operands != 1) {
        fprintf(stderr, "usage: weft show FILE [flags]\n");
        return CLI_USAGE;
    }
    if (options->nic != NULL || options->policy != NULL) {
        fprintf(stderr, "weft show: not implemented yet: --%s\n",
                options->nic != NULL ? "nic" : "policy");
        return CLI_ENVIRONMENT;
    }
    scenario = cli_load(options, options->operands[0]);
    if (scenario == NULL) {
        return CLI_USAGE;
    }
    if (view_init(&view, scenario)) {
        code = print_view(options, &view);
    }
    view_fini(&view);
    scenario_free(scenario);
    return code;
}

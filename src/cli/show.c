/* weft show: prints the mesh without running anything: pairs, routes, rank order, bounds. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/show_view.h"
#include "mesh/ring.h"
#include "report/columns.h"
#include "report/draw.h"
#include "run/graph.h"

static bool view_init(struct view *view, const struct scenario *scenario)
{
    memset(view, 0, sizeof(*view));
    view->scenario = scenario;
    if (scenario_to_world(scenario, &view->world) != WEFT_OK) {
        return false;
    }
    run_insides_make(view->world, &view->insides);
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
    run_insides_fini(&view->insides);
    scenario_world_free(view->world);
    free(view->hosts);
}

/* Maximum number of ranks for which an order is searched. With more, only a packed ring over cables
 * alone is considered. */
#define ORDER_RANKS_MAX 256

/* Shows the best known order of ranks. `packed` [n_ranks] is a ring over cables alone, or NULL. */
static json_t *show_ring(const struct view *view, const uint32_t *packed,
                         struct weft_text *out)
{
    uint32_t n = view->scenario->n_ranks;
    uint32_t *order = weft_calloc((size_t)n + 1, sizeof(*order));
    struct mesh_ring given = mesh_ring_of(&view->graph, view->hosts, n);
    struct mesh_ring best = given;
    json_t *names = json_array();

    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
    }
    if (n <= ORDER_RANKS_MAX) {
        best = mesh_ring_order(&view->graph, view->hosts, n, order);
    }
    if (packed != NULL && best.n_missing > 0) {
        memcpy(order, packed, n * sizeof(*order));
        best = (struct mesh_ring){.n_missing = 0, .hops = n};
    }
    weft_text_add(out, "\nring  ");
    for (uint32_t i = 0; i < n; i++) {
        if (n <= SHOW_PAIRS_MAX) {
            weft_text_add(out, "%s%s", i == 0 ? "" : " → ", show_host_of(view, order[i]));
        }
        json_array_append_new(names, json_string(show_host_of(view, order[i])));
    }
    if (n > SHOW_PAIRS_MAX) {
        weft_text_add(out, "%s → %s → ... → %s", show_host_of(view, order[0]),
                      show_host_of(view, order[1]), show_host_of(view, order[n - 1]));
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

static json_t *show_bounds(const struct view *view, struct weft_text *out)
{
    static const char *const heads[] = {"job", "size", "at least", "busbw at most"};
    uint32_t n = view->scenario->n_ranks;
    /* Programs have no bounds. */
    uint32_t n_jobs = scenario_has_programs(view->scenario) ? 0 : view->scenario->n_jobs;
    json_t *bounds = json_array();
    struct columns columns;

    columns_init(&columns, heads, 4);
    columns_right(&columns, 1);
    columns_right(&columns, 2);
    columns_right(&columns, 3);
    for (uint32_t i = 0; i < n_jobs; i++) {
        const struct scenario_job *job = &view->scenario->jobs[i];
        uint64_t size = job->n_bytes > 0 ? job->bytes[job->n_bytes - 1] : 0;
        enum weft_collective collective = job->kind;
        weft_ps limit =
            run_limit_ps(&view->insides, &view->graph, view->hosts, n, collective, size);
        uint32_t numerator;
        uint32_t denominator;
        double bus;

        mesh_bus_factor(collective, n, &numerator, &denominator);
        bus = limit == 0
                  ? 0
                  : (double)size * numerator / denominator / ((double)limit / 1000);
        columns_row(&columns);
        columns_cell(&columns, "%s", scenario_job_name(job));
        columns_cell(&columns, "%llu B", (unsigned long long)size);
        columns_cell(&columns, "%.3fus", (double)limit / 1e6);
        columns_cell(&columns, "%.2f GB/s", bus);
        json_array_append_new(
            bounds, json_pack("{s:s, s:I, s:I, s:f}", "job", scenario_job_name(job),
                              "size_bytes", (json_int_t)size, "limit_ns",
                              (json_int_t)(limit / 1000), "limit_gBps", bus));
    }
    if (json_array_size(bounds) > 0) {
        weft_text_add(out, "\nphysical bounds\n");
        columns_print(&columns, "  ", out);
    }
    columns_fini(&columns);
    return bounds;
}

/* Returns true for policies of NCCL's net_ib, which merges the ports of a card. A plugin is queried
 * for each port. */
static bool merges_nics(const struct cli_options *options,
                        const struct scenario *scenario)
{
    enum weft_policy policy = scenario->policy;

    if (options->policy != NULL) {
        /* Cannot fail, because cli.c checked it. */
        weft_policy_parse(options->policy, &policy);
    }
    return policy == WEFT_POLICY_NCCL_2_25 ||
           policy == WEFT_POLICY_NCCL_2_30_SUBNET_AWARE ||
           policy == WEFT_POLICY_NCCL_2_29_PORT_RECOVERY;
}

static int print_view(const struct cli_options *options, const struct view *view)
{
    struct weft_text text = {NULL, 0, 0};
    json_t *document =
        json_pack("{s:i, s:s}", "schema_version", 1, "scenario", view->scenario->name);
    uint32_t *packed = weft_calloc((size_t)view->scenario->n_ranks + 1, sizeof(*packed));
    bool has_packed;
    int code = CLI_OK;

    weft_text_add(&text, "%s%s%s  %s\n\n", options->style.bold, view->scenario->name,
                  options->style.off, view->scenario->description);
    draw_mesh(view->scenario, &text);
    json_object_set_new(document, "cables", show_cables(view));
    json_object_set_new(document, "pairs", show_pairs(view, &text));
    json_object_set_new(document, "hops", show_hops(view, &text));
    has_packed = show_packings(view, document, &text, packed);
    json_object_set_new(document, "ring",
                        show_ring(view, has_packed ? packed : NULL, &text));
    json_object_set_new(document, "nccl",
                        show_nccl(view, merges_nics(options, view->scenario), &text));
    json_object_set_new(document, "choices",
                        options->policy != NULL
                            ? show_policy(view, options->policy, &text)
                            : json_null());
    json_object_set_new(document, "bounds", show_bounds(view, &text));
    free(packed);
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
        fprintf(stderr, "usage: weft show [flags] FILE\n");
        return CLI_USAGE;
    }
    if (options->nic == NULL && options->has_seed) {
        fprintf(stderr, "weft show: --seed goes with --nic\n");
        return CLI_USAGE;
    }
    if (options->nic != NULL && (options->plan || options->dot)) {
        fprintf(stderr, "weft show: --nic goes without --plan and --dot\n");
        return CLI_USAGE;
    }
    if (options->dot && (options->plan || options->json != NULL)) {
        fprintf(stderr, "weft show: --dot goes without --plan and --json\n");
        return CLI_USAGE;
    }
    if (!options->plan && (options->job != NULL || options->rank != NULL)) {
        fprintf(stderr, "weft show: --job and --rank go with --plan\n");
        return CLI_USAGE;
    }
    if ((options->nic == NULL &&
         cli_refuse_given(options, "backend", "only with --nic")) ||
        (options->plan && cli_refuse_given(options, "policy", "not with --plan"))) {
        return CLI_USAGE;
    }
    scenario = cli_load(options, options->operands[0]);
    if (scenario == NULL) {
        return CLI_USAGE;
    }
    if (scenario->n_ranks == 0 && !(options->plan && scenario_has_programs(scenario))) {
        fprintf(stderr, "weft show: %s: no host has a rank\n", scenario->file);
        scenario_free(scenario);
        return CLI_USAGE;
    }
    if (options->plan) {
        code = cli_show_plan(options, scenario);
        scenario_free(scenario);
        return code;
    }
    if (options->nic != NULL) {
        code = cli_show_nic(options, scenario);
        scenario_free(scenario);
        return code;
    }
    if (view_init(&view, scenario)) {
        code = print_view(options, &view);
    }
    view_fini(&view);
    scenario_free(scenario);
    return code;
}

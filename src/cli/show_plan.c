/* weft show --plan: prints the plan of each job and the alternatives. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/cli.h"
#include "coll/cost.h"
#include "report/columns.h"
#include "run/graph.h"
#include "run/insides.h"

struct shown {
    const struct scenario *scenario;
    struct coll_mesh mesh;
    uint32_t job, rank; /* UINT32_MAX for all */
    struct weft_text text;
    json_t *plans, *channels; /* Owned */
};

/* Returns false after a message. */
static bool read_index(const char *flag, const char *value, uint32_t limit, uint32_t *out)
{
    char *end = NULL;
    unsigned long number;

    *out = UINT32_MAX;
    if (value == NULL) {
        return true;
    }
    errno = 0;
    number = strtoul(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || number >= limit) {
        fprintf(stderr,
                "weft show: --%s: no %s %s; the scenario has %u, numbered from 0\n", flag,
                flag, value, limit);
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

static json_t *show_orders(struct shown *shown, const char *what, const uint32_t *orders,
                           uint32_t n_orders, uint32_t n)
{
    json_t *all = json_array();

    for (uint32_t c = 0; c < n_orders; c++) {
        json_t *order = json_array();

        weft_text_add(&shown->text, "  %s %u ", what, c);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t rank = orders[(size_t)c * n + i];

            weft_text_add(&shown->text, "%s%u", i > 0 ? " → " : " ", rank);
            json_array_append_new(order, json_integer(rank));
        }
        weft_text_add(&shown->text, "\n");
        json_array_append_new(all, order);
    }
    return all;
}

/* Prints the channels that NCCL's search finds inside each host with several ranks. */
static void show_channels(struct shown *shown, const struct scenario_world *world,
                          const struct run_insides *insides)
{
    for (uint32_t i = 0; i < insides->n; i++) {
        const struct coll_inside *inside = &insides->hosts[i];
        const char *host = world->spec.hosts[i].name;
        json_t *rings, *trees;

        if (inside->n < 2) {
            continue;
        }
        weft_text_add(&shown->text, "channels inside %s\n", host);
        rings = show_orders(shown, "ring", inside->rings, inside->n_rings, inside->n);
        trees = show_orders(shown, "tree", inside->trees, inside->n_trees, inside->n);
        json_array_append_new(shown->channels, json_pack("{s:s, s:o, s:o}", "host", host,
                                                         "rings", rings, "trees", trees));
    }
}

static bool mesh_init(struct shown *shown)
{
    const struct scenario *scenario = shown->scenario;
    uint32_t *hosts = weft_calloc((size_t)scenario->n_ranks + 1, sizeof(*hosts));
    uint32_t *roots = weft_calloc((size_t)scenario->n_jobs + 1, sizeof(*roots));
    struct scenario_world *world = NULL;
    struct mesh_overlay overlay;
    struct run_insides insides;
    struct mesh_graph graph;
    bool is_made = scenario_to_world(scenario, &world) == WEFT_OK;

    for (uint32_t i = 0; i < scenario->n_ranks; i++) {
        hosts[i] = scenario->ranks[i].host;
    }
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        roots[i] = scenario->jobs[i].root;
    }
    if (is_made) {
        run_insides_make(world, &insides);
        run_graph(&world->spec, &graph);
        mesh_overlay_make(&graph, hosts, scenario->n_ranks, &overlay);
        coll_mesh_make(&overlay, roots, scenario->n_jobs, insides.hosts, insides.n,
                       &shown->mesh);
        show_channels(shown, world, &insides);
        run_insides_fini(&insides);
        mesh_graph_fini(&graph);
    }
    scenario_world_free(world);
    free(hosts);
    free(roots);
    return is_made;
}

/* Prints the modelled times of all algorithms of the kind and marks the chosen one. */
static void show_choice(struct shown *shown, const struct coll_job *job,
                        const struct coll_choice *choice)
{
    static const char *const heads[] = {"algorithm", "slice", "modelled"};
    struct columns columns;

    columns_init(&columns, heads, 3);
    columns_right(&columns, 1);
    columns_right(&columns, 2);
    for (int a = WEFT_ALGORITHM_AUTO + 1; a < WEFT_N_ALGORITHMS; a++) {
        struct coll_job other = *job;
        struct coll_choice best;

        other.algorithm = (enum weft_algorithm)a;
        if (!weft_collective_has(job->kind, other.algorithm)) {
            continue;
        }
        coll_choose(&other, &shown->mesh, &best);
        columns_row(&columns);
        columns_cell(&columns, "%s%s", weft_algorithm_name(best.algorithm),
                     best.algorithm == choice->algorithm ? " *" : "");
        columns_cell(&columns, "%llu B", (unsigned long long)best.slice_bytes);
        if (best.time_ps == INT64_MAX) {
            columns_cell(&columns, "impossible");
        } else {
            columns_cell(&columns, "%.3fus", (double)best.time_ps / 1e6);
        }
    }
    columns_print(&columns, "  ", &shown->text);
    columns_fini(&columns);
}

/* Returns false after a message. */
static bool show_rank(struct shown *shown, uint32_t job_index, const struct coll_job *job,
                      const struct coll_choice *choice, uint32_t rank)
{
    struct weft_text steps = {NULL, 0, 0};
    struct weft_error error = {0};
    struct coll_plan plan;

    if (coll_plan_make(job, rank, &shown->mesh, &plan, &error) != WEFT_OK) {
        fprintf(stderr, "weft show: job %u: %s\n", job_index, error.message);
        return false;
    }
    coll_plan_print(&plan, &steps);
    weft_text_add(&shown->text, "\n%s", steps.bytes);
    json_array_append_new(
        shown->plans,
        json_pack("{s:i, s:s, s:I, s:s, s:I, s:I, s:i, s:i, s:s}", "job", (int)job_index,
                  "kind", weft_collective_name(job->kind), "size_bytes",
                  (json_int_t)(job->count * weft_dtype_bytes(job->dtype)), "algorithm",
                  weft_algorithm_name(plan.algorithm), "slice_bytes",
                  (json_int_t)choice->slice_bytes, "modelled_ns",
                  (json_int_t)(choice->time_ps / 1000), "rank", (int)rank, "n_steps",
                  (int)plan.n_steps, "plan", steps.bytes));
    weft_text_fini(&steps);
    coll_plan_fini(&plan);
    return true;
}

static bool show_size(struct shown *shown, uint32_t index, uint64_t bytes)
{
    const struct scenario_job *from = &shown->scenario->jobs[index];
    uint32_t n = shown->scenario->n_ranks;
    enum weft_collective kind = (enum weft_collective)from->kind;
    struct coll_job job = {.kind = kind,
                           .algorithm = (enum weft_algorithm)from->algorithm,
                           .dtype = from->dtype,
                           .op = from->op,
                           .count = coll_whole_count(kind, from->dtype, bytes, n),
                           .root = from->root,
                           .in_place = from->in_place};
    struct coll_choice choice;

    coll_choose(&job, &shown->mesh, &choice);
    weft_text_add(&shown->text, "%sjob %u: %s of %llu B on %u ranks\n",
                  shown->text.n > 0 ? "\n" : "", index, weft_collective_name(kind),
                  (unsigned long long)(job.count * weft_dtype_bytes(job.dtype)), n);
    show_choice(shown, &job, &choice);
    for (uint32_t rank = 0; rank < n; rank++) {
        if ((shown->rank == UINT32_MAX || shown->rank == rank) &&
            !show_rank(shown, index, &job, &choice, rank)) {
            return false;
        }
    }
    return true;
}

static bool show_jobs(struct shown *shown)
{
    for (uint32_t i = 0; i < shown->scenario->n_jobs; i++) {
        const struct scenario_job *job = &shown->scenario->jobs[i];

        for (uint32_t k = 0; k < job->n_bytes; k++) {
            if ((shown->job == UINT32_MAX || shown->job == i) &&
                !show_size(shown, i, job->bytes[k])) {
                return false;
            }
        }
    }
    return true;
}

int cli_show_plan(const struct cli_options *options, const struct scenario *scenario)
{
    struct shown shown = {
        .scenario = scenario, .plans = json_array(), .channels = json_array()};
    char *dump = NULL;
    int code = CLI_USAGE;

    if (scenario_has_programs(scenario)) {
        fprintf(stderr, "weft show --plan: the jobs are programs, which have no plan of "
                        "Weft's: name a scenario with collectives\n");
    } else if (scenario->n_jobs == 0) {
        fprintf(stderr,
                "weft show --plan: the scenario has no jobs to plan: add one under "
                "`jobs`, e.g. --set 'jobs=[{all_reduce: {bytes: 1MiB}}]'\n");
    } else if (read_index("job", options->job, scenario->n_jobs, &shown.job) &&
               read_index("rank", options->rank, scenario->n_ranks, &shown.rank) &&
               mesh_init(&shown)) {
        code = show_jobs(&shown) ? CLI_OK : CLI_USAGE;
        coll_mesh_fini(&shown.mesh);
    }
    if (code == CLI_OK && options->json != NULL) {
        json_t *document =
            json_pack("{s:i, s:s, s:O, s:O}", "schema_version", 1, "scenario",
                      scenario->name, "channels", shown.channels, "plans", shown.plans);

        dump = json_dumps(document, JSON_INDENT(2));
        json_decref(document);
        shown.text.n = 0;
        weft_text_add(&shown.text, "%s\n", dump);
        free(dump);
    }
    if (code == CLI_OK && shown.text.n > 0 &&
        !cli_write_file(options->json != NULL ? options->json : "-", shown.text.bytes,
                        shown.text.n)) {
        code = CLI_USAGE;
    }
    json_decref(shown.plans);
    json_decref(shown.channels);
    weft_text_fini(&shown.text);
    return code;
}

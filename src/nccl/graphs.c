/* The search loop of ncclTopoCompute: the bandwidths and types to search for, their order, and
 * the condition for stopping. */
#include "nccl/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "nccl/graph_search.h"

/* Maximum steps of a graph, of one search, and of one with the same channels. */
enum { STEPS_ALL = 1 << 19, STEPS = 1 << 14, STEPS_SAME_CHANNELS = 1 << 8 };

/* GB/s to try, the widest first; ends with 0. */
static const float intra_old[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 0};
static const float inter_old[] = {48, 30, 28, 24, 20, 18,   15,   12,    10,    9,
                                  7,  6,  5,  4,  3,  2.4f, 1.2f, 0.24f, 0.12f, 0};
static const float intra_sm90[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3, 0};
static const float inter_sm90[] = {48, 45, 42, 40, 30,   24,   22,    20,    17.5f,
                                   15, 12, 6,  3,  2.4f, 1.2f, 0.24f, 0.12f, 0};
static const float intra_sm100[] = {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 0};
static const float intra_sm100_new[] = {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18, 0};
static const float inter_sm100_new[] = {96,   48,   45.1f, 42,    40, 30, 24,
                                        22,   20,   17.5f, 15,    12, 6,  3,
                                        2.4f, 1.2f, 0.24f, 0.12f, 0};

struct computing {
    struct topo_system *system;
    struct topo_graph_search search;
    struct topo_graph *now, *best;
    const float *speeds;
    int n_speeds, speed;
    int cross_nic; /* the setting, or 0 if it does not apply */
    int sm_min;
    bool is_inter;
    enum topo_path_type min_intra, max_intra, min_inter, max_inter;
    float max_bw, total_bw;
    int64_t steps_left;
    int steps; /* steps left after the last search */
};

static const float *speeds_of(const struct computing *computing)
{
    bool is_new = computing->system->rules->has_sm100_steps;

    if (computing->sm_min >= 100) {
        return computing->is_inter ? (is_new ? inter_sm100_new : inter_sm90)
                                   : (is_new ? intra_sm100_new : intra_sm100);
    }
    if (computing->sm_min >= 90) {
        return computing->is_inter ? inter_sm90 : intra_sm90;
    }
    return computing->is_inter ? inter_old : intra_old;
}

/* Returns the next type that this release has. */
static enum topo_path_type farther(const struct topo_rules *rules,
                                   enum topo_path_type type)
{
    int next = (int)type + 1;

    while (!rules->has_c2c && (next == TOPO_C2C || next == TOPO_P2C)) {
        next++;
    }
    return (enum topo_path_type)next;
}

/* ---- bounds ---- */

static void find_types(struct computing *computing)
{
    const struct topo_system *system = computing->system;

    computing->min_intra = TOPO_LOC;
    computing->min_inter = TOPO_PIX;
    computing->max_intra = computing->max_inter = TOPO_SYS;
    if (system->n[TOPO_GPU] > 1) {
        computing->min_intra = topo_min_path(system, TOPO_GPU);
        computing->max_intra = topo_max_path(system, TOPO_GPU);
    }
    if (computing->is_inter) {
        computing->min_inter = topo_min_path(system, TOPO_NET);
        computing->max_inter = topo_max_path(system, TOPO_NET);
        computing->max_intra = computing->max_inter;
    }
}

static void find_bandwidths(struct computing *computing)
{
    struct topo_system *system = computing->system;

    computing->max_bw = computing->total_bw = 0;
    computing->sm_min = system->nodes[TOPO_GPU][0]->u.gpu.sm;
    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        const struct topo_node *gpu = system->nodes[TOPO_GPU][i];

        computing->sm_min =
            gpu->u.gpu.sm < computing->sm_min ? gpu->u.gpu.sm : computing->sm_min;
    }
    topo_bandwidths(system, &computing->max_bw, &computing->total_bw);
}

/* Returns true if the GPUs form two NVLink domains with something slower between them. */
static bool is_split(const struct topo_system *system)
{
    uint32_t domains[TOPO_NODES_MAX], sizes[TOPO_NODES_MAX] = {0};
    uint32_t n = 0;

    for (uint32_t g = 0; g < system->n[TOPO_GPU]; g++) {
        domains[g] = g;
    }
    for (uint32_t g = 0; g < system->n[TOPO_GPU]; g++) {
        for (uint32_t p = g + 1; p < system->n[TOPO_GPU]; p++) {
            const struct topo_node *gpu = system->nodes[TOPO_GPU][g];

            domains[p] =
                gpu->paths[TOPO_GPU][p].type == TOPO_NVL ? domains[g] : domains[p];
        }
        sizes[domains[g]]++;
    }
    for (uint32_t g = 0; g < system->n[TOPO_GPU]; g++) {
        n += sizes[g] > 1;
    }
    return n == 2;
}

/* ---- what to try next ---- */

static void first_speed(struct computing *computing, float limit)
{
    computing->speed = 0;
    while (computing->speeds[computing->speed] > limit &&
           computing->speed < computing->n_speeds - 1) {
        computing->speed++;
    }
}

static void set_speed(struct computing *computing)
{
    computing->now->bw_intra = computing->now->bw_inter =
        computing->speeds[computing->speed];
}

/* Relaxes one requirement at a time, then lowers the bandwidth. Returns false when everything
 * has been tried. */
static bool relax(struct computing *computing)
{
    const struct topo_system *system = computing->system;
    const struct topo_cpu *cpu = &system->nodes[TOPO_CPU][0]->u.cpu;
    struct topo_graph *now = computing->now;
    const struct topo_graph *best = computing->best;
    bool is_amd = cpu->arch == TOPO_ARCH_X86 && cpu->vendor == TOPO_VENDOR_AMD;
    bool has_none = best->n_channels == 0;

    if (now->same_channels && !(is_amd && now->type_intra == TOPO_SYS)) {
        now->same_channels = false;
        return true;
    }
    now->same_channels = true;
    computing->steps_left += computing->steps;
    if (computing->steps_left < 0 && !has_none) {
        return false;
    }
    if (computing->sm_min >= 90 && now->pattern == TOPO_BALANCED_TREE) {
        now->pattern = TOPO_TREE;
        return true;
    }
    now->pattern = best->pattern;
    if (now->type_intra <
            (computing->is_inter ? now->type_inter : computing->max_intra) &&
        (has_none || now->type_intra < best->type_intra)) {
        now->type_intra = farther(system->rules, now->type_intra);
        return true;
    }
    now->type_intra = computing->min_intra;
    if (computing->is_inter && now->type_inter < computing->max_inter &&
        (has_none || now->type_inter < best->type_inter || now->type_inter < TOPO_PXN)) {
        now->type_inter = farther(system->rules, now->type_inter);
        return true;
    }
    now->type_inter = computing->min_inter;
    if (computing->cross_nic == 2 && now->cross_nic == 0 &&
        (best->pattern == TOPO_RING || best->pattern == TOPO_BALANCED_TREE)) {
        now->cross_nic = 2;
        return true;
    }
    now->cross_nic = computing->cross_nic == 1 ? 1 : 0;
    if (computing->speed < computing->n_speeds - 1 &&
        (has_none ||
         (double)(computing->speeds[computing->speed + 1] / best->bw_inter) > .49)) {
        computing->speed++;
        set_speed(computing);
        return true;
    }
    return false;
}

/* Raises the bandwidth after a solution. Returns false if it cannot. */
static bool improve(struct computing *computing)
{
    struct topo_graph *now = computing->now;
    const struct topo_graph *best = computing->best;

    if (computing->steps == 0 || computing->speed == 0) {
        return false;
    }
    if (best->pattern == TOPO_RING) {
        computing->speed--;
        set_speed(computing);
        return true;
    }
    if (now->bw_intra == best->bw_intra && now->bw_intra < now->bw_inter * 2) {
        now->bw_intra = computing->speeds[--computing->speed];
        return true;
    }
    return false;
}

/* Divides wide channels into two of half the bandwidth, which use more of the GPU. */
static void double_channels(struct topo_graph *graph, int sm_min, uint32_t n_gpus)
{
    int n = graph->n_channels * 2 < graph->max_channels ? graph->n_channels * 2
                                                        : graph->max_channels;
    size_t n_more = (size_t)(n - graph->n_channels);

    if (graph->n_channels == 0 || graph->bw_intra < 25 ||
        (sm_min > 80 && graph->bw_intra < 50 && graph->n_channels > 4)) {
        return;
    }
    memcpy(&graph->ranks[(uint32_t)graph->n_channels * n_gpus], graph->ranks,
           n_more * n_gpus * sizeof(graph->ranks[0]));
    memcpy(&graph->nets[graph->n_channels * 2], graph->nets,
           n_more * 2 * sizeof(graph->nets[0]));
    graph->bw_intra /= (float)((n + graph->n_channels - 1) / graph->n_channels);
    graph->bw_inter /= (float)((n + graph->n_channels - 1) / graph->n_channels);
    graph->n_channels = n;
}

/* ---- the search for one graph ---- */

/* Runs one search. Returns true if no better solution is possible. */
static bool search_once(struct computing *computing)
{
    struct topo_graph *now = computing->now;
    const struct topo_graph *best = computing->best;

    computing->steps = now->same_channels ? STEPS_SAME_CHANNELS : STEPS;
    now->n_channels = 0;
    computing->steps_left -= computing->steps;
    topo_graph_search_run(&computing->search, &computing->steps);
    return computing->search.status != WEFT_OK || computing->steps == -1 ||
           (float)best->n_channels * best->bw_inter >= computing->total_bw;
}

static void search_all(struct computing *computing)
{
    struct topo_graph *now = computing->now;
    struct topo_graph *best = computing->best;
    float total = computing->total_bw;
    uint32_t n_gpus = computing->system->n[TOPO_GPU];

    if (n_gpus > 1 && best->pattern != TOPO_RING) {
        total = (float)((double)total * (n_gpus * 1.0 / (n_gpus - 1)));
    }
    while ((computing->speeds[computing->speed] > computing->max_bw ||
            computing->speeds[computing->speed] * (float)now->min_channels > total) &&
           computing->speed < computing->n_speeds - 1) {
        computing->speed++;
    }
    set_speed(computing);
    while (!search_once(computing) && relax(computing)) {
        continue;
    }
    if (computing->search.status != WEFT_OK) {
        return;
    }
    computing->steps = -1;
    double_channels(best, computing->sm_min, n_gpus);
    *now = *best;
    first_speed(computing, best->bw_inter);
    set_speed(computing);
    now->min_channels = best->n_channels;
    while (improve(computing)) {
        if (search_once(computing) && computing->search.status != WEFT_OK) {
            return;
        }
    }
}

static void fall_back(struct topo_system *system, struct topo_graph *graph)
{
    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        graph->ranks[i] = system->nodes[TOPO_GPU][i]->u.gpu.rank;
    }
    graph->nets[0] = graph->nets[1] = 0;
    graph->bw_intra = graph->bw_inter = 0.1f;
    graph->type_intra = graph->type_inter = TOPO_SYS;
    graph->n_channels = 1;
    graph->is_fallback = true;
}

static void prepare(struct computing *computing, const struct topo_view *view,
                    struct topo_graph *graph)
{
    struct topo_system *system = view->system;

    computing->system = system;
    computing->is_inter = topo_is_inter(system);
    computing->cross_nic = system->n[TOPO_NET] > 1 && graph->pattern != TOPO_TREE
                               ? view->settings->cross_nic
                               : 0;
    computing->steps_left = STEPS_ALL;
    find_types(computing);
    find_bandwidths(computing);
    computing->speeds = speeds_of(computing);
    while (computing->speeds[computing->n_speeds] > 0) {
        computing->n_speeds++;
    }
    graph->cross_nic = computing->cross_nic == 1 ? 1 : 0;
    graph->type_intra = computing->min_intra;
    graph->type_inter = computing->min_inter;
    graph->same_channels = true;
    if (system->n[TOPO_GPU] == 1 && graph->pattern != TOPO_RING) {
        graph->pattern = TOPO_TREE;
    }
    if (system->rules->doubles_split_rings && graph->pattern == TOPO_RING &&
        is_split(system) && graph->max_channels >= 2 && graph->min_channels == 1) {
        graph->min_channels = 2; /* trees use two channels there, and rings as many */
    }
}

static weft_status compute(const struct topo_view *view, struct topo_graph *graph,
                           struct weft_error *error)
{
    struct computing computing = {.best = graph};
    struct topo_graph *now = malloc(sizeof(*now));

    weft_check(now != NULL);
    prepare(&computing, view, graph);
    *now = *graph;
    computing.now = now;
    computing.search = (struct topo_graph_search){.view = view,
                                                  .system = view->system,
                                                  .now = now,
                                                  .best = graph,
                                                  .status = WEFT_OK,
                                                  .error = error};
    search_all(&computing);
    if (graph->n_channels == 0) {
        fall_back(view->system, graph);
    }
    free(now);
    return computing.search.status;
}

static void free_all(struct topo_system *system)
{
    for (int type = 0; type < TOPO_N_TYPES; type++) {
        for (uint32_t i = 0; i < system->n[type]; i++) {
            struct topo_node *node = system->nodes[type][i];

            for (uint32_t k = 0; k < node->n_links; k++) {
                node->links[k].free = node->links[k].bw;
            }
            if (type == TOPO_NET) {
                node->u.net.free = node->u.net.bw;
            }
        }
    }
}

weft_status topo_graph_ring(const struct topo_view *view, struct topo_graph *out,
                            struct weft_error *error)
{
    memset(out, 0, sizeof(*out));
    out->id = 0;
    out->pattern = TOPO_RING;
    out->min_channels = 1;
    out->max_channels = TOPO_CHANNELS_MAX / 2;
    free_all(view->system);
    return compute(view, out, error);
}

weft_status topo_graph_tree(const struct topo_view *view, const struct topo_graph *ring,
                            struct topo_graph *out, struct weft_error *error)
{
    memset(out, 0, sizeof(*out));
    out->id = 1;
    out->pattern = TOPO_BALANCED_TREE;
    out->min_channels = out->max_channels = ring->n_channels;
    return compute(view, out, error);
}

void topo_dump_graph(const struct topo_system *system, const struct topo_graph *graph,
                     const char *prefix, struct weft_text *out)
{
    bool is_inter = topo_is_inter(system);
    bool has_names = system->rules->dumps_gpu_names;
    uint32_t n_gpus = system->n[TOPO_GPU];
    char name[TOPO_NAME_BYTES];

    if (graph->is_fallback && has_names) { /* 2.25 logs a warning instead */
        weft_text_add(out,
                      "%sCould not find a path for pattern %d, falling back to simple "
                      "order\n",
                      prefix, (int)graph->pattern);
    }
    weft_text_add(out,
                  "%sPattern %d, crossNic %d, nChannels %d, bw %f/%f, type %s/%s, "
                  "sameChannels %d\n",
                  prefix, (int)graph->pattern, graph->cross_nic, graph->n_channels,
                  (double)graph->bw_intra, (double)graph->bw_inter,
                  topo_path_name(graph->type_intra), topo_path_name(graph->type_inter),
                  graph->same_channels);
    for (int c = 0; c < graph->n_channels; c++) {
        struct topo_node net = {.type = TOPO_NET};

        weft_text_add(out, "%s%2d :", prefix, c);
        net.id = graph->nets[2 * c];
        weft_text_add(out, "%s%s", is_inter ? " " : "",
                      is_inter ? topo_node_name(&net, name) : "");
        for (uint32_t i = 0; i < n_gpus; i++) {
            int rank = graph->ranks[(uint32_t)c * n_gpus + i];
            const struct topo_node *gpu = topo_gpu_of(system, rank);

            if (has_names && gpu != NULL) {
                weft_text_add(out, " %s", topo_node_name(gpu, name));
            } else {
                weft_text_add(out, " GPU/%d", rank);
            }
        }
        net.id = graph->nets[2 * c + 1];
        weft_text_add(out, "%s%s\n", is_inter ? " " : "",
                      is_inter ? topo_node_name(&net, name) : "");
    }
}

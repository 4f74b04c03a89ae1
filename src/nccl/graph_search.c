/* The search of ncclTopoSearchRec: channel by channel and GPU by GPU, taking bandwidth from
 * links and giving it back on return. A step count ends it early, so the order of trials
 * decides the result. */
#include "nccl/graph_search.h"

#include <string.h>

#include "base/check.h"
#include "nccl/search.h"

enum order { ORDER_FREE, ORDER_PCI, ORDER_REPLAY };

/* The steps of a channel at which it returns to a NET and to its first GPU; -1 if it does not. */
struct way {
    int to_net, to_first;
    enum order order;
};

static void next_gpu(struct topo_graph_search *search, struct topo_node *gpu, int step,
                     struct way way, int *steps);
static void next_channel(struct topo_graph_search *search, int *steps);

static int n_gpus(const struct topo_graph_search *search)
{
    return (int)search->system->n[TOPO_GPU];
}

static struct topo_node *net_of(const struct topo_graph_search *search, uint64_t id)
{
    return topo_find(search->system, TOPO_NET, id);
}

static bool is_better(const struct topo_graph *graph, const struct topo_graph *best)
{
    float bw = (float)graph->n_channels * graph->bw_intra;
    float best_bw = (float)best->n_channels * best->bw_intra;

    if (graph->n_channels < graph->min_channels || bw < best_bw) {
        return false;
    }
    return bw > best_bw ||
           (graph->pattern == best->pattern && graph->cross_nic == best->cross_nic &&
            graph->n_hops < best->n_hops);
}

static void end_channel(struct topo_graph_search *search, int *steps)
{
    struct topo_graph *graph = search->now;

    graph->n_channels++;
    if (is_better(graph, search->best)) {
        *search->best = *graph;
        if (graph->n_channels == graph->max_channels) {
            *steps = -1;
        }
    }
    if (graph->n_channels < graph->max_channels) {
        next_channel(search, steps);
    }
    graph->n_channels--;
}

static void try_gpu(struct topo_graph_search *search, struct topo_node *from, int g,
                    int step, struct way way, int *steps)
{
    struct topo_node *gpu = search->system->nodes[TOPO_GPU][g];
    uint64_t flag = 1ull << search->now->n_channels;

    if (search->status == WEFT_OK && topo_graph_go(search, from, gpu, 1)) {
        search->used[g] ^= flag;
        next_gpu(search, gpu, step, way, steps);
        search->used[g] ^= flag;
        topo_graph_go(search, from, gpu, -1);
    }
}

/* Returns the GPU that followed `step` in the channel before, or -1. */
static int replayed(const struct topo_graph_search *search, int step)
{
    const struct topo_graph *graph = search->now;
    const struct topo_node *gpu =
        topo_gpu_of(search->system,
                    graph->ranks[(graph->n_channels - 1) * n_gpus(search) + step + 1]);

    return gpu != NULL ? (int)gpu->index : -1;
}

static void add_net(int *nets, int *n, int net)
{
    for (int i = 0; i < *n; i++) {
        if (nets[i] == net) {
            return;
        }
    }
    nets[(*n)++] = net;
}

/* Writes the NETs in the order of trial: those that the channels of `gpu` use (of all GPUs if
 * NULL), then others by type of path, up to the graph's type. Returns how many. */
static int select_nets(struct topo_graph_search *search, const struct topo_node *gpu,
                       int *nets)
{
    const struct topo_system *system = search->system;
    int n = 0;

    for (int g = 0; g < n_gpus(search); g++) {
        const struct topo_node *of = system->nodes[TOPO_GPU][g];
        const struct topo_node *first = topo_local_net(system, of, 0);

        if ((gpu != NULL && gpu != of) || first == NULL) {
            continue;
        }
        add_net(nets, &n, (int)first->index);
        for (uint32_t channel = 1; channel < TOPO_CHANNELS_MAX; channel++) {
            const struct topo_node *net = topo_local_net(system, of, channel);

            if (net == first) {
                break;
            }
            add_net(nets, &n, (int)net->index);
        }
    }
    for (int type = 0; type <= (int)search->now->type_inter; type++) {
        for (int g = 0; g < n_gpus(search); g++) {
            const struct topo_node *of = system->nodes[TOPO_GPU][g];

            for (uint32_t i = 0; (gpu == NULL || gpu == of) && i < system->n[TOPO_NET] &&
                                 i < TOPO_CHANNELS_MAX;
                 i++) {
                if ((int)of->paths[TOPO_NET][i].type == type) {
                    add_net(nets, &n, (int)i);
                }
            }
        }
    }
    return n;
}

static bool share_port(const struct topo_node *a, const struct topo_node *b)
{
    return a->u.net.asic == b->u.net.asic && a->u.net.port == b->u.net.port;
}

/* Returns the first and last NET of the channel before the current one, which must not be the
 * first. */
static const uint64_t *nets_before(const struct topo_graph *graph)
{
    return &graph->nets[2 * (graph->n_channels - 1)];
}

/* Returns true if a channel that began at `start` may end at `net`. */
static bool may_end(const struct topo_graph *graph, const struct topo_node *start,
                    const struct topo_node *net, int step)
{
    if (graph->pattern == TOPO_TREE && net->id != start->id) {
        return false; /* trees end at the NIC where they begin */
    }
    if (graph->pattern == TOPO_RING && graph->cross_nic == 2) {
        if ((graph->n_channels & 1) != 0 && net->id != nets_before(graph)[0]) {
            return false;
        }
    } else if (graph->cross_nic == 0 && !share_port(net, start)) {
        return false;
    }
    return graph->pattern != TOPO_BALANCED_TREE || step == 0 ||
           net->id == graph->nets[2 * graph->n_channels + 1];
}

/* Tries NETs to return to, and continues from the same GPU. */
static void back_to_net(struct topo_graph_search *search, struct topo_node *gpu, int step,
                        struct way way, int *steps)
{
    struct topo_graph *graph = search->now;
    struct topo_node *start = net_of(search, graph->nets[2 * graph->n_channels]);
    bool is_balanced = graph->pattern == TOPO_BALANCED_TREE;
    int nets[TOPO_NODES_MAX];
    int n = topo_is_inter(search->system) ? select_nets(search, gpu, nets) : 0;

    for (int i = 0; i < n && search->status == WEFT_OK; i++) {
        struct topo_node *net = search->system->nodes[TOPO_NET][nets[i]];
        struct way on = {-1, way.to_first, way.order};
        float bw = graph->bw_inter;
        bool is_there;

        if (!may_end(graph, start, net, step)) {
            continue;
        }
        if (is_balanced) {
            /* half of the NIC's traffic is on each of the first two GPUs */
            on.to_net = step == 0 ? 1 : -1;
            graph->bw_inter /= 2;
        }
        is_there = topo_graph_go(search, gpu, net, 1);
        graph->bw_inter = bw;
        if (is_there) {
            graph->nets[2 * graph->n_channels + 1] = net->id;
            next_gpu(search, gpu, step, on, steps);
            graph->bw_inter = is_balanced ? bw / 2 : bw;
            topo_graph_go(search, gpu, net, -1);
            graph->bw_inter = bw;
        }
    }
}

static void on_to_gpus(struct topo_graph_search *search, struct topo_node *gpu, int step,
                       struct way way, int *steps)
{
    int next[TOPO_NODES_MAX];
    int n = 1;

    if (way.order == ORDER_PCI) {
        next[0] = step + 1;
    } else if (way.order == ORDER_REPLAY) {
        next[0] = replayed(search, step);
        n = next[0] >= 0 ? 1 : 0;
    } else {
        int sort_net = way.to_net == -1 ? 0 : way.to_net == step + 1 ? 1 : -1;

        n = topo_graph_sort(search, gpu, sort_net, next);
    }
    for (int i = 0; i < n; i++) {
        try_gpu(search, gpu, next[i], step + 1, way, steps);
    }
}

/* Continues a channel that has `gpu` at `step`. */
static void next_gpu(struct topo_graph_search *search, struct topo_node *gpu, int step,
                     struct way way, int *steps)
{
    struct topo_graph *graph = search->now;
    int n = n_gpus(search);

    if (*steps <= 0 || search->status != WEFT_OK) {
        return;
    }
    (*steps)--;
    if (step == n) {
        end_channel(search, steps);
        return;
    }
    graph->ranks[graph->n_channels * n + step] = gpu->u.gpu.rank;
    if (step == way.to_net) {
        back_to_net(search, gpu, step, way, steps);
    } else if (step < n - 1) {
        on_to_gpus(search, gpu, step, way, steps);
    } else if (step == way.to_first) {
        struct topo_node *first =
            topo_gpu_of(search->system, graph->ranks[graph->n_channels * n]);
        struct way on = {way.to_net, -1, way.order};

        if (topo_graph_go(search, gpu, first, 1)) {
            next_gpu(search, first, step + 1, on, steps);
            topo_graph_go(search, gpu, first, -1);
        }
    } else {
        next_gpu(search, gpu, n, (struct way){-1, -1, way.order}, steps);
    }
}

/* ---- channels ---- */

/* 2.25: tries the GPUs with the widest paths from the NET, among these the nearest. */
static void try_widest(struct topo_graph_search *search, struct topo_node *net, int bw,
                       struct way way, int *steps)
{
    const struct topo_path *paths = net->paths[TOPO_GPU];
    float widest = 0;
    uint32_t n_hops = 0xfffffff;

    for (int g = 0; g < n_gpus(search); g++) {
        bool is_nearer = paths[g].n_hops > 0 && paths[g].n_hops < n_hops;

        if (paths[g].bw > widest || (paths[g].bw == widest && is_nearer)) {
            widest = paths[g].bw;
            n_hops = paths[g].n_hops;
        }
    }
    for (int i = 0; widest >= (float)bw && i < n_gpus(search); i++) {
        int g = (search->now->n_channels + i) % n_gpus(search);

        if (paths[g].bw == widest && paths[g].n_hops == n_hops) {
            try_gpu(search, net, g, 0, way, steps);
        }
    }
}

/* 2.28: tries the GPU that uses the NET first, then the others that it reaches equally well. */
static void try_locals(struct topo_graph_search *search, struct topo_node *net,
                       struct way way, int *steps)
{
    struct topo_node *locals[TOPO_NODES_MAX];
    const struct topo_node *first = topo_local_gpu(search->system, net);
    uint32_t n = topo_locals(search->system, net, TOPO_GPU, locals);

    if (first != NULL) {
        try_gpu(search, net, (int)first->index, 0, way, steps);
    }
    for (uint32_t i = 0; i < n && topo_path(net, locals[0])->type != TOPO_DIS; i++) {
        if (locals[i] != first) {
            try_gpu(search, net, (int)locals[i]->index, 0, way, steps);
        }
    }
}

static void from_net(struct topo_graph_search *search, struct topo_node *net, int bw,
                     struct way way, int *steps)
{
    struct topo_graph *graph = search->now;
    bool is_new = search->system->rules->starts_at_locals;
    bool replays = graph->n_channels > 0 && (!is_new || graph->same_channels);
    bool searches = graph->n_channels == 0 || !graph->same_channels;

    if (replays) {
        int g = replayed(search, -1);

        if (g >= 0) {
            try_gpu(search, net, g, 0,
                    (struct way){way.to_net, way.to_first, ORDER_REPLAY}, steps);
        }
    }
    if (!searches) {
        return;
    }
    if (graph->n_channels == 0 && search->system->n[TOPO_NVS] == 0) {
        /* The PCI order is always tried first, with a small number of steps that does not
         * count. */
        int some = 1 << 10;

        try_gpu(search, net, 0, 0, (struct way){way.to_net, way.to_first, ORDER_PCI},
                &some);
        *steps = some == -1 ? -1 : *steps;
    }
    if (is_new) {
        try_locals(search, net, way, steps);
    } else {
        try_widest(search, net, bw, way, steps);
    }
}

static void take_port(struct topo_graph_search *search, const struct topo_node *net,
                      int bw)
{
    for (uint32_t i = 0; i < search->system->n[TOPO_NET]; i++) {
        struct topo_node *other = search->system->nodes[TOPO_NET][i];

        if (share_port(other, net)) {
            other->u.net.free -= (float)bw;
        }
    }
}

static void from_nets(struct topo_graph_search *search, struct way way, int *steps)
{
    struct topo_graph *graph = search->now;
    int bw = (int)graph->bw_inter; /* whole GB/s, as in NCCL */
    int nets[TOPO_NODES_MAX];
    int n = select_nets(search, NULL, nets);

    for (int i = 0; i < n && search->status == WEFT_OK; i++) {
        struct topo_node *net =
            search->system->nodes[TOPO_NET][nets[(graph->n_channels + i) % n]];
        bool is_odd = graph->pattern == TOPO_RING && graph->cross_nic == 2 &&
                      (graph->n_channels & 1) != 0;

        if (net->u.net.free < (float)bw || (is_odd && net->id != nets_before(graph)[1])) {
            continue;
        }
        graph->nets[2 * graph->n_channels] = net->id;
        graph->latency_inter = net->u.net.latency;
        take_port(search, net, bw);
        from_net(search, net, bw, way, steps);
        take_port(search, net, -bw);
    }
}

static void from_gpus(struct topo_graph_search *search, struct way way, int *steps)
{
    const struct topo_graph *graph = search->now;

    if (graph->n_channels == 0) {
        try_gpu(search, NULL, 0, 0, (struct way){way.to_net, way.to_first, ORDER_PCI},
                steps);
    } else {
        int g = replayed(search, -1);

        if (g >= 0) {
            try_gpu(search, NULL, g, 0,
                    (struct way){way.to_net, way.to_first, ORDER_REPLAY}, steps);
        }
    }
    for (int g = 0;
         (!graph->same_channels || graph->n_channels == 0) && g < n_gpus(search); g++) {
        try_gpu(search, NULL, g, 0, way, steps);
    }
}

static void next_channel(struct topo_graph_search *search, int *steps)
{
    bool is_ring = search->now->pattern == TOPO_RING;
    int last = n_gpus(search) - 1;

    if (topo_is_inter(search->system)) {
        from_nets(search, (struct way){is_ring ? last : 0, -1, ORDER_FREE}, steps);
    } else {
        from_gpus(search, (struct way){-1, is_ring ? last : -1, ORDER_FREE}, steps);
    }
}

void topo_graph_search_run(struct topo_graph_search *search, int *steps)
{
    next_channel(search, steps);
}

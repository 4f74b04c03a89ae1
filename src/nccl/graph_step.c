/* One step of the channel search: takes bandwidth from links and selects the GPUs to try. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "nccl/graph_search.h"
#include "nccl/search.h"

/* ---- bandwidth ---- */

/* Takes bandwidth from a link. Rounds to three decimals, because sums of floats would drift. */
static void take(struct topo_link *link, float bw)
{
    link->free = roundf((link->free - bw) * 1000) / 1000;
}

/* Returns the bandwidth needed on PCI links: more through Intel's root complex, which is
 * slower for peer access. */
static float pci_bw(const struct topo_path *path, const struct topo_node *start, float bw)
{
    for (uint32_t i = 0; i < path->n_hops; i++) {
        const struct topo_node *node = path->hops[i]->to;

        if (node->type == TOPO_CPU && path->type == TOPO_PHB && start->type == TOPO_GPU &&
            node->u.cpu.arch == TOPO_ARCH_X86 &&
            node->u.cpu.vendor == TOPO_VENDOR_INTEL) {
            return bw * 6 / 5;
        }
    }
    return bw;
}

/* Returns the bandwidth that a link needs in the reverse direction: reads of old GPUs, POWER's
 * NVLink. */
static float reverse_bw(const struct topo_link *link, const struct topo_node *start,
                        float bw)
{
    const struct topo_node *to = link->to;
    float reverse = 0;

    if (to->type == TOPO_GPU && to->u.gpu.sm < 80 && start->type != TOPO_GPU) {
        reverse += bw / 8;
    }
    if (to->type == TOPO_CPU && to->u.cpu.arch == TOPO_ARCH_POWER &&
        link->type == TOPO_LINK_NVL) {
        reverse += bw;
    }
    return reverse;
}

/* Takes `bw` (negative: gives it back) from the first `n` links. Returns how many had enough. */
static uint32_t follow(struct topo_graph_search *search, const struct topo_path *path,
                       struct topo_node *start, uint32_t n, float bw)
{
    float by_pci = pci_bw(path, start, bw);
    struct topo_node *node = start;

    for (uint32_t i = 0; i < n; i++) {
        struct topo_link *link = path->hops[i];
        float forward = link->type == TOPO_LINK_PCI ? by_pci : bw;
        float reverse = reverse_bw(link, start, forward);
        struct topo_link *back = reverse != 0 ? topo_reverse(node, link) : NULL;

        if (reverse != 0 && back == NULL) {
            search->status = weft_fail(search->error, WEFT_ERR_INPUT, WEFT_PHASE_GRAPHS,
                                       "a link has no way back: NCCL gives up");
            return i;
        }
        if (link->free < forward || (back != NULL && back->free < reverse)) {
            return i;
        }
        take(link, forward);
        if (back != NULL) {
            take(back, reverse);
        }
        node = link->to;
    }
    return n;
}

bool topo_graph_go(struct topo_graph_search *search, struct topo_node *from,
                   struct topo_node *to, float sign)
{
    struct topo_graph *graph = search->now;
    const struct topo_path *path, *back;
    uint32_t n;
    float bw;

    if (from == NULL) {
        return true;
    }
    path = topo_path(from, to);
    back = topo_path(to, from);
    if (path == NULL || back == NULL) {
        search->status = weft_fail(search->error, WEFT_ERR_INPUT, WEFT_PHASE_GRAPHS,
                                   "there is no path: NCCL gives up");
        return false;
    }
    bool is_intra = from->type == TOPO_GPU && to->type == TOPO_GPU;
    enum topo_path_type type = is_intra ? graph->type_intra : graph->type_inter;
    if (search->system->rules->refuses_apart && path->type >= TOPO_DIS) {
        return false;
    }
    if (sign > 0 &&
        (path->type > type || (graph->pattern != TOPO_RING && back->type > type))) {
        return false;
    }
    bw = (is_intra ? graph->bw_intra : graph->bw_inter) * sign;
    n = follow(search, path, from, path->n_hops, bw);
    if (n < path->n_hops) {
        follow(search, path, from, n, -bw);
        return false;
    }
    graph->n_hops += (int)sign * (int)path->n_hops;
    return true;
}

/* ---- the next GPU ---- */

struct score {
    int gpu, start, intra_hops, intra_bw, inter_hops, inter_pci_bw, inter_bw;
};

static int compare(const void *a, const void *b)
{
    const struct score *x = a, *y = b;
    const int differences[] = {y->inter_bw - x->inter_bw,
                               y->inter_pci_bw - x->inter_pci_bw,
                               x->inter_hops - y->inter_hops, y->intra_bw - x->intra_bw,
                               x->intra_hops - y->intra_hops};

    for (size_t i = 0; i < WEFT_LENGTH(differences); i++) {
        if (differences[i] != 0) {
            return differences[i];
        }
    }
    return x->start - y->start;
}

static bool are_alike(const struct score *scores, int n)
{
    for (int i = 1; i < n; i++) {
        if (scores[i].intra_bw != scores[0].intra_bw ||
            scores[i].intra_hops != scores[0].intra_hops) {
            return false;
        }
    }
    return true;
}

static int gpu_pci_bw(const struct topo_node *gpu)
{
    for (uint32_t i = 0; i < gpu->n_links; i++) {
        const struct topo_link *up = &gpu->links[i];

        for (uint32_t k = 0; up->type == TOPO_LINK_PCI && k < up->to->n_links; k++) {
            const struct topo_link *down = &up->to->links[k];

            if (down->to == gpu) {
                return (int)(up->free < down->free ? up->free : down->free);
            }
        }
    }
    return -1;
}

static int score_gpus(const struct topo_graph_search *search, const struct topo_node *gpu,
                      bool by_net, struct score *scores)
{
    const struct topo_system *system = search->system;
    const struct topo_graph *graph = search->now;
    const struct topo_node *net =
        by_net ? topo_find(search->system, TOPO_NET, graph->nets[2 * graph->n_channels])
               : NULL;
    int n = 0;

    for (int i = 1; i < (int)search->system->n[TOPO_GPU]; i++) {
        int g = ((int)gpu->index + i) % (int)search->system->n[TOPO_GPU];
        const struct topo_node *other = system->nodes[TOPO_GPU][g];
        const struct topo_path *path = topo_path(gpu, other);

        if (path->n_hops == 0 || (search->used[g] & (1ull << graph->n_channels)) != 0) {
            continue;
        }
        scores[n] = (struct score){.gpu = g,
                                   .start = i,
                                   .intra_hops = (int)path->n_hops,
                                   .intra_bw = (int)path->bw};
        if (net != NULL) {
            const struct topo_path *from_net = topo_path(net, other);

            scores[n].inter_hops = (int)from_net->n_hops;
            scores[n].inter_pci_bw = gpu_pci_bw(other);
            scores[n].inter_bw = (int)from_net->bw;
        }
        n++;
    }
    return n;
}

/* With NVSwitches, keeps only the neighbours by number. */
static int keep_neighbours(const struct topo_graph_search *search,
                           const struct topo_node *gpu, int *next, int n)
{
    int n_all = (int)search->system->n[TOPO_GPU];
    int before = ((int)gpu->index + n_all - 1) % n_all;
    int after = ((int)gpu->index + 1) % n_all;
    bool is_ring = search->now->pattern == TOPO_RING;
    bool is_balanced = search->now->pattern == TOPO_BALANCED_TREE;
    int first[2] = {is_balanced ? before : after, is_balanced ? after : before};
    int n_first = (is_ring || is_balanced) && before != after ? 2 : 1;
    int n_kept = 0;

    for (int k = 0; k < n_first; k++) {
        int i = 0;

        while (i < n && next[i] != first[k]) {
            i++;
        }
        if (i < n) {
            memmove(&next[1], &next[0], (size_t)i * sizeof(next[0]));
            next[0] = first[k];
            n_kept++;
        }
    }
    return n_kept;
}

int topo_graph_sort(const struct topo_graph_search *search, const struct topo_node *gpu,
                    int sort_net, int *next)
{
    struct score scores[TOPO_NODES_MAX];
    int n = score_gpus(search, gpu, sort_net != 0, scores);
    bool is_reversed;

    qsort(scores, (size_t)n, sizeof(scores[0]), compare);
    is_reversed = sort_net == -1 && are_alike(scores, n);
    for (int i = 0; i < n; i++) {
        next[i] = scores[is_reversed ? n - 1 - i : i].gpu;
    }
    return search->system->n[TOPO_NVS] > 0 ? keep_neighbours(search, gpu, next, n) : n;
}

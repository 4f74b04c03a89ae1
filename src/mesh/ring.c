#include "mesh/ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/index.h"

/* Cost of a step: its hops, and far more if it is not a single cable, so that missing cables
 * count first. FAR (no path) exceeds the cost of any connected ring and can still be summed. */
#define MISSING ((uint64_t)1 << 24)
#define FAR ((uint64_t)1 << 48)

static uint64_t weight(uint64_t hops)
{
    return hops == FAR ? FAR : hops > 1 ? MISSING + hops : hops;
}

/* Returns the hops between all ranks, [n x n]; FAR if there is no path. The caller frees it. */
static uint64_t *all_hops(const struct mesh_graph *graph, const uint32_t *ranks,
                          uint32_t n)
{
    uint64_t *hops = weft_alloc((size_t)n * n * sizeof(*hops));
    uint32_t *from = weft_alloc(mesh_n_nodes(graph) * sizeof(*from));
    for (uint32_t i = 0; i < n; i++) {
        mesh_distances(graph, ranks[i], from);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t distance = from[ranks[k]];
            hops[(size_t)i * n + k] = distance == UINT32_MAX ? FAR : distance;
        }
    }
    free(from);
    return hops;
}

/* Returns the cost of `order` (indices), or of the given order if it is NULL. */
static struct mesh_ring cost(const uint64_t *hops, uint32_t n, const uint32_t *order)
{
    struct mesh_ring ring = {0};
    for (uint32_t i = 0; i < n && n > 1; i++) {
        uint32_t next = (i + 1) % n;
        uint32_t a = order != NULL ? order[i] : i;
        uint32_t b = order != NULL ? order[next] : next;
        uint64_t distance = hops[(size_t)a * n + b];
        ring.n_missing += distance > 1;
        ring.hops = distance == FAR || ring.hops == UINT64_MAX ? UINT64_MAX
                                                               : ring.hops + distance;
    }
    return ring;
}

/* Returns the hops from one host to another by a search that stops there, because neighbours
 * on a ring are near and the mesh may be large. `hops` [n_nodes] is all UINT32_MAX before and
 * after. */
static uint32_t hops_between(const struct mesh_index *index, uint32_t from, uint32_t to,
                             uint32_t *hops)
{
    uint32_t n_queued = 1;
    uint32_t answer = from == to ? 0 : UINT32_MAX;
    index->queue[0] = from;
    hops[from] = 0;
    for (uint32_t at = 0; at < n_queued && answer == UINT32_MAX; at++) {
        uint32_t v = index->queue[at];
        for (size_t i = index->first[v]; i < index->first[v + 1]; i++) {
            uint32_t next = index->graph->edges[index->out[i]].to;
            if (hops[next] == UINT32_MAX) {
                hops[next] = hops[v] + 1;
                index->queue[n_queued++] = next;
                answer = next == to ? hops[next] : answer;
            }
        }
    }
    for (uint32_t at = 0; at < n_queued; at++) {
        hops[index->queue[at]] = UINT32_MAX;
    }
    return answer;
}

struct mesh_ring mesh_ring_of(const struct mesh_graph *graph, const uint32_t *ranks,
                              uint32_t n)
{
    weft_check(n > 0);
    struct mesh_ring ring = {0};
    struct mesh_index index;
    uint32_t *hops = weft_alloc(((size_t)mesh_n_nodes(graph) + 1) * sizeof(*hops));
    bool has_switches = mesh_n_nodes(graph) > graph->n_hosts;
    memset(hops, 0xff, ((size_t)mesh_n_nodes(graph) + 1) * sizeof(*hops));
    mesh_index_init(&index, graph);
    for (uint32_t i = 0; i < n && n > 1; i++) {
        uint32_t to = ranks[(i + 1) % n];
        /* Passing a switch is no hop, which hops_between does not take into account. */
        uint32_t distance = has_switches ? mesh_distance(graph, ranks[i], to)
                                         : hops_between(&index, ranks[i], to, hops);
        ring.n_missing += distance > 1;
        ring.hops = distance == UINT32_MAX || ring.hops == UINT64_MAX
                        ? UINT64_MAX
                        : ring.hops + distance;
    }
    mesh_index_fini(&index);
    free(hops);
    return ring;
}

static uint64_t step(const uint64_t *hops, uint32_t n, uint32_t from, uint32_t to)
{
    return weight(hops[(size_t)from * n + to]);
}

/* Solves the Held-Karp recurrence: best[set][last] is the cheapest path from `last` through
 * the ranks not in `set` back to rank 0. It is computed from full sets down, so that the order
 * can be read forwards, with the least next rank among equals. */
static void order_exactly(const uint64_t *hops, uint32_t n, uint32_t *out_order)
{
    uint32_t n_sets = 1u << n;
    uint64_t *best = weft_alloc((size_t)n_sets * n * sizeof(*best));
    for (uint32_t set = n_sets + 1; set > 1;) {
        set -= 2; /* rank 0 is in every set */
        for (uint32_t last = 0; last < n; last++) {
            uint64_t least = set == n_sets - 1 ? step(hops, n, last, 0) : UINT64_MAX;
            for (uint32_t k = 1; k < n; k++) {
                if ((set >> k & 1) != 0) {
                    continue;
                }
                uint64_t via =
                    step(hops, n, last, k) + best[(size_t)(set | 1u << k) * n + k];
                least = via < least ? via : least;
            }
            best[(size_t)set * n + last] = least;
        }
    }
    uint32_t set = 1;
    out_order[0] = 0;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t last = out_order[i - 1];
        for (uint32_t k = 1; k < n; k++) {
            if ((set >> k & 1) == 0 &&
                step(hops, n, last, k) + best[(size_t)(set | 1u << k) * n + k] ==
                    best[(size_t)set * n + last]) {
                out_order[i] = k;
                set |= 1u << k;
                break;
            }
        }
    }
    free(best);
}

/* Goes always to the nearest rank not yet taken; among equals to the one with the fewest
 * neighbours left, which is hardest to reach later; then to the lowest. */
static void order_greedily(const uint64_t *hops, uint32_t n, uint32_t *out_order)
{
    bool *taken = weft_calloc(n, sizeof(*taken));
    out_order[0] = 0;
    taken[0] = true;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t last = out_order[i - 1];
        uint32_t choice = UINT32_MAX;
        uint32_t choice_free = 0;
        for (uint32_t k = 1; k < n; k++) {
            if (taken[k]) {
                continue;
            }
            uint32_t n_free = 0;
            for (uint32_t m = 1; m < n; m++) {
                n_free += !taken[m] && m != k && hops[(size_t)k * n + m] == 1;
            }
            uint64_t distance = hops[(size_t)last * n + k];
            uint64_t least =
                choice == UINT32_MAX ? UINT64_MAX : hops[(size_t)last * n + choice];
            if (distance < least || (distance == least && n_free < choice_free)) {
                choice = k;
                choice_free = n_free;
            }
        }
        out_order[i] = choice;
        taken[choice] = true;
    }
    free(taken);
}

struct mesh_ring mesh_ring_order(const struct mesh_graph *graph, const uint32_t *ranks,
                                 uint32_t n, uint32_t *out_order)
{
    weft_check(n > 0);
    uint64_t *hops = all_hops(graph, ranks, n);
    struct mesh_ring given = cost(hops, n, NULL);
    if (n <= MESH_RING_EXACT_RANKS) {
        order_exactly(hops, n, out_order);
    } else {
        order_greedily(hops, n, out_order);
    }
    struct mesh_ring found = cost(hops, n, out_order);
    if (given.n_missing < found.n_missing ||
        (given.n_missing == found.n_missing && given.hops <= found.hops)) {
        for (uint32_t i = 0; i < n; i++) {
            out_order[i] = i;
        }
        found = given;
    }
    free(hops);
    return found;
}

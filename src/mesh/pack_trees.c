/* Trees for all_reduce.
 *
 * Let b be the greatest rate such that cables of at least that rate still join all hosts.
 * Trees of equal share 1/k that use a cable of rate r at most r q / (b GRAIN) times move b
 * GRAIN k / q bits per second. For every k the least q is searched; the greatest k / q wins,
 * among nearly equal ones the fewest trees. No packing, of any shares, moves more than the sum
 * of rates over n - 1, nor more than the cables of one host. */
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/pack.h"

#define UNION_VERTICES 256
#define EXACT_VERTICES 16
#define GRAIN 12
#define BUDGET_STEPS 20000000

/* Sets how often each edge may be used; more than k times is useless. */
static void count_copies(const struct pack *pack, uint64_t unit_bps, uint32_t k,
                         uint32_t q, uint32_t *out)
{
    for (uint32_t e = 0; e < pack->n_edges; e++) {
        uint64_t rate = pack->edges[e].rate_bps;
        uint64_t times = k;
        if (rate / unit_bps < (uint64_t)k * GRAIN) {
            times = (rate / unit_bps * q + rate % unit_bps * q / unit_bps) / GRAIN;
        }
        out[e] = (uint32_t)(times < k ? times : k);
    }
}

/* Returns a bound on GRAIN k / q, in 1/1024: from the sum of all copies, and of those at any
 * vertex. */
static uint64_t bound_of(const struct pack *pack, uint64_t unit_bps)
{
    uint64_t total = 0;
    uint64_t least = UINT64_MAX;
    uint64_t step = unit_bps >= 1024 ? unit_bps / 1024 : 1;
    for (uint32_t v = 0; v < pack->n; v++) {
        uint64_t around = 0;
        for (uint32_t i = pack->first[v]; i < pack->first[v + 1]; i++) {
            uint64_t rate = pack->edges[pack->incident[i]].rate_bps / step + 1;
            around += rate;
            total += rate;
        }
        least = around < least ? around : least;
    }
    total = total / 2 / (pack->n - 1);
    return (total < least ? total : least) + 1;
}

static bool try_union(const struct pack *pack, const uint32_t *copies, uint32_t k,
                      uint64_t budget, struct mesh_packing *out)
{
    uint32_t *parents = weft_calloc((size_t)k * pack->n + 1, sizeof(*parents));
    bool found = pack_union(pack, copies, k, budget, parents);
    for (uint32_t i = 0; i < k && found; i++) {
        pack_add_tree(pack, parents + (size_t)i * pack->n, out);
    }
    if (found) {
        pack_share_trees(out);
        pack_load(pack->overlay, PACK_BOTH, out);
    }
    free(parents);
    return found;
}

struct choice {
    uint32_t k, q; /* best so far; q is 0 if there is none */
};

/* Returns the greatest q at which k trees are at least 2 % better than the best so far. */
static uint32_t most_q(const struct choice *best, uint32_t k)
{
    if (best->q == 0) {
        return MESH_PACKING_MAX * GRAIN;
    }
    return (uint32_t)(((uint64_t)k * best->q * 100 - 1) / ((uint64_t)best->k * 102));
}

/* Returns the least q at which k trees are within the bound. */
static uint32_t least_q(uint64_t bound, uint32_t k)
{
    uint64_t q = ((uint64_t)k * GRAIN * 1024 + bound - 1) / bound;
    return q > 0 ? (uint32_t)q : 1;
}

/* Searches for k trees that are better than the best so far. */
static void try_count(const struct pack *pack, uint64_t unit_bps, uint64_t bound,
                      uint32_t k, struct choice *best, struct mesh_packing *out)
{
    uint32_t *copies = weft_calloc((size_t)pack->n_edges + 1, sizeof(*copies));
    uint32_t low = least_q(bound, k);
    uint32_t high = most_q(best, k);
    for (uint32_t q = high; low <= high; q = low + (high - low) / 2) {
        struct mesh_packing found = {.n_ranks = out->n_ranks};
        count_copies(pack, unit_bps, k, q, copies);
        if (try_union(pack, copies, k, BUDGET_STEPS, &found)) {
            *best = (struct choice){k, q};
            pack_keep_better(out, &found);
            high = q - 1;
        } else if (q == high) {
            break; /* no better packing with k trees */
        } else {
            low = q + 1;
        }
    }
    free(copies);
}

static void pack_exactly(const struct pack *pack, struct mesh_packing *out)
{
    uint64_t unit_bps = pack_bottleneck(pack);
    uint64_t bound = bound_of(pack, unit_bps);
    struct choice best = {0, 0};
    for (uint32_t k = 1; k <= MESH_PACKING_MAX; k++) {
        if (best.q == 0 || pack->n <= EXACT_VERTICES || k % GRAIN <= 4) {
            try_count(pack, unit_bps, bound, k, &best, out);
        }
    }
}

void mesh_pack_trees(const struct mesh_overlay *overlay, struct mesh_packing *out)
{
    static const uint32_t counts[] = {1, 2, 4, 8, MESH_PACKING_MAX};
    struct pack pack;
    *out = (struct mesh_packing){.n_ranks = overlay->n_ranks};
    pack_init(&pack, overlay);
    bool is_whole = pack.n > 0 && pack_is_connected(&pack, 1);
    if (is_whole && pack.n == 1) {
        uint32_t alone = PACK_NONE;
        pack_add_tree(&pack, &alone, out);
        pack_share_trees(out);
    } else if (is_whole) {
        if (pack.n <= UNION_VERTICES) {
            pack_exactly(&pack, out);
        }
        for (size_t i = 0; i < WEFT_LENGTH(counts); i++) {
            struct mesh_packing other = {.n_ranks = overlay->n_ranks};
            if (out->n_trees == 0 || overlay->is_shared) {
                pack_greedily(&pack, counts[i], PACK_NONE, PACK_BOTH, &other);
                pack_keep_better(out, &other);
            }
        }
    }
    pack_fini(&pack);
}

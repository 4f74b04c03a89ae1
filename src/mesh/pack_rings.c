/* Rings: disjoint cycles through all hosts, each used in both directions.
 *
 * Tries numbers of cycles and the least rate of cables that they may use. The cheapest packing
 * wins; among equals the one with the fewest cycles. If there is no cycle, one ring passes
 * through other hosts. */
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/pack.h"

#define EXACT_VERTICES 12
#define RATES_MAX 8

/* Returns the slowest lane of a directed ring of vertices. PCIe roots and shared ports do not
 * count here, but in the load. */
static uint64_t slowest_of(const struct pack *pack, const uint32_t *order)
{
    uint64_t slowest = UINT64_MAX;
    for (uint32_t i = 0; i < pack->n; i++) {
        const struct mesh_lane *lane = mesh_overlay_lane(
            pack->overlay, pack->heads[order[i]], pack->heads[order[(i + 1) % pack->n]]);
        if (lane != NULL && lane->rate_bps < slowest) {
            slowest = lane->rate_bps;
        }
    }
    /* 1 for each ring if there are no cables at all, because shares need weights. */
    return slowest == UINT64_MAX || slowest == 0 ? 1 : slowest;
}

/* Adds the cycles [k * n] and their reverses. */
static void add_cycles(const struct pack *pack, const uint32_t *cycles, uint32_t k,
                       struct mesh_packing *out)
{
    uint64_t weights[MESH_PACKING_MAX];
    uint32_t *back = weft_calloc((size_t)pack->n + 1, sizeof(*back));
    for (uint32_t i = 0; i < k; i++) {
        const uint32_t *order = cycles + (size_t)i * pack->n;
        for (uint32_t at = 0; at < pack->n; at++) {
            back[at] = order[(pack->n - at) % pack->n];
        }
        weights[out->n_rings] = slowest_of(pack, order);
        pack_add_ring(pack, order, out);
        /* With two hosts the reverse is the same ring. */
        if (pack->n > 2) {
            weights[out->n_rings] = slowest_of(pack, back);
            pack_add_ring(pack, back, out);
        }
    }
    free(back);
    pack_share_rings(out, weights);
    pack_load(pack->overlay, PACK_BOTH, out);
}

/* Lists the different rates of edges, fastest first, at most RATES_MAX. */
static uint32_t list_rates(const struct pack *pack, uint64_t *out)
{
    uint32_t n = 0;
    uint64_t below = UINT64_MAX;
    while (n < RATES_MAX) {
        uint64_t next = 0;
        for (uint32_t e = 0; e < pack->n_edges; e++) {
            uint64_t rate = pack->edges[e].rate_bps;
            next = rate < below && rate > next ? rate : next;
        }
        if (next == 0) {
            break;
        }
        out[n++] = next;
        below = next;
    }
    return n;
}

/* Returns a bound on the number of cycles: half the edges at any vertex. */
static uint32_t most_cycles(const struct pack *pack, uint64_t rate_bps)
{
    uint32_t least = MESH_PACKING_MAX;
    for (uint32_t v = 0; v < pack->n; v++) {
        uint32_t degree = 0;
        for (uint32_t i = pack->first[v]; i < pack->first[v + 1]; i++) {
            degree += pack->edges[pack->incident[i]].rate_bps >= rate_bps ? 1 : 0;
        }
        least = degree < least ? degree : least;
    }
    return least / 2;
}

/* Keeps k cycles if they are at least 2 % cheaper than `out`. Returns false if none were
 * found. */
static bool try_count(const struct pack *pack, uint64_t rate_bps, uint32_t k,
                      uint32_t *cycles, struct mesh_packing *out)
{
    struct mesh_packing found = {.n_ranks = out->n_ranks};
    if (!(pack->n <= EXACT_VERTICES && pack_cycles_exact(pack, rate_bps, k, cycles)) &&
        !pack_cycles_find(pack, rate_bps, k, cycles)) {
        return false;
    }
    add_cycles(pack, cycles, k, &found);
    if (out->n_rings > 0 && found.load >= out->load - out->load / 50) {
        pack_clear(&found);
    }
    pack_keep_better(out, &found);
    return true;
}

/* If cables share nothing, the most cycles are the cheapest. If lanes share ports or roots,
 * more cycles may be no better, so that few are tried first. */
static void try_rate(const struct pack *pack, uint64_t rate_bps, struct mesh_packing *out)
{
    uint32_t *cycles =
        weft_calloc((size_t)pack->n * (MESH_PACKING_MAX / 2) + 1, sizeof(*cycles));
    uint32_t most = most_cycles(pack, rate_bps);
    bool is_shared = pack->overlay->is_shared;
    for (uint32_t i = 0; i < most; i++) {
        uint32_t k = is_shared ? i + 1 : most - i;
        if (try_count(pack, rate_bps, k, cycles, out) != is_shared) {
            break;
        }
    }
    free(cycles);
}

static void pack_cycles(const struct pack *pack, struct mesh_packing *out)
{
    uint64_t rates[RATES_MAX];
    uint32_t n_rates = list_rates(pack, rates);
    for (uint32_t i = 0; i < n_rates; i++) {
        try_rate(pack, rates[i], out);
    }
    uint64_t slowest = n_rates > 0 ? rates[n_rates - 1] : 0;
    if (out->n_rings == 0 && slowest > 1) {
        try_rate(pack, 1, out);
    }
}

void mesh_pack_rings(const struct mesh_overlay *overlay, struct mesh_packing *out)
{
    struct pack pack;
    *out = (struct mesh_packing){.n_ranks = overlay->n_ranks};
    if (overlay->n_ranks < 2) {
        return;
    }
    pack_init(&pack, overlay);
    if (pack.n > 2) {
        pack_cycles(&pack, out);
    }
    if (out->n_rings == 0) {
        uint32_t *order = weft_calloc((size_t)pack.n + 1, sizeof(*order));
        pack_long_way(&pack, order);
        add_cycles(&pack, order, 1, out);
        free(order);
    }
    pack_fini(&pack);
}

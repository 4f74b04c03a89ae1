/* Cycles through all vertices of small meshes, by exhaustive search within a budget; and the
 * ring that passes through other vertices if there is no cycle. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/pack.h"

#define BUDGET_STEPS 2000000
#define EXACT_VERTICES 12
#define STARTS_MAX 64

/* ---- disjoint cycles ---- */

struct search {
    const struct pack *pack;
    uint64_t rate_bps;
    uint32_t k;
    uint32_t *out; /* [k * n] */
    bool *is_used; /* Owned [n_edges]: used by some cycle */
    bool *is_on;   /* Owned [n]: on the current cycle */
    uint32_t budget;
};

static bool lay(struct search *search, uint32_t cycle, uint32_t at);

/* Searches for the next cycle. Returns true if there are k. */
static bool close_cycle(struct search *search, uint32_t cycle)
{
    if (cycle + 1 == search->k) {
        return true;
    }
    uint32_t n = search->pack->n;
    bool *kept = weft_alloc(n * sizeof(*kept));
    memcpy(kept, search->is_on, n * sizeof(*kept));
    memset(search->is_on, 0, n * sizeof(*kept));
    search->is_on[0] = true;
    search->out[(size_t)(cycle + 1) * n] = 0;
    bool found = lay(search, cycle + 1, 1);
    memcpy(search->is_on, kept, n * sizeof(*kept));
    free(kept);
    return found;
}

/* Finds the `at`th vertex of a cycle and all that follow. Recursion is as deep as the cycles
 * have edges: less than a hundred. */
static bool lay(struct search *search, uint32_t cycle, uint32_t at)
{
    const struct pack *pack = search->pack;
    uint32_t *order = search->out + (size_t)cycle * pack->n;
    uint32_t v = order[at - 1];
    for (uint32_t i = pack->first[v]; i < pack->first[v + 1]; i++) {
        uint32_t e = pack->incident[i];
        uint32_t to = pack_other(&pack->edges[e], v);
        bool closes = at == pack->n && to == 0;
        if (search->is_used[e] || pack->edges[e].rate_bps < search->rate_bps ||
            (!closes && search->is_on[to])) {
            continue;
        }
        if (search->budget == 0) {
            return false;
        }
        search->budget--;
        search->is_used[e] = true;
        if (closes) {
            if (close_cycle(search, cycle)) {
                return true;
            }
        } else if (at < pack->n) {
            search->is_on[to] = true;
            order[at] = to;
            if (lay(search, cycle, at + 1)) {
                return true;
            }
            search->is_on[to] = false;
        }
        search->is_used[e] = false;
    }
    return false;
}

bool pack_cycles_exact(const struct pack *pack, uint64_t rate_bps, uint32_t k,
                       uint32_t *out)
{
    weft_check(pack->n >= 3 && pack->n <= EXACT_VERTICES && k > 0);
    struct search search = {
        .pack = pack,
        .rate_bps = rate_bps,
        .k = k,
        .out = out,
        .is_used = weft_calloc((size_t)pack->n_edges + 1, sizeof(bool)),
        .is_on = weft_calloc(pack->n, sizeof(bool)),
        .budget = BUDGET_STEPS,
    };
    search.is_on[0] = true;
    out[0] = 0;
    bool found = lay(&search, 0, 1);
    free(search.is_used);
    free(search.is_on);
    return found;
}

/* ---- the ring through other vertices ---- */

/* Writes the distances in lanes from one vertex; PACK_NONE if there is no path. */
static void hops_from(const struct pack *pack, uint32_t from, uint32_t *queue,
                      uint32_t *out)
{
    uint32_t n = 1;
    for (uint32_t v = 0; v < pack->n; v++) {
        out[v] = PACK_NONE;
    }
    out[from] = 0;
    queue[0] = from;
    for (uint32_t at = 0; at < n; at++) {
        uint32_t v = queue[at];
        for (uint32_t i = pack->first[v]; i < pack->first[v + 1]; i++) {
            uint32_t to = pack_other(&pack->edges[pack->incident[i]], v);
            if (out[to] == PACK_NONE) {
                out[to] = out[v] + 1;
                queue[n++] = to;
            }
        }
    }
}

/* Returns the cost of a step: missing lanes count first, then hops; no path costs more than
 * any ring. */
static uint64_t weight(uint32_t hops)
{
    return hops == PACK_NONE ? UINT64_C(1) << 48
           : hops > 1        ? (UINT64_C(1) << 24) + hops
                             : hops;
}

/* Solves the Held-Karp recurrence: best[set][last] is the cheapest path from `last` through
 * everything not in `set` back to vertex 0. */
static void order_exactly(uint32_t n, const uint64_t *step, uint32_t *out)
{
    uint32_t full = (1u << n) - 1;
    uint64_t *best = weft_alloc(((size_t)full + 1) * n * sizeof(*best));
    uint32_t *then = weft_calloc(((size_t)full + 1) * n, sizeof(*then));
    for (uint32_t set = full;; set -= 2) {
        for (uint32_t last = 0; last < n; last++) {
            uint64_t least = set == full ? step[last * n] : UINT64_MAX;
            for (uint32_t v = 1; v < n; v++) {
                if ((set >> v & 1) != 0) {
                    continue;
                }
                uint64_t via = step[last * n + v] + best[(size_t)(set | 1u << v) * n + v];
                if (via < least) {
                    least = via;
                    then[(size_t)set * n + last] = v;
                }
            }
            best[(size_t)set * n + last] = least;
        }
        if (set == 1) {
            break;
        }
    }
    uint32_t set = 1;
    out[0] = 0;
    for (uint32_t i = 1; i < n; i++) {
        out[i] = then[(size_t)set * n + out[i - 1]];
        set |= 1u << out[i];
    }
    free(best);
    free(then);
}

/* Goes from `start` always to the nearest vertex left, found by a search that stops there.
 * Returns the cost without the step back. */
static uint64_t order_greedily(const struct pack *pack, uint32_t start, uint32_t *out)
{
    uint32_t n = pack->n;
    bool *taken = weft_calloc(n, sizeof(*taken));
    uint32_t *hops = weft_alloc(n * sizeof(*hops));
    uint32_t *queue = weft_alloc(n * sizeof(*queue));
    uint64_t cost = 0;
    uint32_t next_free = 0;
    for (uint32_t v = 0; v < n; v++) {
        hops[v] = PACK_NONE;
    }
    out[0] = start;
    taken[start] = true;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t n_queued = 1;
        uint32_t choice = PACK_NONE;
        queue[0] = out[i - 1];
        hops[queue[0]] = 0;
        for (uint32_t at = 0; at < n_queued && choice == PACK_NONE; at++) {
            uint32_t v = queue[at];
            for (uint32_t k = pack->first[v]; k < pack->first[v + 1]; k++) {
                uint32_t to = pack_other(&pack->edges[pack->incident[k]], v);
                if (hops[to] != PACK_NONE) {
                    continue;
                }
                hops[to] = hops[v] + 1;
                queue[n_queued++] = to;
                if (!taken[to] && choice == PACK_NONE) {
                    choice = to;
                }
            }
        }
        cost += weight(choice == PACK_NONE ? PACK_NONE : hops[choice]);
        for (uint32_t at = 0; at < n_queued; at++) {
            hops[queue[at]] = PACK_NONE;
        }
        while (choice == PACK_NONE && taken[next_free]) {
            next_free++;
        }
        out[i] = choice == PACK_NONE ? next_free : choice;
        taken[out[i]] = true;
    }
    free(taken);
    free(hops);
    free(queue);
    return cost;
}

void pack_long_way(const struct pack *pack, uint32_t *out)
{
    uint32_t n = pack->n;
    if (n > EXACT_VERTICES) {
        uint32_t *order = weft_alloc(n * sizeof(*order));
        uint64_t best = UINT64_MAX;
        uint32_t n_starts = n < STARTS_MAX ? n : n < 1024 ? 4 : 1;
        for (uint32_t start = 0; start < n_starts; start++) {
            uint64_t cost = order_greedily(pack, start, order);
            if (cost < best) {
                best = cost;
                memcpy(out, order, n * sizeof(*order));
            }
        }
        free(order);
        return;
    }
    uint64_t *step = weft_alloc((size_t)n * n * sizeof(*step));
    uint32_t *hops = weft_alloc(2 * (size_t)n * sizeof(*hops));
    for (uint32_t v = 0; v < n; v++) {
        hops_from(pack, v, hops + n, hops);
        for (uint32_t to = 0; to < n; to++) {
            step[v * n + to] = weight(hops[to]);
        }
    }
    order_exactly(n, step, out);
    free(step);
    free(hops);
}

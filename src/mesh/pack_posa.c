/* Cycles through all vertices, one after another, by rotation and extension (Posa 1976): a
 * path grows into the neighbour with the fewest free neighbours; where it is stuck, the part
 * behind one of its end's neighbours is reversed, and it grows on from the new end. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/text.h"
#include "mesh/pack.h"

#define VERTICES_MAX 512
#define RESTARTS 24
#define TURNS_PER_VERTEX 200

struct walk {
    const struct pack *pack;
    uint64_t rate_bps;
    bool *is_used;      /* Owned [n_edges]: used by cycles already found */
    uint32_t *path;     /* Owned [n] */
    uint32_t *position; /* Owned [n]: position on the path, or PACK_NONE */
    uint32_t n_path;
    struct weft_rng rng;
};

static bool is_open(const struct walk *walk, uint32_t edge)
{
    return !walk->is_used[edge] && walk->pack->edges[edge].rate_bps >= walk->rate_bps;
}

static uint32_t ways_on(const struct walk *walk, uint32_t v)
{
    const struct pack *pack = walk->pack;
    uint32_t n = 0;
    for (uint32_t i = pack->first[v]; i < pack->first[v + 1]; i++) {
        uint32_t e = pack->incident[i];
        n += is_open(walk, e) &&
             walk->position[pack_other(&pack->edges[e], v)] == PACK_NONE;
    }
    return n;
}

static bool extend(struct walk *walk)
{
    const struct pack *pack = walk->pack;
    uint32_t end = walk->path[walk->n_path - 1];
    uint32_t best = PACK_NONE;
    uint32_t fewest = UINT32_MAX;
    uint32_t n_ties = 0;
    for (uint32_t i = pack->first[end]; i < pack->first[end + 1]; i++) {
        uint32_t e = pack->incident[i];
        uint32_t to = pack_other(&pack->edges[e], end);
        if (!is_open(walk, e) || walk->position[to] != PACK_NONE) {
            continue;
        }
        uint32_t n = ways_on(walk, to);
        n_ties = n < fewest ? 1 : n == fewest ? n_ties + 1 : n_ties;
        if (n < fewest || (n == fewest && weft_rng_below(&walk->rng, n_ties) == 0)) {
            best = to;
            fewest = n;
        }
    }
    if (best == PACK_NONE) {
        return false;
    }
    walk->position[best] = walk->n_path;
    walk->path[walk->n_path++] = best;
    return true;
}

/* Returns a random open neighbour of the path's end: `first` if it closes the cycle, PACK_NONE
 * if there is none. */
static uint32_t neighbour(struct walk *walk, uint32_t first)
{
    const struct pack *pack = walk->pack;
    uint32_t end = walk->path[walk->n_path - 1];
    uint32_t choice = PACK_NONE;
    uint32_t n_seen = 0;
    for (uint32_t i = pack->first[end]; i < pack->first[end + 1]; i++) {
        uint32_t e = pack->incident[i];
        uint32_t to = pack_other(&pack->edges[e], end);
        if (!is_open(walk, e)) {
            continue;
        }
        if (to == first && walk->n_path == pack->n) {
            return to;
        }
        if (walk->n_path >= 2 && to == walk->path[walk->n_path - 2]) {
            continue;
        }
        if (weft_rng_below(&walk->rng, ++n_seen) == 0) {
            choice = to;
        }
    }
    return choice;
}

/* Reverses the part of the path behind `pivot`. */
static void turn(struct walk *walk, uint32_t pivot)
{
    uint32_t low = walk->position[pivot] + 1;
    uint32_t high = walk->n_path - 1;
    for (; low < high; low++, high--) {
        uint32_t v = walk->path[low];
        walk->path[low] = walk->path[high];
        walk->path[high] = v;
        walk->position[walk->path[low]] = low;
        walk->position[v] = high;
    }
}

static bool find_cycle(struct walk *walk)
{
    uint32_t n = walk->pack->n;
    for (uint32_t v = 0; v < n; v++) {
        walk->position[v] = PACK_NONE;
    }
    walk->path[0] = (uint32_t)weft_rng_below(&walk->rng, n);
    walk->position[walk->path[0]] = 0;
    walk->n_path = 1;
    for (uint32_t turns = 0; turns < TURNS_PER_VERTEX * n;) {
        if (walk->n_path < n && extend(walk)) {
            continue;
        }
        uint32_t pivot = neighbour(walk, walk->path[0]);
        if (pivot == PACK_NONE) {
            return false;
        }
        if (walk->n_path == n && pivot == walk->path[0]) {
            return true;
        }
        turn(walk, pivot);
        turns++;
    }
    return false;
}

static void use_cycle(struct walk *walk, uint32_t *out)
{
    const struct pack *pack = walk->pack;
    for (uint32_t at = 0; at < pack->n; at++) {
        uint32_t v = walk->path[at];
        uint32_t next = walk->path[(at + 1) % pack->n];
        out[at] = v;
        for (uint32_t i = pack->first[v]; i < pack->first[v + 1]; i++) {
            uint32_t e = pack->incident[i];
            walk->is_used[e] |= pack_other(&pack->edges[e], v) == next;
        }
    }
}

static bool find_all(struct walk *walk, uint32_t k, uint32_t *out)
{
    memset(walk->is_used, 0, walk->pack->n_edges * sizeof(*walk->is_used));
    for (uint32_t i = 0; i < k; i++) {
        if (!find_cycle(walk)) {
            return false;
        }
        use_cycle(walk, out + (size_t)i * walk->pack->n);
    }
    return true;
}

static bool is_regular(const struct pack *pack, uint64_t rate_bps, uint32_t degree)
{
    for (uint32_t v = 0; v < pack->n; v++) {
        uint32_t n = 0;
        for (uint32_t i = pack->first[v]; i < pack->first[v + 1]; i++) {
            n += pack->edges[pack->incident[i]].rate_bps >= rate_bps;
        }
        if (n != degree) {
            return false;
        }
    }
    return true;
}

bool pack_cycles_find(const struct pack *pack, uint64_t rate_bps, uint32_t k,
                      uint32_t *out)
{
    if (is_regular(pack, rate_bps, 2 * k) && pack_cycles_divide(pack, rate_bps, k, out)) {
        return true;
    }
    if (pack->n > VERTICES_MAX) {
        return false;
    }
    struct walk walk = {
        .pack = pack,
        .rate_bps = rate_bps,
        .is_used = weft_calloc((size_t)pack->n_edges + 1, sizeof(bool)),
        .path = weft_calloc(pack->n, sizeof(uint32_t)),
        .position = weft_calloc(pack->n, sizeof(uint32_t)),
    };
    weft_rng_init(&walk.rng, 1, "mesh/walk");
    bool found = false;
    for (uint32_t i = 0; i < RESTARTS && !found; i++) {
        found = find_all(&walk, k, out);
    }
    free(walk.is_used);
    free(walk.path);
    free(walk.position);
    return found;
}

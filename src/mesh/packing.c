#include "mesh/packing.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/pack.h"

__extension__ typedef unsigned __int128 u128;

/* ---- vertices and edges ---- */

static void add_edges(struct pack *pack)
{
    const struct mesh_overlay *overlay = pack->overlay;
    pack->edges = weft_calloc(overlay->n_lanes + 1, sizeof(*pack->edges));
    for (size_t i = 0; i < overlay->n_lanes; i++) {
        const struct mesh_lane *lane = &overlay->lanes[i];
        uint32_t a = pack->vertex_of[lane->from];
        uint32_t b = pack->vertex_of[lane->to];
        const struct mesh_lane *back =
            a < b ? mesh_overlay_lane(overlay, lane->to, lane->from) : NULL;
        if (back != NULL && lane->rate_bps > 0 && back->rate_bps > 0) {
            uint64_t rate =
                lane->rate_bps < back->rate_bps ? lane->rate_bps : back->rate_bps;
            pack->edges[pack->n_edges++] = (struct pack_edge){a, b, rate};
        }
    }
}

static void index_edges(struct pack *pack)
{
    pack->first = weft_calloc((size_t)pack->n + 2, sizeof(uint32_t));
    pack->incident = weft_calloc(2 * (size_t)pack->n_edges + 1, sizeof(uint32_t));
    for (uint32_t e = 0; e < pack->n_edges; e++) {
        pack->first[pack->edges[e].a + 1]++;
        pack->first[pack->edges[e].b + 1]++;
    }
    for (uint32_t v = 0; v < pack->n; v++) {
        pack->first[v + 1] += pack->first[v];
    }
    uint32_t *at = weft_calloc((size_t)pack->n + 1, sizeof(*at));
    for (uint32_t e = 0; e < pack->n_edges; e++) {
        uint32_t a = pack->edges[e].a;
        uint32_t b = pack->edges[e].b;
        pack->incident[pack->first[a] + at[a]++] = e;
        pack->incident[pack->first[b] + at[b]++] = e;
    }
    free(at);
}

void pack_init(struct pack *pack, const struct mesh_overlay *overlay)
{
    *pack = (struct pack){
        .overlay = overlay,
        .heads = weft_calloc((size_t)overlay->n_ranks + 1, sizeof(uint32_t)),
        .vertex_of = weft_calloc((size_t)overlay->n_ranks + 1, sizeof(uint32_t)),
    };
    for (uint32_t r = 0; r < overlay->n_ranks; r++) {
        /* Only lanes within a host have no hops, and the first rank of the host is at one of
         * their ends. */
        const struct mesh_lane *lane = &overlay->lanes[overlay->first[r]];
        bool is_late = overlay->first[r] < overlay->first[r + 1] && lane->n_hops == 0 &&
                       lane->to < r;
        pack->vertex_of[r] = is_late ? pack->vertex_of[lane->to] : pack->n;
        if (!is_late) {
            pack->heads[pack->n++] = r;
        }
    }
    add_edges(pack);
    index_edges(pack);
}

void pack_fini(struct pack *pack)
{
    free(pack->heads);
    free(pack->vertex_of);
    free(pack->edges);
    free(pack->first);
    free(pack->incident);
}

uint32_t pack_other(const struct pack_edge *edge, uint32_t vertex)
{
    return edge->a == vertex ? edge->b : edge->a;
}

bool pack_is_connected(const struct pack *pack, uint64_t rate_bps)
{
    bool *seen = weft_calloc((size_t)pack->n + 1, sizeof(*seen));
    uint32_t *queue = weft_calloc((size_t)pack->n + 1, sizeof(*queue));
    uint32_t n = 1;
    seen[0] = true;
    for (uint32_t at = 0; at < n; at++) {
        uint32_t v = queue[at];
        for (uint32_t i = pack->first[v]; i < pack->first[v + 1]; i++) {
            const struct pack_edge *edge = &pack->edges[pack->incident[i]];
            uint32_t to = pack_other(edge, v);
            if (!seen[to] && edge->rate_bps >= rate_bps) {
                seen[to] = true;
                queue[n++] = to;
            }
        }
    }
    free(seen);
    free(queue);
    return n >= pack->n;
}

static int compare_rates(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

uint64_t pack_bottleneck(const struct pack *pack)
{
    uint64_t *rates = weft_calloc((size_t)pack->n_edges + 1, sizeof(*rates));
    for (uint32_t e = 0; e < pack->n_edges; e++) {
        rates[e] = pack->edges[e].rate_bps;
    }
    qsort(rates, pack->n_edges, sizeof(*rates), compare_rates);
    /* number of edges, from the slowest, whose rates are known to join all */
    uint32_t low = 0;
    uint32_t high = pack->n_edges;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (pack_is_connected(pack, rates[middle])) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint64_t rate = low > 0 ? rates[low - 1] : 0;
    free(rates);
    return rate;
}

/* ---- rings and trees of ranks ---- */

/* The first rank of a vertex follows the last rank of the vertex before. */
void pack_add_ring(const struct pack *pack, const uint32_t *order,
                   struct mesh_packing *out)
{
    weft_check(out->n_rings < MESH_PACKING_MAX);
    uint32_t n_ranks = pack->overlay->n_ranks;
    struct mesh_packed_ring *ring = &out->rings[out->n_rings++];
    *ring = (struct mesh_packed_ring){
        .next = weft_calloc((size_t)n_ranks + 1, sizeof(uint32_t))};
    uint32_t *last = weft_calloc((size_t)pack->n + 1, sizeof(*last));
    for (uint32_t v = 0; v < pack->n; v++) {
        last[v] = pack->heads[v];
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        uint32_t v = pack->vertex_of[r];
        ring->next[last[v]] = r;
        last[v] = r;
    }
    for (uint32_t i = 0; i < pack->n; i++) {
        uint32_t v = order[i];
        uint32_t next = pack->heads[order[(i + 1) % pack->n]];
        ring->next[last[v]] = next;
        ring->n_missing +=
            pack->n > 1 && mesh_overlay_lane(pack->overlay, pack->heads[v], next) == NULL;
    }
    free(last);
}

uint32_t mesh_tree_depth(const uint32_t *parent, uint32_t rank)
{
    uint32_t depth = 0;
    for (; parent[rank] != MESH_NO_PARENT; rank = parent[rank]) {
        depth++;
    }
    return depth;
}

void pack_add_tree(const struct pack *pack, const uint32_t *parents,
                   struct mesh_packing *out)
{
    weft_check(out->n_trees < MESH_PACKING_MAX);
    uint32_t n_ranks = pack->overlay->n_ranks;
    struct mesh_packed_tree *tree = &out->trees[out->n_trees++];
    *tree = (struct mesh_packed_tree){
        .parent = weft_calloc((size_t)n_ranks + 1, sizeof(uint32_t))};
    for (uint32_t r = 0; r < n_ranks; r++) {
        uint32_t v = pack->vertex_of[r];
        if (pack->heads[v] != r) {
            tree->parent[r] = pack->heads[v];
        } else if (parents[v] != PACK_NONE) {
            tree->parent[r] = pack->heads[parents[v]];
        } else {
            tree->parent[r] = MESH_NO_PARENT;
            tree->root = r;
        }
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        uint32_t depth = mesh_tree_depth(tree->parent, r);
        tree->depth = depth > tree->depth ? depth : tree->depth;
    }
}

void pack_clear(struct mesh_packing *out)
{
    for (uint32_t i = 0; i < out->n_rings; i++) {
        free(out->rings[i].next);
    }
    for (uint32_t i = 0; i < out->n_trees; i++) {
        free(out->trees[i].parent);
    }
    *out = (struct mesh_packing){.n_ranks = out->n_ranks};
}

void mesh_packing_fini(struct mesh_packing *packing)
{
    pack_clear(packing);
    memset(packing, 0, sizeof(*packing));
}

void pack_share_rings(struct mesh_packing *out, const uint64_t *weights)
{
    u128 total = 0;
    u128 seen = 0;
    for (uint32_t i = 0; i < out->n_rings; i++) {
        total += weights[i];
    }
    weft_check(total > 0);
    for (uint32_t i = 0; i < out->n_rings; i++) {
        uint32_t before = (uint32_t)(seen * PACK_WHOLE / total);
        seen += weights[i];
        out->rings[i].share = (uint32_t)(seen * PACK_WHOLE / total) - before;
    }
}

void pack_share_trees(struct mesh_packing *out)
{
    for (uint32_t i = 0; i < out->n_trees; i++) {
        out->trees[i].share =
            PACK_WHOLE * (i + 1) / out->n_trees - PACK_WHOLE * i / out->n_trees;
    }
}

/* ---- load ---- */

struct loads {
    const struct mesh_overlay *overlay;
    u128 *parts; /* Owned [n_resources]: parts x MESH_WHOLE */
};

static void load_lane(struct loads *loads, const struct mesh_lane *lane, uint32_t share)
{
    for (uint32_t i = 0; i < lane->n_uses; i++) {
        const struct mesh_use *use = &loads->overlay->uses[lane->first_use + i];
        loads->parts[use->resource] += (u128)share * use->part;
    }
}

/* Adds the load of two ranks without a lane: along the fewest lanes, among equals through the
 * lowest ranks. */
static void load_far(struct loads *loads, uint32_t from, uint32_t to, uint32_t share)
{
    const struct mesh_overlay *overlay = loads->overlay;
    size_t *came_by = weft_alloc(((size_t)overlay->n_ranks + 1) * sizeof(*came_by));
    uint32_t *queue = weft_calloc((size_t)overlay->n_ranks + 1, sizeof(*queue));
    uint32_t n = 1;
    for (uint32_t r = 0; r < overlay->n_ranks; r++) {
        came_by[r] = SIZE_MAX;
    }
    queue[0] = from;
    for (uint32_t at = 0; at < n && came_by[to] == SIZE_MAX; at++) {
        for (uint32_t i = overlay->first[queue[at]]; i < overlay->first[queue[at] + 1];
             i++) {
            uint32_t next = overlay->lanes[i].to;
            if (next != from && came_by[next] == SIZE_MAX) {
                came_by[next] = i;
                queue[n++] = next;
            }
        }
    }
    for (uint32_t r = to; r != from && came_by[r] != SIZE_MAX;) {
        const struct mesh_lane *lane = &overlay->lanes[came_by[r]];
        load_lane(loads, lane, share);
        r = lane->from;
    }
    free(came_by);
    free(queue);
}

static void load_pair(struct loads *loads, uint32_t from, uint32_t to, uint32_t share)
{
    const struct mesh_lane *lane = mesh_overlay_lane(loads->overlay, from, to);
    if (lane != NULL) {
        load_lane(loads, lane, share);
    } else if (loads->overlay->hosts[from] != loads->overlay->hosts[to]) {
        load_far(loads, from, to, share);
    }
}

static void load_ring(struct loads *loads, const struct pack *pack,
                      const struct mesh_packed_ring *ring)
{
    for (uint32_t r = 0; r < loads->overlay->n_ranks; r++) {
        /* Cables belong to the first rank of a host. */
        uint32_t from = pack->heads[pack->vertex_of[r]];
        uint32_t to = pack->heads[pack->vertex_of[ring->next[r]]];
        if (from != to) {
            load_pair(loads, from, to, ring->share);
        }
    }
}

void pack_load(const struct mesh_overlay *overlay, enum pack_way way,
               struct mesh_packing *out)
{
    struct loads loads = {overlay,
                          weft_calloc((size_t)overlay->n_resources + 1, sizeof(u128))};
    struct pack pack;
    pack_init(&pack, overlay);
    for (uint32_t i = 0; i < out->n_rings; i++) {
        load_ring(&loads, &pack, &out->rings[i]);
    }
    for (uint32_t i = 0; i < out->n_trees; i++) {
        const struct mesh_packed_tree *tree = &out->trees[i];
        for (uint32_t r = 0; r < overlay->n_ranks; r++) {
            if (tree->parent[r] != MESH_NO_PARENT && way != PACK_DOWN) {
                load_pair(&loads, r, tree->parent[r], tree->share);
            }
            if (tree->parent[r] != MESH_NO_PARENT && way != PACK_UP) {
                load_pair(&loads, tree->parent[r], r, tree->share);
            }
        }
    }
    pack_fini(&pack);
    out->load = 0;
    for (uint32_t i = 0; i < overlay->n_resources; i++) {
        u128 rate = (u128)overlay->resource_bps[i] * MESH_WHOLE;
        u128 parts = loads.parts[i] * (1 << 20) * 1000000;
        uint64_t load = parts == 0  ? 0
                        : rate == 0 ? UINT64_MAX
                                    : (uint64_t)((parts + rate - 1) / rate);
        out->load = load > out->load ? load : out->load;
    }
    free(loads.parts);
}

void pack_keep_better(struct mesh_packing *best, struct mesh_packing *other)
{
    bool has_best = best->n_rings + best->n_trees > 0;
    bool has_other = other->n_rings + other->n_trees > 0;
    if (has_other && (!has_best || other->load < best->load)) {
        struct mesh_packing better = *other;
        *other = *best;
        *best = better;
    }
    pack_clear(other);
}

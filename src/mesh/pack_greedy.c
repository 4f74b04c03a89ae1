/* Trees grown one after another from their roots along the lanes that leave the busiest
 * resource least busy: for large meshes, and where lanes share cables, switch ports or PCIe
 * roots, which the exact methods ignore. */
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/pack.h"

__extension__ typedef unsigned __int128 u128;

/* With more vertices than this the cost of each lane is computed only once per tree. */
#define CAREFUL_VERTICES 128

struct grower {
    const struct pack *pack;
    enum pack_way way;
    uint64_t *parts;   /* Owned [n_resources]: use by the trees so far, in lanes' parts */
    bool *is_in;       /* Owned [n] */
    uint32_t *depth;   /* Owned [n] */
    uint32_t *parents; /* Owned [n] */
    uint64_t *cost;    /* Owned [n]: cost of the hop from the parent */
};

/* Returns how busy the lane's busiest resource would be with one more part: parts / rate,
 * scaled. */
static uint64_t lane_cost(const struct grower *grower, const struct mesh_lane *lane)
{
    const struct mesh_overlay *overlay = grower->pack->overlay;
    uint64_t worst = 0;
    for (uint32_t i = 0; i < lane->n_uses; i++) {
        const struct mesh_use *use = &overlay->uses[lane->first_use + i];
        uint64_t rate = overlay->resource_bps[use->resource];
        u128 parts = (u128)(grower->parts[use->resource] + use->part) * 1000000000;
        uint64_t cost = rate == 0 ? UINT64_MAX / 2 : (uint64_t)(parts / rate);
        worst = cost > worst ? cost : worst;
    }
    return worst;
}

static uint64_t hop_cost(const struct grower *grower, uint32_t parent, uint32_t child)
{
    const struct pack *pack = grower->pack;
    uint64_t worst = 0;
    for (int up = 0; up < 2; up++) {
        if (grower->way == (up != 0 ? PACK_DOWN : PACK_UP)) {
            continue;
        }
        uint32_t from = pack->heads[up != 0 ? child : parent];
        uint32_t to = pack->heads[up != 0 ? parent : child];
        const struct mesh_lane *lane = mesh_overlay_lane(pack->overlay, from, to);
        uint64_t cost = lane == NULL ? UINT64_MAX : lane_cost(grower, lane);
        worst = cost > worst ? cost : worst;
    }
    return worst;
}

static void take_hop(struct grower *grower, uint32_t parent, uint32_t child)
{
    const struct pack *pack = grower->pack;
    for (int up = 0; up < 2; up++) {
        if (grower->way == (up != 0 ? PACK_DOWN : PACK_UP)) {
            continue;
        }
        uint32_t from = pack->heads[up != 0 ? child : parent];
        uint32_t to = pack->heads[up != 0 ? parent : child];
        const struct mesh_lane *lane = mesh_overlay_lane(pack->overlay, from, to);
        for (uint32_t i = 0; i < lane->n_uses; i++) {
            const struct mesh_use *use = &pack->overlay->uses[lane->first_use + i];
            grower->parts[use->resource] += use->part;
        }
    }
}

/* Offers the vertices that lanes of `v` lead to a cheaper hop from `v`. */
static void offer(struct grower *grower, uint32_t v)
{
    const struct pack *pack = grower->pack;
    const struct mesh_overlay *overlay = pack->overlay;
    uint32_t head = pack->heads[v];
    for (uint32_t i = overlay->first[head]; i < overlay->first[head + 1]; i++) {
        uint32_t to = pack->vertex_of[overlay->lanes[i].to];
        if (to == v || grower->is_in[to]) {
            continue;
        }
        uint64_t cost = hop_cost(grower, v, to);
        if (cost == UINT64_MAX) {
            continue;
        }
        bool is_new = grower->parents[to] == PACK_NONE;
        bool is_nearer = !is_new && cost == grower->cost[to] &&
                         grower->depth[v] < grower->depth[grower->parents[to]];
        if (is_new || cost < grower->cost[to] || is_nearer) {
            grower->parents[to] = v;
            grower->cost[to] = cost;
        }
    }
}

/* Returns the vertex that is cheapest to reach now; among equals the shallowest, then the
 * lowest. */
static uint32_t cheapest(const struct grower *grower)
{
    uint32_t best = PACK_NONE;
    for (uint32_t v = 0; v < grower->pack->n; v++) {
        if (grower->is_in[v] || grower->parents[v] == PACK_NONE) {
            continue;
        }
        if (best == PACK_NONE || grower->cost[v] < grower->cost[best] ||
            (grower->cost[v] == grower->cost[best] &&
             grower->depth[grower->parents[v]] < grower->depth[grower->parents[best]])) {
            best = v;
        }
    }
    return best;
}

static void reset(struct grower *grower, uint32_t root)
{
    for (uint32_t v = 0; v < grower->pack->n; v++) {
        grower->is_in[v] = v == root;
        grower->parents[v] = PACK_NONE;
        grower->depth[v] = 0;
    }
}

/* Grows a tree, recomputing all costs in each step, because the last step changed them. */
static bool grow_carefully(struct grower *grower, uint32_t root)
{
    uint32_t n = grower->pack->n;
    reset(grower, root);
    for (uint32_t n_in = 1; n_in < n; n_in++) {
        for (uint32_t v = 0; v < n; v++) {
            if (!grower->is_in[v]) {
                grower->parents[v] = PACK_NONE;
            }
        }
        for (uint32_t v = 0; v < n; v++) {
            if (grower->is_in[v]) {
                offer(grower, v);
            }
        }
        uint32_t next = cheapest(grower);
        if (next == PACK_NONE) {
            return false;
        }
        grower->is_in[next] = true;
        grower->depth[next] = grower->depth[grower->parents[next]] + 1;
        take_hop(grower, grower->parents[next], next);
    }
    return true;
}

/* Grows a tree breadth first. Each vertex is reached by its least busy hop from the level
 * above. */
static bool grow_quickly(struct grower *grower, uint32_t root)
{
    uint32_t n = grower->pack->n;
    uint32_t *level = weft_calloc((size_t)n + 1, sizeof(*level));
    uint32_t n_queued = 1;
    reset(grower, root);
    level[0] = root;
    for (uint32_t begin = 0; begin < n_queued;) {
        uint32_t end = n_queued;
        for (uint32_t at = begin; at < end; at++) {
            offer(grower, level[at]);
        }
        for (uint32_t at = begin; at < end; at++) {
            uint32_t head = grower->pack->heads[level[at]];
            const struct mesh_overlay *overlay = grower->pack->overlay;
            for (uint32_t i = overlay->first[head]; i < overlay->first[head + 1]; i++) {
                uint32_t to = grower->pack->vertex_of[overlay->lanes[i].to];
                if (!grower->is_in[to] && grower->parents[to] != PACK_NONE) {
                    grower->is_in[to] = true;
                    grower->depth[to] = grower->depth[grower->parents[to]] + 1;
                    take_hop(grower, grower->parents[to], to);
                    level[n_queued++] = to;
                }
            }
        }
        begin = end;
    }
    free(level);
    return n_queued == n;
}

/* Returns the `i`th of k roots, which are spread over the vertices. */
static uint32_t root_of(const struct pack *pack, uint32_t i, uint32_t k)
{
    return (uint32_t)((uint64_t)i * pack->n / k);
}

void pack_greedily(const struct pack *pack, uint32_t k, uint32_t root, enum pack_way way,
                   struct mesh_packing *out)
{
    struct grower grower = {
        .pack = pack,
        .way = way,
        .parts = weft_calloc((size_t)pack->overlay->n_resources + 1, sizeof(uint64_t)),
        .is_in = weft_calloc((size_t)pack->n + 1, sizeof(bool)),
        .depth = weft_calloc((size_t)pack->n + 1, sizeof(uint32_t)),
        .parents = weft_calloc((size_t)pack->n + 1, sizeof(uint32_t)),
        .cost = weft_calloc((size_t)pack->n + 1, sizeof(uint64_t)),
    };
    bool is_whole = true;
    for (uint32_t i = 0; i < k && is_whole; i++) {
        uint32_t from = root == PACK_NONE ? root_of(pack, i, k) : root;
        is_whole = pack->n <= CAREFUL_VERTICES ? grow_carefully(&grower, from)
                                               : grow_quickly(&grower, from);
        if (is_whole) {
            pack_add_tree(pack, grower.parents, out);
        }
    }
    if (is_whole) {
        pack_share_trees(out);
        pack_load(pack->overlay, way, out);
    } else {
        pack_clear(out);
    }
    free(grower.parts);
    free(grower.is_in);
    free(grower.depth);
    free(grower.parents);
    free(grower.cost);
}

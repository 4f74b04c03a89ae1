/* Trees out of one root, by Edmonds' theorem: k disjoint ones exist if every other vertex can
 * be reached by k disjoint paths. They are built as in Lovasz' proof (J. Comb. Theory B 21,
 * 1976): an arc may join the tree being grown if what then remains still gives every vertex
 * k-1 paths. Only sets that the arc enters can lose a path, so one maximum flow decides. Rates
 * are counted in copies as in pack_trees.c, in units of the slowest lane or of
 * 1/MESH_PACKING_MAX of the least flow, whichever is greater. */
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/flow.h"
#include "mesh/pack.h"

#define EXACT_VERTICES 256
#define GRAIN 12
#define EXACT_ARCS 1024
#define ENDLESS ((uint64_t)1 << 40)

struct branching {
    const struct pack *pack;
    uint32_t root; /* vertex */
    /* Owned [n_arcs + 1]; the last one merges the tree with the root */
    struct mesh_arc *arcs;
    const struct mesh_lane **lanes; /* Owned [n_arcs] */
    size_t n_arcs;
    bool *side;        /* Owned [n] */
    bool *is_in;       /* Owned [n] */
    uint32_t *reached; /* Owned [n]: in the order in which the tree reached them */
};

/* Lists the arcs from the root outwards, in whichever direction data uses the lanes. */
static void list_arcs(struct branching *b, bool towards_root)
{
    const struct mesh_overlay *overlay = b->pack->overlay;
    for (size_t i = 0; i < overlay->n_lanes; i++) {
        const struct mesh_lane *lane = &overlay->lanes[i];
        uint32_t from = b->pack->vertex_of[towards_root ? lane->to : lane->from];
        uint32_t to = b->pack->vertex_of[towards_root ? lane->from : lane->to];
        if (from != to && to != b->root && lane->rate_bps > 0) {
            b->lanes[b->n_arcs] = lane;
            b->arcs[b->n_arcs++] = (struct mesh_arc){from, to, 0};
        }
    }
}

/* Returns the least flow from the root to any vertex with the current capacities. */
static uint64_t least_flow(struct branching *b)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t v = 0; v < b->pack->n; v++) {
        if (v != b->root) {
            uint64_t flow =
                mesh_least_cut(b->pack->n, b->arcs, b->n_arcs, b->root, v, b->side);
            least = flow < least ? flow : least;
        }
    }
    return least;
}

static void count_copies(struct branching *b, uint64_t unit_bps, uint32_t q)
{
    for (size_t i = 0; i < b->n_arcs; i++) {
        uint64_t rate = b->lanes[i]->rate_bps;
        uint64_t times = MESH_PACKING_MAX;
        if (rate / unit_bps < MESH_PACKING_MAX * GRAIN) {
            times = (rate / unit_bps * q + rate % unit_bps * q / unit_bps) / GRAIN;
        }
        b->arcs[i].capacity = times < MESH_PACKING_MAX ? times : MESH_PACKING_MAX;
    }
}

/* Returns true if `arc` can join the tree and leaves k paths to every vertex for later trees. */
static bool is_safe(struct branching *b, size_t arc, uint32_t k)
{
    if (k == 0) {
        return true;
    }
    uint32_t from = b->arcs[arc].from;
    b->arcs[arc].capacity--;
    b->arcs[b->n_arcs] = (struct mesh_arc){b->root, from, ENDLESS};
    uint64_t flow =
        mesh_least_cut(b->pack->n, b->arcs, b->n_arcs + (from != b->root ? 1 : 0),
                       b->root, b->arcs[arc].to, b->side);
    b->arcs[arc].capacity++;
    return flow >= k;
}

/* Takes one tree out of the capacities, nearest vertices first, so that `k` more remain. */
static void take_tree(struct branching *b, uint32_t k, uint32_t *parents)
{
    uint32_t n = b->pack->n;
    uint32_t n_in = 1;
    for (uint32_t v = 0; v < n; v++) {
        b->is_in[v] = v == b->root;
        parents[v] = PACK_NONE;
    }
    b->reached[0] = b->root;
    while (n_in < n) {
        bool found = false;
        for (uint32_t at = 0; at < n_in && !found; at++) {
            for (size_t i = 0; i < b->n_arcs && !found; i++) {
                const struct mesh_arc *arc = &b->arcs[i];
                if (arc->from != b->reached[at] || b->is_in[arc->to] ||
                    arc->capacity == 0 || !is_safe(b, i, k)) {
                    continue;
                }
                b->arcs[i].capacity--;
                parents[arc->to] = arc->from;
                b->is_in[arc->to] = true;
                b->reached[n_in++] = arc->to;
                found = true;
            }
        }
        weft_check(found); /* by Lovasz' proof */
    }
}

static uint64_t slowest_lane(struct branching *b)
{
    uint64_t slowest = UINT64_MAX;
    for (size_t i = 0; i < b->n_arcs; i++) {
        uint64_t rate = b->lanes[i]->rate_bps;
        b->arcs[i].capacity = rate;
        slowest = rate < slowest ? rate : slowest;
    }
    return slowest;
}

struct choice {
    uint32_t k, q; /* best so far; q is 0 if there is none */
};

/* Searches for the least q that gives k trees, if they are at least 2 % better than the best
 * so far. Tries the least q that the flow permits, then bisects. */
static void try_count(struct branching *b, uint64_t unit_bps, uint64_t flow_bps,
                      uint32_t k, struct choice *best)
{
    uint64_t low = (k * GRAIN * unit_bps + flow_bps - 1) / flow_bps;
    uint64_t high = best->q == 0
                        ? MESH_PACKING_MAX * GRAIN
                        : ((uint64_t)k * best->q * 100 - 1) / ((uint64_t)best->k * 102);
    for (uint64_t q = low > 0 ? low : 1; low <= high; q = low + (high - low) / 2) {
        count_copies(b, unit_bps, (uint32_t)q);
        if (least_flow(b) >= k) {
            *best = (struct choice){k, (uint32_t)q};
            high = q - 1;
        } else {
            low = q + 1;
        }
    }
}

static void pack_exactly(struct branching *b, enum pack_way way, struct mesh_packing *out)
{
    uint64_t slowest = slowest_lane(b);
    uint64_t flow = least_flow(b);
    uint64_t unit = flow / MESH_PACKING_MAX > slowest ? flow / MESH_PACKING_MAX : slowest;
    struct choice best = {0, 0};
    for (uint32_t k = 1; k <= MESH_PACKING_MAX && flow > 0; k++) {
        try_count(b, unit, flow, k, &best);
    }
    uint32_t *parents = weft_calloc((size_t)b->pack->n + 1, sizeof(*parents));
    if (best.q > 0) {
        count_copies(b, unit, best.q);
    }
    for (uint32_t k = best.k; k-- > 0;) {
        take_tree(b, k, parents);
        pack_add_tree(b->pack, parents, out);
    }
    if (out->n_trees > 0) {
        pack_share_trees(out);
        pack_load(b->pack->overlay, way, out);
    }
    free(parents);
}

/* Makes `root` the parent of the first rank of its host, which the trees are rooted at. */
static void hang_under(const struct pack *pack, uint32_t root, struct mesh_packing *out)
{
    uint32_t head = pack->heads[pack->vertex_of[root]];
    for (uint32_t i = 0; i < out->n_trees && root != head; i++) {
        struct mesh_packed_tree *tree = &out->trees[i];
        tree->parent[head] = root;
        tree->parent[root] = MESH_NO_PARENT;
        tree->root = root;
        /* All ranks except `root` are now one hop deeper. */
        tree->depth += pack->overlay->n_ranks > 2 ? 1 : 0;
    }
}

void mesh_pack_arborescences(const struct mesh_overlay *overlay, uint32_t root,
                             bool towards_root, struct mesh_packing *out)
{
    static const uint32_t counts[] = {1, 2, 4, 8};
    enum pack_way way = towards_root ? PACK_UP : PACK_DOWN;
    struct pack pack;
    weft_check(root < overlay->n_ranks);
    *out = (struct mesh_packing){.n_ranks = overlay->n_ranks};
    pack_init(&pack, overlay);
    struct branching b = {
        .pack = &pack,
        .root = pack.vertex_of[root],
        .arcs = weft_calloc(overlay->n_lanes + 1, sizeof(struct mesh_arc)),
        .lanes = weft_calloc(overlay->n_lanes + 1, sizeof(void *)),
        .side = weft_calloc((size_t)pack.n + 1, sizeof(bool)),
        .is_in = weft_calloc((size_t)pack.n + 1, sizeof(bool)),
        .reached = weft_calloc((size_t)pack.n + 1, sizeof(uint32_t)),
    };
    list_arcs(&b, towards_root);
    if (pack.n == 1) {
        uint32_t alone = PACK_NONE;
        pack_add_tree(&pack, &alone, out);
        pack_share_trees(out);
    } else if (pack.n <= EXACT_VERTICES && b.n_arcs <= EXACT_ARCS) {
        pack_exactly(&b, way, out);
    }
    for (size_t i = 0; i < WEFT_LENGTH(counts); i++) {
        struct mesh_packing other = {.n_ranks = overlay->n_ranks};
        if (pack.n > 1 && (out->n_trees == 0 || overlay->is_shared)) {
            pack_greedily(&pack, counts[i], b.root, way, &other);
            pack_keep_better(out, &other);
        }
    }
    hang_under(&pack, root, out);
    free(b.arcs);
    free(b.lanes);
    free(b.side);
    free(b.is_in);
    free(b.reached);
    pack_fini(&pack);
}

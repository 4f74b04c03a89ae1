/* Replaces rings and trees of hosts by rings and trees of ranks, channel by channel. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "coll/inside.h"

struct weaving {
    const struct coll_inside *insides;
    uint32_t n_insides;
    const struct mesh_overlay *overlay;
    bool is_tree;
    uint32_t n_channels;
    /* Owned [n_ranks]. `order` lists ranks host by host, hosts by their first rank, each in
     * the order of the current channel. `begin` and `end` delimit the host of each rank in it. */
    uint32_t *order, *begin, *end;
};

static uint32_t n_orders(const struct weaving *weaving, const struct coll_inside *inside)
{
    return weaving->is_tree ? inside->n_trees : inside->n_rings;
}

/* Returns the number of channels: as many as each host of several ranks has and as fit into
 * the packing. */
static uint32_t count_channels(const struct weaving *weaving, uint32_t n_packed)
{
    uint32_t n = MESH_PACKING_MAX / (n_packed == 0 ? 1 : n_packed);
    bool any = false;

    for (uint32_t i = 0; i < weaving->n_insides; i++) {
        const struct coll_inside *inside = &weaving->insides[i];

        if (inside->n > 1 && n_orders(weaving, inside) > 0) {
            n = n_orders(weaving, inside) < n ? n_orders(weaving, inside) : n;
            any = true;
        }
    }
    return any && n > 0 ? n : 1;
}

static void weaving_init(struct weaving *weaving, const struct coll_inside *insides,
                         uint32_t n_insides, const struct mesh_overlay *overlay,
                         bool is_tree, uint32_t n_packed)
{
    size_t n = (size_t)overlay->n_ranks + 1;
    uint32_t at = 0;

    *weaving = (struct weaving){.insides = insides,
                                .n_insides = n_insides,
                                .overlay = overlay,
                                .is_tree = is_tree,
                                .order = weft_calloc(n, sizeof(uint32_t)),
                                .begin = weft_calloc(n, sizeof(uint32_t)),
                                .end = weft_calloc(n, sizeof(uint32_t))};
    weaving->n_channels = count_channels(weaving, n_packed);
    for (uint32_t r = 0; r < overlay->n_ranks; r++) {
        uint32_t begin = at;

        for (uint32_t k = r; k < overlay->n_ranks; k++) {
            if (overlay->hosts[k] == overlay->hosts[r] && weaving->end[k] == 0) {
                weaving->begin[k] = begin;
                weaving->order[at++] = k;
            }
        }
        for (uint32_t k = begin; k < at; k++) {
            weaving->end[weaving->order[k]] = at;
        }
    }
}

static void weaving_fini(struct weaving *weaving)
{
    free(weaving->order);
    free(weaving->begin);
    free(weaving->end);
}

static void turn(uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n / 2; i++) {
        uint32_t rank = order[i];

        order[i] = order[n - 1 - i];
        order[n - 1 - i] = rank;
    }
}

/* Puts the hosts' ranks into the order of a channel. Hosts without a known order keep that of
 * their ranks. Where rings come in opposite pairs, every second one also passes hosts
 * backwards, because links within hosts carry both directions at once. */
static void set_channel(struct weaving *weaving, uint32_t channel, bool is_backwards)
{
    for (uint32_t i = 0; i < weaving->n_insides; i++) {
        const struct coll_inside *inside = &weaving->insides[i];
        uint32_t n = n_orders(weaving, inside);
        const uint32_t *orders = weaving->is_tree ? inside->trees : inside->rings;

        if (inside->n > 1 && n > 0) {
            memcpy(&weaving->order[weaving->begin[inside->ranks[0]]],
                   &orders[(size_t)(channel % n) * inside->n],
                   inside->n * sizeof(*orders));
        }
        if (inside->n > 1 && n > 0 && is_backwards) {
            turn(&weaving->order[weaving->begin[inside->ranks[0]]], inside->n);
        }
    }
}

static uint32_t share_of(uint32_t share, uint32_t channel, uint32_t n)
{
    return (uint32_t)((uint64_t)share * (channel + 1) / n -
                      (uint64_t)share * channel / n);
}

static uint32_t first_of(const struct weaving *weaving, uint32_t rank)
{
    return weaving->order[weaving->begin[rank]];
}

/* ---- rings ---- */

/* Returns a rank of the host that follows the host of `rank` on the ring of hosts. */
static uint32_t next_host(const struct weaving *weaving,
                          const struct mesh_packed_ring *ring, uint32_t rank)
{
    const uint32_t *hosts = weaving->overlay->hosts;
    uint32_t at = rank;

    for (uint32_t i = 0; i < weaving->overlay->n_ranks; i++) {
        at = ring->next[at];
        if (hosts[at] != hosts[rank]) {
            return at;
        }
    }
    return rank;
}

static void weave_ring(const struct weaving *weaving, const struct mesh_packed_ring *from,
                       struct mesh_packed_ring *out)
{
    uint32_t n = weaving->overlay->n_ranks;

    out->next = weft_calloc((size_t)n + 1, sizeof(*out->next));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = weaving->order[i];
        bool is_last = i + 1 == weaving->end[rank];

        out->next[rank] = is_last ? first_of(weaving, next_host(weaving, from, rank))
                                  : weaving->order[i + 1];
    }
}

void coll_inside_rings(const struct coll_inside *insides, uint32_t n_insides,
                       const struct mesh_overlay *overlay, struct mesh_packing *packing)
{
    struct mesh_packing woven = *packing;
    struct weaving weaving;

    weaving_init(&weaving, insides, n_insides, overlay, false, packing->n_rings);
    woven.n_rings = 0;
    for (uint32_t i = 0; i < packing->n_rings; i++) {
        const struct mesh_packed_ring *from = &packing->rings[i];

        for (uint32_t c = 0; c < weaving.n_channels; c++) {
            struct mesh_packed_ring *ring = &woven.rings[woven.n_rings++];

            *ring = *from;
            ring->share = share_of(from->share, c, weaving.n_channels);
            ring->channel = c;
            set_channel(&weaving, c, i % 2 == 1);
            weave_ring(&weaving, from, ring);
        }
        free(from->next);
    }
    *packing = woven;
    weaving_fini(&weaving);
}

/* ---- trees ---- */

struct edges {
    uint32_t *parent; /* [n]: of the tree being made */
    uint32_t *n_hung; /* [n]: hosts below a rank's host, by the first rank of it */
};

/* Returns the rank of the host of `above` from which one more host hangs. NCCL's balanced
 * trees alternate between the first two. */
static uint32_t hook_of(const struct weaving *weaving, struct edges *edges,
                        uint32_t above)
{
    uint32_t begin = weaving->begin[above], n = weaving->end[above] - begin;
    uint32_t turn = edges->n_hung[weaving->order[begin]]++;

    return weaving->order[begin + (n > 1 ? turn % 2 : 0)];
}

/* Sets parent[] along the chain of each host, and from the first rank of a chain to the host
 * above. Returns the root. */
static uint32_t weave_tree(const struct weaving *weaving,
                           const struct mesh_packed_tree *from, struct edges *edges)
{
    const uint32_t *hosts = weaving->overlay->hosts;
    uint32_t n = weaving->overlay->n_ranks, root = 0;

    memset(edges->n_hung, 0, n * sizeof(*edges->n_hung));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = weaving->order[i];

        if (i > weaving->begin[rank]) {
            edges->parent[rank] = weaving->order[i - 1];
        }
    }
    for (uint32_t r = 0; r < n; r++) { /* only first ranks have parents in other hosts */
        uint32_t above = from->parent[r];

        if (above == MESH_NO_PARENT) {
            root = first_of(weaving, r);
            edges->parent[root] = MESH_NO_PARENT;
        } else if (hosts[above] != hosts[r]) {
            edges->parent[first_of(weaving, r)] = hook_of(weaving, edges, above);
        }
    }
    return root;
}

/* Reverses the edges on the path from `root` to the old root. */
static void hang_from(uint32_t *parent, uint32_t root)
{
    uint32_t below = MESH_NO_PARENT;

    for (uint32_t at = root; at != MESH_NO_PARENT;) {
        uint32_t above = parent[at];

        parent[at] = below;
        below = at;
        at = above;
    }
}

static uint32_t tree_depth(const uint32_t *parent, uint32_t n)
{
    uint32_t deepest = 0;

    for (uint32_t r = 0; r < n; r++) {
        uint32_t depth = mesh_tree_depth(parent, r);

        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

void coll_inside_trees(const struct coll_inside *insides, uint32_t n_insides,
                       const struct mesh_overlay *overlay, uint32_t root,
                       struct mesh_packing *packing)
{
    struct mesh_packing woven = *packing;
    uint32_t n = overlay->n_ranks;
    struct edges edges = {.n_hung = weft_calloc((size_t)n + 1, sizeof(uint32_t))};
    struct weaving weaving;

    weaving_init(&weaving, insides, n_insides, overlay, true, packing->n_trees);
    woven.n_trees = 0;
    for (uint32_t i = 0; i < packing->n_trees; i++) {
        const struct mesh_packed_tree *from = &packing->trees[i];

        for (uint32_t c = 0; c < weaving.n_channels; c++) {
            struct mesh_packed_tree *tree = &woven.trees[woven.n_trees++];

            *tree = *from;
            tree->share = share_of(from->share, c, weaving.n_channels);
            tree->channel = c;
            tree->parent = weft_calloc((size_t)n + 1, sizeof(*tree->parent));
            edges.parent = tree->parent;
            set_channel(&weaving, c, i % 2 == 1);
            tree->root = weave_tree(&weaving, from, &edges);
            if (root != UINT32_MAX) {
                tree->root = root;
                hang_from(tree->parent, root);
            }
            tree->depth = tree_depth(tree->parent, n);
        }
        free(from->parent);
    }
    *packing = woven;
    free(edges.n_hung);
    weaving_fini(&weaving);
}

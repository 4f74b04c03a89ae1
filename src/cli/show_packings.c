/* weft show: prints the rings and trees that fill the mesh. */
#include <stdlib.h>

#include "cli/show_view.h"
#include "mesh/packing.h"

static double percent(uint32_t share)
{
    return share * 100.0 / 65536;
}

static json_t *show_ring_of(const struct view *view, const struct mesh_packed_ring *ring,
                            struct weft_text *out)
{
    uint32_t n = view->scenario->n_ranks;
    bool is_small = n <= SHOW_RANKS_MAX;
    json_t *order = json_array();
    uint32_t rank = 0;
    for (uint32_t i = 0; i < n; i++) {
        json_array_append_new(order, json_integer(rank));
        if (is_small) {
            weft_text_add(out, "%s%u", i > 0 ? " → " : "  ", rank);
        }
        rank = ring->next[rank];
    }
    if (is_small) {
        weft_text_add(out, "  %.1f %%", percent(ring->share));
        if (ring->n_missing > 0) {
            weft_text_add(out, "  (%u pairs share no cable)", ring->n_missing);
        }
        weft_text_add(out, "\n");
    }
    return json_pack("{s:o, s:f, s:i, s:i}", "order", order, "share",
                     ring->share / 65536.0, "channel", (int)ring->channel,
                     "neighbours_without_cable", (int)ring->n_missing);
}

/* Appends the subtree of a rank, such as "0(1 2(3))". For small trees only. */
static void print_below(const struct mesh_packed_tree *tree, uint32_t n, uint32_t rank,
                        struct weft_text *out)
{
    uint32_t n_children = 0;
    weft_text_add(out, "%u", rank);
    for (uint32_t r = 0; r < n; r++) {
        if (tree->parent[r] == rank) {
            weft_text_add(out, n_children++ == 0 ? "(" : " ");
            print_below(tree, n, r, out);
        }
    }
    weft_text_add(out, n_children > 0 ? ")" : "");
}

static json_t *show_tree(const struct view *view, const struct mesh_packed_tree *tree,
                         struct weft_text *out)
{
    uint32_t n = view->scenario->n_ranks;
    json_t *parents = json_array();
    for (uint32_t r = 0; r < n; r++) {
        json_array_append_new(parents, tree->parent[r] == MESH_NO_PARENT
                                           ? json_null()
                                           : json_integer(tree->parent[r]));
    }
    if (n <= SHOW_RANKS_MAX) {
        weft_text_add(out, "  ");
        print_below(tree, n, tree->root, out);
        weft_text_add(out, "  %.1f %%\n", percent(tree->share));
    }
    return json_pack("{s:i, s:i, s:f, s:i, s:o}", "root", (int)tree->root, "depth",
                     (int)tree->depth, "share", tree->share / 65536.0, "channel",
                     (int)tree->channel, "parents", parents);
}

static bool show_rings(const struct view *view, const struct mesh_overlay *overlay,
                       json_t *document, struct weft_text *out, uint32_t *out_best)
{
    uint32_t n = view->scenario->n_ranks;
    struct mesh_packing packing;
    json_t *rings = json_array();
    mesh_pack_rings(overlay, &packing);
    if (run_insides_any(&view->insides)) {
        coll_inside_rings(view->insides.hosts, view->insides.n, overlay, &packing);
    }
    if (n <= SHOW_RANKS_MAX && packing.n_rings > 0) {
        weft_text_add(out, "\nrings\n");
    } else if (packing.n_rings > 0) {
        weft_text_add(out, "\n%u rings through all ranks", packing.n_rings);
        if (packing.rings[0].n_missing > 0) {
            weft_text_add(out, ", %u neighbours share no cable",
                          packing.rings[0].n_missing);
        }
        weft_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < packing.n_rings; i++) {
        json_array_append_new(rings, show_ring_of(view, &packing.rings[i], out));
    }
    json_object_set_new(document, "rings", rings);
    bool has_best = packing.n_rings > 0 && packing.rings[0].n_missing == 0;
    for (uint32_t i = 0, rank = 0; has_best && i < n; i++) {
        out_best[i] = rank;
        rank = packing.rings[0].next[rank];
    }
    mesh_packing_fini(&packing);
    return has_best;
}

bool show_packings(const struct view *view, json_t *document, struct weft_text *out,
                   uint32_t *out_best)
{
    struct mesh_overlay overlay;
    struct mesh_packing packing;
    json_t *trees = json_array();
    mesh_overlay_make(&view->graph, view->hosts, view->scenario->n_ranks, &overlay);
    bool has_best = show_rings(view, &overlay, document, out, out_best);
    mesh_pack_trees(&overlay, &packing);
    if (run_insides_any(&view->insides)) {
        coll_inside_trees(view->insides.hosts, view->insides.n, &overlay, UINT32_MAX,
                          &packing);
    }
    if (view->scenario->n_ranks <= SHOW_RANKS_MAX && packing.n_trees > 0) {
        weft_text_add(out, "\ntrees for all_reduce\n");
    } else if (packing.n_trees > 0) {
        weft_text_add(out, "%u trees for all_reduce, the first %u hops deep\n",
                      packing.n_trees, packing.trees[0].depth);
    }
    for (uint32_t i = 0; i < packing.n_trees; i++) {
        json_array_append_new(trees, show_tree(view, &packing.trees[i], out));
    }
    json_object_set_new(document, "trees", trees);
    mesh_packing_fini(&packing);
    mesh_overlay_fini(&overlay);
    return has_best;
}

/* Makes a mesh for plans: packs rings and trees into it and computes their loads. */
#include <stdlib.h>

#include "base/check.h"
#include "coll/shapes.h"

/* Computes the loads of all patterns once everything is packed. */
static void find_shapes(struct coll_mesh *mesh)
{
    if (mesh->n_ranks < 2) {
        return;
    }
    for (int all = 0; all < 2; all++) {
        mesh->ring[all] = coll_shape_rings(mesh, all == 1);
        mesh->tree[all] =
            coll_shape_trees(mesh, &mesh->trees, all == 1, COLL_UP | COLL_DOWN);
        mesh->scatter[all] = coll_shape_blocks(mesh, all == 1, true);
        mesh->gather[all] = coll_shape_blocks(mesh, all == 1, false);
    }
    if (mesh->rings.n_rings > 0) {
        mesh->path = coll_shape_path(mesh);
    }
    mesh->pairs = coll_shape_pairs(mesh, false);
    mesh->forward = coll_shape_forward(mesh);
    mesh->next = coll_shape_pairs(mesh, true);
    mesh->circulant = coll_shape_circulant(mesh);
    mesh->butterfly = coll_shape_butterfly(mesh);
    for (uint32_t i = 0; i < mesh->n_rooted; i++) {
        struct coll_rooted *rooted = &mesh->rooted[i];

        for (int all = 0; all < 2; all++) {
            rooted->broadcasts[all] =
                coll_shape_trees(mesh, &rooted->out, all == 1, COLL_DOWN);
            rooted->reduces[all] = coll_shape_trees(mesh, &rooted->in, all == 1, COLL_UP);
        }
        if (mesh->rings.n_rings > 0) {
            rooted->chain_out = coll_shape_chain(mesh, rooted->root, true);
            rooted->chain_in = coll_shape_chain(mesh, rooted->root, false);
        }
    }
}

static void take_over(struct mesh_overlay *overlay, struct mesh_packing *rings,
                      struct mesh_packing *trees, struct coll_mesh *out)
{
    *out = (struct coll_mesh){.n_ranks = overlay->n_ranks,
                              .n_channels = 1,
                              .overlay = *overlay,
                              .rings = *rings,
                              .trees = *trees};
    *overlay = (struct mesh_overlay){0};
    *rings = (struct mesh_packing){0};
    *trees = (struct mesh_packing){0};
}

static void add_root(struct coll_mesh *mesh, uint32_t root)
{
    struct coll_rooted *rooted;

    if (coll_mesh_rooted(mesh, root) != NULL) {
        return;
    }
    rooted = &mesh->rooted[mesh->n_rooted++];
    *rooted = (struct coll_rooted){.root = root};
    mesh_pack_arborescences(&mesh->overlay, root, false, &rooted->out);
    mesh_pack_arborescences(&mesh->overlay, root, true, &rooted->in);
}

static void see_trees(struct coll_mesh *mesh, const struct mesh_packing *packing)
{
    for (uint32_t i = 0; i < packing->n_trees; i++) {
        uint32_t n = packing->trees[i].channel + 1;

        mesh->n_channels = n > mesh->n_channels ? n : mesh->n_channels;
    }
}

static void count_channels(struct coll_mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->rings.n_rings; i++) {
        uint32_t n = mesh->rings.rings[i].channel + 1;

        mesh->n_channels = n > mesh->n_channels ? n : mesh->n_channels;
    }
    see_trees(mesh, &mesh->trees);
    for (uint32_t i = 0; i < mesh->n_rooted; i++) {
        see_trees(mesh, &mesh->rooted[i].out);
        see_trees(mesh, &mesh->rooted[i].in);
    }
}

/* Extends rings and trees through the hosts, along the channels found inside them. */
static void weave(struct coll_mesh *mesh, const struct coll_inside *insides,
                  uint32_t n_insides)
{
    const struct mesh_overlay *overlay = &mesh->overlay;

    coll_inside_rings(insides, n_insides, overlay, &mesh->rings);
    coll_inside_trees(insides, n_insides, overlay, UINT32_MAX, &mesh->trees);
    for (uint32_t i = 0; i < mesh->n_rooted; i++) {
        struct coll_rooted *rooted = &mesh->rooted[i];

        coll_inside_trees(insides, n_insides, overlay, rooted->root, &rooted->out);
        coll_inside_trees(insides, n_insides, overlay, rooted->root, &rooted->in);
    }
    coll_inside_furnish(insides, n_insides, &mesh->overlay);
    count_channels(mesh);
}

void coll_mesh_make(struct mesh_overlay *overlay, const uint32_t *roots, uint32_t n_roots,
                    const struct coll_inside *insides, uint32_t n_insides,
                    struct coll_mesh *out)
{
    struct mesh_packing rings = {0}, trees = {0};
    bool has_insides = false;

    if (overlay->n_ranks > 1) {
        mesh_pack_rings(overlay, &rings);
        mesh_pack_trees(overlay, &trees);
    }
    take_over(overlay, &rings, &trees, out);
    out->rooted = weft_calloc((size_t)n_roots + 1, sizeof(*out->rooted));
    for (uint32_t i = 0; i < n_roots && out->n_ranks > 1; i++) {
        add_root(out, roots[i]);
    }
    for (uint32_t i = 0; i < n_insides; i++) {
        has_insides = has_insides || insides[i].n > 1;
    }
    if (has_insides && out->n_ranks > 1) {
        weave(out, insides, n_insides);
    }
    find_shapes(out);
}

void coll_mesh_fini(struct coll_mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->n_rooted; i++) {
        mesh_packing_fini(&mesh->rooted[i].out);
        mesh_packing_fini(&mesh->rooted[i].in);
    }
    free(mesh->rooted);
    mesh_packing_fini(&mesh->rings);
    mesh_packing_fini(&mesh->trees);
    mesh_overlay_fini(&mesh->overlay);
    *mesh = (struct coll_mesh){0};
}

const struct coll_rooted *coll_mesh_rooted(const struct coll_mesh *mesh, uint32_t root)
{
    for (uint32_t i = 0; i < mesh->n_rooted; i++) {
        if (mesh->rooted[i].root == root) {
            return &mesh->rooted[i];
        }
    }
    return NULL;
}

/* A mesh as plans know it: rings and trees packed into it, and what they cost. */
#include <stdlib.h>

#include "base/check.h"
#include "coll/shapes.h"

void coll_mesh_of_packings(struct mesh_overlay *overlay, struct mesh_packing *rings,
                           struct mesh_packing *trees, struct coll_mesh *out)
{
    *out = (struct coll_mesh){.n_ranks = overlay->n_ranks,
                              .overlay = *overlay,
                              .rings = *rings,
                              .trees = *trees};
    *overlay = (struct mesh_overlay){0};
    *rings = (struct mesh_packing){0};
    *trees = (struct mesh_packing){0};
    if (out->n_ranks < 2) {
        return;
    }
    for (int all = 0; all < 2; all++) {
        out->ring[all] = coll_shape_rings(out, all == 1);
        out->tree[all] =
            coll_shape_trees(out, &out->trees, all == 1, COLL_UP | COLL_DOWN);
        out->scatter[all] = coll_shape_blocks(out, all == 1, true);
        out->gather[all] = coll_shape_blocks(out, all == 1, false);
    }
    if (out->rings.n_rings > 0) {
        out->path = coll_shape_path(out);
    }
    out->pairs = coll_shape_pairs(out, false);
    out->next = coll_shape_pairs(out, true);
    out->circulant = coll_shape_circulant(out);
    out->butterfly = coll_shape_butterfly(out);
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
    for (int all = 0; all < 2; all++) {
        rooted->broadcasts[all] =
            coll_shape_trees(mesh, &rooted->out, all == 1, COLL_DOWN);
        rooted->reduces[all] = coll_shape_trees(mesh, &rooted->in, all == 1, COLL_UP);
    }
    if (mesh->rings.n_rings > 0) {
        rooted->chain_out = coll_shape_chain(mesh, root, true);
        rooted->chain_in = coll_shape_chain(mesh, root, false);
    }
}

void coll_mesh_make(struct mesh_overlay *overlay, const uint32_t *roots, uint32_t n_roots,
                    struct coll_mesh *out)
{
    struct mesh_packing rings = {0}, trees = {0};

    if (overlay->n_ranks > 1) {
        mesh_pack_rings(overlay, &rings);
        mesh_pack_trees(overlay, &trees);
    }
    coll_mesh_of_packings(overlay, &rings, &trees, out);
    out->rooted = weft_calloc((size_t)n_roots + 1, sizeof(*out->rooted));
    for (uint32_t i = 0; i < n_roots && out->n_ranks > 1; i++) {
        add_root(out, roots[i]);
    }
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

/* Loads that message patterns put on the mesh's lanes. Private to coll/. */
#ifndef WEFT_COLL_SHAPES_H
#define WEFT_COLL_SHAPES_H

#include "coll/cost.h"

enum { COLL_UP = 1, COLL_DOWN = 2 };

/* Rings of the packing: all by their shares, or the first one only. */
struct coll_shape coll_shape_rings(const struct coll_mesh *mesh, bool all);
/* All data along trees: towards their roots, away from them, or both. */
struct coll_shape coll_shape_trees(const struct coll_mesh *mesh,
                                   const struct mesh_packing *packing, bool all,
                                   int directions);
/* A block for each rank, up (or down) the tree rooted at it. */
struct coll_shape coll_shape_blocks(const struct coll_mesh *mesh, bool all, bool is_up);
/* The first ring as a path, in both directions. */
struct coll_shape coll_shape_path(const struct coll_mesh *mesh);
/* Along the first ring from the root, or to it. */
struct coll_shape coll_shape_chain(const struct coll_mesh *mesh, uint32_t root,
                                   bool is_out);
/* From every rank to every other, or from each rank to the next. */
struct coll_shape coll_shape_pairs(const struct coll_mesh *mesh, bool only_next);
/* From every rank to every other, from neighbour to neighbour. `mesh` has the shape of pairs. */
struct coll_shape coll_shape_forward(const struct coll_mesh *mesh);
struct coll_shape coll_shape_circulant(const struct coll_mesh *mesh);
struct coll_shape coll_shape_butterfly(const struct coll_mesh *mesh);

#endif

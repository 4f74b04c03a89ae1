/* Which edges leave a node: what searches walk along. Private to mesh/. */
#ifndef WEFT_MESH_INDEX_H
#define WEFT_MESH_INDEX_H

#include "mesh/mesh.h"

struct mesh_index {
    const struct mesh_graph *graph; /* Not owned; outlives this */
    uint32_t n_nodes;
    size_t *first; /* Owned [n_nodes + 1] */
    size_t *out; /* Owned [n_edges]: the edges that leave node v, in order of their index:
                    * out[first[v]] .. out[first[v + 1] - 1] */
    uint32_t *queue; /* Owned: room for a search */
};

void mesh_index_init(struct mesh_index *index, const struct mesh_graph *graph);
void mesh_index_fini(struct mesh_index *index);
/* mesh_distances over an index: O(edges). */
void mesh_index_distances(const struct mesh_index *index, uint32_t from, uint32_t *out);

#endif

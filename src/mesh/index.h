/* Index of the edges that leave each node, for graph searches. Private to mesh/. */
#ifndef WEFT_MESH_INDEX_H
#define WEFT_MESH_INDEX_H

#include "mesh/mesh.h"

struct mesh_index {
    const struct mesh_graph *graph; /* Not owned; outlives this */
    uint32_t n_nodes;
    size_t *first; /* Owned [n_nodes + 1] */
    /* Owned [n_edges]: edges that leave node v, by index: out[first[v]] .. out[first[v + 1] -
     * 1] */
    size_t *out;
    uint32_t *queue; /* Owned [n_nodes]: scratch for searches */
};

void mesh_index_init(struct mesh_index *index, const struct mesh_graph *graph);
void mesh_index_fini(struct mesh_index *index);
/* Does the same as mesh_distances with an index, in O(edges). */
void mesh_index_distances(const struct mesh_index *index, uint32_t from, uint32_t *out);

#endif

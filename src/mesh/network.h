/* Capacities of a mesh in payload bit/s: edges, and PCIe roots that several edges share.
 * Private to mesh/. */
#ifndef WEFT_MESH_NETWORK_H
#define WEFT_MESH_NETWORK_H

#include "mesh/flow.h"
#include "mesh/mesh.h"

/* A flow network. Its vertices are the graph's nodes, then every root outwards, then every
 * root inwards. */
struct mesh_network {
    const struct mesh_graph *graph; /* Not owned */
    uint32_t n_nodes, n_vertices;
    uint64_t *edge_bps;    /* Owned [n_edges] */
    uint64_t *root_bps;    /* Owned [n_roots] */
    struct mesh_arc *arcs; /* Owned [n_arcs] */
    size_t n_arcs;
    bool *side;        /* Owned [n_vertices] */
    uint64_t *sums[2]; /* Owned [n_roots]: scratch, outwards and inwards */
    bool *is_full[2];  /* Owned [n_roots] */
};

void mesh_network_init(struct mesh_network *network, const struct mesh_graph *graph);
void mesh_network_fini(struct mesh_network *network);
/* Returns the capacity from the nodes of `is_a` [n_nodes] to the others. Exact if no edge has
 * a root at both ends, otherwise possibly a little too large. */
uint64_t mesh_network_cut(struct mesh_network *network, const bool *is_a);
/* Finds the least cut between two nodes and marks the nodes on the side of `source` in
 * out_is_a [n_nodes]. */
void mesh_network_least_cut(struct mesh_network *network, uint32_t source, uint32_t sink,
                            bool *out_is_a);
/* Returns the total rate at which all hosts can receive, or send if that is less. */
uint64_t mesh_network_hosts(struct mesh_network *network);

#endif

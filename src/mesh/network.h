/* What a mesh can carry, in bits of payload a second: edges, and PCIe roots that several of
 * them share. Private to mesh/. */
#ifndef WEFT_MESH_NETWORK_H
#define WEFT_MESH_NETWORK_H

#include "mesh/flow.h"
#include "mesh/mesh.h"

/* Vertices of the flow network: the graph's nodes, then every root outwards, then every
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
/* What can cross from the nodes of `is_a` [n_nodes] to the others: exactly where no edge
 * has a root at both ends, else possibly a little more. */
uint64_t mesh_network_cut(struct mesh_network *network, const bool *is_a);
/* The least cut that parts two nodes; marks its side of `source` in out_is_a [n_nodes]. */
void mesh_network_least_cut(struct mesh_network *network, uint32_t source, uint32_t sink,
                            bool *out_is_a);
/* What all hosts together can take in, or give out if that is less. */
uint64_t mesh_network_hosts(struct mesh_network *network);

#endif

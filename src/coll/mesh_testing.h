/* Meshes for tests of plans: cables between ranks of one host each. */
#ifndef WEFT_COLL_MESH_TESTING_H
#define WEFT_COLL_MESH_TESTING_H

#include "coll/cost.h"

struct coll_cable {
    uint32_t a, b; /* ranks */
};
/* Hosts 0 .. n_ranks - 1 and their cables; given back with mesh_graph_fini. */
void coll_graph_of_cables(uint32_t n_ranks, const struct coll_cable *cables,
                          uint32_t n_cables, uint64_t rate_bps, weft_ps delay_ps,
                          struct mesh_graph *out);
void coll_mesh_of_cables(uint32_t n_ranks, const struct coll_cable *cables,
                         uint32_t n_cables, uint64_t rate_bps, weft_ps delay_ps,
                         struct coll_mesh *out);
/* A cable between every two. */
void coll_mesh_full(uint32_t n_ranks, uint64_t rate_bps, weft_ps delay_ps,
                    struct coll_mesh *out);
/* Rank i to rank i + 1, the last to the first. */
void coll_mesh_ring(uint32_t n_ranks, uint64_t rate_bps, weft_ps delay_ps,
                    struct coll_mesh *out);

#endif

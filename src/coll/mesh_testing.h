/* Meshes for tests of plans: one rank per host, joined by cables. */
#ifndef WEFT_COLL_MESH_TESTING_H
#define WEFT_COLL_MESH_TESTING_H

#include "coll/cost.h"

struct coll_cable {
    uint32_t a, b; /* ranks */
};
/* Makes a graph of hosts 0 .. n_ranks - 1 and their cables. The caller frees it with
 * mesh_graph_fini. */
void coll_graph_of_cables(uint32_t n_ranks, const struct coll_cable *cables,
                          uint32_t n_cables, uint64_t rate_bps, weft_ps delay_ps,
                          struct mesh_graph *out);
void coll_mesh_of_cables(uint32_t n_ranks, const struct coll_cable *cables,
                         uint32_t n_cables, uint64_t rate_bps, weft_ps delay_ps,
                         struct coll_mesh *out);
/* Makes a mesh with a cable between every two ranks. */
void coll_mesh_full(uint32_t n_ranks, uint64_t rate_bps, weft_ps delay_ps,
                    struct coll_mesh *out);
/* Makes a mesh with a cable from rank i to rank i + 1, and from the last to the first. */
void coll_mesh_ring(uint32_t n_ranks, uint64_t rate_bps, weft_ps delay_ps,
                    struct coll_mesh *out);

#endif

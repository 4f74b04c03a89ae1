/* The mesh as ranks see it: who reaches whom without passing another rank's host, and how
 * fast. Rings and trees are laid over this. */
#ifndef WEFT_MESH_OVERLAY_H
#define WEFT_MESH_OVERLAY_H

#include "mesh/mesh.h"

/* One direction between two ranks. */
struct mesh_lane {
    uint32_t from, to; /* ranks */
    uint64_t
        rate_bps; /* of all parallel cables together; UINT64_MAX: one host's memory */
    weft_ps delay_ps;
    uint32_t
        n_hops; /* 0: on one host; 1: a cable; more: relayed by hosts without a rank */
};

struct mesh_overlay {
    uint32_t n_ranks;
    struct mesh_lane *lanes; /* Owned [n_lanes], sorted by (from, to); both directions */
    size_t n_lanes;
    uint32_t
        *first; /* Owned [n_ranks + 1]: lanes of rank r are first[r] .. first[r+1]-1 */
    uint32_t *hosts;   /* Owned [n_ranks] */
    uint32_t path_mtu; /* the least of all cables, in bytes of payload; 0: none */
    bool is_ipv6;      /* some cable is */
};

/* Ranks of one host hang together by lanes of its memory, all to the first of them, which
 * alone has lanes to other hosts' first ranks. Rates count PCIe roots and switch ports. */
void mesh_overlay_make(const struct mesh_graph *graph, const uint32_t *rank_hosts,
                       uint32_t n_ranks, struct mesh_overlay *out);
void mesh_overlay_fini(struct mesh_overlay *overlay);
/* The lane between two ranks, or NULL. */
const struct mesh_lane *mesh_overlay_lane(const struct mesh_overlay *overlay,
                                          uint32_t from, uint32_t to);

#endif

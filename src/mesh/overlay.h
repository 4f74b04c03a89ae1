/* The mesh as ranks see it: who reaches whom without passing another rank's host, and how
 * fast. Rings and trees are laid over this. */
#ifndef WEFT_MESH_OVERLAY_H
#define WEFT_MESH_OVERLAY_H

#include "mesh/mesh.h"

#define MESH_MEMORY_BPS UINT64_MAX /* the rate of lanes within a host */
#define MESH_WHOLE (1u << 24)      /* all of a lane's data, in parts */

/* One direction between two ranks. */
struct mesh_lane {
    uint32_t from, to; /* ranks */
    /* Of all parallel cables together; MESH_MEMORY_BPS within a host. What this lane gets
     * when no other is busy: lanes may share things, see mesh_use. */
    uint64_t rate_bps;
    weft_ps delay_ps; /* by its quickest cable; of a relayed one the sum */
    /* 0: on one host; 1: a cable or a switch; more: relayed by hosts without a rank */
    uint32_t n_hops;
    uint32_t first_use, n_uses; /* into overlay.uses */
    /* Within a host whose inside is known: the rate at which a slice gets through both its copies,
     * one after the other, and the rank that makes one within its GPU's memory, or UINT32_MAX;
     * that of a long message, which needs one copy and no copier, or 0: it is as short ones. */
    uint64_t slice_bps, direct_bps;
    uint32_t copier;
};

/* Of a lane's data `part`/MESH_WHOLE passes `resource`. Parallel cables divide it by rate. */
struct mesh_use {
    uint32_t resource;
    uint32_t part;
};

struct mesh_overlay {
    uint32_t n_ranks;
    struct mesh_lane *lanes; /* Owned [n_lanes], sorted by (from, to); both directions */
    size_t n_lanes;
    uint32_t *first;   /* Owned [n_ranks + 1]: rank r's lanes: first[r] .. first[r+1]-1 */
    uint32_t *hosts;   /* Owned [n_ranks] */
    uint32_t path_mtu; /* the least of all cables, in bytes of payload; 0: none */
    bool is_ipv6;      /* some cable is */
    /* What lanes pass and may share: every edge of the graph (a switch's port is its
     * edge), then every PCIe root outwards, then every one inwards. In bit/s. */
    uint64_t *resource_bps;             /* Owned [n_resources] */
    uint32_t n_resources, first_inside; /* from there on: links inside hosts */
    struct mesh_use *uses;              /* Owned [n_uses] */
    size_t n_uses;
    bool is_shared; /* some resource is passed by several lanes */
};

/* Ranks of one host hang together by lanes of its memory, all to the first of them, which
 * alone has lanes to other hosts' first ranks. Between two hosts there is a lane where
 * they share a cable or a switch (all that they share, added up); else where a way leads
 * over hosts without a rank alone: the shortest, among equals the one over the least
 * nodes. The same graph gives the same overlay everywhere. */
void mesh_overlay_make(const struct mesh_graph *graph, const uint32_t *rank_hosts,
                       uint32_t n_ranks, struct mesh_overlay *out);
void mesh_overlay_fini(struct mesh_overlay *overlay);
/* The lane between two ranks, or NULL. */
const struct mesh_lane *mesh_overlay_lane(const struct mesh_overlay *overlay,
                                          uint32_t from, uint32_t to);

#endif

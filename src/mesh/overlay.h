/* The mesh as seen by ranks: which ranks reach each other without passing another rank's host,
 * and at what rate. Rings and trees are laid over it. */
#ifndef WEFT_MESH_OVERLAY_H
#define WEFT_MESH_OVERLAY_H

#include "mesh/mesh.h"

#define MESH_MEMORY_BPS UINT64_MAX /* the rate of lanes within a host */
#define MESH_WHOLE (1u << 24)      /* all of a lane's data */

/* One direction between two ranks. */
struct mesh_lane {
    uint32_t from, to; /* ranks */
    /* Rate of all parallel cables together if no other lane is busy; lanes can share
     * resources, see mesh_use. MESH_MEMORY_BPS within a host. */
    uint64_t rate_bps;
    weft_ps delay_ps; /* of the quickest cable; of a relayed lane the sum over its hops */
    /* 0 within a host; 1 by a cable or a switch; more if hosts without a rank relay */
    uint32_t n_hops;
    uint32_t first_use, n_uses; /* into overlay.uses */
    /* Only within a host whose inside is known. slice_bps: rate of a slice through both of its
     * copies, which follow each other. direct_bps: rate of a long message, which takes one
     * copy and no copier; 0 if long messages are sent like short ones. copier: rank whose GPU
     * makes one copy within its own memory, or UINT32_MAX. */
    uint64_t slice_bps, direct_bps;
    uint32_t copier;
};

/* `part`/MESH_WHOLE of a lane's data passes `resource`. Parallel cables divide it by rate. */
struct mesh_use {
    uint32_t resource;
    uint32_t part;
};

struct mesh_overlay {
    uint32_t n_ranks;
    struct mesh_lane *lanes; /* Owned [n_lanes], sorted by (from, to); both directions */
    size_t n_lanes;
    /* Owned [n_ranks + 1]: lanes of rank r are first[r] .. first[r + 1] - 1 */
    uint32_t *first;
    uint32_t *hosts; /* Owned [n_ranks] */
    /* least of all cables, in bytes of payload; 0 if there are no cables, or one is too small */
    uint32_t path_mtu;
    bool is_ipv6; /* some cable uses IPv6 */
    /* Rates in bit/s of what lanes pass and can share: every edge of the graph (the port of a
     * switch is its edge), then every PCIe root outwards, then every root inwards, then links
     * inside hosts. Owned [n_resources]. */
    uint64_t *resource_bps;
    /* first_inside: index of the first link inside a host */
    uint32_t n_resources, first_inside;
    struct mesh_use *uses; /* Owned [n_uses] */
    size_t n_uses;
    bool is_shared; /* some resource is used by several lanes */
};

/* Makes the overlay of ranks on `rank_hosts` [n_ranks]. Memory lanes join the first rank of a
 * host to each of its other ranks; only first ranks have lanes to other hosts. Two hosts are
 * joined by one lane if they share cables or switches (the sum of all that they share),
 * otherwise if hosts without a rank can relay between them: by the shortest route, among
 * equals the first that a breadth-first search over the edges in their order finds. The same
 * graph gives the same overlay on every process. The caller frees it with mesh_overlay_fini. */
void mesh_overlay_make(const struct mesh_graph *graph, const uint32_t *rank_hosts,
                       uint32_t n_ranks, struct mesh_overlay *out);
void mesh_overlay_fini(struct mesh_overlay *overlay);
/* Returns the lane between two ranks, or NULL. */
const struct mesh_lane *mesh_overlay_lane(const struct mesh_overlay *overlay,
                                          uint32_t from, uint32_t to);

#endif

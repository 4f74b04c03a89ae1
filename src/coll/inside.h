/* The inside of a host with several ranks, as plans see it: the transport between each two of
 * its ranks, the links that their copies use, and the rings and trees that NCCL's search
 * finds. */
#ifndef WEFT_COLL_INSIDE_H
#define WEFT_COLL_INSIDE_H

#include "io/world.h"
#include "mesh/packing.h"
#include "transport/transport.h"

struct coll_inside_hop {
    enum weft_transport kind;
    bool reads; /* P2P: the receiver reads; otherwise the sender writes */
    /* P2P: messages of at least TRANSPORT_DIRECT_BYTES are copied without steps */
    bool is_direct;
};

struct coll_inside {
    uint32_t n;                   /* ranks on the host */
    uint32_t *ranks;              /* Owned [n]: by process */
    struct coll_inside_hop *hops; /* Owned [n * n]: from i to k at i * n + k */
    /* Owned: storage of `ways`. */
    uint64_t *bytes_per_us;
    uint32_t *first, *links;
    struct world_ways ways; /* links between the host's ranks; n_links is 0 if unknown */
    /* Owned: the same links, for bounds. Node i is the GPU of ranks[i], the others are
     * switches. Without edges if unknown. */
    struct mesh_graph graph;
    /* Ranks of this host in the order of each channel, from the first, where data enters, to
     * the last, where it leaves: Owned [n_rings][n] and [n_trees][n]. Trees hang from the
     * first. */
    uint32_t *rings, *trees;
    uint32_t n_rings, n_trees;
};
void coll_inside_fini(struct coll_inside *inside);

/* Adds lanes between all ranks of each of these hosts to the overlay, and their links as
 * resources. Call after packing, because packings are made of the network alone. */
void coll_inside_furnish(const struct coll_inside *insides, uint32_t n_insides,
                         struct mesh_overlay *overlay);
/* Replace every ring (tree) of hosts by one per channel, through the ranks of each host in the
 * channel's order. Trees are rooted at `root`, or at the host that they were rooted at if it
 * is UINT32_MAX. */
void coll_inside_rings(const struct coll_inside *insides, uint32_t n_insides,
                       const struct mesh_overlay *overlay, struct mesh_packing *packing);
void coll_inside_trees(const struct coll_inside *insides, uint32_t n_insides,
                       const struct mesh_overlay *overlay, uint32_t root,
                       struct mesh_packing *packing);

#endif

/* The inside of a host of several ranks, as plans know it: which transport joins two of its
 * ranks, over which links their copies go, and the rings and trees that NCCL's search finds. */
#ifndef WEFT_COLL_INSIDE_H
#define WEFT_COLL_INSIDE_H

#include "io/world.h"
#include "mesh/packing.h"
#include "transport/transport.h"

struct coll_inside_hop {
    enum transport_kind kind;
    bool reads;     /* p2p: the receiver reads, instead of the sender writing */
    bool is_direct; /* p2p: messages of TRANSPORT_DIRECT_BYTES and more without steps */
};

struct coll_inside {
    uint32_t n;                   /* ranks of the host */
    uint32_t *ranks;              /* Owned [n]: by process */
    struct coll_inside_hop *hops; /* Owned [n n]: from i to k at i * n + k */
    /* Owned: what `ways` is of. */
    uint64_t *bytes_per_us;
    uint32_t *first, *links;
    struct world_ways ways; /* n_links 0: nobody knows */
    /* Owned: the same links, for bounds; node i is the GPU of ranks[i], the others are switches. No
     * edges: nobody knows. */
    struct mesh_graph graph;
    /* Ranks of this host in the order of a channel, entering at the first, leaving at the last:
     * Owned [n_rings][n]; trees hang from the first. */
    uint32_t *rings, *trees;
    uint32_t n_rings, n_trees;
};
void coll_inside_fini(struct coll_inside *inside);

/* Puts lanes between all ranks of these hosts into the overlay, with links as resources. Call
 * after everything was packed: packings are of the network alone. */
void coll_inside_furnish(const struct coll_inside *insides, uint32_t n_insides,
                         struct mesh_overlay *overlay);
/* Makes of every ring, or tree, of hosts one for each channel, through the ranks of each host in
 * the channel's order. `root`: the rank that trees hang from, or UINT32_MAX: as they did. */
void coll_inside_rings(const struct coll_inside *insides, uint32_t n_insides,
                       const struct mesh_overlay *overlay, struct mesh_packing *packing);
void coll_inside_trees(const struct coll_inside *insides, uint32_t n_insides,
                       const struct mesh_overlay *overlay, uint32_t root,
                       struct mesh_packing *packing);

#endif

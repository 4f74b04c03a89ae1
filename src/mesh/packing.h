/* Rings and trees packed into an overlay, so that together they fill its cables. Pure; the
 * same overlay gives the same packing everywhere. */
#ifndef WEFT_MESH_PACKING_H
#define WEFT_MESH_PACKING_H

#include "mesh/overlay.h"

#define MESH_PACKING_MAX 32
#define MESH_NO_PARENT UINT32_MAX

/* Directed rings through all ranks: next[r] follows r. Rings come in opposite pairs where
 * cables are full duplex. Ranks of one host follow each other. Neighbouring hosts are
 * joined by lanes of the overlay where it has a ring of them; else the ring goes over
 * pairs that need relays, and n_missing counts those. */
struct mesh_packed_ring {
    uint32_t *next;   /* Owned [n_ranks] */
    uint32_t share;   /* of the data, in 1/65536; all shares of a packing make 65536 */
    uint32_t channel; /* inside hosts; as packed, 0 */
    uint32_t n_missing;
};
/* Spanning trees: parent[r], MESH_NO_PARENT at the root. */
struct mesh_packed_tree {
    uint32_t *parent; /* Owned [n_ranks] */
    uint32_t root;
    uint32_t depth; /* hops of the deepest rank */
    uint32_t share;
    uint32_t channel;
};

struct mesh_packing {
    uint32_t n_ranks;
    struct mesh_packed_ring rings[MESH_PACKING_MAX];
    uint32_t n_rings;
    struct mesh_packed_tree trees[MESH_PACKING_MAX];
    uint32_t n_trees;
    /* What the packing costs, for the cost model: of a job of 65536 parts, at most this
     * many parts x 2^20 / (rate in Mb/s) pass the busiest resource of the overlay (a
     * direction of a cable, of a PCIe root), rounded up. A part of a ring passes every
     * lane of it once; of a tree for all_reduce, every lane once in each direction; of one
     * for broadcast or reduce, once in its own. Within a host nothing counts. */
    uint64_t load;
};

/* Rings for all_reduce, reduce_scatter, all_gather: disjoint but for direction where the
 * overlay allows, shares by their slowest lanes. Exact search up to 12 hosts, heuristic
 * beyond (in a torus or a ring of any size they are still found). At least one ring if
 * n_ranks > 1. */
void mesh_pack_rings(const struct mesh_overlay *overlay, struct mesh_packing *out);
/* Trees for all_reduce: every tree is used towards its root and back, so each takes both
 * directions of its edges. Shares approach the fractional packing of spanning trees
 * (Nash-Williams, Tutte): within 5 % of it up to 16 hosts with cables of their own, where
 * so few trees can; beyond as near as a greedy choice comes. Roots are the trees' centres.
 * None if the ranks do not hang together. */
void mesh_pack_trees(const struct mesh_overlay *overlay, struct mesh_packing *out);
/* Trees out of one root (broadcast; reduce uses them backwards, over the opposite
 * directions): shares approach the least cut (Edmonds). None if the root does not reach
 * everyone. */
void mesh_pack_arborescences(const struct mesh_overlay *overlay, uint32_t root,
                             bool towards_root, struct mesh_packing *out);
void mesh_packing_fini(struct mesh_packing *packing);

#endif

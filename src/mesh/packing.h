/* Rings and trees packed into an overlay so that together they fill its cables. Pure
 * functions; the same overlay gives the same packing on every process. */
#ifndef WEFT_MESH_PACKING_H
#define WEFT_MESH_PACKING_H

#include "mesh/overlay.h"

#define MESH_PACKING_MAX 32
#define MESH_NO_PARENT UINT32_MAX

/* A directed ring through all ranks: next[r] follows r. Where cables are full duplex, rings
 * come in opposite pairs. Ranks of one host follow each other. Neighbouring hosts are joined
 * by lanes of the overlay if it has such a ring; otherwise some pairs need relays, and
 * n_missing counts these. */
struct mesh_packed_ring {
    uint32_t *next; /* Owned [n_ranks] */
    /* of the data, in 1/65536; the shares of a packing add up to 65536 */
    uint32_t share;
    uint32_t channel; /* channel inside hosts; 0 as packed */
    uint32_t n_missing;
};
/* A spanning tree: parent[r], MESH_NO_PARENT at the root. */
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
    /* Load of the busiest resource of the overlay (a direction of a cable or of a PCIe root),
     * for the cost model: parts of a job of 65536 x 2^20 / (rate in Mbit/s), rounded up. A
     * part of a ring passes every lane of it once. A part of a tree passes every lane once in
     * each direction for all_reduce, and once in one direction for broadcast or reduce. Lanes
     * within a host do not count. */
    uint64_t load;
};

/* Packs rings for all_reduce, reduce_scatter and all_gather: disjoint, except for direction,
 * if the overlay permits; shares by their slowest lanes. Searches exactly up to 12 hosts,
 * heuristically with more (which still finds them in rings and tori of any size). Gives at
 * least one ring if n_ranks > 1. */
void mesh_pack_rings(const struct mesh_overlay *overlay, struct mesh_packing *out);
/* Packs trees for all_reduce. Each is used towards its root and back, so it takes both
 * directions of its edges. Shares approach the fractional packing of spanning trees
 * (Nash-Williams, Tutte): within 5 % up to 16 hosts whose cables share nothing, if
 * MESH_PACKING_MAX trees can do that; beyond, as near as a greedy choice gets. Roots are the
 * trees' centres. Gives none if the ranks are not connected. */
void mesh_pack_trees(const struct mesh_overlay *overlay, struct mesh_packing *out);
/* Packs trees out of one root for broadcast, or with `towards_root` for reduce, which uses the
 * opposite directions. Shares approach the least cut (Edmonds). Gives none if the root does
 * not reach every rank. */
void mesh_pack_arborescences(const struct mesh_overlay *overlay, uint32_t root,
                             bool towards_root, struct mesh_packing *out);
void mesh_packing_fini(struct mesh_packing *packing);
/* Returns the number of edges from `rank` to the root of its tree. */
uint32_t mesh_tree_depth(const uint32_t *parent, uint32_t rank);

#endif

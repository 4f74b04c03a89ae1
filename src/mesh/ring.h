/* The order of ranks around a ring: neighbours share a cable where the mesh allows it. */
#ifndef WEFT_MESH_RING_H
#define WEFT_MESH_RING_H

#include "mesh/mesh.h"

/* Above this many ranks the order is found greedily, and may miss a ring that exists. */
#define MESH_RING_EXACT_RANKS 12

struct mesh_ring {
    uint32_t n_missing; /* neighbours (the wrap included) that share no cable */
    uint64_t hops;      /* sum of distances around the ring; UINT64_MAX: not connected */
};

/* What the order `ranks` (hosts, [n]) costs as it stands. n >= 1. */
struct mesh_ring mesh_ring_of(const struct mesh_graph *graph, const uint32_t *ranks,
                              uint32_t n);

/* Writes to `out_order` [n] a permutation of 0..n-1 (indices into `ranks`), beginning
 * with 0, with the fewest hops around the ring; among equals the given order if it is one
 * of them, else the lexicographically least. Exact up to MESH_RING_EXACT_RANKS, greedy
 * beyond (then never worse than the given order). Returns what the order costs: if that
 * is less than mesh_ring_of(ranks), a finding can say so and give the order. */
struct mesh_ring mesh_ring_order(const struct mesh_graph *graph, const uint32_t *ranks,
                                 uint32_t n, uint32_t *out_order);

#endif

/* Finds an order of ranks around a ring in which neighbours share a cable if possible. */
#ifndef WEFT_MESH_RING_H
#define WEFT_MESH_RING_H

#include "mesh/mesh.h"

/* With more ranks than this the order is found greedily and can miss a ring that exists. */
#define MESH_RING_EXACT_RANKS 12

struct mesh_ring {
    /* neighbours (the last and the first included) that share no cable */
    uint32_t n_missing;
    /* sum of distances around the ring; UINT64_MAX if not connected */
    uint64_t hops;
};

/* Returns the cost of `ranks` (hosts, [n]) in the given order. n >= 1. */
struct mesh_ring mesh_ring_of(const struct mesh_graph *graph, const uint32_t *ranks,
                              uint32_t n);

/* Writes to `out_order` [n] a permutation of 0..n-1 (indices into `ranks`), beginning with 0,
 * with the fewest missing cables and among these the fewest hops. Keeps the given order if
 * none is better, otherwise chooses the lexicographically least. Exact up to
 * MESH_RING_EXACT_RANKS; greedy beyond, but never worse than the given order. Returns the cost
 * of the order; if it is less than mesh_ring_of(ranks), a finding can report it and give the
 * order. */
struct mesh_ring mesh_ring_order(const struct mesh_graph *graph, const uint32_t *ranks,
                                 uint32_t n, uint32_t *out_order);

#endif

/* Ways through the mesh: for every pair of hosts the routes that its data takes, chosen
 * once, by everyone alike, from the mesh alone. Pure. */
#ifndef WEFT_MESH_ROUTES_H
#define WEFT_MESH_ROUTES_H

#include "mesh/mesh.h"

#define MESH_ROUTES_MAX 4 /* edge-disjoint routes of one pair */

/* One way from a host to another. No hops between: direct, over every rail that both share
 * (cables, or one switch). */
struct mesh_route {
    uint32_t *via; /* hosts between, in order; owned by the routes [n_via] */
    uint32_t n_via;
    uint64_t rate_bps; /* the least of its hops; parallel rails of a hop add up */
    weft_ps delay_ps;  /* the sum of its hops', each by its quickest rail */
    /* Share of the pair's data, in 1/65536; those of a pair add up to 65536. */
    uint32_t share;
};

struct mesh_pair {
    uint32_t from, to; /* hosts */
    struct mesh_route routes[MESH_ROUTES_MAX];
    uint32_t n_routes; /* 0: nothing leads there */
};

struct mesh_routes {
    struct mesh_pair *pairs; /* Owned [n_pairs], as asked for */
    size_t n_pairs;
};

/* Routes for the pairs [n_pairs] of `pairs` (from and to filled in; from != to), all at
 * once, so that they spread over the cables: direct where a cable (or switch) is shared,
 * else relayed over the fewest hops. Where several ways are as short, the pairs are laid so
 * that the busiest directed cable is least busy if every pair moved the same amount; a pair
 * is divided over several of them, edge-disjoint, where that still makes it faster.
 * `may_relay` [n_hosts] (NULL: all may): hosts that forward. The same inputs give the same
 * routes everywhere. Takes over nothing; the result is given back with mesh_routes_fini. */
void mesh_routes_make(const struct mesh_graph *graph, const bool *may_relay,
                      const struct mesh_pair *pairs, size_t n_pairs,
                      struct mesh_routes *out);
void mesh_routes_fini(struct mesh_routes *routes);

#endif

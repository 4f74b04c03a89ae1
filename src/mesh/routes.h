/* Routes through the mesh for every pair of hosts, computed from the mesh alone, so that every
 * process chooses the same. Pure functions. */
#ifndef WEFT_MESH_ROUTES_H
#define WEFT_MESH_ROUTES_H

#include "mesh/mesh.h"

#define MESH_ROUTES_MAX 4 /* edge-disjoint routes of one pair */

/* A route from one host to another. n_via is 0 if it is direct, over every rail that both
 * share (cables, or one switch). */
struct mesh_route {
    uint32_t *via; /* intermediate hosts, in order; owned by the routes [n_via] */
    uint32_t n_via;
    uint64_t rate_bps; /* least of its hops; parallel rails of a hop add up */
    weft_ps delay_ps;  /* sum of its hops', each by its quickest rail */
    /* Share of the pair's data, in 1/65536; the shares of a pair add up to 65536. */
    uint32_t share;
};

struct mesh_pair {
    uint32_t from, to; /* hosts */
    struct mesh_route routes[MESH_ROUTES_MAX];
    uint32_t n_routes; /* 0 if no route exists */
};

struct mesh_routes {
    struct mesh_pair *pairs; /* Owned [n_pairs], in the order of the argument */
    size_t n_pairs;
};

/* Computes routes for all `pairs` [n_pairs] (from and to set; from != to) at once, so that
 * they spread over the cables: direct if the hosts share a cable or switch, otherwise relayed
 * over the fewest hops. Among shortest routes, chooses those that make the busiest directed
 * cable least busy if every pair moved the same amount; divides a pair over several
 * edge-disjoint ones if that makes it faster. `may_relay` [n_hosts] marks the hosts that may
 * forward (NULL: all). The same inputs give the same routes on every process. Takes ownership
 * of nothing; the caller frees `out` with mesh_routes_fini. */
void mesh_routes_make(const struct mesh_graph *graph, const bool *may_relay,
                      const struct mesh_pair *pairs, size_t n_pairs,
                      struct mesh_routes *out);
void mesh_routes_fini(struct mesh_routes *routes);

#endif

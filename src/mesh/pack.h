/* What the packers share: the overlay's hosts as vertices. Private to mesh/. */
#ifndef WEFT_MESH_PACK_H
#define WEFT_MESH_PACK_H

#include "mesh/packing.h"

#define PACK_WHOLE 65536u /* parts of a job */
#define PACK_NONE UINT32_MAX

/* Two vertices with lanes in both directions. */
struct pack_edge {
    uint32_t a, b;     /* a < b */
    uint64_t rate_bps; /* the lesser of both directions */
};

struct pack {
    const struct mesh_overlay *overlay; /* Not owned */
    uint32_t n;                         /* vertices: hosts with ranks */
    uint32_t *heads;                    /* Owned [n]: the first rank of each */
    uint32_t *vertex_of;                /* Owned [n_ranks] */
    struct pack_edge *edges;            /* Owned [n_edges], by (a, b) */
    uint32_t n_edges;
    uint32_t *first;    /* Owned [n + 1] */
    uint32_t *incident; /* Owned: edges of vertex v: incident[first[v]] .. */
};

void pack_init(struct pack *pack, const struct mesh_overlay *overlay);
void pack_fini(struct pack *pack);
/* The other end of `edge`. */
uint32_t pack_other(const struct pack_edge *edge, uint32_t vertex);
/* Whether edges of at least `rate_bps` join all vertices. */
bool pack_is_connected(const struct pack *pack, uint64_t rate_bps);
/* The greatest rate whose edges join all vertices; 0: none does. */
uint64_t pack_bottleneck(const struct pack *pack);

/* Adds a directed ring given as vertices in order [n], and one given as parents of
 * vertices (PACK_NONE at the root). Shares are the caller's to settle. */
void pack_add_ring(const struct pack *pack, const uint32_t *order,
                   struct mesh_packing *out);
void pack_add_tree(const struct pack *pack, const uint32_t *parents,
                   struct mesh_packing *out);
/* Takes back all rings and trees. */
void pack_clear(struct mesh_packing *out);
/* Shares by weight; they add up to PACK_WHOLE. */
void pack_share_rings(struct mesh_packing *out, const uint64_t *weights);
void pack_share_trees(struct mesh_packing *out);
/* How a tree's lanes are used. */
enum pack_way { PACK_BOTH, PACK_DOWN, PACK_UP };
/* Works out `load`. */
void pack_load(const struct mesh_overlay *overlay, enum pack_way way,
               struct mesh_packing *out);
/* Keeps in `best` whichever is cheaper, `best` on ties, and empties `other`. A packing
 * with neither rings nor trees is worth nothing. */
void pack_keep_better(struct mesh_packing *best, struct mesh_packing *other);

/* k disjoint cycles through all vertices over edges of at least `rate_bps`, as vertex
 * orders: out[i * n ..]; n >= 3. _exact tries everything, within a budget, up to 12
 * vertices; _divide takes meshes where every vertex has 2k such edges; _find any. Only
 * _exact's false means that there are none, and only if its budget lasted. */
bool pack_cycles_exact(const struct pack *pack, uint64_t rate_bps, uint32_t k,
                       uint32_t *out);
bool pack_cycles_divide(const struct pack *pack, uint64_t rate_bps, uint32_t k,
                        uint32_t *out);
bool pack_cycles_find(const struct pack *pack, uint64_t rate_bps, uint32_t k,
                      uint32_t *out);
/* A ring that passes over other vertices where it must. */
void pack_long_way(const struct pack *pack, uint32_t *out);

/* k spanning trees that use edge e at most copies[e] times (0 <= copies), as parents
 * [k * n], rooted at their centres; false if there are none or the search costs more than
 * `budget` steps. */
bool pack_union(const struct pack *pack, const uint32_t *copies, uint32_t k,
                uint64_t budget, uint32_t *out);
/* Roots a tree given as edges at its centre. */
void pack_centre(const struct pack *pack, const uint32_t *tree_edges, uint32_t *parents);
/* Adds `k` trees, one after another, each grown over what is least busy; from `root`, or
 * from wherever is best (PACK_NONE). */
void pack_greedily(const struct pack *pack, uint32_t k, uint32_t root, enum pack_way way,
                   struct mesh_packing *out);

#endif

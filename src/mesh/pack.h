/* Shared by the packers: the overlay's hosts as vertices. Private to mesh/. */
#ifndef WEFT_MESH_PACK_H
#define WEFT_MESH_PACK_H

#include "mesh/packing.h"

#define PACK_WHOLE 65536u /* a job's data, in parts */
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
/* Returns true if edges of at least `rate_bps` join all vertices. */
bool pack_is_connected(const struct pack *pack, uint64_t rate_bps);
/* Returns the greatest rate such that edges of at least that rate join all vertices; 0 if
 * there is none. */
uint64_t pack_bottleneck(const struct pack *pack);

/* Add a directed ring, given as vertices in order [n], or a tree, given as the parent of each
 * vertex (PACK_NONE at the root). The caller sets the shares. */
void pack_add_ring(const struct pack *pack, const uint32_t *order,
                   struct mesh_packing *out);
void pack_add_tree(const struct pack *pack, const uint32_t *parents,
                   struct mesh_packing *out);
/* Removes all rings and trees. */
void pack_clear(struct mesh_packing *out);
/* Set shares, of rings by weight and of trees equal; they add up to PACK_WHOLE. */
void pack_share_rings(struct mesh_packing *out, const uint64_t *weights);
void pack_share_trees(struct mesh_packing *out);
/* The directions in which the lanes of a tree are used. */
enum pack_way { PACK_BOTH, PACK_DOWN, PACK_UP };
/* Computes `load`. */
void pack_load(const struct mesh_overlay *overlay, enum pack_way way,
               struct mesh_packing *out);
/* Keeps in `best` the packing with the lesser load (`best` on ties) and empties `other`. A
 * packing without rings and trees loses against any other. */
void pack_keep_better(struct mesh_packing *best, struct mesh_packing *other);

/* Find k disjoint cycles through all vertices over edges of at least `rate_bps`, as vertex
 * orders: out[i * n ..]; n >= 3. _exact tries all combinations within a budget, for up to 12
 * vertices. _divide requires that every vertex has exactly 2k such edges. _find is a heuristic
 * for any mesh. Only a false result of _exact, and only within its budget, means that there
 * are none. */
bool pack_cycles_exact(const struct pack *pack, uint64_t rate_bps, uint32_t k,
                       uint32_t *out);
bool pack_cycles_divide(const struct pack *pack, uint64_t rate_bps, uint32_t k,
                        uint32_t *out);
bool pack_cycles_find(const struct pack *pack, uint64_t rate_bps, uint32_t k,
                      uint32_t *out);
/* Finds a ring that passes through other vertices where no lane joins two neighbours. */
void pack_long_way(const struct pack *pack, uint32_t *out);

/* Finds k spanning trees that use edge e at most copies[e] times, as parents [k * n] rooted at
 * the trees' centres. Returns false if there are none or the search takes more than `budget`
 * steps. */
bool pack_union(const struct pack *pack, const uint32_t *copies, uint32_t k,
                uint64_t budget, uint32_t *out);
/* Roots a tree, given as its n - 1 edges, at its centre. */
void pack_centre(const struct pack *pack, const uint32_t *tree_edges, uint32_t *parents);
/* Adds `k` trees, one after another, each grown along the lanes whose resources are least
 * busy. All are rooted at `root`; with PACK_NONE the roots are spread over the vertices.
 * Clears `out` if a tree cannot reach all vertices. */
void pack_greedily(const struct pack *pack, uint32_t k, uint32_t root, enum pack_way way,
                   struct mesh_packing *out);

#endif

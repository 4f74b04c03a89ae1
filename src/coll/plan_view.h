/* Views: one rank's place in the trees of flows, made of rings, packed trees, stars or binomial
 * trees. Internal to coll/. */
#ifndef WEFT_COLL_PLAN_VIEW_H
#define WEFT_COLL_PLAN_VIEW_H

#include "coll/cost.h"

struct coll_child {
    uint32_t rank, depth;
};
struct coll_view {
    uint32_t parent;             /* COLL_NO_STEP at the root */
    struct coll_child *children; /* Not owned; room of the caller [n_children] */
    uint32_t n_children;
    uint32_t depth, deepest; /* hops from the root: of this rank, of the deepest rank */
};

/* A ring as positions. */
struct coll_ring {
    uint32_t n;
    uint32_t *order, *position; /* Owned [n]; order[position[r]] == r */
};
void coll_ring_make(const struct mesh_packed_ring *ring, uint32_t n,
                    struct coll_ring *out);
void coll_ring_fini(struct coll_ring *ring);

/* A tree as seen from one rank; it can be rooted anywhere. */
struct coll_hanging {
    uint32_t rank, n;
    uint32_t *neighbours; /* Owned [n_neighbours] */
    uint32_t n_neighbours;
    uint32_t *toward;       /* Owned [n]: neighbour on the path to that rank */
    uint32_t *distance;     /* Owned [n] */
    uint32_t *eccentricity; /* Owned [n]: depth of the tree if rooted at that rank */
};
void coll_hanging_make(const uint32_t *parent, uint32_t n, uint32_t rank,
                       struct coll_hanging *out);
void coll_hanging_fini(struct coll_hanging *hanging);

/* Make views of `rank`; `room` [n] holds the children. */
void coll_view_hanging(const struct coll_hanging *hanging, uint32_t root,
                       struct coll_child *room, struct coll_view *out);
/* The path along the ring that ends at `root`, and the one that begins there. */
void coll_view_ring_in(const struct coll_ring *ring, uint32_t rank, uint32_t root,
                       struct coll_child *room, struct coll_view *out);
void coll_view_ring_out(const struct coll_ring *ring, uint32_t rank, uint32_t root,
                        struct coll_child *room, struct coll_view *out);
void coll_view_star(uint32_t n, uint32_t rank, uint32_t root, struct coll_child *room,
                    struct coll_view *out);
/* The binomial tree in which the parent of rank root + x is root + x without the highest bit
 * of x. */
void coll_view_binomial(uint32_t n, uint32_t rank, uint32_t root, struct coll_child *room,
                        struct coll_view *out);

/* Writes the path of a packing's first ring as a tree's parents [n]; the root is its middle. */
void coll_path_parents(const struct mesh_packed_ring *ring, uint32_t n, uint32_t *parent,
                       uint32_t *out_root);

#endif

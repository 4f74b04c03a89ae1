/* Shared by the code that makes plans. */
#ifndef WEFT_COLL_PLAN_PRIVATE_H
#define WEFT_COLL_PLAN_PRIVATE_H

#include "coll/cost.h"

/* Limits of a slice's size: long enough that headers, immediates and clear-to-sends do not
 * matter, short enough that reductions hide behind transfers. */
#define COLL_SLICE_BYTES_MIN (8u * 1024)
#define COLL_SLICE_BYTES_MAX (512u * 1024)

/* ---- draft: steps in any order, each with its place in time ----
 *
 * Every message has a key that both ends compute alike: (time, flow, phase, slice). Steps
 * are listed in the order of keys, so that both ends list the messages between them in one
 * order; and what a step waits for has a lesser key, so that listing order is an order in
 * which everything can happen, with any window: no plan can wait for ever. */

struct coll_key {
    uint64_t time;  /* slices from the beginning */
    uint32_t flow;  /* number of the flow in the plan, the same on every rank */
    uint32_t phase; /* 0 towards a root, 1 away from it */
};

struct coll_draft {
    struct coll_plan *plan;
    const struct coll_job *job;
    const struct coll_mesh *mesh;
    uint64_t slice_bytes;
    struct coll_drafted *steps; /* Owned [n_steps] */
    uint32_t n_steps, cap;
    /* number of partials: partial results of one flow and slice, or data to be forwarded */
    uint32_t n_partials;
    uint32_t n_flows;
    uint32_t channel; /* channel of steps added from now on to ranks of the same host */
};

struct coll_drafted {
    struct coll_key key;
    uint32_t index;   /* position in drafting order, which `after` refers to */
    uint32_t partial; /* index of its data in SCRATCH, or COLL_NO_STEP */
    struct coll_step step;
};

/* Appends a step and returns its index for `after`. `partial` is the data in SCRATCH that it uses,
 * or COLL_NO_STEP; its offset in SCRATCH is then relative to the place of that data. The first
 * step that is listed with a partial receives the data, and waits for no other. The last frees its
 * place, so it must end after all the others. */
uint32_t coll_draft_add(struct coll_draft *draft, struct coll_key key,
                        const struct coll_step *step, uint32_t partial);
/* Returns a step that waits for both `joined` and `step`, each of which can be COLL_NO_STEP. */
uint32_t coll_draft_join(struct coll_draft *draft, struct coll_key key, uint32_t joined,
                         uint32_t step, uint32_t partial);
/* Sorts the steps into the plan, assigns places in SCRATCH, and frees the draft's memory. */
void coll_draft_finish(struct coll_draft *draft);
/* Returns the elements of a slice of a range of `count`; never 0. */
uint64_t coll_slice_count(const struct coll_draft *draft, uint64_t count);

/* ---- views: one rank's place in a tree ---- */

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

/* ---- flows: a range that is reduced up a tree, broadcast down a tree, or both ---- */

struct coll_flow {
    uint64_t input_at, output_at, count; /* the range, in elements */
    const struct coll_view *up, *down;   /* NULL if there is no such phase */
    bool keeps_output; /* partial results go to SCRATCH except at the root */
    /* delay of a hop, in slices: a message is listed this far after the one it depends on */
    uint32_t spread;
};
void coll_draft_flow(struct coll_draft *draft, const struct coll_flow *flow);

/* plan_direct.c */
void coll_draft_direct(struct coll_draft *draft);   /* all_reduce: all to all */
void coll_draft_doubling(struct coll_draft *draft); /* all_reduce: butterfly */
void coll_draft_all_to_all(struct coll_draft *draft);
void coll_draft_send_recv(struct coll_draft *draft);
void coll_draft_barrier(struct coll_draft *draft, enum weft_algorithm algorithm);

/* plan_forward.c: all_to_all from neighbour to neighbour */
void coll_draft_forward(struct coll_draft *draft);
/* Returns true if WEFT_ALGORITHM_FORWARD uses the lane: a connection can pass its relays. */
bool coll_forward_uses(const struct mesh_lane *lane);

/* plan_make.c: algorithms along rings and trees, and between all pairs */
void coll_draft_flows(struct coll_draft *draft, enum weft_algorithm algorithm);

/* Writes the path of a packing's first ring as a tree's parents [n]; the root is its middle. */
void coll_path_parents(const struct mesh_packed_ring *ring, uint32_t n, uint32_t *parent,
                       uint32_t *out_root);

#endif

/* Drafts of plans: steps are added in any order and then listed in one in which everything can
 * happen; and the algorithms that add them. Internal to coll/. */
#ifndef WEFT_COLL_PLAN_DRAFT_H
#define WEFT_COLL_PLAN_DRAFT_H

#include "coll/cost.h"
#include "coll/plan_view.h"

/* Limits of a slice's size: long enough that headers, immediates and clear-to-sends do not
 * matter, short enough that reductions hide behind transfers. */
#define COLL_SLICE_BYTES_MIN (8u * 1024)
#define COLL_SLICE_BYTES_MAX (512u * 1024)

/* ---- draft: steps in any order, each with its place in time ----
 *
 * Every message has a key (time, flow, phase, slice) that is the same at both ends. Steps are
 * listed in the order of keys, so that both ends list the messages between them in one order. A
 * step waits only for steps with lesser keys. So all steps can be executed in the order of the
 * list, with any window, and no plan can wait forever. */

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

#endif

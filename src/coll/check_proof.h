/* The state of a proof. Private to plan_check.c and check_result.c. */
#ifndef WEFT_COLL_CHECK_PROOF_H
#define WEFT_COLL_CHECK_PROOF_H

#include "coll/check_strip.h"
#include "coll/coll.h"

/* The steps to or from one peer. */
struct lane {
    uint32_t peer;
    uint32_t *steps; /* Owned [n] */
    uint32_t n, cap, at;
};

/* A message whose reduction still waits. */
struct staged {
    bool is_full;
    uint32_t step;
    struct check_strip values;
};

struct rank_proof {
    const struct coll_plan *plan;
    struct coll_extent extent;
    struct check_strip strips[COLL_N_BUFFERS]; /* in place, both are the output's */
    bool *done;                                /* Owned [n_steps] */
    uint32_t *known;                           /* Owned [n_steps]: barrier: a set */
    struct lane *sends, *receives;             /* Owned [n_sends], [n_receives] */
    uint32_t n_sends, n_receives;
    struct staged *staged; /* Owned [n_receives] */
    struct lane local;
    bool is_queued;
};

struct proof {
    const struct coll_job *job;
    uint32_t n_ranks;
    struct check_sets sets;
    uint32_t *one; /* Owned [n_ranks]: the set of each rank alone */
    uint32_t all;
    struct rank_proof *ranks; /* Owned [n_ranks] */
    uint32_t *queue;          /* Owned [n_ranks]: ranks that something happened to */
    uint32_t n_queued;
    struct weft_error *error;
};

/* What is wrong, with a step of a rank. */
weft_status proof_wrong(struct proof *proof, uint32_t rank, uint32_t index,
                        const char *what);
/* Where a buffer's values are, and *at in there: in place, input and output are one. */
struct check_strip *proof_strip(const struct proof *proof, struct rank_proof *rank,
                                enum coll_buffer buffer, uint64_t *at);
/* Whether the rank has all that the job promises, once nothing moves any more. */
weft_status proof_result(struct proof *proof, struct rank_proof *rank) WEFT_MUST_CHECK;

#endif

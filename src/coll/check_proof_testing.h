/* The state of a proof. Private to plan_check_testing.c and
 * check_result_testing.c. */
#ifndef WEFT_COLL_CHECK_PROOF_TESTING_H
#define WEFT_COLL_CHECK_PROOF_TESTING_H

#include "coll/check_strip_testing.h"
#include "coll/coll.h"

/* The steps to or from one peer, or on this rank, in list order. */
struct lane {
    uint32_t peer;
    uint32_t *steps; /* Owned [n] */
    uint32_t n, cap, at;
};

/* A received message whose reduction has not been executed. */
struct staged {
    bool is_full;
    uint32_t step;
    struct check_strip values;
};

struct rank_proof {
    const struct coll_plan *plan;
    struct coll_extent extent;
    /* if in place, both input and output are in [COLL_OUTPUT] */
    struct check_strip strips[COLL_N_BUFFERS];
    bool *done; /* Owned [n_steps] */
    /* Owned [n_steps]: for a barrier, the set of ranks known after the step */
    uint32_t *known;
    struct lane *sends, *receives; /* Owned [n_sends], [n_receives] */
    uint32_t n_sends, n_receives;
    struct staged *staged; /* Owned [n_receives] */
    struct lane local;
    bool is_queued;
};

struct proof {
    const struct coll_job *job;
    uint32_t n_ranks;
    struct check_sets sets;
    uint32_t *one; /* Owned [n_ranks]: for each rank, the set of it alone */
    uint32_t all;
    struct rank_proof *ranks; /* Owned [n_ranks] */
    /* Owned [n_ranks]: ranks whose steps are to be tried again */
    uint32_t *queue;
    uint32_t n_queued;
    struct weft_error *error;
};

/* Fills the error with `what` is wrong at a step of a rank. Returns WEFT_ERR_PROTOCOL. */
weft_status proof_wrong(struct proof *proof, uint32_t rank, uint32_t index,
                        const char *what);
/* Returns the strip that holds a buffer and adds the buffer's offset in it to *at. If in
 * place, input and output are one strip. */
struct check_strip *proof_strip(const struct proof *proof, struct rank_proof *rank,
                                enum coll_buffer buffer, uint64_t *at);
/* Checks, after no step can proceed any more, that the rank has completed all its steps and
 * has the result of the job. Fails with WEFT_ERR_PROTOCOL otherwise. */
weft_status proof_result(struct proof *proof, struct rank_proof *rank) WEFT_MUST_CHECK;

#endif

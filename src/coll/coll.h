/* Collectives: plans (steps as data), an executor that runs a rank's part of a plan over
 * xfer, and a cost model that chooses. The oracle (coll/oracle.h) shares no code with any
 * of them. */
#ifndef WEFT_COLL_COLL_H
#define WEFT_COLL_COLL_H

#include "base/reduce.h"
#include "base/text.h"
#include "io/gpu.h"
#include "mesh/mesh.h"
#include "xfer/xfer.h"

enum coll_kind {
    COLL_ALL_REDUCE,
    COLL_REDUCE_SCATTER,
    COLL_ALL_GATHER,
    COLL_BROADCAST,
    COLL_REDUCE,
    COLL_ALL_TO_ALL,
    COLL_SEND_RECV,
    COLL_BARRIER
};
enum coll_algorithm { COLL_AUTO, COLL_RING, COLL_RINGS, COLL_DIRECT };
const char *coll_kind_name(enum coll_kind kind); /* "all_reduce" */
const char *coll_algorithm_name(enum coll_algorithm algorithm);

struct coll_job {
    enum coll_kind kind;
    enum coll_algorithm algorithm;
    enum weft_dtype dtype;
    enum weft_redop op;
    uint64_t count; /* elements per rank of the size column */
    uint32_t root;
    bool in_place; /* one buffer; send_recv has no such form */
};

enum coll_step_kind {
    COLL_SEND,        /* source range -> peer */
    COLL_RECV,        /* peer -> destination range, in place */
    COLL_RECV_REDUCE, /* peer -> staging, then destination = operand op staging */
    COLL_COPY,        /* input -> output, on this rank */
    COLL_JOIN         /* nothing: joins more than two steps that another waits for */
};
enum coll_buffer { COLL_INPUT, COLL_OUTPUT };

/* One step of one rank. Steps to the same peer in the same direction happen in list order
 * on both ends; a step starts when the steps it waits for are done. Of a RECV_REDUCE only
 * the reduction waits: its message lands in staging and may come any time. Offsets and
 * lengths are in elements. */
struct coll_step {
    enum coll_step_kind kind;
    uint32_t peer;          /* rank; COPY, JOIN: this one */
    enum coll_buffer from;  /* SEND: what is sent; RECV_REDUCE: the other operand */
    uint64_t offset, count; /* in both buffers; all but SEND write COLL_OUTPUT */
    uint32_t after[2];      /* indices of earlier steps of this rank, or COLL_NO_STEP */
};
#define COLL_NO_STEP UINT32_MAX

struct coll_plan {
    enum coll_algorithm algorithm; /* as chosen; never AUTO */
    uint32_t rank, n_ranks;
    struct coll_step *steps; /* Owned [n_steps] */
    uint32_t n_steps;
    uint64_t slice_count; /* elements of the largest step */
};

/* What the choice may look at: the mesh, never a measurement. */
struct coll_cost_input {
    uint32_t n_ranks;
    uint64_t rate_bps; /* of the slowest cable between ring neighbours */
    weft_ps delay_ps;
    uint32_t path_mtu;
    bool neighbours[2]; /* [0]: every pair of ranks has a cable of its own (taken
                         * as given up to 3 ranks); [1] reserved */
};

/* The modelled time of `size_bytes` of all_reduce, from the mesh alone: first and last
 * message of every step pay the delay, full packets pay their headers. */
weft_ps coll_cost_ps(enum coll_algorithm algorithm, uint64_t size_bytes,
                     const struct coll_cost_input *cost);
/* The cheapest; DIRECT wins ties, then RING. Never AUTO. */
enum coll_algorithm coll_choose(uint64_t size_bytes, const struct coll_cost_input *cost);

/* Makes rank `rank`'s part. The same inputs give the same plan on every rank.
 * WEFT_ERR_UNSUPPORTED: a kind without plans yet; WEFT_ERR_INPUT: send_recv in place.
 * RINGS on two ranks is RING: one cable, and one ring already fills both directions.
 * DIRECT adds in an order of its own on each rank: sums that are not exact may differ in
 * their last bit between ranks; rings give every rank the same bits. */
weft_status coll_plan_make(const struct coll_job *job, uint32_t rank, uint32_t n_ranks,
                           const struct coll_cost_input *cost, struct coll_plan *out,
                           struct weft_error *error) WEFT_MUST_CHECK;
void coll_plan_fini(struct coll_plan *plan);
/* Human-readable steps, one line each. */
void coll_plan_print(const struct coll_plan *plan, struct weft_text *out);
/* Proves that the plans of all ranks ([n_ranks]) together compute `job`: every element
 * reduced exactly once per rank, no step waits for ever. Symbolic: moves no data. */
weft_status coll_plan_check(const struct coll_job *job, const struct coll_plan *plans,
                            struct weft_error *error) WEFT_MUST_CHECK;

/* ---- execution ---- */

/* The directed connections of one rank, by peer; NULL for itself. Not owned. */
struct coll_links {
    uint32_t rank, n_ranks;
    struct xfer **send_to;      /* [n_ranks] */
    struct xfer **receive_from; /* [n_ranks] */
};

struct coll_buffers {
    void *input; /* registered below; equals output when in place */
    void *output;
    size_t input_bytes, output_bytes;
};

struct coll_exec;

/* Keeps staging memory and registrations across jobs. `task` is woken by GPU
 * operations. The owner calls coll_exec_progress whenever `task` or a connection's
 * task was woken, after xfer_progress of that connection: the executor itself polls no
 * completion queue. */
weft_status coll_exec_open(struct io_env *env, const struct coll_links *links,
                           struct io_task *task, struct coll_exec **out,
                           struct weft_error *error) WEFT_MUST_CHECK;
/* Lets go of registrations; call while the connections still exist. What is under way
 * is given up: the memory it uses stays until coll_exec_close. NULL is ignored. */
void coll_exec_stop(struct coll_exec *exec);
/* Stops, and frees. Neither a NIC nor the GPU may still use the executor's memory:
 * everything started has ended, or connections and world are gone. NULL is ignored. */
void coll_exec_close(struct coll_exec *exec);
/* Registers the buffers for the coming jobs (waits are AGAIN from coll_exec_progress).
 * The previous ones are let go. */
weft_status coll_exec_buffers(struct coll_exec *exec, const struct coll_buffers *buffers,
                              struct weft_error *error) WEFT_MUST_CHECK;
/* Starts `plan` `iterations` (1..) times back to back; `plan` outlives the run. In
 * place, every iteration starts from what the one before left. Receives of the next
 * iteration are posted ahead where the plan allows, so that from the second on no one
 * waits for a clear-to-send. */
void coll_exec_start(struct coll_exec *exec, const struct coll_job *job,
                     const struct coll_plan *plan, uint32_t iterations);
/* WEFT_OK: all iterations are done. AGAIN: wait. An error: a connection failed. */
weft_status coll_exec_progress(struct coll_exec *exec,
                               struct weft_error *error) WEFT_MUST_CHECK;
/* When the output of iteration i (from 0) was complete on this rank; valid once done. */
weft_ns coll_exec_finished_ns(const struct coll_exec *exec, uint32_t iteration);

#endif

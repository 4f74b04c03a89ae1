/* Collectives: plans (steps as data), an executor that runs a rank's part of a plan over
 * connectors, and a cost model that chooses plans. The oracle (coll/oracle.h) shares no code
 * with any of these. */
#ifndef WEFT_COLL_COLL_H
#define WEFT_COLL_COLL_H

#include "base/collective.h"
#include "base/reduce.h"
#include "base/text.h"
#include "io/gpu.h"
#include "transport/transport.h"

/* Returns true if `kind` reduces its inputs with the job's `op`. */
static inline bool coll_reduces(enum weft_collective kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
}

struct coll_job {
    enum weft_collective kind;
    enum weft_algorithm algorithm;
    enum weft_dtype dtype;
    enum weft_redop op;
    uint64_t count; /* elements per rank, as in nccl-tests' size column */
    uint32_t root;
    /* input and output share one buffer; not for all_to_all and send_recv */
    bool in_place;
};

/* The buffers of one rank. In reduce_scatter and all_gather each rank has a share of count /
 * n_ranks; a remainder is not touched. In place, both lie in one buffer of the larger size, as
 * in nccl-tests. */
struct coll_extent {
    uint64_t input, output;       /* elements */
    uint64_t input_at, output_at; /* in place: offsets in the one buffer; 0 otherwise */
};
/* Returns the number of elements of a job of `bytes` of the size column: whole elements, and a
 * multiple of n_ranks if the kind gives each rank a share. */
uint64_t coll_whole_count(enum weft_collective kind, enum weft_dtype dtype,
                          uint64_t bytes, uint32_t n_ranks);
struct coll_extent coll_extent_of(const struct coll_job *job, uint32_t rank,
                                  uint32_t n_ranks);

enum coll_step_kind {
    COLL_SEND,        /* source range -> peer */
    COLL_RECV,        /* peer -> destination range */
    COLL_RECV_REDUCE, /* peer -> staging, then destination = source op staging */
    COLL_COPY,        /* source -> destination, on this rank */
    /* no data; joins steps, so that another can wait for more than two */
    COLL_JOIN
};
/* COLL_SCRATCH is memory of the executor, coll_plan.scratch_count elements. */
enum coll_buffer { COLL_INPUT, COLL_OUTPUT, COLL_SCRATCH };
#define COLL_N_BUFFERS 3

/* One step of one rank. Steps to or from the same peer in the same direction happen in list
 * order on both ends. A step starts when the steps it waits for are done; of a RECV_REDUCE
 * only the reduction waits, and its message can arrive in staging at any time. Offsets and
 * lengths are in elements; messages of a barrier have length 0. */
struct coll_step {
    enum coll_step_kind kind;
    uint32_t peer;             /* rank of the peer; this rank for COPY and JOIN */
    uint32_t channel;          /* channel to a rank of the same host; 0 to others */
    enum coll_buffer from, to; /* source of SEND, RECV_REDUCE, COPY; destination of
                                * RECV, RECV_REDUCE, COPY */
    bool divides;              /* RECV_REDUCE: the result is divided by n_ranks (avg) */
    uint64_t from_at, to_at, count;
    uint32_t after[2]; /* indices of earlier steps of this rank, or COLL_NO_STEP */
};
#define COLL_NO_STEP UINT32_MAX

struct coll_plan {
    enum weft_algorithm algorithm; /* the chosen one; never AUTO */
    uint32_t rank, n_ranks;
    struct coll_step *steps; /* Owned [n_steps] */
    uint32_t n_steps;
    uint64_t slice_count;   /* length of the largest step, in elements */
    uint64_t scratch_count; /* size of COLL_SCRATCH, in elements */
};

struct coll_mesh; /* coll/cost.h */

/* Makes the part of rank `rank` over the ranks of `mesh`. The same inputs give the same plan
 * on every rank. All ranks get the same bits, also for inexact sums, except with DIRECT, which
 * adds in a different order on each rank. Fails with WEFT_ERR_INPUT if the kind has no such
 * algorithm or cannot be in place, and with WEFT_ERR_ROUTE if the mesh does not join all
 * ranks. The caller frees `out` with coll_plan_fini. */
weft_status coll_plan_make(const struct coll_job *job, uint32_t rank,
                           const struct coll_mesh *mesh, struct coll_plan *out,
                           struct weft_error *error) WEFT_MUST_CHECK;
void coll_plan_fini(struct coll_plan *plan);
/* Sets bit c in [n_ranks] for each channel c that the plan uses to or from the rank. */
void coll_plan_channels(const struct coll_plan *plan, uint32_t *send_channels,
                        uint32_t *receive_channels);
/* Appends the steps as text, one line each. */
void coll_plan_print(const struct coll_plan *plan, struct weft_text *out);

/* ---- execution ---- */

/* The directed connections of one rank, at peer * n_channels + channel. NULL for the rank
 * itself, and for a channel that a pair does not have, which its channel 0 replaces. Not
 * owned. */
struct coll_links {
    uint32_t rank, n_ranks;
    uint32_t n_channels;                       /* 0 means 1 */
    struct transport_connector **send_to;      /* [n_ranks * n_channels] */
    struct transport_connector **receive_from; /* [n_ranks * n_channels] */
    /* Maximum number of messages in flight to or from one peer, and so of pieces of host
     * memory if they are staged; 0 or more than 8 means 8. */
    uint32_t window;
};

struct coll_buffers {
    void *input; /* equals output if in place: the whole buffer */
    void *output;
    size_t input_bytes, output_bytes;
};

struct coll_exec;

/* Opens an executor, which keeps staging memory and registrations across jobs. GPU operations
 * wake `task`. When `task` or the task of a connection was woken, the owner calls
 * coll_exec_progress after flow_progress of that flow, because the executor itself polls no
 * completion queue. Fails with WEFT_ERR_NOMEM. */
weft_status coll_exec_open(struct io_env *env, const struct coll_links *links,
                           struct io_task *task, struct coll_exec **out,
                           struct weft_error *error) WEFT_MUST_CHECK;
/* Releases registrations; call while the connections still exist. Pending operations are
 * abandoned, and the memory that they use stays until coll_exec_close. NULL is ignored. */
void coll_exec_stop(struct coll_exec *exec);
/* Stops the executor and frees it. Neither a NIC nor the GPU may still use its memory: every
 * operation has ended, or the connections and the world are closed. NULL is ignored. */
void coll_exec_close(struct coll_exec *exec);
/* Sets the buffers of later jobs and releases the registrations of the previous ones.
 * coll_exec_progress registers the new ones. No run may be active. */
weft_status coll_exec_buffers(struct coll_exec *exec, const struct coll_buffers *buffers,
                              struct weft_error *error) WEFT_MUST_CHECK;
/* Starts `plan` for `iterations` (at least 1) runs in succession; `plan` must stay valid until
 * the last ends. In place, every iteration starts from the result of the one before. Receives
 * of the next iteration are posted ahead if the plan permits, so that from the second
 * iteration on no rank waits for a clear-to-send. */
void coll_exec_start(struct coll_exec *exec, const struct coll_job *job,
                     const struct coll_plan *plan, uint32_t iterations);
/* Returns WEFT_OK once all iterations are done, WEFT_AGAIN before that. Fails if a connection,
 * the GPU or a registration failed, and with WEFT_ERR_ROUTE if the plan needs a peer without a
 * connection. */
weft_status coll_exec_progress(struct coll_exec *exec,
                               struct weft_error *error) WEFT_MUST_CHECK;
/* Return true if a message to or from `rank` has been started and has not ended. */
bool coll_exec_sends_to(const struct coll_exec *exec, uint32_t rank);
bool coll_exec_receives_from(const struct coll_exec *exec, uint32_t rank);
/* Returns the time at which the output of iteration i (from 0) was complete on this rank. All
 * iterations must be done. */
weft_ns coll_exec_finished_ns(const struct coll_exec *exec, uint32_t iteration);

#endif

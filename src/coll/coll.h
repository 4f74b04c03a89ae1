/* Collectives: plans (steps as data), an executor that runs a rank's part of a plan over
 * connectors, and a cost model that chooses. The oracle (coll/oracle.h) shares no code with any
 * of them. */
#ifndef WEFT_COLL_COLL_H
#define WEFT_COLL_COLL_H

#include "base/reduce.h"
#include "base/text.h"
#include "io/gpu.h"
#include "transport/transport.h"

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
#define COLL_N_KINDS (COLL_BARRIER + 1)
/* docs/collectives.md derives each. */
enum coll_algorithm {
    COLL_AUTO,
    COLL_RING,     /* one ring */
    COLL_RINGS,    /* all packed rings, by their shares */
    COLL_DIRECT,   /* everyone sends to everyone whatever is needed there, at once */
    COLL_EXCHANGE, /* all_reduce as direct reduce_scatter and all_gather */
    COLL_DOUBLING, /* distances 1, 2, 4 ...; data grows or stays */
    COLL_HALVING,  /* distances 1, 2, 4 ... backwards; data shrinks, then grows again */
    COLL_TREE,     /* one tree, pipelined */
    COLL_TREES,    /* all packed trees, by their shares */
    COLL_CHAIN     /* a path through all ranks, pipelined */
};
#define COLL_N_ALGORITHMS (COLL_CHAIN + 1)
const char *coll_kind_name(enum coll_kind kind); /* "all_reduce" */
const char *coll_algorithm_name(enum coll_algorithm algorithm);
/* Whether `kind` has plans of `algorithm`; AUTO always is one. */
bool coll_has_algorithm(enum coll_kind kind, enum coll_algorithm algorithm);
/* Whether `kind` combines its inputs, and with a job's `op`. */
bool coll_reduces(enum coll_kind kind);

struct coll_job {
    enum coll_kind kind;
    enum coll_algorithm algorithm;
    enum weft_dtype dtype;
    enum weft_redop op;
    uint64_t count; /* elements per rank of the size column */
    uint32_t root;
    bool in_place; /* one buffer; all_to_all and send_recv have no such form */
};

/* Elements of rank `rank`'s buffers. reduce_scatter and all_gather deal count / n_ranks to
 * each rank; a remainder is left alone. In place both lie in one buffer, of which *out_at
 * is where the smaller one of those two begins, as in nccl-tests. */
struct coll_extent {
    uint64_t input, output;       /* elements */
    uint64_t input_at, output_at; /* in place: where they begin in the one buffer */
};
/* Elements that a job of `bytes` of the size column has: whole ones, and a whole share for
 * each rank where the kind deals them out. */
uint64_t coll_whole_count(enum coll_kind kind, enum weft_dtype dtype, uint64_t bytes,
                          uint32_t n_ranks);
struct coll_extent coll_extent_of(const struct coll_job *job, uint32_t rank,
                                  uint32_t n_ranks);

enum coll_step_kind {
    COLL_SEND,        /* source range -> peer */
    COLL_RECV,        /* peer -> destination range */
    COLL_RECV_REDUCE, /* peer -> staging, then destination = source op staging */
    COLL_COPY,        /* source -> destination, on this rank */
    COLL_JOIN         /* nothing: joins more than two steps that another waits for */
};
/* SCRATCH is memory of the executor, coll_plan.scratch_count elements. */
enum coll_buffer { COLL_INPUT, COLL_OUTPUT, COLL_SCRATCH };
#define COLL_N_BUFFERS 3

/* One step of one rank. Steps to the same peer in the same direction happen in list order
 * on both ends; a step starts when the steps it waits for are done. Of a RECV_REDUCE only
 * the reduction waits: its message lands in staging and may come any time. Offsets and
 * lengths are in elements. Messages of a barrier have none. */
struct coll_step {
    enum coll_step_kind kind;
    uint32_t peer;             /* rank; COPY, JOIN: this one */
    uint32_t channel;          /* to a rank of the same host; to others 0 */
    enum coll_buffer from, to; /* source of SEND, RECV_REDUCE, COPY; destination of
                                * RECV, RECV_REDUCE, COPY */
    bool divides;              /* RECV_REDUCE: the result is divided by n_ranks (avg) */
    uint64_t from_at, to_at, count;
    uint32_t after[2]; /* indices of earlier steps of this rank, or COLL_NO_STEP */
};
#define COLL_NO_STEP UINT32_MAX

struct coll_plan {
    enum coll_algorithm algorithm; /* as chosen; never AUTO */
    uint32_t rank, n_ranks;
    struct coll_step *steps; /* Owned [n_steps] */
    uint32_t n_steps;
    uint64_t slice_count;   /* elements of the largest step */
    uint64_t scratch_count; /* elements of SCRATCH */
};

struct coll_mesh; /* coll/cost.h */

/* Makes rank `rank`'s part, over the ranks of `mesh`. The same inputs give the same plan
 * on every rank. WEFT_ERR_INPUT: the kind has no such algorithm, or no form in place.
 * Every rank gets the same bits, also of sums that are not exact, by every algorithm but
 * DIRECT, which adds in an order of its own on each rank. */
weft_status coll_plan_make(const struct coll_job *job, uint32_t rank,
                           const struct coll_mesh *mesh, struct coll_plan *out,
                           struct weft_error *error) WEFT_MUST_CHECK;
void coll_plan_fini(struct coll_plan *plan);
/* Marks in [n_ranks] whom the rank sends to and receives from; marks are only added. */
void coll_plan_peers(const struct coll_plan *plan, bool *sends_to, bool *receives_from);
/* The same by channels: adds bit c of [n_ranks] for channel c. */
void coll_plan_channels(const struct coll_plan *plan, uint32_t *send_channels,
                        uint32_t *receive_channels);
/* Human-readable steps, one line each. */
void coll_plan_print(const struct coll_plan *plan, struct weft_text *out);
/* Proves that the plans of all ranks ([n_ranks]) together compute `job`: every element
 * reduced exactly once per rank and at its place, divided exactly once by avg, no step
 * overwrites what another still uses, none waits for ever however small the windows are.
 * Symbolic: moves no data, and knows nothing of how plans are made. */
weft_status coll_plan_check(const struct coll_job *job, const struct coll_plan *plans,
                            struct weft_error *error) WEFT_MUST_CHECK;

/* ---- execution ---- */

/* The directed connections of one rank, by peer and channel: at peer * n_channels + channel. NULL
 * for itself, and where a pair has no such channel: its channel 0 serves for that. Not owned. */
struct coll_links {
    uint32_t rank, n_ranks;
    uint32_t n_channels;                       /* 0 means 1 */
    struct transport_connector **send_to;      /* [n_ranks * n_channels] */
    struct transport_connector **receive_from; /* [n_ranks * n_channels] */
    /* Messages under way to or from one peer, and so pieces of host memory where they are staged;
     * 0, or more than 8: 8. */
    uint32_t window;
};

struct coll_buffers {
    void *input; /* registered below; equals output when in place: the whole buffer */
    void *output;
    size_t input_bytes, output_bytes;
};

struct coll_exec;

/* Keeps staging memory and registrations across jobs. `task` is woken by GPU
 * operations. The owner calls coll_exec_progress whenever `task` or a connection's
 * task was woken, after flow_progress of that flow: the executor itself polls no
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
/* Returns true if a message to or from `rank` has been started and has not ended. */
bool coll_exec_waits_for(const struct coll_exec *exec, uint32_t rank);
/* When the output of iteration i (from 0) was complete on this rank; valid once done. */
weft_ns coll_exec_finished_ns(const struct coll_exec *exec, uint32_t iteration);

#endif

/* Internals of the executor. */
#ifndef WEFT_COLL_EXEC_PRIVATE_H
#define WEFT_COLL_EXEC_PRIVATE_H

#include "coll/coll.h"
#include "coll/plan_private.h"

/* Messages in flight per queue: enough to hide the delay of a clear-to-send, the reduction and
 * an acknowledgement behind the transfer. */
#define EXEC_WINDOW 8

enum exec_slot_state {
    EXEC_SLOT_FREE,
    EXEC_SLOT_COPYING,  /* staged send: the GPU copies the data to host memory */
    EXEC_SLOT_COPIED,   /* staged send: copied; waits until those before it are posted */
    EXEC_SLOT_MOVING,   /* the transfer has been posted */
    EXEC_SLOT_FLUSH,    /* received; not visible to the GPU yet */
    EXEC_SLOT_FLUSHING, /* waits for the READ that makes it visible */
    EXEC_SLOT_ARRIVED,  /* visible; a reduction or copy can still wait for other steps */
    EXEC_SLOT_REDUCING  /* the GPU reduces or copies */
};

/* One started step. */
struct exec_slot {
    enum exec_slot_state state;
    uint32_t step, iteration;
    union transport_request request; /* transfer or flush */
    struct io_gpu_op op;
};

enum exec_queue_kind { EXEC_SENDS, EXEC_RECEIVES, EXEC_LOCAL };

enum exec_hold {
    EXEC_HOLD_INPUT,
    EXEC_HOLD_OUTPUT,
    EXEC_HOLD_SCRATCH,
    EXEC_HOLD_STAGING
};
#define EXEC_N_HOLDS (EXEC_HOLD_STAGING + 1)
_Static_assert((int)EXEC_HOLD_INPUT == (int)COLL_INPUT &&
                   (int)EXEC_HOLD_OUTPUT == (int)COLL_OUTPUT &&
                   (int)EXEC_HOLD_SCRATCH == (int)COLL_SCRATCH,
               "holds begin with the plan's buffers");

#define EXEC_UNSEEN UINT64_MAX

/* Granularity in bytes of a slot's staging buffer, a multiple of every element size, so that a
 * later plan with larger elements can reuse it. */
#define EXEC_ALIGN 128u

/* A plan's steps that send to one peer, receive from it, or run on this rank, in list order.
 * The executor keeps a queue for each peer that any plan has used. */
struct exec_queue {
    enum exec_queue_kind kind;
    struct transport_connector *link; /* Not owned; NULL for EXEC_LOCAL */
    /* The queue cannot progress while both of these counters are unchanged and the GPU does
     * not work for it. */
    uint64_t seen_looks;   /* of the connector, at the last look */
    uint64_t seen_changes; /* of the executor, at the last look, or EXEC_UNSEEN */
    uint32_t n_on_gpu;     /* slots REDUCING or COPYING */
    uint32_t *steps;       /* Owned [cap] */
    uint32_t n_steps, cap;
    uint32_t at, iteration; /* next step to start */
    /* A ring: the next step uses slot n_started % EXEC_WINDOW. */
    struct exec_slot slots[EXEC_WINDOW];
    uint64_t n_started, n_ended;
    uint64_t n_posted; /* staged sends passed to the connector */
    /* The NIC does not reach the GPU's memory. Messages pass through host memory, one piece
     * per slot, so that the copies, transfers and reductions of several overlap. */
    bool is_staged;
    /* Staging, allocated by the GPU: host memory if is_staged, otherwise device memory of
     * receive queues with reductions. The piece of slot i is at i * slice_bytes. */
    uint8_t *staging;
    size_t slice_bytes;
    uint64_t n_largest; /* largest step of this plan that uses staging, in elements */
    unsigned uses;      /* bit h: this plan's steps use hold h */
    struct xfer_memory holds[EXEC_N_HOLDS]; /* n is 0 if not registered */
};

enum exec_state {
    EXEC_IDLE,
    EXEC_PREPARING,   /* allocating memory of the run and starting its registration */
    EXEC_REGISTERING, /* waits until the NICs have registered it */
    EXEC_RUNNING,
    EXEC_ENDED,
    EXEC_FAILED
};

struct coll_exec {
    enum exec_state state;
    struct io_env *env;         /* Not owned. */
    struct io_task *task;       /* Not owned. */
    struct exec_queue **queues; /* Owned [n_queues], in order of first use, local first */
    uint32_t n_queues, cap_queues;
    struct exec_queue **active; /* Owned [n_queues]: queues with steps of this plan */
    uint32_t n_active;
    /* Owned, indexed like links, by kind; NULL if never used */
    struct exec_queue **of_peer[2];
    struct coll_links links; /* arrays Not owned. */
    uint32_t n_ranks, rank;
    uint8_t *scratch; /* Owned by the GPU */
    size_t scratch_bytes;
    struct coll_buffers buffers;
    bool is_stopped;
    bool is_staged;    /* the NICs cannot reach the GPU's memory, or must not */
    bool lacks_memory; /* the GPU did not allocate what a run needs */

    const struct coll_plan *plan; /* Not owned. */
    struct coll_job job;
    size_t element_bytes;
    uint8_t *places[COLL_N_BUFFERS]; /* element 0 of each buffer */
    uint32_t n_iterations, iteration;
    uint64_t n_changes;   /* steps and iterations that ended and runs that began, ever */
    uint32_t n_left;      /* steps that this iteration's output still waits for */
    uint32_t n_awaited;   /* number of such steps in one iteration */
    uint32_t unreachable; /* a peer of the plan without a connection, or COLL_NO_STEP */
    uint32_t *n_done;     /* Owned [n_done_cap]: iterations in which the step is done */
    uint32_t n_done_cap;
    weft_ns *finished_ns; /* Owned [n_finished_cap] */
    uint32_t n_finished_cap;
};

/* exec_memory.c: memory of the next run. exec_memory_prepare allocates it and starts
 * registrations; exec_memory_ready completes them. Both return WEFT_AGAIN while they wait. */
weft_status exec_memory_prepare(struct coll_exec *exec,
                                struct weft_error *error) WEFT_MUST_CHECK;
weft_status exec_memory_ready(struct coll_exec *exec,
                              struct weft_error *error) WEFT_MUST_CHECK;
/* Returns true if registration failed because NICs cannot reach this memory, and host memory
 * has not been tried. */
bool exec_memory_may_stage(const struct coll_exec *exec, const struct weft_error *error);
/* Makes messages pass through host memory from now on. */
void exec_memory_stage(struct coll_exec *exec);
/* Releases the registrations of the caller's buffers. */
void exec_memory_let_go(struct coll_exec *exec);
/* Releases all registrations; the memory stays allocated. */
void exec_memory_stop(struct coll_exec *exec);
void exec_memory_free(struct coll_exec *exec);
/* Finds which of the run's memory the queue's steps use. */
void exec_find_uses(struct coll_exec *exec, struct exec_queue *queue);

/* exec_steps.c: progresses what it can and starts steps; sets *moved if anything changed. */
weft_status exec_queue_progress(struct coll_exec *exec, struct exec_queue *queue,
                                bool *moved, struct weft_error *error) WEFT_MUST_CHECK;
/* Returns true if the iteration's output waits for this step. Sends from an input that no step
 * writes can end in the next iteration. */
bool exec_is_awaited(const struct coll_exec *exec, const struct coll_step *step);
/* Returns true if all steps of all iterations have ended. */
bool exec_is_drained(const struct coll_exec *exec, const struct exec_queue *queue);

#endif

/* The inside of the executor. */
#ifndef WEFT_COLL_EXEC_PRIVATE_H
#define WEFT_COLL_EXEC_PRIVATE_H

#include "coll/coll.h"
#include "coll/plan_private.h"

/* Messages in flight per queue: enough to hide the delay of a clear-to-send, the
 * reduction and an acknowledgement behind the wire. */
#define EXEC_WINDOW 8

enum exec_slot_state {
    EXEC_SLOT_FREE,
    EXEC_SLOT_MOVING, /* the transfer is under way */
    EXEC_SLOT_FLUSH,  /* arrived; to be made visible to the GPU */
    EXEC_SLOT_FLUSHING,
    EXEC_SLOT_ARRIVED, /* visible; a reduction may still have to wait */
    EXEC_SLOT_REDUCING /* the GPU works on it (or copies) */
};

/* One step under way. */
struct exec_slot {
    enum exec_slot_state state;
    uint32_t step, iteration;
    struct xfer_request *request; /* transfer or flush */
    struct io_gpu_op op;
};

enum exec_queue_kind { EXEC_SENDS, EXEC_RECEIVES, EXEC_LOCAL };

/* The steps to or from one peer, or those on this rank, in list order, iteration after
 * iteration. */
struct exec_queue {
    enum exec_queue_kind kind;
    struct xfer *xfer; /* NULL: no connection, or EXEC_LOCAL */
    uint32_t *steps;   /* Owned [cap] */
    uint32_t n_steps, cap;
    uint32_t at, iteration; /* the next to start */
    /* a ring: step number n_started % EXEC_WINDOW next */
    struct exec_slot slots[EXEC_WINDOW];
    uint64_t n_started, n_ended;
    uint8_t *staging; /* Owned by the GPU; EXEC_RECEIVES with reductions; slot i's is
                                * at i * COLL_SLICE_BYTES_MAX */
    struct xfer_memory staging_memory;
    struct xfer_memory input, output; /* n 0: not registered */
};

enum exec_state { EXEC_IDLE, EXEC_REGISTERING, EXEC_RUNNING, EXEC_ENDED, EXEC_FAILED };

struct coll_exec {
    enum exec_state state;
    struct io_env *env;   /* Not owned. */
    struct io_task *task; /* Not owned. */
    /* Owned [n_queues]: sends by peer, receives by peer, local */
    struct exec_queue *queues;
    uint32_t n_queues;
    uint32_t n_ranks, rank;
    struct coll_buffers buffers;
    bool is_stopped;

    const struct coll_plan *plan; /* Not owned. */
    struct coll_job job;
    size_t element_bytes;
    uint32_t n_iterations, iteration;
    uint32_t n_left;      /* steps that this iteration's output waits for */
    uint32_t n_awaited;   /* such steps of a whole iteration */
    uint32_t unreachable; /* a peer of the plan without a connection, or COLL_NO_STEP */
    uint32_t *n_done;     /* Owned [n_done_cap]: iterations in which a step is done */
    uint32_t n_done_cap;
    weft_ns *finished_ns; /* Owned [n_finished_cap] */
    uint32_t n_finished_cap;
};

/* exec_steps.c: starts and ends what can be; sets *moved if anything did. */
weft_status exec_queue_progress(struct coll_exec *exec, struct exec_queue *queue,
                                bool *moved, struct weft_error *error) WEFT_MUST_CHECK;
/* Whether the iteration's output waits for this step. Sends from an input that nobody
 * writes may end in the next iteration. */
bool exec_is_awaited(const struct coll_exec *exec, const struct coll_step *step);
bool exec_is_drained(const struct coll_exec *exec, const struct exec_queue *queue);

#endif

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
    EXEC_SLOT_COPYING, /* staged, to be sent: the GPU copies it to the host */
    EXEC_SLOT_COPIED,  /* ... has; it is sent after those before it */
    EXEC_SLOT_MOVING,  /* the transfer is under way */
    EXEC_SLOT_FLUSH,   /* arrived; to be made visible to the GPU */
    EXEC_SLOT_FLUSHING,
    EXEC_SLOT_ARRIVED, /* visible; a reduction, or a copy, may still have to wait */
    EXEC_SLOT_REDUCING /* the GPU works on it (or copies) */
};

/* One step under way. */
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
/* Of plan buffers. */
_Static_assert((int)EXEC_HOLD_INPUT == (int)COLL_INPUT &&
                   (int)EXEC_HOLD_OUTPUT == (int)COLL_OUTPUT &&
                   (int)EXEC_HOLD_SCRATCH == (int)COLL_SCRATCH,
               "holds begin with the plan's buffers");

#define EXEC_UNSEEN UINT64_MAX

/* The steps to or from one peer, or those on this rank, in list order, iteration after
 * iteration. There is one for every peer that a plan ever used, and it stays. */
/* Of a slot's staging, in bytes: a later plan's elements may be larger. */
#define EXEC_ALIGN 128u

struct exec_queue {
    enum exec_queue_kind kind;
    struct transport_connector *link; /* Not owned; NULL: EXEC_LOCAL */
    /* There is nothing to do for it while these stay, unless the GPU works for it. */
    uint64_t seen_looks;   /* of the connector, when it was looked at last ... */
    uint64_t seen_changes; /* ... and of the executor, or EXEC_UNSEEN */
    uint32_t n_on_gpu;     /* slots REDUCING or COPYING */
    uint32_t *steps;       /* Owned [cap] */
    uint32_t n_steps, cap;
    uint32_t at, iteration; /* the next to start */
    /* a ring: step number n_started % EXEC_WINDOW next */
    struct exec_slot slots[EXEC_WINDOW];
    uint64_t n_started, n_ended;
    uint64_t n_posted; /* staged sends that the connector has */
    /* A NIC moves it that does not reach the GPU's memory: messages go through pieces of host
     * memory, one a slot, so that copies, wire and reductions of several overlap. */
    bool is_staged;
    uint8_t *staging; /* Owned by the GPU; of the host if is_staged, else the GPU's, for
                       * EXEC_RECEIVES with reductions; slot i's is at i * slice_bytes */
    size_t slice_bytes;
    uint64_t n_largest; /* elements of this plan's largest step that uses staging */
    unsigned uses;      /* bit h: this plan's steps use hold h */
    struct xfer_memory holds[EXEC_N_HOLDS]; /* n 0: not registered */
};

enum exec_state {
    EXEC_IDLE,
    EXEC_PREPARING,   /* memory of the run is to be found and handed to the NICs */
    EXEC_REGISTERING, /* until they have it */
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
    struct exec_queue **active; /* Owned [n_queues]: those with steps of this plan */
    uint32_t n_active;
    struct exec_queue **of_peer[2]; /* Owned, as links; by kind; NULL: not yet */
    struct coll_links links;        /* arrays Not owned. */
    uint32_t n_ranks, rank;
    uint8_t *scratch; /* Owned by the GPU */
    size_t scratch_bytes;
    struct coll_buffers buffers;
    bool is_stopped;
    bool is_staged; /* the NICs do not reach the GPU's memory, or were not to */

    const struct coll_plan *plan; /* Not owned. */
    struct coll_job job;
    size_t element_bytes;
    uint8_t *places[COLL_N_BUFFERS]; /* element 0 of each buffer */
    uint32_t n_iterations, iteration;
    uint64_t n_changes;   /* steps and iterations that ended, and runs that began: ever */
    uint32_t n_left;      /* steps that this iteration's output waits for */
    uint32_t n_awaited;   /* such steps of a whole iteration */
    uint32_t unreachable; /* a peer of the plan without a connection, or COLL_NO_STEP */
    uint32_t *n_done;     /* Owned [n_done_cap]: iterations in which a step is done */
    uint32_t n_done_cap;
    weft_ns *finished_ns; /* Owned [n_finished_cap] */
    uint32_t n_finished_cap;
};

/* exec_memory.c: memory of the coming run. All waits are AGAIN from exec_memory_ready. */
weft_status exec_memory_prepare(struct coll_exec *exec,
                                struct weft_error *error) WEFT_MUST_CHECK;
weft_status exec_memory_ready(struct coll_exec *exec,
                              struct weft_error *error) WEFT_MUST_CHECK;
/* Whether NICs that refused memory like this may still take that of the host. */
bool exec_memory_may_stage(const struct coll_exec *exec, const struct weft_error *error);
/* From now on messages go through the host. */
void exec_memory_stage(struct coll_exec *exec);
/* Gives up the hold on the caller's buffers. */
void exec_memory_let_go(struct coll_exec *exec);
/* Gives up all holds; the memory stays. */
void exec_memory_stop(struct coll_exec *exec);
void exec_memory_free(struct coll_exec *exec);

/* exec_steps.c: starts and ends what can be; sets *moved if anything did. */
weft_status exec_queue_progress(struct coll_exec *exec, struct exec_queue *queue,
                                bool *moved, struct weft_error *error) WEFT_MUST_CHECK;
/* Whether the iteration's output waits for this step. Sends from an input that nobody
 * writes may end in the next iteration. */
bool exec_is_awaited(const struct coll_exec *exec, const struct coll_step *step);
bool exec_is_drained(const struct coll_exec *exec, const struct exec_queue *queue);
/* exec.c: finds what of this plan's memory the queue's steps use. */
void exec_find_uses(struct coll_exec *exec, struct exec_queue *queue);

#endif

/* The executor: memory and registrations of a run, its queues, and its steps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "coll/coll.h"
#include "coll/plan_draft.h"

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

/* ---- memory and its registrations: only what a plan's queues use, kept until something larger is
 * needed ---- */

static void let_go(struct exec_queue *queue, enum exec_hold hold)
{
    struct xfer_memory *memory = &queue->holds[hold];

    if (memory->n > 0) {
        transport_deregister(queue->link, memory);
        *memory = (struct xfer_memory){0};
    }
}

/* Releases the registrations of the caller's buffers. */
static void exec_memory_let_go(struct coll_exec *exec)
{
    for (uint32_t i = 1; i < exec->n_queues; i++) {
        let_go(exec->queues[i], EXEC_HOLD_INPUT);
        let_go(exec->queues[i], EXEC_HOLD_OUTPUT);
    }
}

/* Makes the staging memory safe to free: it is deregistered, and peers close it. Returns
 * WEFT_AGAIN while a peer still has it open. */
static weft_status forget_staging(struct exec_queue *queue)
{
    let_go(queue, EXEC_HOLD_STAGING);
    return queue->staging == NULL
               ? WEFT_OK
               : transport_invalidate(queue->link, queue->staging,
                                      EXEC_WINDOW * queue->slice_bytes);
}

static weft_status forget_scratch(struct coll_exec *exec)
{
    weft_status result = WEFT_OK;

    for (uint32_t i = 1; i < exec->n_queues; i++) {
        struct exec_queue *queue = exec->queues[i];

        let_go(queue, EXEC_HOLD_SCRATCH);
        if (exec->scratch != NULL &&
            transport_invalidate(queue->link, exec->scratch, exec->scratch_bytes) !=
                WEFT_OK) {
            result = WEFT_AGAIN;
        }
    }
    return result;
}

/* Releases all registrations; the memory stays allocated. Peers close memory that they have open
 * before their end of the connection is closed. */
static void exec_memory_stop(struct coll_exec *exec)
{
    exec_memory_let_go(exec);
    (void)(forget_scratch(exec) == WEFT_OK);
    for (uint32_t i = 1; i < exec->n_queues; i++) {
        (void)(forget_staging(exec->queues[i]) == WEFT_OK);
    }
}

static void exec_memory_free(struct coll_exec *exec)
{
    struct io_gpu *gpu = exec->env->gpu;

    for (uint32_t i = 0; i < exec->n_queues; i++) {
        gpu->ops->free(gpu, exec->queues[i]->staging);
    }
    gpu->ops->free(gpu, exec->scratch);
}

/* ---- for a run ---- */

static weft_status allocate(struct coll_exec *exec, enum io_memory where, size_t n_bytes,
                            const char *what, uint8_t **out, struct weft_error *error)
{
    struct io_gpu *gpu = exec->env->gpu;
    void *memory = NULL;
    int sys_errno = gpu->ops->alloc(gpu, where, n_bytes, &memory);

    if (sys_errno != 0) {
        exec->lacks_memory = true;
        return weft_fail_errno(error, sys_errno, WEFT_PHASE_EXECUTE, "%s of %zu bytes",
                               what, n_bytes);
    }
    *out = memory;
    return WEFT_OK;
}

/* Replaces staging that is too small. No step may be active. */
static weft_status find_staging(struct coll_exec *exec, struct exec_queue *queue,
                                struct weft_error *error)
{
    size_t n_bytes = (size_t)queue->n_largest * exec->element_bytes;
    size_t slice = (n_bytes + EXEC_ALIGN - 1) / EXEC_ALIGN * EXEC_ALIGN;
    struct io_gpu *gpu = exec->env->gpu;
    weft_status status;

    if ((queue->uses >> EXEC_HOLD_STAGING & 1) == 0 || slice <= queue->slice_bytes) {
        return WEFT_OK;
    }
    if (forget_staging(queue) != WEFT_OK) {
        return WEFT_AGAIN;
    }
    gpu->ops->free(gpu, queue->staging);
    queue->staging = NULL;
    queue->slice_bytes = 0;
    status = allocate(exec, queue->is_staged ? IO_MEMORY_HOST : IO_MEMORY_DEVICE,
                      EXEC_WINDOW * slice, "staging", &queue->staging, error);
    queue->slice_bytes = status == WEFT_OK ? slice : 0;
    return status;
}

static weft_status find_scratch(struct coll_exec *exec, struct weft_error *error)
{
    size_t n_bytes = (size_t)exec->plan->scratch_count * exec->element_bytes;
    weft_status status = WEFT_OK;

    if (n_bytes > exec->scratch_bytes) {
        if (forget_scratch(exec) != WEFT_OK) {
            return WEFT_AGAIN;
        }
        exec->env->gpu->ops->free(exec->env->gpu, exec->scratch);
        exec->scratch = NULL;
        exec->scratch_bytes = 0;
        status =
            allocate(exec, IO_MEMORY_DEVICE, n_bytes, "scratch", &exec->scratch, error);
        exec->scratch_bytes = status == WEFT_OK ? n_bytes : 0;
    }
    exec->places[COLL_SCRATCH] = exec->scratch;
    return status;
}

/* Registers the GPU's memory: as a dma-buf if possible, otherwise by address, which not every
 * NIC accepts. */
static weft_status register_gpu(struct coll_exec *exec, struct exec_queue *queue,
                                void *memory, size_t n_bytes, struct xfer_memory *out,
                                struct weft_error *error)
{
    struct io_gpu *gpu = exec->env->gpu;
    weft_status status = WEFT_ERR_UNSUPPORTED;
    struct weft_error local = {0};
    uint64_t offset = 0;
    int fd = -1;

    if (gpu->ops->dma_buf != NULL &&
        gpu->ops->dma_buf(gpu, memory, n_bytes, &fd, &offset) == 0) {
        status = transport_register_dmabuf(queue->link, memory, n_bytes, fd, offset, out,
                                           &local);
    }
    if (status == WEFT_ERR_UNSUPPORTED) {
        status = transport_register(queue->link, memory, n_bytes, out, error);
        out->is_gpu = true;
    } else if (status < 0) {
        *error = local;
    }
    return status;
}

static weft_status hold(struct coll_exec *exec, struct exec_queue *queue,
                        enum exec_hold which, struct weft_error *error)
{
    void *memory = NULL;
    size_t n_bytes = 0;

    switch (which) {
    case EXEC_HOLD_INPUT:
        memory = exec->buffers.input;
        n_bytes = exec->buffers.input_bytes;
        break;
    case EXEC_HOLD_OUTPUT:
        memory = exec->buffers.output;
        n_bytes = exec->buffers.output_bytes;
        break;
    case EXEC_HOLD_SCRATCH:
        memory = exec->scratch;
        n_bytes = exec->scratch_bytes;
        break;
    case EXEC_HOLD_STAGING:
        memory = queue->staging;
        n_bytes = EXEC_WINDOW * queue->slice_bytes;
        break;
    }
    if (n_bytes == 0 || queue->holds[which].n > 0) {
        return WEFT_OK;
    }
    if (!exec->env->gpu->is_host_memory && !queue->is_staged) {
        return register_gpu(exec, queue, memory, n_bytes, &queue->holds[which], error);
    }
    return transport_register(queue->link, memory, n_bytes, &queue->holds[which], error);
}

/* Returns true if registration failed because NICs cannot reach this memory, and host memory has
 * not been tried. EFAULT, EINVAL and EOPNOTSUPP are the errors of a NIC that cannot reach the
 * memory. Staging does not help with others, nor if the GPU did not allocate memory. */
static bool exec_memory_may_stage(const struct coll_exec *exec,
                                  const struct weft_error *error)
{
    return !exec->is_staged && !exec->lacks_memory && !exec->env->gpu->is_host_memory &&
           (error->status == WEFT_ERR_UNSUPPORTED || error->sys_errno == EFAULT ||
            error->sys_errno == EINVAL || error->sys_errno == EOPNOTSUPP);
}

static unsigned use_of(const struct exec_queue *queue, const struct coll_step *step)
{
    switch (step->kind) {
    case COLL_SEND:
        return 1u << (queue->is_staged ? EXEC_HOLD_STAGING : (enum exec_hold)step->from);
    case COLL_RECV:
        return 1u << (queue->is_staged ? EXEC_HOLD_STAGING : (enum exec_hold)step->to);
    case COLL_RECV_REDUCE:
        return 1u << EXEC_HOLD_STAGING;
    case COLL_COPY:
    case COLL_JOIN:
        break;
    }
    return 0;
}

/* Finds which of the run's memory the queue's steps use. */
static void exec_find_uses(struct coll_exec *exec, struct exec_queue *queue)
{
    queue->uses = 0;
    queue->n_largest = 0;
    for (uint32_t i = 0; i < queue->n_steps; i++) {
        const struct coll_step *step = &exec->plan->steps[queue->steps[i]];
        unsigned use = use_of(queue, step);

        queue->uses |= use;
        if ((use >> EXEC_HOLD_STAGING & 1) != 0 && step->count > queue->n_largest) {
            queue->n_largest = step->count;
        }
    }
}

/* Makes messages pass through host memory from now on. */
static void exec_memory_stage(struct coll_exec *exec)
{
    struct io_gpu *gpu = exec->env->gpu;

    weft_log(exec->env->log, WEFT_LOG_WARN,
             "%s: the NICs do not take the memory of %s: messages go through the host",
             exec->env->name, gpu->name);
    exec_memory_stop(exec);
    exec->is_staged = true;
    for (uint32_t i = 1; i < exec->n_queues; i++) {
        struct exec_queue *queue = exec->queues[i];

        if (!transport_needs_flush(queue->link)) {
            continue;
        }
        gpu->ops->free(gpu, queue->staging);
        queue->staging = NULL;
        queue->slice_bytes = 0;
        queue->is_staged = true;
        exec_find_uses(exec, queue);
    }
}

/* Allocates the memory of the next run and starts its registrations. Returns WEFT_AGAIN while it
 * waits. */
static weft_status exec_memory_prepare(struct coll_exec *exec, struct weft_error *error)
{
    weft_status status = find_scratch(exec, error);

    for (uint32_t i = 0; i < exec->n_active && status == WEFT_OK; i++) {
        struct exec_queue *queue = exec->active[i];

        if (queue->kind == EXEC_LOCAL) {
            continue;
        }
        status = find_staging(exec, queue, error);
        for (int which = 0; which < EXEC_N_HOLDS && status == WEFT_OK; which++) {
            if ((queue->uses >> which & 1) != 0) {
                status = hold(exec, queue, (enum exec_hold)which, error);
            }
        }
    }
    return status;
}

/* Completes the registrations. Returns WEFT_AGAIN while it waits. */
static weft_status exec_memory_ready(struct coll_exec *exec, struct weft_error *error)
{
    weft_status result = WEFT_OK;

    for (uint32_t i = 0; i < exec->n_active; i++) {
        struct exec_queue *queue = exec->active[i];

        for (int which = 0; which < EXEC_N_HOLDS; which++) {
            struct xfer_memory *memory = &queue->holds[which];
            weft_status status = WEFT_OK;

            if (memory->n > 0) {
                status = transport_register_progress(queue->link, memory, error);
            }
            if (status < 0) {
                return status;
            }
            result = status == WEFT_AGAIN ? WEFT_AGAIN : result;
        }
    }
    return result;
}

/* ---- steps ---- */

static const struct coll_step *step_of(const struct coll_exec *exec,
                                       const struct exec_slot *slot)
{
    return &exec->plan->steps[slot->step];
}

static uint8_t *place_of(const struct coll_exec *exec, enum coll_buffer buffer,
                         uint64_t offset)
{
    uint8_t *base = exec->places[buffer];

    return base == NULL ? NULL : base + offset * exec->element_bytes;
}

static uint8_t *staging_of(struct exec_queue *queue, const struct exec_slot *slot)
{
    return queue->staging == NULL
               ? NULL
               : queue->staging + (size_t)(slot - queue->slots) * queue->slice_bytes;
}

static bool lands_in_staging(const struct exec_queue *queue, const struct coll_step *step)
{
    return step->kind == COLL_RECV_REDUCE ||
           (step->kind == COLL_RECV && queue->is_staged);
}

/* Returns the place where the slot's message arrives. */
static uint8_t *landing_of(const struct coll_exec *exec, struct exec_queue *queue,
                           const struct exec_slot *slot)
{
    const struct coll_step *step = step_of(exec, slot);

    return lands_in_staging(queue, step) ? staging_of(queue, slot)
                                         : place_of(exec, step->to, step->to_at);
}

/* Returns true if the iteration's output waits for this step. Sends from an input that no step
 * writes can end in the next iteration. */
static bool exec_is_awaited(const struct coll_exec *exec, const struct coll_step *step)
{
    return step->kind != COLL_SEND || step->from != COLL_INPUT || exec->job.in_place;
}

/* Returns true if all steps of all iterations have ended. */
static bool exec_is_drained(const struct coll_exec *exec, const struct exec_queue *queue)
{
    return queue->n_started == queue->n_ended &&
           (queue->n_steps == 0 || queue->iteration == exec->n_iterations);
}

/* Returns true if the iteration has begun and the steps that this one waits for are done in
 * it. */
static bool is_free(const struct coll_exec *exec, const struct coll_step *step,
                    uint32_t iteration)
{
    if (iteration > exec->iteration) {
        return false;
    }
    for (int k = 0; k < 2; k++) {
        if (step->after[k] != COLL_NO_STEP && exec->n_done[step->after[k]] <= iteration) {
            return false;
        }
    }
    return true;
}

static void end(struct coll_exec *exec, struct exec_slot *slot)
{
    const struct coll_step *step = step_of(exec, slot);

    weft_check(exec->n_done[slot->step] == slot->iteration);
    exec->n_done[slot->step]++;
    exec->n_changes++;
    if (exec_is_awaited(exec, step)) {
        weft_check(exec->n_left > 0);
        exec->n_left--;
    }
    slot->state = EXEC_SLOT_FREE;
}

/* Reports the connection's own error, or that it refused a message. Returns `status`. */
static weft_status fail_as(const struct exec_queue *queue, weft_status status,
                           struct weft_error *error)
{
    const struct weft_error *why = transport_error(queue->link);

    if (status < 0 && why->status != WEFT_OK) {
        *error = *why;
    } else if (status < 0) {
        weft_fail(error, status, WEFT_PHASE_DATA, "the connection refused a message");
    }
    return status;
}

/* ---- starting ---- */

/* Returns the GPU's operation for a step. One operand of a reduction, and one side of the copy
 * of a staged message, is in staging. */
static struct io_gpu_op work_of(const struct coll_exec *exec, struct exec_queue *queue,
                                const struct exec_slot *slot)
{
    const struct coll_step *step = step_of(exec, slot);
    uint8_t *staging = staging_of(queue, slot);
    struct io_gpu_op op = {.kind = IO_GPU_COPY,
                           .task = exec->task,
                           .out = place_of(exec, step->to, step->to_at),
                           .a = place_of(exec, step->from, step->from_at),
                           .count = step->count * exec->element_bytes};

    switch (step->kind) {
    case COLL_SEND:
        op.out = staging;
        break;
    case COLL_RECV:
        op.a = staging;
        break;
    case COLL_RECV_REDUCE:
        op.kind = IO_GPU_REDUCE;
        op.b = staging;
        op.count = step->count;
        op.dtype = exec->job.dtype;
        op.redop = exec->job.op;
        op.divisor = step->divides ? (int)exec->n_ranks : 1;
        break;
    case COLL_COPY:
    case COLL_JOIN:
        break;
    }
    return op;
}

/* Fails because the GPU could not copy or reduce the data of a slot. */
static weft_status fail_on_gpu(const struct coll_exec *exec, const struct exec_slot *slot,
                               int sys_errno, struct weft_error *error)
{
    bool reduces = slot->op.kind == IO_GPU_REDUCE;

    return weft_fail_errno(
        error, sys_errno, reduces ? WEFT_PHASE_REDUCE : WEFT_PHASE_COPY,
        "the GPU did not %s %llu elements", reduces ? "reduce" : "copy",
        (unsigned long long)step_of(exec, slot)->count);
}

static weft_status start_gpu(struct coll_exec *exec, struct exec_queue *queue,
                             struct exec_slot *slot, enum exec_slot_state next,
                             struct weft_error *error)
{
    struct io_gpu *gpu = exec->env->gpu;
    int sys_errno;

    slot->op = work_of(exec, queue, slot);
    slot->state = next;
    sys_errno = gpu->ops->start(gpu, &slot->op);
    if (sys_errno != 0) {
        slot->state = EXEC_SLOT_FREE;
        return fail_on_gpu(exec, slot, sys_errno, error);
    }
    queue->n_on_gpu++;
    return WEFT_OK;
}

/* Returns the registration that covers the place where the step's message arrives. */
static const struct xfer_memory *memory_of(const struct exec_queue *queue,
                                           const struct coll_step *step)
{
    return &queue->holds[lands_in_staging(queue, step) ? EXEC_HOLD_STAGING
                                                       : (enum exec_hold)step->to];
}

static weft_status start_transfer(struct coll_exec *exec, struct exec_queue *queue,
                                  struct exec_slot *slot)
{
    const struct coll_step *step = step_of(exec, slot);
    size_t n_bytes = step->count * exec->element_bytes;
    const struct xfer_memory *memory;
    void *landing;

    if (queue->kind == EXEC_SENDS && queue->is_staged) {
        return transport_isend(queue->link, staging_of(queue, slot), n_bytes,
                               &queue->holds[EXEC_HOLD_STAGING], &slot->request);
    }
    if (queue->kind == EXEC_SENDS) {
        return transport_isend(queue->link, place_of(exec, step->from, step->from_at),
                               n_bytes, &queue->holds[step->from], &slot->request);
    }
    memory = memory_of(queue, step);
    landing = landing_of(exec, queue, slot);
    return transport_irecv(queue->link, landing, n_bytes, memory, &slot->request);
}

/* Starts the queue's next step. Returns WEFT_AGAIN if it must wait. */
static weft_status start_next(struct coll_exec *exec, struct exec_queue *queue,
                              struct weft_error *error)
{
    struct exec_slot *slot = &queue->slots[queue->n_started % EXEC_WINDOW];
    const struct coll_step *step;
    weft_status status = WEFT_OK;

    if (queue->n_steps == 0 || queue->iteration == exec->n_iterations ||
        queue->n_started - queue->n_ended == exec->links.window) {
        return WEFT_AGAIN;
    }
    weft_check(slot->state == EXEC_SLOT_FREE);
    slot->step = queue->steps[queue->at];
    slot->iteration = queue->iteration;
    step = step_of(exec, slot);
    /* A message that arrives in staging may do so before its iteration. */
    if (!lands_in_staging(queue, step) && !is_free(exec, step, slot->iteration)) {
        return WEFT_AGAIN;
    }
    if (step->kind == COLL_COPY) {
        status = start_gpu(exec, queue, slot, EXEC_SLOT_REDUCING, error);
    } else if (step->kind == COLL_SEND && queue->is_staged && step->count > 0) {
        status = start_gpu(exec, queue, slot, EXEC_SLOT_COPYING, error);
    } else if (step->kind == COLL_SEND && queue->is_staged) {
        slot->state = EXEC_SLOT_COPIED;
    } else if (step->kind == COLL_JOIN) {
        slot->state = EXEC_SLOT_ARRIVED;
    } else {
        status = fail_as(queue, start_transfer(exec, queue, slot), error);
        slot->state = EXEC_SLOT_MOVING;
    }
    if (status != WEFT_OK) {
        slot->state = EXEC_SLOT_FREE;
        return status;
    }
    queue->n_started++;
    if (++queue->at == queue->n_steps) {
        queue->at = 0;
        queue->iteration++;
    }
    return WEFT_OK;
}

/* ---- progress ---- */

static weft_status take_arrival(struct coll_exec *exec, struct exec_queue *queue,
                                struct exec_slot *slot, struct weft_error *error)
{
    size_t n_expected = step_of(exec, slot)->count * exec->element_bytes;
    size_t n_bytes = 0;
    weft_status status = transport_test(queue->link, slot->request, &n_bytes);

    if (status != WEFT_OK) {
        return fail_as(queue, status, error);
    }
    slot->request = (union transport_request){0};
    if (n_bytes != n_expected) {
        return weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_DATA,
                         "rank %u sent %zu bytes instead of %zu: its plan differs",
                         step_of(exec, slot)->peer, n_bytes, n_expected);
    }
    if (queue->kind == EXEC_SENDS) {
        end(exec, slot);
    } else {
        slot->state = EXEC_SLOT_FLUSH;
    }
    return WEFT_OK;
}

/* Makes a received message visible to the GPU: by a fence if there is one, otherwise by a READ
 * behind the data. */
static weft_status make_visible(struct coll_exec *exec, struct exec_queue *queue,
                                struct exec_slot *slot, struct weft_error *error)
{
    struct io_gpu *gpu = exec->env->gpu;
    size_t n_bytes = step_of(exec, slot)->count * exec->element_bytes;
    void *landing = landing_of(exec, queue, slot);
    weft_status status;

    if (n_bytes == 0 || gpu->is_host_memory || queue->is_staged ||
        !transport_needs_flush(queue->link) ||
        gpu->ops->fence(gpu, landing, n_bytes) == 0) {
        slot->state = EXEC_SLOT_ARRIVED;
        return WEFT_OK;
    }
    status = transport_iflush(queue->link, landing, n_bytes,
                              memory_of(queue, step_of(exec, slot)), &slot->request);
    if (status == WEFT_OK) {
        slot->state = EXEC_SLOT_FLUSHING;
    }
    return fail_as(queue, status, error);
}

static weft_status take_flush(struct exec_queue *queue, struct exec_slot *slot,
                              struct weft_error *error)
{
    weft_status status = transport_test(queue->link, slot->request, NULL);

    if (status == WEFT_OK) {
        slot->request = (union transport_request){0};
        slot->state = EXEC_SLOT_ARRIVED;
    }
    return fail_as(queue, status, error);
}

/* Returns WEFT_OK once the GPU has ended the slot's operation. */
static weft_status await_gpu(struct coll_exec *exec, struct exec_queue *queue,
                             struct exec_slot *slot, struct weft_error *error)
{
    struct io_gpu *gpu = exec->env->gpu;
    int sys_errno = gpu->ops->poll(gpu, &slot->op);

    if (sys_errno == EINPROGRESS) {
        return WEFT_AGAIN;
    }
    if (sys_errno != 0) {
        return fail_on_gpu(exec, slot, sys_errno, error);
    }
    queue->n_on_gpu--;
    return WEFT_OK;
}

/* Posts a staged message. Messages are posted in the order of their steps, although their
 * copies can end in any order. */
static weft_status send_staged(struct coll_exec *exec, struct exec_queue *queue,
                               struct exec_slot *slot, struct weft_error *error)
{
    weft_status status = WEFT_AGAIN;

    if (slot == &queue->slots[queue->n_posted % EXEC_WINDOW]) {
        status = fail_as(queue, start_transfer(exec, queue, slot), error);
    }
    if (status == WEFT_OK) {
        slot->state = EXEC_SLOT_MOVING;
        queue->n_posted++;
    }
    return status;
}

/* Reduces a visible message or copies it to its place, unless it is there already. */
static weft_status use_arrival(struct coll_exec *exec, struct exec_queue *queue,
                               struct exec_slot *slot, struct weft_error *error)
{
    const struct coll_step *step = step_of(exec, slot);

    if (lands_in_staging(queue, step) && !is_free(exec, step, slot->iteration)) {
        return WEFT_AGAIN;
    }
    if (step->kind == COLL_RECV_REDUCE ||
        (lands_in_staging(queue, step) && step->count > 0)) {
        return start_gpu(exec, queue, slot, EXEC_SLOT_REDUCING, error);
    }
    end(exec, slot);
    return WEFT_OK;
}

/* Returns WEFT_OK if the slot changed its state. */
static weft_status slot_progress(struct coll_exec *exec, struct exec_queue *queue,
                                 struct exec_slot *slot, struct weft_error *error)
{
    weft_status status;

    switch (slot->state) {
    case EXEC_SLOT_COPYING:
        status = await_gpu(exec, queue, slot, error);
        if (status == WEFT_OK) {
            slot->state = EXEC_SLOT_COPIED;
        }
        return status;
    case EXEC_SLOT_COPIED:
        return send_staged(exec, queue, slot, error);
    case EXEC_SLOT_MOVING:
        /* Messages use several queue pairs. After a loss on one, a step's next iteration can
         * arrive before this one and must wait for it. */
        if (exec->n_done[slot->step] != slot->iteration) {
            return WEFT_AGAIN;
        }
        return take_arrival(exec, queue, slot, error);
    case EXEC_SLOT_FLUSH:
        return make_visible(exec, queue, slot, error);
    case EXEC_SLOT_FLUSHING:
        return take_flush(queue, slot, error);
    case EXEC_SLOT_ARRIVED:
        return use_arrival(exec, queue, slot, error);
    case EXEC_SLOT_REDUCING:
        status = await_gpu(exec, queue, slot, error);
        if (status == WEFT_OK) {
            end(exec, slot);
        }
        return status;
    case EXEC_SLOT_FREE:
        break;
    }
    return WEFT_AGAIN;
}

/* Returns true if nothing that the queue waits for can have changed since the last look,
 * because most wakes of a rank concern one connection of many. */
static bool is_as_seen(const struct coll_exec *exec, struct exec_queue *queue)
{
    uint64_t looks = queue->link == NULL ? 0 : transport_looks(queue->link);
    bool same = queue->n_on_gpu == 0 && queue->seen_looks == looks &&
                queue->seen_changes == exec->n_changes;

    queue->seen_looks = looks;
    queue->seen_changes = exec->n_changes;
    return same;
}

/* Progresses what it can and starts steps; sets *moved if anything changed. */
static weft_status exec_queue_progress(struct coll_exec *exec, struct exec_queue *queue,
                                       bool *moved, struct weft_error *error)
{
    weft_status status = WEFT_OK;
    bool any = false;

    if (is_as_seen(exec, queue)) {
        return WEFT_OK;
    }
    for (uint64_t n = queue->n_ended; n < queue->n_started; n++) {
        struct exec_slot *slot = &queue->slots[n % EXEC_WINDOW];

        do {
            status = slot_progress(exec, queue, slot, error);
            any = any || status == WEFT_OK;
        } while (status == WEFT_OK);
        if (status < 0) {
            return status;
        }
        if (slot->state == EXEC_SLOT_FREE && n == queue->n_ended) {
            queue->n_ended++;
        }
    }
    do {
        status = start_next(exec, queue, error);
        any = any || status == WEFT_OK;
    } while (status == WEFT_OK);
    if (any) {
        *moved = true;
        /* look again, because a step that moved can make room for another */
        queue->seen_changes = EXEC_UNSEEN;
    }
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

/* ---- runs ---- */

static void enter(struct coll_exec *exec, enum exec_state next)
{
    static const unsigned predecessors[] = {
        [EXEC_IDLE] = 0,
        [EXEC_PREPARING] = 1u << EXEC_IDLE | 1u << EXEC_ENDED | 1u << EXEC_REGISTERING,
        [EXEC_REGISTERING] = 1u << EXEC_PREPARING,
        [EXEC_RUNNING] = 1u << EXEC_REGISTERING,
        [EXEC_ENDED] = 1u << EXEC_RUNNING,
        [EXEC_FAILED] =
            1u << EXEC_PREPARING | 1u << EXEC_REGISTERING | 1u << EXEC_RUNNING,
    };

    weft_check((predecessors[next] >> exec->state & 1) != 0);
    exec->state = next;
}

static struct exec_queue *add_queue(struct coll_exec *exec, enum exec_queue_kind kind,
                                    struct transport_connector *link)
{
    struct exec_queue *queue = weft_calloc(1, sizeof(*queue));

    queue->kind = kind;
    queue->link = link;
    queue->is_staged = exec->is_staged && link != NULL && transport_needs_flush(link);
    if (exec->n_queues == exec->cap_queues) {
        exec->cap_queues = exec->cap_queues == 0 ? 8 : 2 * exec->cap_queues;
        exec->queues =
            weft_realloc(exec->queues, exec->cap_queues * sizeof(struct exec_queue *));
        exec->active =
            weft_realloc(exec->active, exec->cap_queues * sizeof(struct exec_queue *));
    }
    exec->queues[exec->n_queues++] = queue;
    return queue;
}

/* Returns true if the NICs cannot reach the GPU's memory, or WEFT_GPU_DIRECT=0 forbids it. */
static bool is_to_be_staged(struct io_env *env)
{
    const char *direct = env->ops->setting(env, "WEFT_GPU_DIRECT");

    return !env->gpu->rdma_direct || (direct != NULL && strcmp(direct, "0") == 0);
}

weft_status coll_exec_open(struct io_env *env, const struct coll_links *links,
                           struct io_task *task, struct coll_exec **out,
                           struct weft_error *error)
{
    struct coll_exec *exec = calloc(1, sizeof(*exec));

    *out = NULL;
    if (exec == NULL) {
        return weft_fail(error, WEFT_ERR_NOMEM, WEFT_PHASE_EXECUTE,
                         "no memory for an executor");
    }
    exec->env = env;
    exec->task = task;
    exec->links = *links;
    exec->rank = links->rank;
    exec->n_ranks = links->n_ranks;
    exec->is_staged = is_to_be_staged(env);
    exec->links.n_channels = links->n_channels == 0 ? 1 : links->n_channels;
    if (links->window == 0 || links->window > EXEC_WINDOW) {
        exec->links.window = EXEC_WINDOW;
    }
    for (int i = 0; i < 2; i++) {
        exec->of_peer[i] = weft_calloc((size_t)links->n_ranks * exec->links.n_channels,
                                       sizeof(struct exec_queue *));
    }
    add_queue(exec, EXEC_LOCAL, NULL);
    *out = exec;
    return WEFT_OK;
}

void coll_exec_stop(struct coll_exec *exec)
{
    if (exec == NULL || exec->is_stopped) {
        return;
    }
    exec->is_stopped = true;
    exec_memory_stop(exec);
}

void coll_exec_close(struct coll_exec *exec)
{
    if (exec == NULL) {
        return;
    }
    coll_exec_stop(exec);
    exec_memory_free(exec);
    for (uint32_t i = 0; i < exec->n_queues; i++) {
        free(exec->queues[i]->steps);
        free(exec->queues[i]);
    }
    free(exec->queues);
    free(exec->active);
    free(exec->of_peer[0]);
    free(exec->of_peer[1]);
    free(exec->n_done);
    free(exec->finished_ns);
    free(exec);
}

weft_status coll_exec_buffers(struct coll_exec *exec, const struct coll_buffers *buffers,
                              struct weft_error *error)
{
    (void)error;
    weft_check(exec->state == EXEC_IDLE || exec->state == EXEC_ENDED);
    exec_memory_let_go(exec);
    exec->buffers = *buffers;
    return WEFT_OK;
}

/* ---- running ---- */

/* Returns the queue of a step, or NULL if there is no connection. */
static struct exec_queue *queue_of(struct coll_exec *exec, const struct coll_step *step)
{
    bool is_send = step->kind == COLL_SEND;
    enum exec_queue_kind kind = is_send ? EXEC_SENDS : EXEC_RECEIVES;
    struct transport_connector **links =
        is_send ? exec->links.send_to : exec->links.receive_from;
    uint32_t at = step->peer * exec->links.n_channels;
    struct exec_queue **queue;

    if (step->kind == COLL_COPY || step->kind == COLL_JOIN) {
        return exec->queues[0];
    }
    weft_check(step->channel < exec->links.n_channels);
    at += links[at + step->channel] == NULL ? 0 : step->channel;
    queue = &exec->of_peer[kind][at];
    if (*queue == NULL && links[at] != NULL) {
        *queue = add_queue(exec, kind, links[at]);
    }
    return *queue;
}

static void queue_step(struct coll_exec *exec, struct exec_queue *queue, uint32_t index)
{
    const struct coll_step *step = &exec->plan->steps[index];

    if (queue->n_steps == queue->cap) {
        queue->cap = queue->cap == 0 ? 32 : 2 * queue->cap;
        queue->steps = weft_realloc(queue->steps, queue->cap * sizeof(*queue->steps));
    }
    if (queue->n_steps == 0) {
        exec->active[exec->n_active++] = queue;
    }
    queue->steps[queue->n_steps++] = index;
    exec->n_awaited += exec_is_awaited(exec, step);
}

static void queue_up(struct coll_exec *exec)
{
    for (uint32_t i = 0; i < exec->n_queues; i++) {
        struct exec_queue *queue = exec->queues[i];

        weft_check(queue->n_started == queue->n_ended);
        queue->n_steps = 0;
        queue->at = 0;
        queue->iteration = 0;
        queue->n_posted = queue->n_started;
    }
    exec->n_active = 0;
    exec->n_changes++;
    exec->n_awaited = 0;
    exec->unreachable = COLL_NO_STEP;
    for (uint32_t i = 0; i < exec->plan->n_steps; i++) {
        const struct coll_step *step = &exec->plan->steps[i];
        struct exec_queue *queue = queue_of(exec, step);

        weft_check(step->count * exec->element_bytes <= COLL_SLICE_BYTES_MAX ||
                   step->kind != COLL_RECV_REDUCE);
        if (queue == NULL) {
            exec->unreachable = step->peer;
        } else {
            queue_step(exec, queue, i);
        }
    }
    for (uint32_t i = 0; i < exec->n_active; i++) {
        exec_find_uses(exec, exec->active[i]);
    }
}

/* In place, input and output are parts of one buffer. */
static void find_places(struct coll_exec *exec)
{
    struct coll_extent extent = coll_extent_of(&exec->job, exec->rank, exec->n_ranks);
    uint8_t *input = exec->buffers.input, *output = exec->buffers.output;

    exec->places[COLL_INPUT] =
        input == NULL ? NULL : input + extent.input_at * exec->element_bytes;
    exec->places[COLL_OUTPUT] =
        output == NULL ? NULL : output + extent.output_at * exec->element_bytes;
}

void coll_exec_start(struct coll_exec *exec, const struct coll_job *job,
                     const struct coll_plan *plan, uint32_t iterations)
{
    weft_check(plan->rank == exec->rank && plan->n_ranks == exec->n_ranks);
    weft_check(iterations > 0);
    enter(exec, EXEC_PREPARING);
    exec->job = *job;
    exec->plan = plan;
    exec->element_bytes = weft_dtype_bytes(job->dtype);
    exec->n_iterations = iterations;
    exec->iteration = 0;
    if (plan->n_steps > exec->n_done_cap) {
        exec->n_done_cap = plan->n_steps;
        exec->n_done = weft_realloc(exec->n_done, plan->n_steps * sizeof(*exec->n_done));
    }
    if (plan->n_steps > 0) {
        memset(exec->n_done, 0, plan->n_steps * sizeof(*exec->n_done));
    }
    if (iterations > exec->n_finished_cap) {
        exec->n_finished_cap = iterations;
        exec->finished_ns =
            weft_realloc(exec->finished_ns, iterations * sizeof(*exec->finished_ns));
    }
    find_places(exec);
    queue_up(exec);
    exec->n_left = exec->n_awaited;
}

static weft_status prepare(struct coll_exec *exec, struct weft_error *error)
{
    if (exec->unreachable != COLL_NO_STEP) {
        return weft_fail(
            error, WEFT_ERR_ROUTE, WEFT_PHASE_EXECUTE,
            "the plan of rank %u needs rank %u, to which there is no connection",
            exec->rank, exec->unreachable);
    }
    return exec_memory_prepare(exec, error);
}

static void end_iterations(struct coll_exec *exec, bool *moved)
{
    while (exec->n_left == 0 && exec->iteration < exec->n_iterations) {
        exec->finished_ns[exec->iteration++] = io_now(exec->env);
        exec->n_changes++;
        exec->n_left = exec->n_awaited;
        *moved = true;
    }
}

static weft_status run(struct coll_exec *exec, struct weft_error *error)
{
    bool moved = true;

    while (moved) {
        weft_status status = WEFT_OK;

        moved = false;
        for (uint32_t i = 0; i < exec->n_active && status == WEFT_OK; i++) {
            status = exec_queue_progress(exec, exec->active[i], &moved, error);
        }
        if (status != WEFT_OK) {
            return status;
        }
        end_iterations(exec, &moved);
    }
    for (uint32_t i = 0; i < exec->n_active; i++) {
        if (!exec_is_drained(exec, exec->active[i])) {
            return WEFT_AGAIN;
        }
    }
    return exec->iteration == exec->n_iterations ? WEFT_OK : WEFT_AGAIN;
}

/* Gets memory allocated and registered, so that the run can begin. */
static weft_status get_ready(struct coll_exec *exec, struct weft_error *error)
{
    weft_status status = WEFT_OK;

    if (exec->state == EXEC_PREPARING) {
        status = prepare(exec, error);
        if (status == WEFT_OK) {
            enter(exec, EXEC_REGISTERING);
        }
    }
    if (exec->state == EXEC_REGISTERING) {
        status = exec_memory_ready(exec, error);
        if (status == WEFT_OK) {
            enter(exec, EXEC_RUNNING);
        }
    }
    return status;
}

weft_status coll_exec_progress(struct coll_exec *exec, struct weft_error *error)
{
    struct weft_error local = {0};
    weft_status status;

    weft_check(exec->state != EXEC_FAILED && exec->state != EXEC_IDLE);
    status = get_ready(exec, &local);
    if (status < 0 && exec_memory_may_stage(exec, &local)) {
        exec_memory_stage(exec);
        if (exec->state == EXEC_REGISTERING) {
            enter(exec, EXEC_PREPARING);
        }
        weft_error_clear(&local);
        status = get_ready(exec, &local);
    }
    if (exec->state == EXEC_RUNNING) {
        status = run(exec, &local);
        if (status == WEFT_OK) {
            enter(exec, EXEC_ENDED);
        }
    }
    if (status < 0) {
        enter(exec, EXEC_FAILED);
        if (error != NULL && error->status == WEFT_OK) {
            *error = local;
        }
    }
    return status;
}

static bool has_started(const struct coll_exec *exec, enum exec_queue_kind kind,
                        uint32_t rank)
{
    uint32_t n_channels = exec->links.n_channels;

    for (uint32_t i = 0; i < n_channels; i++) {
        const struct exec_queue *queue = exec->of_peer[kind][rank * n_channels + i];

        if (queue != NULL && queue->n_ended < queue->n_started) {
            return true;
        }
    }
    return false;
}

bool coll_exec_sends_to(const struct coll_exec *exec, uint32_t rank)
{
    return has_started(exec, EXEC_SENDS, rank);
}

bool coll_exec_receives_from(const struct coll_exec *exec, uint32_t rank)
{
    return has_started(exec, EXEC_RECEIVES, rank);
}

weft_ns coll_exec_finished_ns(const struct coll_exec *exec, uint32_t iteration)
{
    weft_check(exec->state == EXEC_ENDED && iteration < exec->n_iterations);
    return exec->finished_ns[iteration];
}

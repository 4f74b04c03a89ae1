/* Memory of the executor and its registrations: only what a plan's queues use. Both are kept
 * until something larger is needed. */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "coll/exec_private.h"

static void let_go(struct exec_queue *queue, enum exec_hold hold)
{
    struct xfer_memory *memory = &queue->holds[hold];

    if (memory->n > 0) {
        transport_deregister(queue->link, memory);
        *memory = (struct xfer_memory){0};
    }
}

void exec_memory_let_go(struct coll_exec *exec)
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

/* Peers close memory that they have open before their end of the connection is closed. */
void exec_memory_stop(struct coll_exec *exec)
{
    exec_memory_let_go(exec);
    (void)(forget_scratch(exec) == WEFT_OK);
    for (uint32_t i = 1; i < exec->n_queues; i++) {
        (void)(forget_staging(exec->queues[i]) == WEFT_OK);
    }
}

void exec_memory_free(struct coll_exec *exec)
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

/* EFAULT, EINVAL and EOPNOTSUPP are the errors of a NIC that cannot reach the memory. Staging
 * does not help with others, nor if the GPU did not allocate memory. */
bool exec_memory_may_stage(const struct coll_exec *exec, const struct weft_error *error)
{
    return !exec->is_staged && !exec->lacks_memory && !exec->env->gpu->is_host_memory &&
           (error->status == WEFT_ERR_UNSUPPORTED || error->sys_errno == EFAULT ||
            error->sys_errno == EINVAL || error->sys_errno == EOPNOTSUPP);
}

void exec_memory_stage(struct coll_exec *exec)
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

weft_status exec_memory_prepare(struct coll_exec *exec, struct weft_error *error)
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

weft_status exec_memory_ready(struct coll_exec *exec, struct weft_error *error)
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

void exec_find_uses(struct coll_exec *exec, struct exec_queue *queue)
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

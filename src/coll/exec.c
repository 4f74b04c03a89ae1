#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "coll/exec_private.h"

static void enter(struct coll_exec *exec, enum exec_state next)
{
    static const unsigned predecessors[] = {
        [EXEC_IDLE] = 0,
        [EXEC_REGISTERING] = 1u << EXEC_IDLE | 1u << EXEC_ENDED,
        [EXEC_RUNNING] = 1u << EXEC_REGISTERING,
        [EXEC_ENDED] = 1u << EXEC_RUNNING,
        [EXEC_FAILED] = 1u << EXEC_REGISTERING | 1u << EXEC_RUNNING,
    };

    weft_check((predecessors[next] >> exec->state & 1) != 0);
    exec->state = next;
}

static struct exec_queue *sends_to(struct coll_exec *exec, uint32_t peer)
{
    return &exec->queues[peer];
}

static struct exec_queue *receives_from(struct coll_exec *exec, uint32_t peer)
{
    return &exec->queues[exec->n_ranks + peer];
}

static struct exec_queue *local_queue(struct coll_exec *exec)
{
    return &exec->queues[2 * exec->n_ranks];
}

weft_status coll_exec_open(struct io_env *env, const struct coll_links *links,
                           struct io_task *task, struct coll_exec **out,
                           struct weft_error *error)
{
    struct coll_exec *exec = calloc(1, sizeof(*exec));

    *out = NULL;
    if (exec == NULL) {
        return weft_fail(error, WEFT_ERR_NOMEM, "execute", "no memory for an executor");
    }
    exec->env = env;
    exec->task = task;
    exec->rank = links->rank;
    exec->n_ranks = links->n_ranks;
    exec->n_queues = 2 * links->n_ranks + 1;
    exec->queues = weft_calloc(exec->n_queues, sizeof(*exec->queues));
    for (uint32_t i = 0; i < links->n_ranks; i++) {
        sends_to(exec, i)->kind = EXEC_SENDS;
        sends_to(exec, i)->xfer = links->send_to[i];
        receives_from(exec, i)->kind = EXEC_RECEIVES;
        receives_from(exec, i)->xfer = links->receive_from[i];
    }
    local_queue(exec)->kind = EXEC_LOCAL;
    *out = exec;
    return WEFT_OK;
}

static void let_go(struct exec_queue *queue, struct xfer_memory *memory)
{
    if (memory->n > 0) {
        xfer_deregister(queue->xfer, memory);
    }
}

void coll_exec_stop(struct coll_exec *exec)
{
    if (exec == NULL || exec->is_stopped) {
        return;
    }
    exec->is_stopped = true;
    for (uint32_t i = 0; i < exec->n_queues; i++) {
        struct exec_queue *queue = &exec->queues[i];

        let_go(queue, &queue->input);
        let_go(queue, &queue->output);
        let_go(queue, &queue->staging_memory);
        if (queue->staging != NULL) {
            xfer_invalidate(queue->xfer, queue->staging,
                            EXEC_WINDOW * COLL_SLICE_BYTES_MAX);
        }
    }
}

void coll_exec_close(struct coll_exec *exec)
{
    if (exec == NULL) {
        return;
    }
    coll_exec_stop(exec);
    for (uint32_t i = 0; i < exec->n_queues; i++) {
        exec->env->gpu->ops->free(exec->env->gpu, exec->queues[i].staging);
        free(exec->queues[i].steps);
    }
    free(exec->queues);
    free(exec->n_done);
    free(exec->finished_ns);
    free(exec);
}

/* ---- memory ---- */

static weft_status hold(struct exec_queue *queue, void *memory, size_t n_bytes,
                        struct xfer_memory *out, struct weft_error *error)
{
    let_go(queue, out);
    if (queue->xfer == NULL || n_bytes == 0) {
        return WEFT_OK;
    }
    return xfer_register(queue->xfer, memory, n_bytes, out, error);
}

weft_status coll_exec_buffers(struct coll_exec *exec, const struct coll_buffers *buffers,
                              struct weft_error *error)
{
    weft_check(exec->state == EXEC_IDLE || exec->state == EXEC_ENDED);
    exec->buffers = *buffers;
    for (uint32_t i = 0; i < 2 * exec->n_ranks; i++) {
        struct exec_queue *queue = &exec->queues[i];
        weft_status status = WEFT_OK;

        if (queue->kind == EXEC_SENDS) {
            status =
                hold(queue, buffers->input, buffers->input_bytes, &queue->input, error);
        }
        if (status == WEFT_OK) {
            status = hold(queue, buffers->output, buffers->output_bytes, &queue->output,
                          error);
        }
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

static bool needs_staging(const struct coll_exec *exec, const struct exec_queue *queue)
{
    for (uint32_t i = 0; i < queue->n_steps; i++) {
        if (exec->plan->steps[queue->steps[i]].kind == COLL_RECV_REDUCE) {
            return queue->staging == NULL;
        }
    }
    return false;
}

/* Staging comes with the first plan that reduces what this peer sends, and stays. */
static weft_status add_staging(struct coll_exec *exec, struct weft_error *error)
{
    struct io_gpu *gpu = exec->env->gpu;
    size_t n_bytes = EXEC_WINDOW * COLL_SLICE_BYTES_MAX;

    for (uint32_t peer = 0; peer < exec->n_ranks; peer++) {
        struct exec_queue *queue = receives_from(exec, peer);
        void *memory = NULL;
        int sys_errno;
        weft_status status;

        if (!needs_staging(exec, queue)) {
            continue;
        }
        sys_errno = gpu->ops->alloc(
            gpu, gpu->rdma_direct ? IO_MEMORY_DEVICE : IO_MEMORY_HOST, n_bytes, &memory);
        if (sys_errno != 0) {
            return weft_fail_errno(error, sys_errno, "execute", "staging of %zu bytes",
                                   n_bytes);
        }
        queue->staging = memory;
        status =
            xfer_register(queue->xfer, memory, n_bytes, &queue->staging_memory, error);
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

static weft_status registered(struct exec_queue *queue, struct weft_error *error)
{
    struct xfer_memory *const memories[] = {&queue->input, &queue->output,
                                            &queue->staging_memory};
    weft_status result = WEFT_OK;

    for (size_t i = 0; i < WEFT_LENGTH(memories); i++) {
        weft_status status =
            memories[i]->n == 0 ? WEFT_OK
                                : xfer_register_progress(queue->xfer, memories[i], error);

        if (status < 0) {
            return status;
        }
        result = status == WEFT_AGAIN ? WEFT_AGAIN : result;
    }
    return result;
}

static weft_status all_registered(struct coll_exec *exec, struct weft_error *error)
{
    weft_status result;

    if (exec->unreachable != COLL_NO_STEP) {
        return weft_fail(
            error, WEFT_ERR_ROUTE, "execute",
            "the plan of rank %u needs rank %u, to which there is no connection",
            exec->rank, exec->unreachable);
    }
    result = add_staging(exec, error);

    for (uint32_t i = 0; i < exec->n_queues && result >= 0; i++) {
        weft_status status = registered(&exec->queues[i], error);

        result = status == WEFT_OK ? result : status;
    }
    return result;
}

/* ---- running ---- */

static struct exec_queue *queue_of(struct coll_exec *exec, const struct coll_step *step)
{
    switch (step->kind) {
    case COLL_SEND:
        return sends_to(exec, step->peer);
    case COLL_RECV:
    case COLL_RECV_REDUCE:
        return receives_from(exec, step->peer);
    case COLL_COPY:
    case COLL_JOIN:
        break;
    }
    return local_queue(exec);
}

static void queue_up(struct coll_exec *exec)
{
    for (uint32_t i = 0; i < exec->n_queues; i++) {
        struct exec_queue *queue = &exec->queues[i];

        weft_check(queue->n_started == queue->n_ended);
        queue->n_steps = 0;
        queue->at = 0;
        queue->iteration = 0;
    }
    exec->n_awaited = 0;
    exec->unreachable = COLL_NO_STEP;
    for (uint32_t i = 0; i < exec->plan->n_steps; i++) {
        const struct coll_step *step = &exec->plan->steps[i];
        struct exec_queue *queue = queue_of(exec, step);

        weft_check(step->count * exec->element_bytes <= COLL_SLICE_BYTES_MAX ||
                   step->kind != COLL_RECV_REDUCE);
        if (queue->kind != EXEC_LOCAL && queue->xfer == NULL) {
            exec->unreachable = step->peer;
            continue;
        }
        if (queue->n_steps == queue->cap) {
            queue->cap = queue->cap == 0 ? 32 : 2 * queue->cap;
            queue->steps = weft_realloc(queue->steps, queue->cap * sizeof(*queue->steps));
        }
        queue->steps[queue->n_steps++] = i;
        exec->n_awaited += exec_is_awaited(exec, step);
    }
}

void coll_exec_start(struct coll_exec *exec, const struct coll_job *job,
                     const struct coll_plan *plan, uint32_t iterations)
{
    weft_check(plan->rank == exec->rank && plan->n_ranks == exec->n_ranks);
    weft_check(iterations > 0);
    enter(exec, EXEC_REGISTERING);
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
    queue_up(exec);
    exec->n_left = exec->n_awaited;
}

/* The sum is divided where it lies, once it is complete and nobody reads it any more. */
static weft_status divide(struct coll_exec *exec, struct weft_error *error)
{
    if (exec->job.kind != COLL_ALL_REDUCE || exec->job.op != WEFT_AVG) {
        return WEFT_OK;
    }
    if (!exec->env->gpu->is_host_memory) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, "reduce",
                         "%s cannot divide: avg needs host memory", exec->env->gpu->name);
    }
    weft_reduce_divide(exec->job.dtype, exec->buffers.output, exec->job.count,
                       (int)exec->n_ranks);
    return WEFT_OK;
}

static weft_status end_iterations(struct coll_exec *exec, bool *moved,
                                  struct weft_error *error)
{
    while (exec->n_left == 0 && exec->iteration < exec->n_iterations) {
        weft_status status = divide(exec, error);

        if (status != WEFT_OK) {
            return status;
        }
        exec->finished_ns[exec->iteration++] = io_now(exec->env);
        exec->n_left = exec->n_awaited;
        *moved = true;
    }
    return WEFT_OK;
}

static weft_status run(struct coll_exec *exec, struct weft_error *error)
{
    bool moved = true;

    while (moved) {
        weft_status status = WEFT_OK;

        moved = false;
        for (uint32_t i = 0; i < exec->n_queues && status == WEFT_OK; i++) {
            status = exec_queue_progress(exec, &exec->queues[i], &moved, error);
        }
        if (status == WEFT_OK) {
            status = end_iterations(exec, &moved, error);
        }
        if (status != WEFT_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; i < exec->n_queues; i++) {
        if (!exec_is_drained(exec, &exec->queues[i])) {
            return WEFT_AGAIN;
        }
    }
    return exec->iteration == exec->n_iterations ? WEFT_OK : WEFT_AGAIN;
}

weft_status coll_exec_progress(struct coll_exec *exec, struct weft_error *error)
{
    struct weft_error local = {0};
    weft_status status = WEFT_OK;

    weft_check(exec->state != EXEC_FAILED && exec->state != EXEC_IDLE);
    if (exec->state == EXEC_REGISTERING) {
        status = all_registered(exec, &local);
        if (status == WEFT_OK) {
            enter(exec, EXEC_RUNNING);
        }
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

weft_ns coll_exec_finished_ns(const struct coll_exec *exec, uint32_t iteration)
{
    weft_check(exec->state == EXEC_ENDED && iteration < exec->n_iterations);
    return exec->finished_ns[iteration];
}

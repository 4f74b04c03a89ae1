#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "coll/exec_private.h"

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

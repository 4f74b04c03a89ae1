#include <errno.h>

#include "base/check.h"
#include "coll/exec_private.h"

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

bool exec_is_awaited(const struct coll_exec *exec, const struct coll_step *step)
{
    return step->kind != COLL_SEND || step->from != COLL_INPUT || exec->job.in_place;
}

bool exec_is_drained(const struct coll_exec *exec, const struct exec_queue *queue)
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

weft_status exec_queue_progress(struct coll_exec *exec, struct exec_queue *queue,
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

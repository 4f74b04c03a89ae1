#include "transport/steps.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"

void steps_init(struct steps *steps, const struct steps_config *config)
{
    weft_check(config->step_bytes >= STEPS_BYTES_MIN &&
               config->step_bytes <= STEPS_BYTES_MAX);
    *steps = (struct steps){.config = *config};
}

/* Starts the negotiation of CUDA IPC at the first long message that is sent, and starts it again
 * once a refusal has expired. Either end can have refused, so a receiver does so, too. */
static void negotiate(struct steps *steps, size_t n_bytes)
{
    struct ipc_peer *ipc = steps->config.ipc;

    if (ipc != NULL && n_bytes >= steps->config.direct_bytes &&
        (steps->config.is_sender || ipc->link.machine.is_wanted)) {
        ipc_link_touch(&ipc->link);
    }
}

weft_status steps_post(struct steps *steps, void *data, size_t n_bytes,
                       struct steps_request **out)
{
    struct steps_request *request = &steps->requests[steps->n_posted % STEPS_REQUESTS];

    *out = NULL;
    if (steps->error.status != WEFT_OK) {
        return steps->error.status;
    }
    if (request->state != STEPS_FREE) {
        return WEFT_AGAIN;
    }
    *request = (struct steps_request){.state = STEPS_OPEN,
                                      .number = steps->n_posted++,
                                      .data = data,
                                      .n_bytes = n_bytes};
    *out = request;
    negotiate(steps, n_bytes);
    steps_progress(steps);
    return WEFT_OK;
}

weft_status steps_test(struct steps *steps, struct steps_request *request,
                       size_t *out_bytes)
{
    weft_check(request->state != STEPS_FREE);
    if (request->state == STEPS_DONE) {
        request->state = STEPS_FREE;
        steps->n_looks++; /* makes room for another */
        if (out_bytes != NULL) {
            *out_bytes = request->n_copied;
        }
        return WEFT_OK;
    }
    return steps->error.status != WEFT_OK ? steps->error.status : WEFT_AGAIN;
}

void steps_fail(struct steps *steps, const struct weft_error *error)
{
    if (steps->error.status == WEFT_OK) {
        steps->error = *error;
        steps->n_looks++;
    }
}

bool steps_is_copying(const struct steps *steps)
{
    return steps->n_moved < steps->n_started;
}

static void steps_break(struct steps *steps, const char *what, uint64_t value)
{
    struct weft_error error = {0};

    weft_fail(&error, WEFT_ERR_PROTOCOL, WEFT_PHASE_STEPS, "rank %u: %s %llu",
              steps->config.peer, what, (unsigned long long)value);
    steps_fail(steps, &error);
}

static void steps_end_of_step(struct steps *steps, struct steps_request *request)
{
    request->n_steps--;
    if (request->is_whole && request->n_steps == 0) {
        request->state = STEPS_DONE;
        steps->n_messages++;
        steps->n_bytes += request->n_copied;
    }
}

/* Offers of messages, which the other end copies directly, using one step each. */

static struct ipc_node *node_of(const struct steps *steps)
{
    return steps->config.ipc->link.config.node;
}

/* Restarts a message from its beginning. */
static void go_back(struct steps *steps, struct steps_request *request)
{
    request->is_whole = false;
    request->n_copied = 0;
    if (request->number < steps->n_filled) {
        steps->n_filled = request->number;
    }
}

/* ---- offers: the sender ---- */

/* Offers the message in the next step. Returns false if it must be
 * sent in pieces. */
static bool steps_offer(struct steps *steps, struct steps_request *request)
{
    uint32_t at = (uint32_t)(steps->n_started % STEPS_N);
    struct steps_control *control = steps->config.control;
    bool is_long = request->n_bytes >= steps->config.direct_bytes;
    struct ipc_offer offer;
    uint32_t event;

    /* The caller has seen the work that wrote the data complete. So the event is recorded on the
     * node's stream rather than on the GPU's own, where it would wait for unrelated work. If all
     * events are lent, the message uses the steps instead of waiting for one. */
    if (steps->config.ipc == NULL || request->is_refused || request->n_copied > 0 ||
        (!is_long && steps->n_offers == 0) ||
        ipc_peer_offer(steps->config.ipc, request->data, request->n_bytes,
                       node_of(steps)->stream, &offer, &event) != WEFT_OK) {
        return false;
    }
    ipc_encode_offer(&offer, control->offers[at]);
    atomic_store_explicit(&control->answers[at], STEPS_UNANSWERED, memory_order_relaxed);
    atomic_store_explicit(&control->pieces[at], (uint64_t)request->n_bytes << 2 | 2 | 1,
                          memory_order_relaxed);
    steps->slots[at] =
        (struct steps_slot){.is_offer = true, .request = request, .event = event};
    request->is_whole = true;
    request->n_steps++;
    steps->n_offers++;
    steps->n_started++;
    return true;
}

static void take_answer(struct steps *steps, struct steps_slot *slot, uint32_t answer)
{
    struct steps_request *request = slot->request;

    ipc_node_return(node_of(steps), slot->event);
    steps->n_offers--;
    if (answer == STEPS_REFUSED || answer == STEPS_PASSED) {
        request->is_refused = answer == STEPS_REFUSED;
        steps->n_refused += answer == STEPS_REFUSED;
        go_back(steps, request);
    } else if (answer != STEPS_TAKEN || request->number >= steps->n_filled) {
        steps_break(steps, "it did not answer its offers in order, but with", answer);
        return;
    } else {
        request->n_copied = request->n_bytes;
        steps->n_direct++;
    }
    steps_end_of_step(steps, request);
}

/* Sender: reads the answers in steps that the other end has released. Returns true if there was
 * one. */
static bool steps_take_answers(struct steps *steps)
{
    bool any = false;

    while (steps->n_answered < steps->n_seen && steps->error.status == WEFT_OK) {
        uint32_t at = (uint32_t)(steps->n_answered++ % STEPS_N);

        if (steps->slots[at].is_offer) {
            take_answer(steps, &steps->slots[at],
                        atomic_load_explicit(&steps->config.control->answers[at],
                                             memory_order_relaxed));
            any = true;
        }
    }
    steps->n_looks += any;
    return any;
}

/* ---- offers: the receiver ---- */

/* Receiver: starts to copy what the next step offers into the buffer of a request, or refuses
 * it. */
static void steps_take_offer(struct steps *steps, struct steps_request *request,
                             size_t n_bytes)
{
    uint32_t at = (uint32_t)(steps->n_started % STEPS_N);
    struct steps_slot *slot = &steps->slots[at];
    uint8_t bytes[IPC_OFFER_BYTES];
    struct ipc_offer offer;

    memcpy(bytes, steps->config.control->offers[at], sizeof(bytes));
    if (steps->config.ipc == NULL || request->n_copied > 0 ||
        !ipc_decode_offer(bytes, &offer) || offer.n_bytes != n_bytes || n_bytes == 0) {
        steps_break(steps, "there is no offer in step", steps->n_started);
        return;
    }
    *slot = (struct steps_slot){.is_offer = true, .request = request, .n_bytes = n_bytes};
    slot->has_op = ipc_peer_copy(steps->config.ipc, &offer, request->data,
                                 steps->config.task, &slot->op, &slot->mapping) == 0;
    slot->answer = slot->has_op ? STEPS_UNANSWERED : STEPS_REFUSED;
    steps->passes = !slot->has_op;
    request->is_whole = slot->has_op;
    request->n_steps++;
    steps->n_started++;
}

/* Receiver: passes over the offer in the next step. */
static void steps_pass_offer(struct steps *steps)
{
    steps->slots[steps->n_started++ % STEPS_N] =
        (struct steps_slot){.is_offer = true, .answer = STEPS_PASSED};
}

/* Passes over the steps started behind a refused offer. */
static void pass_the_others(struct steps *steps)
{
    for (uint64_t i = steps->n_moved; i < steps->n_started; i++) {
        steps->slots[i % STEPS_N].answer = STEPS_PASSED;
    }
    steps->passes = true;
}

/* Receiver: answers the offer of a step whose copy has ended or was never started. */
static void steps_answer(struct steps *steps, struct steps_slot *slot)
{
    struct steps_request *request = slot->request;

    if (slot->mapping != NULL) {
        ipc_cache_release(&node_of(steps)->cache, slot->mapping);
        slot->mapping = NULL;
    }
    if (slot->answer == STEPS_UNANSWERED) {
        slot->answer = slot->op.error == 0 ? STEPS_TAKEN : STEPS_REFUSED;
    }
    atomic_store_explicit(&steps->config.control->answers[slot - steps->slots],
                          (uint32_t)slot->answer, memory_order_relaxed);
    if (slot->answer == STEPS_REFUSED) {
        steps->n_refused++;
        pass_the_others(steps);
    }
    if (request == NULL) {
        return;
    }
    if (slot->answer == STEPS_TAKEN) {
        request->n_copied = slot->n_bytes;
        steps->n_direct++;
    } else {
        go_back(steps, request);
    }
    steps_end_of_step(steps, request);
}

/* ---- what the other end wrote ---- */

static struct doorbell_counter *theirs(struct steps *steps)
{
    struct steps_control *control = steps->config.control;

    return steps->config.is_sender ? &control->head : &control->tail;
}

/* Reads the other end's counter and, as sender, the answers to offers. Breaks the ring if the
 * counter went back or past what is possible. Returns true if an answer was read. */
static bool look(struct steps *steps)
{
    uint64_t seen = doorbell_read(theirs(steps));
    uint64_t most = steps->config.is_sender ? steps->n_moved : steps->n_moved + STEPS_N;

    if (seen < steps->n_seen || seen > most) {
        steps_break(steps, "its counter of steps jumped to", seen);
        return false;
    }
    steps->n_seen = seen;
    return steps->config.is_sender && steps_take_answers(steps);
}

/* Returns the number of steps that are free (sender) or filled (receiver) and not started. */
static uint64_t n_ready(const struct steps *steps)
{
    return steps->config.is_sender ? steps->n_seen + STEPS_N - steps->n_started
                                   : steps->n_seen - steps->n_started;
}

/* ---- copies ---- */

static void start_copy(struct steps *steps, struct steps_request *request,
                       uint32_t n_bytes)
{
    uint32_t at = (uint32_t)(steps->n_started % STEPS_N);
    uint8_t *step = steps->config.memory + (size_t)at * steps->config.step_bytes;
    uint8_t *data = n_bytes == 0 ? NULL : request->data + request->n_copied;
    struct steps_slot *slot = &steps->slots[at];
    struct io_gpu *gpu = steps->config.gpu;
    int sys_errno = 0;

    *slot = (struct steps_slot){.request = request, .has_op = n_bytes > 0};
    if (n_bytes > 0) {
        slot->op = (struct io_gpu_op){.kind = IO_GPU_COPY,
                                      .task = steps->config.task,
                                      .out = steps->config.is_sender ? step : data,
                                      .a = steps->config.is_sender ? data : step,
                                      .count = n_bytes};
        sys_errno = gpu->ops->start(gpu, &slot->op);
    }
    if (sys_errno != 0) {
        struct weft_error error = {0};

        weft_fail_errno(&error, sys_errno, WEFT_PHASE_STEPS,
                        "the GPU refused a copy of %u bytes", n_bytes);
        steps_fail(steps, &error);
        return;
    }
    request->n_copied += n_bytes;
    request->n_steps++;
    steps->n_started++;
}

static void send_piece(struct steps *steps, struct steps_request *request)
{
    size_t left = request->n_bytes - request->n_copied;
    bool is_last = left <= steps->config.step_bytes;
    uint32_t n_bytes = is_last ? (uint32_t)left : steps->config.step_bytes;
    uint32_t at = (uint32_t)(steps->n_started % STEPS_N);

    atomic_store_explicit(&steps->config.control->pieces[at],
                          (uint64_t)n_bytes << 2 | is_last, memory_order_relaxed);
    request->is_whole = is_last;
    start_copy(steps, request, n_bytes);
}

/* Starts the next step of the sender. Returns false if there is no message or it must wait. */
static bool send_next(struct steps *steps)
{
    struct steps_request *request = &steps->requests[steps->n_filled % STEPS_REQUESTS];

    if (steps->n_filled == steps->n_posted) {
        return false;
    }
    if (!steps_offer(steps, request)) {
        if (steps->n_offers > 0) {
            return false;
        }
        send_piece(steps, request);
    }
    steps->n_filled += request->is_whole;
    return true;
}

static void receive_piece(struct steps *steps, struct steps_request *request,
                          uint64_t piece)
{
    uint64_t n_bytes = piece >> 2;

    if ((piece & 2) == 0 && n_bytes > steps->config.step_bytes) {
        steps_break(steps, "a step cannot hold", n_bytes);
        return;
    }
    if (n_bytes > request->n_bytes - request->n_copied) {
        steps_break(steps, "its message is longer than what was posted, by a piece of",
                    n_bytes);
        return;
    }
    if ((piece & 2) != 0) {
        steps_take_offer(steps, request, n_bytes);
        return;
    }
    request->is_whole = (piece & 1) != 0;
    steps->passes = false;
    start_copy(steps, request, (uint32_t)n_bytes);
}

/* Starts the next step of the receiver. Returns false if no receive is posted for it. */
static bool receive_next(struct steps *steps)
{
    uint32_t at = (uint32_t)(steps->n_started % STEPS_N);
    uint64_t piece =
        atomic_load_explicit(&steps->config.control->pieces[at], memory_order_relaxed);
    struct steps_request *request = &steps->requests[steps->n_filled % STEPS_REQUESTS];

    if (steps->passes && (piece & 2) != 0) {
        steps_pass_offer(steps);
        return true;
    }
    if (steps->n_filled == steps->n_posted) {
        return false;
    }
    receive_piece(steps, request, piece);
    steps->n_filled += request->is_whole;
    return true;
}

static bool start_copies(struct steps *steps)
{
    bool any = false, more = true;

    while (more && n_ready(steps) > 0 && steps->error.status == WEFT_OK) {
        more = steps->config.is_sender ? send_next(steps) : receive_next(steps);
        any = any || more;
    }
    return any;
}

static bool is_copied(struct steps *steps, struct steps_slot *slot)
{
    struct io_gpu *gpu = steps->config.gpu;
    struct weft_error error = {0};
    int sys_errno;

    if (!slot->has_op) {
        return true;
    }
    sys_errno = gpu->ops->poll(gpu, &slot->op);
    if (sys_errno != 0 && sys_errno != EINPROGRESS && !slot->is_offer) {
        weft_fail_errno(&error, sys_errno, WEFT_PHASE_STEPS, "a copy of the GPU failed");
        steps_fail(steps, &error);
    }
    return sys_errno == 0 || (slot->is_offer && sys_errno != EINPROGRESS);
}

/* An offer of the sender ends with its answer, not here. */
static void end_step(struct steps *steps)
{
    struct steps_slot *slot = &steps->slots[steps->n_moved++ % STEPS_N];

    if (!slot->is_offer) {
        steps_end_of_step(steps, slot->request);
    } else if (!steps->config.is_sender) {
        steps_answer(steps, slot);
    }
}

static bool end_copies(struct steps *steps)
{
    struct steps_control *control = steps->config.control;
    bool is_sender = steps->config.is_sender;
    uint64_t before = steps->n_moved;

    while (steps->n_moved < steps->n_started && steps->error.status == WEFT_OK &&
           is_copied(steps, &steps->slots[steps->n_moved % STEPS_N])) {
        end_step(steps);
    }
    if (steps->n_moved == before) {
        return false;
    }
    steps->n_looks++;
    doorbell_publish(is_sender ? &control->tail : &control->head, steps->n_moved);
    if (doorbell_must_ring(&control->sleeper[is_sender ? 1 : 0])) {
        steps->must_ring = true;
    }
    return true;
}

/* Returns true if nothing can be done until the other end moves or a copy ends. */
static bool may_rest(struct steps *steps)
{
    struct steps_control *control = steps->config.control;
    bool is_fed = steps->n_filled == steps->n_posted || n_ready(steps) > 0;

    if (steps->n_offers == 0 && is_fed) {
        return true;
    }
    return doorbell_may_sleep(&control->sleeper[steps->config.is_sender ? 0 : 1],
                              theirs(steps), steps->n_seen);
}

void steps_progress(struct steps *steps)
{
    bool any = true;

    while (any && steps->error.status == WEFT_OK) {
        any = look(steps);
        any = end_copies(steps) || any;
        any = start_copies(steps) || any;
        any = any || !may_rest(steps);
    }
}

/* ---- the end ---- */

void steps_abandon(struct steps *steps)
{
    uint64_t first = steps->config.is_sender ? steps->n_answered : steps->n_moved;

    for (uint64_t i = first; i < steps->n_started; i++) {
        struct steps_slot *slot = &steps->slots[i % STEPS_N];

        if (slot->is_offer && steps->config.is_sender) {
            ipc_node_return(node_of(steps), slot->event);
        } else if (slot->mapping != NULL) {
            ipc_cache_release(&node_of(steps)->cache, slot->mapping);
            slot->mapping = NULL;
        }
    }
    steps->n_answered = steps->n_started;
    steps->n_moved = steps->n_started;
    steps->n_offers = 0;
}

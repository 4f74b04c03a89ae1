/* Messages that are offered by one end and copied directly by the other, using one step each. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "transport/steps.h"

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

/* ---- the sender ---- */

bool steps_offer(struct steps *steps, struct steps_request *request)
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

bool steps_take_answers(struct steps *steps)
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

/* ---- the receiver ---- */

void steps_take_offer(struct steps *steps, struct steps_request *request, size_t n_bytes)
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

void steps_pass_offer(struct steps *steps)
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

void steps_answer(struct steps *steps, struct steps_slot *slot)
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

/* Replies to requests: acknowledgements, responses of READs and atomics, their frames. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/access.h"
#include "sim/landing.h"
#include "sim/rc_frame.h"
#include "sim/rc_impl.h"
#include "sim/rc_ready.h"

/* ---- acknowledgements ---- */

void rc_arm_reply(struct sim_qp *qp, weft_ps at)
{
    if (at <= sim_now(qp->nic->engine)) {
        rc_kick(qp);
    } else if (!sim_is_scheduled(&qp->rq.due)) {
        sim_schedule(qp->nic->engine, &qp->rq.due, at);
    }
}

void rc_acknowledge(struct sim_qp *qp, uint8_t syndrome, uint32_t psn, bool is_fatal)
{
    struct rc_reply *reply = &qp->rq.reply;
    struct rc_reply said = {
        .is_pending = true,
        .is_fatal = is_fatal,
        .syndrome = syndrome,
        .psn = psn & RC_PSN_MASK,
        .msn = qp->rq.msn,
        .at = sim_now(qp->nic->engine) + qp->nic->profile->ack_delay_ps,
    };
    if (!reply->is_pending) {
        *reply = said;
        rc_arm_reply(qp, said.at);
    } else if (qp->nic->profile->acks_are_single) {
        rc_queue_reply(&qp->rq, &said);
    } else {
        said.at = reply->at; /* the new reply leaves when the old one would have */
        rc_replace_reply(qp, &said);
    }
}

void rc_refuse(struct sim_qp *qp, uint8_t syndrome, enum ibv_wc_status status)
{
    struct rc_responder *rq = &qp->rq;
    qp->nic->counters.naks_sent++;
    sim_qp_trace(qp, "refuse", "syndrome=%u psn=%u", syndrome, rq->epsn);
    rc_acknowledge(qp, syndrome, rq->epsn, true);
    /* The user sees a fault of its own receive WR in that WR's completion. */
    if (qp->nic->profile->raises_access_events && syndrome != RC_SYNDROME_OPERATIONAL) {
        bool is_access = syndrome == RC_SYNDROME_ACCESS;
        sim_nic_raise_qp(qp, is_access ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
    }
    if (status != IBV_WC_SUCCESS) {
        rc_complete_recv(qp, status, IBV_WC_RECV, 0, NULL);
    }
    rc_enter_error(qp, IBV_WC_SUCCESS, true);
}

/* ---- READs and atomics ---- */

static void unqueue(struct rc_responder *rq, uint32_t position)
{
    rq->resources[rq->pending[position]].is_pending = false;
    rq->n_pending--;
    memmove(rq->pending + position, rq->pending + position + 1,
            (rq->n_pending - position) * sizeof(*rq->pending));
}

/* Doubles the number of resources; sorts them, the oldest first. */
static void grow_resources(struct rc_responder *rq)
{
    uint32_t n = rq->n_resources;
    struct rc_resource *resources = weft_calloc(2 * n, sizeof(*resources));
    uint32_t *pending = weft_calloc(2 * n, sizeof(*pending));
    for (uint32_t i = 0; i < n; i++) {
        resources[i] = rq->resources[(rq->next_resource + i) % n];
    }
    for (uint32_t i = 0; i < rq->n_pending; i++) {
        pending[i] = (rq->pending[i] + n - rq->next_resource) % n;
    }
    free(rq->resources);
    free(rq->pending);
    rq->resources = resources;
    rq->pending = pending;
    rq->n_resources = 2 * n;
    rq->next_resource = n;
}

/* Returns true if the resource can answer duplicates. Only max_dest_rd_atomic resources
 * can, even if the list has grown for READs that wait. */
static bool is_remembered(const struct sim_qp *qp, uint32_t index)
{
    const struct rc_responder *rq = &qp->rq;
    uint32_t age = (rq->next_resource + rq->n_resources - 1 - index) % rq->n_resources;
    return rq->resources[index].is_known && age < qp->attr.max_dest_rd_atomic;
}

/* Makes the oldest resource available. If its responses have not been sent for the first
 * time, the requester has more in flight than max_dest_rd_atomic: adds resources if the
 * profile serves such READs, otherwise returns NULL. */
static struct rc_resource *take_resource(struct sim_qp *qp)
{
    struct rc_responder *rq = &qp->rq;
    if (rq->n_resources == 0) {
        return NULL;
    }
    struct rc_resource *resource = &rq->resources[rq->next_resource];
    if (resource->is_pending && !resource->is_repeat) {
        if (!qp->nic->profile->excess_reads_served) {
            return NULL;
        }
        grow_resources(rq);
        resource = &rq->resources[rq->next_resource];
    }
    if (resource->is_pending) {
        /* The requester has all of these responses, because it sends new requests. A late
         * duplicate had requested them again. */
        uint32_t position = 0;
        while (rq->pending[position] != rq->next_resource) {
            position++;
        }
        unqueue(rq, position);
    }
    rq->next_resource = (rq->next_resource + 1) % rq->n_resources;
    memset(resource, 0, sizeof(*resource));
    resource->is_known = true;
    return resource;
}

/* Queues the responses of `resource` by PSN. */
static void queue_resource(struct sim_qp *qp, struct rc_resource *resource)
{
    struct rc_responder *rq = &qp->rq;
    uint32_t index = (uint32_t)(resource - rq->resources);
    resource->ready_at = sim_now(qp->nic->engine) + qp->nic->profile->ack_delay_ps;
    if (!resource->is_pending) {
        uint32_t i = rq->n_pending;
        while (i > 0 && rc_psn_diff(rq->resources[rq->pending[i - 1]].first_psn,
                                    resource->first_psn) > 0) {
            rq->pending[i] = rq->pending[i - 1];
            i--;
        }
        rq->pending[i] = index;
        rq->n_pending++;
        resource->is_pending = true;
    }
    rc_arm_reply(qp, resource->ready_at);
}

static uint32_t n_responses(uint32_t length, uint32_t mtu_bytes)
{
    return length == 0 ? 1 : (length - 1) / mtu_bytes + 1;
}

void rc_start_read(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_responder *rq = &qp->rq;
    if (frame->dma_bytes > 1u << 31) {
        rc_refuse(qp, RC_SYNDROME_INVALID, IBV_WC_SUCCESS);
        return;
    }
    if (frame->dma_bytes > 0 &&
        !sim_mr_allows(qp->nic, qp->pd, frame->rkey, frame->va, frame->dma_bytes,
                       IBV_ACCESS_REMOTE_READ)) {
        rc_refuse(qp, RC_SYNDROME_ACCESS, IBV_WC_SUCCESS);
        return;
    }
    if (qp->nic->pieces != NULL) {
        sim_land_all(qp->nic); /* a read flushes earlier writes */
    }
    struct rc_resource *resource = take_resource(qp);
    if (resource == NULL) {
        rc_refuse(qp, RC_SYNDROME_INVALID, IBV_WC_SUCCESS);
        return;
    }
    resource->first_psn = frame->psn;
    resource->n_psn = n_responses(frame->dma_bytes, qp->mtu_bytes);
    resource->last = resource->n_psn;
    resource->va = frame->va;
    resource->rkey = frame->rkey;
    resource->length = frame->dma_bytes;
    rq->epsn = (rq->epsn + resource->n_psn) & RC_PSN_MASK;
    rq->msn = (rq->msn + 1) & RC_PSN_MASK;
    resource->msn = rq->msn;
    queue_resource(qp, resource);
}

/* Compares and swaps, or adds, in host byte order. Returns the value before. */
static uint64_t operate(struct sim_nic *nic, const struct sim_frame *frame)
{
    const struct sim_phantom *phantom = nic->phantom;
    void *target = sim_mr_at(nic, frame->rkey, frame->va);
    uint64_t original = 0;
    uint64_t changed;
    sim_move(phantom, &original, target, sizeof(original));
    if (frame->opcode == RC_FETCH_ADD) {
        changed = original + frame->swap_add;
    } else {
        changed = original == frame->compare ? frame->swap_add : original;
    }
    sim_move(phantom, target, &changed, sizeof(changed));
    return original;
}

void rc_execute_atomic(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_responder *rq = &qp->rq;
    bool is_able = qp->nic->profile->atomic_cap != IBV_ATOMIC_NONE;
    if (!is_able || frame->va % 8 != 0) {
        rc_refuse(qp, RC_SYNDROME_INVALID, IBV_WC_SUCCESS);
        return;
    }
    if (!sim_mr_allows(qp->nic, qp->pd, frame->rkey, frame->va, 8,
                       IBV_ACCESS_REMOTE_ATOMIC)) {
        rc_refuse(qp, RC_SYNDROME_ACCESS, IBV_WC_SUCCESS);
        return;
    }
    if (qp->nic->pieces != NULL) {
        sim_land_all(qp->nic); /* a read flushes earlier writes */
    }
    struct rc_resource *resource = take_resource(qp);
    if (resource == NULL) {
        rc_refuse(qp, RC_SYNDROME_INVALID, IBV_WC_SUCCESS);
        return;
    }
    resource->is_atomic = true;
    resource->first_psn = frame->psn;
    resource->n_psn = 1;
    resource->last = 1;
    resource->va = frame->va;
    resource->rkey = frame->rkey;
    resource->original = operate(qp->nic, frame);
    rq->epsn = (rq->epsn + 1) & RC_PSN_MASK;
    rq->msn = (rq->msn + 1) & RC_PSN_MASK;
    resource->msn = rq->msn;
    queue_resource(qp, resource);
}

/* Returns true if `frame` repeats a part of the request that `resource` answered. */
static bool is_part_of(const struct sim_qp *qp, const struct rc_resource *resource,
                       const struct sim_frame *frame, uint32_t *first, uint32_t *n)
{
    uint32_t offset = (frame->psn - resource->first_psn) & RC_PSN_MASK;
    bool is_atomic = frame->opcode != RC_READ_REQUEST;
    if (resource->is_atomic != is_atomic || offset >= resource->n_psn ||
        frame->rkey != resource->rkey) {
        return false;
    }
    uint64_t skipped = (uint64_t)offset * qp->mtu_bytes;
    *first = offset;
    *n = is_atomic ? 1 : n_responses(frame->dma_bytes, qp->mtu_bytes);
    return frame->va == resource->va + skipped && *n <= resource->n_psn - offset &&
           (is_atomic || frame->dma_bytes <= resource->length - skipped);
}

void rc_repeat_resource(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_responder *rq = &qp->rq;
    uint32_t first = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < rq->n_resources; i++) {
        struct rc_resource *resource = &rq->resources[i];
        if (is_remembered(qp, i) && is_part_of(qp, resource, frame, &first, &n)) {
            bool goes_on = qp->nic->profile->read_tail_is_middle;
            resource->next = first;
            resource->base = goes_on ? 0 : first;
            resource->last = first + n;
            resource->msn = rq->msn;
            resource->is_repeat = true;
            queue_resource(qp, resource);
            return;
        }
    }
    /* If it is not remembered, there is no response (IBA 9.7.5.1.2). */
}

void rc_replace_reply(struct sim_qp *qp, const struct rc_reply *reply)
{
    struct rc_responder *rq = &qp->rq;
    rq->reply = *reply;
    if (rq->n_pending > 0) {
        rc_arm_reply(qp,
                     rc_ack_is_next(rq) ? rq->reply.at : rc_first_pending(rq)->ready_at);
    }
}

void rc_withdraw_rnr_nak(struct sim_qp *qp)
{
    struct rc_responder *rq = &qp->rq;
    bool is_rnr = (rq->reply.syndrome & 0xe0) == RC_SYNDROME_RNR;
    if (rq->reply.is_pending && is_rnr && rq->reply.psn == rq->epsn &&
        rq->n_behind == 0) {
        rq->reply.is_pending = false;
        if (rq->n_pending > 0) {
            rc_arm_reply(qp, rc_first_pending(rq)->ready_at);
        }
    }
}

/* Schedules the next reply, if it must wait for its time. */
static void arm_next(struct sim_qp *qp)
{
    struct rc_responder *rq = &qp->rq;
    weft_ps now = sim_now(qp->nic->engine);
    const struct rc_resource *resource = rc_first_pending(rq);
    weft_ps at = SIM_NEVER;
    if (rc_ack_is_next(rq)) {
        at = rq->reply.at;
    } else if (resource != NULL) {
        at = resource->ready_at;
    }
    if (at != SIM_NEVER && at > now) {
        sim_schedule(qp->nic->engine, &rq->due, at);
    }
}

void rc_queue_reply(struct rc_responder *rq, const struct rc_reply *reply)
{
    if (rq->n_behind == rq->behind_cap) {
        uint32_t cap = rq->behind_cap == 0 ? 16 : 2 * rq->behind_cap;
        struct rc_reply *ring = weft_calloc(cap, sizeof(*ring));
        for (uint32_t i = 0; i < rq->n_behind; i++) {
            ring[i] = rq->behind[(rq->behind_head + i) % rq->behind_cap];
        }
        free(rq->behind);
        rq->behind = ring;
        rq->behind_cap = cap;
        rq->behind_head = 0;
    }
    rq->behind[(rq->behind_head + rq->n_behind) % rq->behind_cap] = *reply;
    rq->n_behind++;
}

/* Runs when a reply is due. A reply that is due later may have become the next one. */
void rc_reply_due(struct sim_event *event)
{
    struct sim_qp *qp = weft_container_of(event, struct sim_qp, rq.due);
    struct rc_reply *reply = &qp->rq.reply;
    if (reply->is_pending && qp->rq.n_behind == 0 &&
        reply->at <= sim_now(qp->nic->engine) && rc_reply_at_once(qp, reply)) {
        reply->is_pending = false;
        return;
    }
    rc_kick(qp);
    arm_next(qp);
}

static void build_ack(struct sim_qp *qp, struct sim_frame *out)
{
    struct rc_responder *rq = &qp->rq;
    rc_frame_init(qp, out, RC_ACK, rq->reply.psn);
    out->syndrome = rq->reply.syndrome;
    out->msn = rq->reply.msn;
    rq->reply.is_pending = false;
    if (rq->n_behind > 0) {
        rq->reply = rq->behind[rq->behind_head];
        rq->behind_head = (rq->behind_head + 1) % rq->behind_cap;
        rq->n_behind--;
    }
    rc_frame_finish(qp, out);
}

static void build_atomic_ack(struct sim_qp *qp, struct sim_frame *out)
{
    struct rc_responder *rq = &qp->rq;
    const struct rc_resource *resource = rc_first_pending(rq);
    rc_frame_init(qp, out, RC_ATOMIC_ACK, resource->first_psn);
    out->syndrome = RC_SYNDROME_ACK;
    out->msn = resource->msn;
    out->va = resource->original;
    rc_frame_finish(qp, out);
    unqueue(rq, 0);
}

static uint8_t read_opcode(const struct rc_resource *resource)
{
    bool is_first = resource->next == resource->base;
    bool is_last = resource->next + 1 == resource->last;
    if (is_first) {
        return is_last ? RC_READ_ONLY : RC_READ_FIRST;
    }
    return is_last ? RC_READ_LAST : RC_READ_MIDDLE;
}

/* Builds one response of a READ. Copies its bytes, because their owner may change them
 * until they land. */
static bool build_read_response(struct sim_qp *qp, struct sim_frame *out)
{
    struct rc_responder *rq = &qp->rq;
    struct rc_resource *resource = &rq->resources[rq->pending[0]];
    uint64_t offset = (uint64_t)resource->next * qp->mtu_bytes;
    uint64_t left = resource->length - offset;
    uint32_t n = left < qp->mtu_bytes ? (uint32_t)left : qp->mtu_bytes;
    if (n > 0 && !sim_mr_allows(qp->nic, qp->pd, resource->rkey, resource->va + offset, n,
                                IBV_ACCESS_REMOTE_READ)) {
        /* The key was invalidated meanwhile, so there is nothing to read from this PSN
         * on. */
        rq->epsn = rc_response_psn(resource);
        rq->n_pending = 0;
        rc_refuse(qp, RC_SYNDROME_ACCESS, IBV_WC_SUCCESS);
        return false;
    }
    rc_frame_init(qp, out, read_opcode(resource), rc_response_psn(resource));
    out->syndrome = RC_SYNDROME_ACK;
    out->msn = resource->msn;
    if (n > 0) {
        out->payload = sim_mr_at(qp->nic, resource->rkey, resource->va + offset);
        out->n_payload = n;
        sim_frame_own(qp->nic->engine, out);
    }
    rc_frame_finish(qp, out);
    resource->next++;
    if (resource->next == resource->last) {
        unqueue(rq, 0);
    }
    return true;
}

bool rc_build_reply(struct sim_qp *qp, struct sim_frame *out)
{
    struct rc_responder *rq = &qp->rq;
    bool is_built = true;
    if (rq->n_pending == 0 && rq->n_behind == 0) { /* a single reply */
        build_ack(qp, out);
        return true;
    }
    if (rc_ack_is_next(rq)) {
        build_ack(qp, out);
    } else if (rc_first_pending(rq)->is_atomic) {
        build_atomic_ack(qp, out);
    } else {
        is_built = build_read_response(qp, out);
    }
    if (rq->n_pending > 0 || rq->reply.is_pending) {
        arm_next(qp);
    }
    return is_built;
}

/* Determines whether a queue pair has something to send. Inline, because it runs several
 * times for every packet. */
#ifndef WEFT_SIM_RC_READY_H
#define WEFT_SIM_RC_READY_H

#include "sim/rc_frame.h"
#include "sim/rc_impl.h"

/* Returns the PSN of the response that `resource` sends next. */
static inline uint32_t rc_response_psn(const struct rc_resource *resource)
{
    return (resource->first_psn + resource->next) & RC_PSN_MASK;
}

/* Returns the resource that sends the next response, or NULL. */
static inline const struct rc_resource *rc_first_pending(const struct rc_responder *rq)
{
    return rq->n_pending > 0 ? &rq->resources[rq->pending[0]] : NULL;
}

/* Returns true if the acknowledgement leaves next: before responses with later PSNs, and
 * after those with earlier ones. A NAK also leaves before a response with its own PSN,
 * because it was decided when that request was still missing; after the response it would
 * request what was answered. */
bool rc_ack_is_next(const struct rc_responder *rq);
/* Does the work of rc_reply_is_ready() while responses of READs and atomics are
 * waiting. */
bool rc_some_reply_is_ready(const struct sim_qp *qp);
/* Returns true if the WR at `send`, none of whose packets has been sent, may start. */
bool rc_may_start(const struct sim_qp *qp, const struct sim_wqe *wqe);

static inline bool rc_reply_is_ready(const struct sim_qp *qp)
{
    const struct rc_responder *rq = &qp->rq;
    if (rq->n_pending > 0) {
        return rc_some_reply_is_ready(qp);
    }
    return rq->reply.is_pending && rq->reply.at <= sim_now(qp->nic->engine);
}

static inline bool rc_request_is_ready(const struct sim_qp *qp)
{
    const struct rc_requester *sq = &qp->sq;
    if (sq->send == sq->post || sq->is_rnr_waiting || sq->is_faulted ||
        (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)) {
        return false;
    }
    const struct sim_wqe *wqe = &sq->wqes[sq->send & sq->mask];
    uint32_t in_flight = (sq->next_psn - sq->una_psn) & RC_PSN_MASK;
    if (in_flight >= qp->nic->profile->window_packets ||
        wqe->ready_at > sim_now(qp->nic->engine)) {
        return false;
    }
    bool is_simple = wqe->is_plain && !wqe->is_fenced && qp->state == IBV_QPS_RTS;
    return sq->packet > 0 || is_simple || rc_may_start(qp, wqe);
}

/* Adds `qp` to the list of `port`. */
static inline void rc_append_ready(struct sim_nic_port *port, struct sim_qp *qp)
{
    qp->is_ready = true;
    qp->next_ready = NULL;
    *port->ready_tail = qp;
    port->ready_tail = &qp->next_ready;
}

/* Restores both retry counters, because something new was acknowledged. */
static inline void rc_renew_retries(struct rc_requester *sq)
{
    sq->retries_left = sq->retry_cnt;
    sq->rnr_retries_left = sq->rnr_retry;
    sq->went_back = false;
}

static inline bool rc_has_frames(const struct sim_qp *qp)
{
    return rc_reply_is_ready(qp) || rc_request_is_ready(qp);
}

/* Does what the transmitter's event would do with `frame`, which was built in its
 * slot. */
static inline void rc_send_at_once(struct sim_qp *qp, struct sim_frame *frame)
{
    struct sim_port *port = qp->port->port;
    qp->nic->tx_packets++;
    port->host_turn = true;
    sim_skip_turn(port->engine, port->transmit.rank);
    sim_port_send_plain(port, frame);
}

/* Sends `reply`, the only one, at once, if the transmitter would take it as the next
 * event; that event is then not needed. Returns false if nothing was done. Only for the
 * event that is running, which must do nothing afterwards. */
static inline bool rc_reply_at_once(struct sim_qp *qp, const struct rc_reply *reply)
{
    struct sim_port *port = qp->port->port;
    uint32_t wire_bytes = qp->overhead_bytes + rc_opcode_infos[RC_ACK].ext_bytes;
    if (qp->rq.n_pending > 0 || qp->port->ready != NULL || qp->model.is_loop ||
        qp->nic->checks_payload || !sim_port_sends_next(port, wire_bytes) ||
        port->out.to->out.n_trains > 0 || rc_request_is_ready(qp)) {
        return false;
    }
    struct sim_frame *frame = sim_link_slot(&port->out);
    rc_frame_init(qp, frame, RC_ACK, reply->psn);
    frame->syndrome = reply->syndrome;
    frame->msn = reply->msn;
    frame->wire_bytes = (uint16_t)wire_bytes;
    qp->reply_turn = false;
    rc_send_at_once(qp, frame);
    return true;
}

/* Acknowledges everything executed so far. Must be the last step of handling a packet. */
static inline void rc_acknowledge_last(struct sim_qp *qp)
{
    const struct rc_reply reply = {
        .syndrome = RC_SYNDROME_ACK, .psn = qp->rq.epsn - 1, .msn = qp->rq.msn};
    if (qp->nic->profile->ack_delay_ps > 0 || qp->rq.reply.is_pending ||
        !rc_reply_at_once(qp, &reply)) {
        rc_acknowledge(qp, RC_SYNDROME_ACK, reply.psn, false);
    }
}

#endif

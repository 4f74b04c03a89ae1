/* Has a queue pair something to send? Inline, for it is asked around every packet. */
#ifndef WEFT_SIM_RC_READY_H
#define WEFT_SIM_RC_READY_H

#include "sim/rc_impl.h"

/* The same while responses of READs and atomics wait. */
bool rc_some_reply_is_ready(const struct sim_qp *qp);
/* The WR at `send` is at its first packet: may it go? */
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
    uint32_t in_flight = (uint32_t)rc_psn_diff(sq->next_psn, sq->una_psn);
    if (in_flight >= qp->nic->profile->window_packets ||
        wqe->ready_at > sim_now(qp->nic->engine)) {
        return false;
    }
    return sq->packet > 0 || rc_may_start(qp, wqe);
}

static inline bool rc_has_frames(const struct sim_qp *qp)
{
    return rc_reply_is_ready(qp) || rc_request_is_ready(qp);
}

#endif

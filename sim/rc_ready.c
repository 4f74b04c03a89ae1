/* Determines what a queue pair may send next, and puts it into the list of its port. */
#include "sim/rc_ready.h"

#include "sim/train.h"

/* PSNs that may be unacknowledged (IBA 9.7.2): with more, an old response could not be
 * distinguished from a new one. A READ of 2 GiB has as many at a path MTU of 256 bytes. */
enum { PSNS_MAX = 1 << 23 };

bool rc_may_start(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    const struct rc_requester *sq = &qp->sq;
    if (sq->send != sq->started) {
        return true; /* retransmitted */
    }
    if (qp->state == IBV_QPS_SQD || (wqe->is_fenced && sq->n_outstanding > 0)) {
        return false;
    }
    if (rc_is_read_or_atomic(wqe)) {
        uint32_t in_flight = (sq->next_psn - sq->una_psn) & RC_PSN_MASK;
        if (in_flight > 0 && in_flight + wqe->n_psn > PSNS_MAX) {
            return false;
        }
        /* If no READ is allowed at all, the WR starts and fails. */
        return sq->n_outstanding < qp->attr.max_rd_atomic || qp->attr.max_rd_atomic == 0;
    }
    return true;
}

bool rc_ack_is_next(const struct rc_responder *rq)
{
    const struct rc_resource *resource = rc_first_pending(rq);
    if (!rq->reply.is_pending) {
        return false;
    }
    bool is_nak = (rq->reply.syndrome & 0xe0) != 0;
    return resource == NULL ||
           rc_psn_diff(rq->reply.psn, rc_response_psn(resource)) < (is_nak ? 1 : 0);
}

bool rc_some_reply_is_ready(const struct sim_qp *qp)
{
    const struct rc_responder *rq = &qp->rq;
    weft_ps now = sim_now(qp->nic->engine);
    return rc_ack_is_next(rq) ? rq->reply.at <= now
                              : rc_first_pending(rq)->ready_at <= now;
}

void rc_kick(struct sim_qp *qp)
{
    if (qp->is_ready) {
        if (rc_reply_is_ready(qp)) {
            sim_train_cut(qp->port->port); /* its next frame is not a request */
        }
    } else if (rc_has_frames(qp)) {
        rc_append_ready(qp->port, qp);
        sim_port_kick(qp->port->port);
    }
}

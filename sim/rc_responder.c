#include "base/check.h"
#include "sim/access.h"
#include "sim/landing.h"
#include "sim/rc_impl.h"
#include "sim/rc_ready.h"

static bool needs_receive(unsigned flags)
{
    bool starts_send = (flags & RC_IS_SEND) != 0 && (flags & RC_IS_FIRST) != 0;
    bool ends_write_imm = (flags & RC_IS_WRITE) != 0 && (flags & RC_HAS_IMM) != 0;
    return starts_send || ends_write_imm;
}

bool rc_has_receive(struct sim_qp *qp)
{
    const struct rc_responder *rq = &qp->rq;
    if (rq->head == rq->post && (qp->srq == NULL || !sim_srq_take(qp))) {
        return false;
    }
    return rq->wqes[rq->head & rq->mask].ready_at <= sim_now(qp->nic->engine);
}

/* Returns the status of the receive WR that the packet uses, if there is one. SUCCESS
 * means that it is flushed like those behind it. By IBA 11.6.2, or rxe_resp.c. */
static enum ibv_wc_status status_in_hand(const struct sim_qp *qp, unsigned flags,
                                         uint8_t syndrome)
{
    bool is_access = syndrome == RC_SYNDROME_ACCESS;
    bool has_wr = qp->rq.message == RC_IN_SEND || needs_receive(flags);
    if (!has_wr || qp->rq.head == qp->rq.post) {
        return IBV_WC_SUCCESS;
    }
    if (qp->nic->profile->dialect == SIM_DIALECT_RXE) {
        return is_access ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR;
    }
    return is_access ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_SUCCESS;
}

/* Sends an RNR NAK, because there is no receive WR. Nothing is executed; the requester is
 * to retry. */
static void not_ready(struct sim_qp *qp)
{
    qp->nic->counters.rnr_naks_sent++;
    qp->rq.sent_nak = true;
    sim_qp_trace(qp, "rnr_nak", "psn=%u code=%u", qp->rq.epsn, qp->attr.min_rnr_timer);
    rc_acknowledge(qp, (uint8_t)(RC_SYNDROME_RNR | qp->attr.min_rnr_timer), qp->rq.epsn,
                   false);
}

/* Returns true if FIRST, MIDDLE and LAST arrive in order and are of one kind (IBA
 * 9.7.4.1.2). */
static bool is_in_sequence(const struct sim_qp *qp, unsigned flags)
{
    enum rc_message message = qp->rq.message;
    if ((flags & RC_IS_FIRST) != 0) {
        return message == RC_NO_MESSAGE;
    }
    return message == ((flags & RC_IS_SEND) != 0 ? RC_IN_SEND : RC_IN_WRITE);
}

static bool has_access(const struct sim_qp *qp, unsigned flags)
{
    uint32_t needed = 0;
    if ((flags & RC_IS_WRITE) != 0) {
        needed = IBV_ACCESS_REMOTE_WRITE;
    } else if ((flags & RC_IS_READ) != 0) {
        needed = IBV_ACCESS_REMOTE_READ;
    } else if ((flags & RC_IS_ATOMIC) != 0) {
        needed = IBV_ACCESS_REMOTE_ATOMIC;
    }
    return (qp->access & needed) == needed;
}

/* Checks the payload length against the path MTU: all packets but the last must be full
 * (IBA 9.7.4.1.6). */
static bool has_length(const struct sim_qp *qp, const struct sim_frame *frame,
                       unsigned flags)
{
    if ((flags & RC_HAS_PAYLOAD) == 0) {
        return true;
    }
    if ((flags & RC_IS_LAST) == 0) {
        return frame->n_payload == qp->mtu_bytes;
    }
    bool is_only = (flags & RC_IS_FIRST) != 0;
    return frame->n_payload <= qp->mtu_bytes && (is_only || frame->n_payload > 0);
}

/* Writes a packet of a SEND to its receive WR. If that cannot take it, NAK and status
 * depend on the device. */
static bool take_send(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_responder *rq = &qp->rq;
    const struct sim_recv_wqe *wqe = &rq->wqes[rq->head & rq->mask];
    const struct ibv_sge *sges = &rq->sges[(size_t)(rq->head & rq->mask) * rq->max_sge];
    bool is_rxe = qp->nic->profile->dialect == SIM_DIALECT_RXE;
    const struct sim_pd *pd = qp->srq != NULL ? qp->srq->pd : qp->pd;
    if (!sim_sges_allowed(qp->nic, pd, sges, wqe->n_sge, IBV_ACCESS_LOCAL_WRITE)) {
        rc_refuse(qp, RC_SYNDROME_OPERATIONAL,
                  is_rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR);
        return false;
    }
    if (rq->message_bytes + (uint64_t)frame->n_payload > wqe->capacity) {
        rc_refuse(qp, is_rxe ? RC_SYNDROME_OPERATIONAL : RC_SYNDROME_INVALID,
                  is_rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR);
        return false;
    }
    sim_land_list(qp->nic, sges, wqe->n_sge, rq->message_bytes, frame->payload,
                  frame->n_payload);
    rq->message_bytes += frame->n_payload;
    return true;
}

static void refuse_write(struct sim_qp *qp, uint8_t syndrome, unsigned flags)
{
    rc_refuse(qp, syndrome, status_in_hand(qp, flags, syndrome));
}

static bool take_write(struct sim_qp *qp, const struct sim_frame *frame, unsigned flags)
{
    struct rc_responder *rq = &qp->rq;
    if ((flags & RC_IS_FIRST) != 0) {
        rq->write_va = frame->va;
        rq->write_rkey = frame->rkey;
        rq->write_left = frame->dma_bytes;
        /* Check the whole range before the first byte lands. Zero bytes need no key
         * (C9-88). */
        if (frame->dma_bytes > 0 &&
            !sim_mr_allows(qp->nic, qp->pd, frame->rkey, frame->va, frame->dma_bytes,
                           IBV_ACCESS_REMOTE_WRITE)) {
            refuse_write(qp, RC_SYNDROME_ACCESS, flags);
            return false;
        }
        rq->write_generation = qp->nic->mr_generation;
    }
    bool is_last = (flags & RC_IS_LAST) != 0;
    if (frame->n_payload > rq->write_left ||
        (is_last && frame->n_payload != rq->write_left)) {
        refuse_write(qp, RC_SYNDROME_INVALID, flags);
        return false;
    }
    if (frame->n_payload > 0) {
        /* The key may have been invalidated between the packets of a message. */
        if (rq->write_generation != qp->nic->mr_generation &&
            !sim_mr_allows(qp->nic, qp->pd, rq->write_rkey, rq->write_va,
                           frame->n_payload, IBV_ACCESS_REMOTE_WRITE)) {
            refuse_write(qp, RC_SYNDROME_ACCESS, flags);
            return false;
        }
        if (sim_lands_late(qp->nic)) {
            sim_land(qp, rq->write_rkey, rq->write_va, frame->payload, frame->n_payload);
        } else {
            sim_move(qp->nic->phantom, (void *)(uintptr_t)rq->write_va, frame->payload,
                     frame->n_payload);
        }
    }
    rq->write_va += frame->n_payload;
    rq->write_left -= frame->n_payload;
    rq->message_bytes += frame->n_payload;
    return true;
}

static void finish_message(struct sim_qp *qp, const struct sim_frame *frame,
                           unsigned flags)
{
    struct rc_responder *rq = &qp->rq;
    bool is_send = (flags & RC_IS_SEND) != 0;
    rq->message = RC_NO_MESSAGE;
    rq->msn = (rq->msn + 1) & RC_PSN_MASK;
    if (is_send || (flags & RC_HAS_IMM) != 0) {
        rc_complete_recv(qp, IBV_WC_SUCCESS,
                         is_send ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
                         rq->message_bytes, frame);
    }
}

/* Executes a packet of a SEND or WRITE that passed the common checks. */
static void execute_data(struct sim_qp *qp, const struct sim_frame *frame, unsigned flags)
{
    struct rc_responder *rq = &qp->rq;
    bool is_send = (flags & RC_IS_SEND) != 0;
    if ((flags & RC_IS_FIRST) != 0) {
        rq->message_bytes = 0;
    }
    if (!(is_send ? take_send(qp, frame) : take_write(qp, frame, flags))) {
        return;
    }
    rq->message = is_send ? RC_IN_SEND : RC_IN_WRITE;
    rq->epsn = (rq->epsn + 1) & RC_PSN_MASK;
    if ((flags & RC_IS_LAST) != 0) {
        finish_message(qp, frame, flags);
    }
    /* A completion that overran the CQ has moved the QP to ERR. */
    if ((frame->flags & SIM_FRAME_ACK_REQ) != 0 && qp->state != IBV_QPS_ERR) {
        rc_acknowledge_last(qp);
    }
}

/* Executes the expected packet. Checks are in the order of rxe_resp.c. */
static void execute(struct sim_qp *qp, const struct sim_frame *frame)
{
    unsigned flags = rc_opcode_info(frame->opcode)->flags;
    if (!is_in_sequence(qp, flags) || !has_access(qp, flags)) {
        rc_refuse(qp, RC_SYNDROME_INVALID, status_in_hand(qp, 0, RC_SYNDROME_INVALID));
        return;
    }
    if (needs_receive(flags)) {
        if (!rc_has_receive(qp)) {
            not_ready(qp);
            return;
        }
        rc_withdraw_rnr_nak(qp);
    }
    if (!has_length(qp, frame, flags)) {
        rc_refuse(qp, RC_SYNDROME_INVALID,
                  status_in_hand(qp, flags, RC_SYNDROME_INVALID));
        return;
    }
    if ((flags & RC_IS_READ) != 0) {
        rc_start_read(qp, frame);
    } else if ((flags & RC_IS_ATOMIC) != 0) {
        rc_execute_atomic(qp, frame);
    } else {
        execute_data(qp, frame, flags);
    }
}

/* Handles a packet that was executed before, whose reply may have been lost. */
static void handle_duplicate(struct sim_qp *qp, const struct sim_frame *frame)
{
    unsigned flags = rc_opcode_info(frame->opcode)->flags;
    qp->nic->counters.duplicates++;
    if ((flags & (RC_IS_READ | RC_IS_ATOMIC)) != 0) {
        rc_repeat_resource(qp, frame);
        return;
    }
    /* A waiting NAK includes that acknowledgement. */
    if (!qp->rq.reply.is_pending || qp->nic->profile->acks_are_single) {
        rc_acknowledge_last(qp);
    }
}

static void handle_gap(struct sim_qp *qp)
{
    struct rc_responder *rq = &qp->rq;
    qp->nic->counters.out_of_sequence++;
    if (rq->sent_nak) {
        return; /* one NAK per gap */
    }
    rq->sent_nak = true;
    qp->nic->counters.naks_sent++;
    sim_qp_trace(qp, "nak_sequence", "psn=%u", rq->epsn);
    rc_acknowledge(qp, RC_SYNDROME_SEQUENCE, rq->epsn, false);
}

void rc_handle_any_request(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_responder *rq = &qp->rq;
    int32_t ahead = rc_psn_diff(frame->psn, rq->epsn);
    if (!rq->comm_est) {
        rq->comm_est = true;
        if (qp->state == IBV_QPS_RTR) {
            sim_nic_raise_qp(qp, IBV_EVENT_COMM_EST);
        }
    }
    if (ahead > 0) {
        handle_gap(qp);
    } else if (ahead < 0) {
        handle_duplicate(qp, frame);
    } else {
        rq->sent_nak = false;
        execute(qp, frame);
    }
}

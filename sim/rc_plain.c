/* Fast paths for most packets: whole pieces of SENDs and WRITEs, and WRITEs of one
 * packet, without complications. All others take the general path, whose results these
 * paths give, too. */
#include "base/check.h"
#include "base/wire.h"
#include "sim/access.h"
#include "sim/landing.h"
#include "sim/rc_frame.h"
#include "sim/rc_impl.h"
#include "sim/rc_ready.h"

/* ---- requester ---- */

static inline const struct ibv_sge *first_sge(const struct rc_requester *sq)
{
    return &sq->sges[(size_t)(sq->send & sq->mask) * sq->max_sge];
}

static inline bool is_write(const struct sim_wqe *wqe)
{
    return wqe->opcode == IBV_WR_RDMA_WRITE || wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Returns true for a SEND or WRITE from one piece of memory whose next packet is sent for
 * the first time. */
static inline bool is_plain(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    const struct sim_nic *nic = qp->nic;
    return wqe->is_plain && qp->sq.next_psn == qp->sq.max_psn && nic->n_odd_mrs == 0 &&
           !nic->checks_payload;
}

static inline void take_psn(struct sim_qp *qp)
{
    struct rc_requester *sq = &qp->sq;
    bool was_idle = sq->next_psn == sq->una_psn;
    sq->next_psn = (sq->next_psn + 1) & RC_PSN_MASK;
    sq->max_psn = sq->next_psn;
    if (was_idle) {
        rc_set_deadline(qp);
    }
}

/* Builds the next full packet of a message, if no key was invalidated since the first. */
static inline bool build_middle(struct sim_qp *qp, struct sim_frame *out,
                                const struct sim_wqe *wqe)
{
    struct rc_requester *sq = &qp->sq;
    if (sq->packet == 0 || sq->packet + 1 == wqe->n_psn || !is_plain(qp, wqe) ||
        sq->checked != sq->send + 1 || sq->checked_generation != qp->nic->mr_generation) {
        return false;
    }
    uint64_t offset = (uint64_t)sq->packet * qp->mtu_bytes;
    rc_frame_init(qp, out, is_write(wqe) ? RC_WRITE_MIDDLE : RC_SEND_MIDDLE,
                  sq->next_psn);
    out->payload = (const uint8_t *)(uintptr_t)(first_sge(sq)->addr + offset);
    out->n_payload = qp->mtu_bytes;
    out->wire_bytes = (uint16_t)(qp->overhead_bytes + qp->mtu_bytes);
    if (rc_takes_ack_req(qp, false)) {
        out->flags |= SIM_FRAME_ACK_REQ;
    }
    sq->packet++;
    take_psn(qp);
    return true;
}

/* Builds a message of one packet from memory that the QP may read. Every message ends
 * with a packet that requests an acknowledgement, so `since_ack_req` is 0 before this one
 * and after it. */
static inline bool build_only(struct sim_qp *qp, struct sim_frame *out,
                              const struct sim_wqe *wqe)
{
    struct rc_requester *sq = &qp->sq;
    const struct sim_nic *nic = qp->nic;
    const struct ibv_sge *sge = first_sge(sq);
    if (wqe->n_psn != 1 || !is_plain(qp, wqe) || nic->pieces != NULL ||
        wqe->length == 0 || sq->send != sq->started ||
        (!sim_mr_granted(nic, &sq->grant, sge->lkey, sge->addr, sge->length) &&
         !sim_mr_grant(nic, qp->pd, sge->lkey, sge->addr, sge->length, 0, &sq->grant))) {
        return false;
    }
    bool has_imm =
        wqe->opcode == IBV_WR_SEND_WITH_IMM || wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    unsigned opcode = is_write(wqe) ? RC_WRITE_ONLY : RC_SEND_ONLY;
    rc_frame_init(qp, out, (uint8_t)(opcode + has_imm), sq->next_psn);
    out->payload = (const uint8_t *)(uintptr_t)sge->addr;
    out->n_payload = wqe->length;
    out->imm = wqe->imm;
    out->va = wqe->remote_addr;
    out->rkey = wqe->rkey;
    out->dma_bytes = wqe->length;
    out->flags |= SIM_FRAME_ACK_REQ;
    if (wqe->is_solicited) {
        out->flags |= SIM_FRAME_SOLICITED;
    }
    rc_frame_finish(qp, out);
    sq->started++;
    sq->send++;
    if (sq->send != sq->post) {
        rc_arm_doorbell(qp);
    }
    take_psn(qp);
    return true;
}

bool rc_build_request(struct sim_qp *qp, struct sim_frame *out)
{
    struct sim_wqe *wqe = &qp->sq.wqes[qp->sq.send & qp->sq.mask];
    return build_middle(qp, out, wqe) || build_only(qp, out, wqe) ||
           rc_build_any(qp, out, wqe);
}

bool rc_request_at_once(struct sim_qp *qp)
{
    unsigned ext_bytes = rc_opcode_infos[RC_WRITE_ONLY_IMM].ext_bytes; /* the maximum */
    /* If a reply could be sent as well, the QP is in its port's list, or there is an
     * event that comes before the transmitter's. */
    if (!rc_request_is_ready(qp) || qp->port->ready != NULL || qp->model.is_loop ||
        !sim_port_sends_next(qp->port->port,
                             qp->overhead_bytes + ext_bytes + qp->mtu_bytes)) {
        return false;
    }
    struct sim_frame *frame = sim_link_slot(&qp->port->port->out);
    if (!build_only(qp, frame, &qp->sq.wqes[qp->sq.send & qp->sq.mask])) {
        return false;
    }
    qp->reply_turn = true;
    rc_send_at_once(qp, frame);
    return true;
}

void rc_doorbell(struct sim_event *event)
{
    struct sim_qp *qp = weft_container_of(event, struct sim_qp, sq.doorbell);
    (void)rc_request_at_once(qp);
    rc_kick(qp);
}

_Static_assert(offsetof(struct rc_requester, free) == WEFT_LINE_BYTES,
               "an ACK finds what it uses in one cache line");

/* Handles an ACK of exactly the oldest message, of one packet. At the first packet of a
 * message the QP has no part in a train. */
static inline bool acknowledge_only(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_requester *sq = &qp->sq;
    const struct sim_wqe *wqe = &sq->wqes[sq->una & sq->mask];
    if (sq->packet != 0 || wqe->n_psn != 1 || !wqe->is_plain || frame->opcode != RC_ACK ||
        (frame->syndrome & 0xe0) != 0 || frame->psn != sq->una_psn ||
        sq->una_psn == sq->next_psn || sq->next_psn != sq->max_psn || sq->is_faulted ||
        qp->state != IBV_QPS_RTS) {
        return false;
    }
    sq->una_psn = (sq->una_psn + 1) & RC_PSN_MASK;
    if (wqe->is_signaled) {
        rc_complete_send(qp, IBV_WC_SUCCESS);
    } else {
        sq->una++;
    }
    /* A completion that overran the CQ has moved the QP to ERR. */
    if (qp->state == IBV_QPS_RTS) {
        rc_renew_retries(sq);
        rc_set_deadline(qp);
        if (sq->send != sq->post) {
            rc_kick(qp);
        }
    }
    return true;
}

void rc_handle_response(struct sim_qp *qp, const struct sim_frame *frame)
{
    if (!acknowledge_only(qp, frame)) {
        rc_handle_any_response(qp, frame);
    }
}

/* ---- responder ---- */

/* Executes the next full packet of a WRITE, if no key was invalidated since the FIRST was
 * checked. */
static inline bool execute_middle(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_responder *rq = &qp->rq;
    const struct sim_nic *nic = qp->nic;
    uint32_t n = frame->n_payload;
    if (frame->opcode != RC_WRITE_MIDDLE || rq->message != RC_IN_WRITE ||
        n != qp->mtu_bytes || n > rq->write_left ||
        rq->write_generation != nic->mr_generation ||
        (qp->access & IBV_ACCESS_REMOTE_WRITE) == 0 || sim_lands_late(nic)) {
        return false;
    }
    sim_move(nic->phantom, (void *)(uintptr_t)rq->write_va, frame->payload, n);
    rq->write_va += n;
    rq->write_left -= n;
    rq->message_bytes += n;
    rq->epsn = (rq->epsn + 1) & RC_PSN_MASK;
    if ((frame->flags & SIM_FRAME_ACK_REQ) != 0) {
        rc_acknowledge_last(qp);
    }
    return true;
}

/* Completes the oldest receive WR, which must exist, because `frame` ends the message. */
static inline void complete_only(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_responder *rq = &qp->rq;
    struct sim_cq *cq = qp->recv_cq;
    struct sim_cqe *slot = sim_cq_slot(cq);
    if (slot == NULL || qp->nic->pieces != NULL || sim_qp_traced(qp)) {
        rc_complete_recv(qp, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM, frame->n_payload,
                         frame);
        return;
    }
    const struct sim_recv_wqe *wqe = &rq->wqes[rq->head & rq->mask];
    rq->head++;
    *slot = (struct sim_cqe){
        .wc = {.wr_id = wqe->wr_id,
               .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
               .byte_len = frame->n_payload,
               .wc_flags = IBV_WC_WITH_IMM,
               .qp_num = qp->model.source_qpn,
               .src_qp = qp->model.dest_qpn},
        .qp_serial = qp->serial & SIM_SERIAL_MASK,
        .n_retired = rq->head,
        .is_solicited = (frame->flags & SIM_FRAME_SOLICITED) != 0,
    };
    wire_store_u32(&slot->wc.imm_data, frame->imm);
    sim_cq_put(cq, slot);
}

/* Executes a WRITE of one packet, with or without immediate data, to memory that the QP
 * may write. */
static inline bool execute_only(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_responder *rq = &qp->rq;
    const struct sim_nic *nic = qp->nic;
    uint32_t n = frame->n_payload;
    bool has_imm = frame->opcode == RC_WRITE_ONLY_IMM;
    if ((!has_imm && frame->opcode != RC_WRITE_ONLY) || rq->message != RC_NO_MESSAGE ||
        n == 0 || n > qp->mtu_bytes || n != frame->dma_bytes ||
        (qp->access & IBV_ACCESS_REMOTE_WRITE) == 0 || sim_lands_late(nic) ||
        (has_imm && !rc_has_receive(qp)) ||
        (!sim_mr_granted(nic, &rq->grant, frame->rkey, frame->va, n) &&
         !sim_mr_grant(nic, qp->pd, frame->rkey, frame->va, n, IBV_ACCESS_REMOTE_WRITE,
                       &rq->grant))) {
        return false;
    }
    if (has_imm && rq->reply.is_pending) {
        rc_withdraw_rnr_nak(qp);
    }
    sim_move(nic->phantom, (void *)(uintptr_t)frame->va, frame->payload, n);
    rq->epsn = (rq->epsn + 1) & RC_PSN_MASK;
    rq->msn = (rq->msn + 1) & RC_PSN_MASK;
    if (has_imm) {
        complete_only(qp, frame);
    }
    /* A completion that overran the CQ has moved the QP to ERR. */
    if ((frame->flags & SIM_FRAME_ACK_REQ) != 0 && qp->state != IBV_QPS_ERR) {
        rc_acknowledge_last(qp);
    }
    return true;
}

void rc_handle_request(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_responder *rq = &qp->rq;
    if (frame->psn == rq->epsn && rq->comm_est) {
        rq->sent_nak = false;
        if (execute_middle(qp, frame) || execute_only(qp, frame)) {
            return;
        }
    }
    rc_handle_any_request(qp, frame);
}

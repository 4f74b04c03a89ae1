/* Applies the effect of a train to the two queue pairs: that of its packets one by
 * one. */
#include "base/check.h"
#include "sim/access.h"
#include "sim/landing.h"
#include "sim/memory.h"
#include "sim/rc_impl.h"
#include "sim/rc_ready.h"
#include "sim/train.h"

static bool has_replies(const struct sim_qp *qp)
{
    return qp->rq.reply.is_pending || qp->rq.n_pending > 0 ||
           sim_is_scheduled(&qp->rq.due);
}

/* Returns true if the bytes of `n` packets from the `first` of the WR on are
 * contiguous. */
static bool is_one_piece(const struct sim_qp *qp, const struct sim_wqe *wqe,
                         uint32_t first, uint32_t n)
{
    const struct rc_requester *sq = &qp->sq;
    const struct ibv_sge *sges = &sq->sges[(size_t)(sq->send & sq->mask) * sq->max_sge];
    uint64_t offset = (uint64_t)first * qp->mtu_bytes;
    return sim_sges_piece(sges, wqe->n_sge, offset, (size_t)n * qp->mtu_bytes) != NULL;
}

/* Returns true if the QP is in the middle of a SEND or WRITE whose packets can form a
 * train. */
static bool is_under_way(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    const struct rc_requester *sq = &qp->sq;
    const struct sim_profile *profile = qp->nic->profile;
    bool is_data = wqe->opcode == IBV_WR_SEND || wqe->opcode == IBV_WR_SEND_WITH_IMM ||
                   wqe->opcode == IBV_WR_RDMA_WRITE ||
                   wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    bool is_checked =
        sq->checked == sq->send + 1 && sq->checked_generation == qp->nic->mr_generation;
    return is_data && is_checked && !wqe->is_inline && sq->packet > 0 &&
           sq->next_psn == sq->max_psn && sq->next_psn != sq->una_psn &&
           qp->state == IBV_QPS_RTS && !qp->nic->checks_payload &&
           !profile->ipv4_id_rises && !sim_lands_late(qp->nic) &&
           rc_request_is_ready(qp) && !has_replies(qp);
}

uint32_t rc_train_limit(const struct sim_qp *qp, uint32_t n_built)
{
    const struct rc_requester *sq = &qp->sq;
    const struct sim_wqe *wqe = &sq->wqes[sq->send & sq->mask];
    const struct sim_profile *profile = qp->nic->profile;
    uint32_t in_flight = (uint32_t)rc_psn_diff(sq->next_psn, sq->una_psn);
    if (sq->send == sq->post || !is_under_way(qp, wqe) ||
        in_flight + 1 >= profile->window_packets ||
        sq->since_ack_req >= profile->ack_req_packets) {
        return 0;
    }
    /* Up to the next packet that requests an acknowledgement, without the last packet of
     * the message, and within the window. */
    uint32_t n = wqe->n_psn - 1 - sq->packet;
    uint32_t to_ack_req = profile->ack_req_packets - sq->since_ack_req;
    uint32_t room = profile->window_packets - 1 - in_flight;
    n = n < to_ack_req ? n : to_ack_req;
    n = n < room ? n : room;
    return n > 0 && is_one_piece(qp, wqe, sq->packet - n_built, n + n_built) ? n : 0;
}

void rc_train_extend(struct sim_qp *qp, struct sim_frame *frame, uint32_t n)
{
    struct rc_requester *sq = &qp->sq;
    frame->n_before = (uint16_t)n;
    if (n == 0) {
        return;
    }
    frame->psn = (frame->psn + n) & RC_PSN_MASK;
    frame->payload += (size_t)n * qp->mtu_bytes;
    sq->next_psn = (sq->next_psn + n) & RC_PSN_MASK;
    sq->max_psn = sq->next_psn;
    sq->packet += n;
    sq->since_ack_req += n;
    if (sq->since_ack_req == qp->nic->profile->ack_req_packets) {
        sq->since_ack_req = 0;
        frame->flags |= SIM_FRAME_ACK_REQ;
    }
    qp->nic->tx_packets += n;
}

void rc_train_take_back(struct sim_qp *qp, uint32_t n)
{
    struct rc_requester *sq = &qp->sq;
    uint32_t ack_req = qp->nic->profile->ack_req_packets;
    sq->next_psn = (sq->next_psn - n) & RC_PSN_MASK;
    sq->max_psn = sq->next_psn;
    sq->packet -= n;
    sq->since_ack_req = (sq->since_ack_req == 0 ? ack_req : sq->since_ack_req) - n;
    qp->nic->tx_packets -= n;
}

static bool may_land(const struct sim_qp *qp, bool is_send, uint64_t n_bytes)
{
    const struct rc_responder *rq = &qp->rq;
    if (is_send) {
        const struct sim_recv_wqe *wqe = &rq->wqes[rq->head & rq->mask];
        const struct ibv_sge *sges =
            &rq->sges[(size_t)(rq->head & rq->mask) * rq->max_sge];
        const struct sim_pd *pd = qp->srq != NULL ? qp->srq->pd : qp->pd;
        return rq->message == RC_IN_SEND &&
               rq->message_bytes + n_bytes <= wqe->capacity &&
               sim_sges_allowed(qp->nic, pd, sges, wqe->n_sge, IBV_ACCESS_LOCAL_WRITE);
    }
    return rq->message == RC_IN_WRITE && (qp->access & IBV_ACCESS_REMOTE_WRITE) != 0 &&
           n_bytes <= rq->write_left &&
           sim_mr_allows(qp->nic, qp->pd, rq->write_rkey, rq->write_va, n_bytes,
                         IBV_ACCESS_REMOTE_WRITE);
}

bool rc_train_fits(const struct sim_nic *nic, const struct sim_port *port,
                   const struct sim_frame *frame)
{
    const struct sim_qp *qp = sim_nic_qp(nic, frame->dest_qpn);
    bool is_send = frame->opcode == RC_SEND_MIDDLE;
    uint64_t n_bytes = (frame->n_before + (uint64_t)1) * frame->n_payload;
    if (qp == NULL || nic->checks_payload || nic->profile->gid_checked_per_packet ||
        sim_lands_late(nic)) {
        return false;
    }
    bool is_receiving =
        qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_SQD;
    return is_receiving && qp->port->port == port && qp->verified == frame->path &&
           qp->rq.comm_est && frame->n_payload == qp->mtu_bytes &&
           qp->rq.epsn == ((frame->psn - frame->n_before) & RC_PSN_MASK) &&
           may_land(qp, is_send, n_bytes);
}

static bool touches(const uint8_t *from, uint64_t to, uint64_t n_bytes)
{
    uint64_t start = (uintptr_t)from;
    return start < to + n_bytes && to < start + n_bytes;
}

/* Returns true if the bytes land where some of them come from. Each packet must then be
 * read and written separately. */
static bool overlaps(const struct sim_qp *qp, const uint8_t *from, bool is_send,
                     uint64_t n_bytes)
{
    const struct rc_responder *rq = &qp->rq;
    const struct ibv_sge *sges = &rq->sges[(size_t)(rq->head & rq->mask) * rq->max_sge];
    bool does = !is_send && touches(from, rq->write_va, n_bytes);
    for (uint32_t i = 0; is_send && i < rq->wqes[rq->head & rq->mask].n_sge; i++) {
        does = does || (touches(from, sges[i].addr, n_bytes)) ||
               touches((const uint8_t *)(uintptr_t)sges[i].addr, (uintptr_t)from,
                       sges[i].length);
    }
    return does;
}

static void land(struct sim_qp *qp, const uint8_t *from, bool is_send, uint32_t n_bytes)
{
    struct rc_responder *rq = &qp->rq;
    if (is_send) {
        const struct sim_recv_wqe *wqe = &rq->wqes[rq->head & rq->mask];
        const struct ibv_sge *sges =
            &rq->sges[(size_t)(rq->head & rq->mask) * rq->max_sge];
        sim_sges_scatter(qp->nic->phantom, sges, wqe->n_sge, rq->message_bytes, from,
                         n_bytes);
    } else {
        sim_move(qp->nic->phantom, (void *)(uintptr_t)rq->write_va, from, n_bytes);
        rq->write_va += n_bytes;
        rq->write_left -= n_bytes;
    }
    rq->message_bytes += n_bytes;
}

void rc_train_execute(struct sim_nic *nic, const struct sim_frame *frame, uint32_t n)
{
    struct sim_qp *qp = sim_nic_qp(nic, frame->dest_qpn);
    bool is_send = frame->opcode == RC_SEND_MIDDLE;
    const uint8_t *from = frame->payload - (size_t)frame->n_before * frame->n_payload;
    weft_check(qp != NULL &&
               qp->rq.epsn == ((frame->psn - frame->n_before) & RC_PSN_MASK));
    uint32_t n_bytes = n * frame->n_payload;
    uint32_t step = overlaps(qp, from, is_send, n_bytes) ? frame->n_payload : n_bytes;
    for (uint32_t done = 0; done < n_bytes; done += step) {
        land(qp, from + done, is_send, step);
    }
    qp->rq.sent_nak = false;
    qp->rq.epsn = (qp->rq.epsn + n) & RC_PSN_MASK;
    nic->rx_packets += n;
}

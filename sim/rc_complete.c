/* Completes the work requests of a queue pair, and ends its work: errors and flushes. */
#include "base/check.h"
#include "base/wire.h"
#include "sim/landing.h"
#include "sim/rc_impl.h"
#include "sim/train.h"

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
    switch ((int)opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

void rc_complete_send(struct sim_qp *qp, enum ibv_wc_status status)
{
    struct rc_requester *sq = &qp->sq;
    struct sim_wqe *wqe = &sq->wqes[sq->una & sq->mask];
    sq->una++;
    if (wqe->is_outstanding) {
        wqe->is_outstanding = false;
        sq->n_outstanding--;
    }
    bool is_ok = status == IBV_WC_SUCCESS;
    if (is_ok && !wqe->is_signaled) {
        return;
    }
    bool is_simple = is_ok && qp->nic->profile->general_err_nth == 0;
    struct sim_cqe *slot = is_simple ? sim_cq_slot(qp->send_cq) : NULL;
    struct sim_cqe apart;
    struct sim_cqe *cqe = slot != NULL ? slot : &apart;
    *cqe = (struct sim_cqe){
        .wc = {.wr_id = wqe->wr_id,
               .status = status,
               .qp_num = qp->model.source_qpn,
               .opcode = is_ok ? wc_opcode(wqe->opcode) : 0,
               .byte_len = is_ok ? wqe->length : 0},
        .qp_serial = qp->serial & SIM_SERIAL_MASK,
        .n_retired = sq->una,
        .is_send = true,
        .is_solicited = !is_ok,
    };
    if (sim_qp_traced(qp)) {
        sim_qp_trace(qp, "complete", "opcode=%s status=%s bytes=%u psn=%u",
                     sim_wr_opcode_name(wqe->opcode), sim_wc_status_name(status),
                     wqe->length, wqe->first_psn);
    }
    if (slot != NULL) {
        sim_cq_put(qp->send_cq, slot);
    } else if (is_ok) {
        sim_cq_push_sent(qp->send_cq, cqe);
    } else {
        sim_cq_push(qp->send_cq, cqe);
    }
}

void rc_complete_recv(struct sim_qp *qp, enum ibv_wc_status status,
                      enum ibv_wc_opcode opcode, uint32_t bytes,
                      const struct sim_frame *frame)
{
    struct rc_responder *rq = &qp->rq;
    const struct sim_recv_wqe *wqe = &rq->wqes[rq->head & rq->mask];
    bool is_ok = status == IBV_WC_SUCCESS;
    rq->head++;
    if (is_ok && qp->nic->pieces != NULL) {
        sim_land_qp(qp); /* what was written before must be visible now */
    }
    struct sim_cqe *slot = is_ok ? sim_cq_slot(qp->recv_cq) : NULL;
    struct sim_cqe apart;
    struct sim_cqe *cqe = slot != NULL ? slot : &apart;
    *cqe = (struct sim_cqe){
        .wc = {.wr_id = wqe->wr_id,
               .status = status,
               .opcode = opcode,
               .byte_len = is_ok ? bytes : 0,
               .qp_num = qp->model.source_qpn,
               .src_qp = is_ok ? qp->model.dest_qpn : 0},
        .qp_serial = qp->serial & SIM_SERIAL_MASK,
        .n_retired = rq->head,
        .is_solicited = !is_ok || (frame->flags & SIM_FRAME_SOLICITED) != 0,
    };
    if (is_ok && (rc_opcode_info(frame->opcode)->flags & RC_HAS_IMM) != 0) {
        wire_store_u32(&cqe->wc.imm_data, frame->imm);
        cqe->wc.wc_flags = IBV_WC_WITH_IMM;
    }
    if (sim_qp_traced(qp)) {
        const char *name = opcode == IBV_WC_RECV ? "RECV" : "RECV_RDMA_WITH_IMM";
        sim_qp_trace(qp, "complete", "opcode=%s status=%s bytes=%u psn=%u", name,
                     sim_wc_status_name(status), bytes, is_ok ? frame->psn : rq->epsn);
    }
    if (slot != NULL) {
        sim_cq_put(qp->recv_cq, slot);
    } else {
        sim_cq_push(qp->recv_cq, cqe);
    }
}

/* ---- the end ---- */

void rc_set_state(struct sim_qp *qp, enum ibv_qp_state state)
{
    if (state != qp->state) {
        sim_qp_trace(qp, "state", "from=%s to=%s", sim_qp_state_name(qp->state),
                     sim_qp_state_name(state));
    }
    qp->state = (uint8_t)state;
    qp->ibv.state = state;
}

void rc_stop_timers(struct sim_qp *qp)
{
    struct sim_engine *engine = qp->nic->engine;
    sim_cancel(engine, &qp->sq.doorbell);
    sim_cancel(engine, &qp->sq.retry);
    qp->sq.is_timed = false;
    sim_cancel(engine, &qp->sq.rnr);
    qp->sq.deadline = SIM_NEVER;
    qp->sq.is_rnr_waiting = false;
}

void rc_own_frames(struct sim_qp *qp)
{
    if (qp->port != NULL) {
        sim_port_own_qp(qp->port->port, qp->ibv.qp_num);
    }
}

void rc_flush(struct sim_qp *qp)
{
    qp->flush_is_due = false;
    while (qp->sq.una != qp->sq.post) {
        rc_complete_send(qp, IBV_WC_WR_FLUSH_ERR);
    }
    while (qp->rq.head != qp->rq.post) {
        rc_complete_recv(qp, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0, NULL);
    }
    qp->sq.send = qp->sq.una;
}

void rc_enter_error(struct sim_qp *qp, enum ibv_wc_status status, bool keeps_reply)
{
    bool has_cause = status != IBV_WC_SUCCESS && qp->sq.una != qp->sq.post;
    if (qp->state == IBV_QPS_ERR) {
        return;
    }
    if (qp->port != NULL) {
        sim_train_settle(qp->port->port);
    }
    rc_set_state(qp, IBV_QPS_ERR);
    rc_own_frames(qp);
    rc_stop_timers(qp);
    if (!keeps_reply) {
        sim_cancel(qp->nic->engine, &qp->rq.due);
        qp->rq.reply.is_pending = false;
        qp->rq.n_behind = 0;
        qp->rq.n_pending = 0;
    }
    if (has_cause) {
        rc_complete_send(qp, status);
    }
    if (qp->srq != NULL) {
        /* It takes no more WRs from the SRQ. The one it has taken is flushed below (IBA
         * 11.6.3.1). */
        sim_nic_raise_qp(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
    }
    if (has_cause && qp->nic->profile->flush_on_poll) {
        qp->flush_is_due = true;
        qp->nic->counters.flushes_held++;
        return;
    }
    rc_flush(qp);
}

void rc_cq_overran(struct sim_qp *qp)
{
    if (qp->nic->profile->raises_access_events) {
        /* its errors cannot be reported by completions */
        sim_nic_raise_qp(qp, IBV_EVENT_QP_FATAL);
    }
    rc_enter_error(qp, IBV_WC_SUCCESS, false);
}

#include "base/check.h"
#include "sim/access.h"
#include "sim/landing.h"
#include "sim/pool.h"
#include "sim/rc_frame.h"
#include "sim/rc_impl.h"
#include "sim/train.h"

static struct sim_wqe *wqe_at(struct rc_requester *sq, uint32_t position)
{
    return &sq->wqes[position & sq->mask];
}

static const struct ibv_sge *sges_at(const struct rc_requester *sq, uint32_t position)
{
    return &sq->sges[(size_t)(position & sq->mask) * sq->max_sge];
}

void rc_arm_doorbell(struct sim_qp *qp)
{
    struct rc_requester *sq = &qp->sq;
    struct sim_engine *engine = qp->nic->engine;
    if (sq->send == sq->post || (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)) {
        return;
    }
    weft_ps at = wqe_at(sq, sq->send)->ready_at;
    if (at > sim_now(engine) && !sim_is_scheduled(&sq->doorbell)) {
        sim_schedule(engine, &sq->doorbell, at);
    }
}

void rc_set_deadline(struct sim_qp *qp)
{
    struct rc_requester *sq = &qp->sq;
    struct sim_engine *engine = qp->nic->engine;
    bool is_outstanding = sq->next_psn != sq->una_psn;
    if (!is_outstanding || sq->timeout_ps == 0 || sq->is_rnr_waiting) {
        sq->deadline = SIM_NEVER;
        return;
    }
    sq->deadline = sim_now(engine) + sq->timeout_ps;
    /* If a pending event fires too early, it is scheduled again. */
    if (!sq->is_timed) {
        sq->is_timed = true;
        sim_schedule(engine, &sq->retry, sq->deadline);
    }
}

void rc_retry_timeout(struct sim_event *event)
{
    struct sim_qp *qp = weft_container_of(event, struct sim_qp, sq.retry);
    struct rc_requester *sq = &qp->sq;
    sq->is_timed = false;
    if (sq->deadline == SIM_NEVER) {
        return;
    }
    if (sq->deadline > sim_now(qp->nic->engine)) {
        sq->is_timed = true;
        sim_schedule(qp->nic->engine, event, sq->deadline);
        return;
    }
    sq->deadline = SIM_NEVER;
    sq->went_back = qp->nic->profile->nak_waits_for_ack;
    qp->nic->counters.timeouts++;
    sim_qp_trace(qp, "timeout", "psn=%u retries_left=%u", sq->una_psn, sq->retries_left);
    rc_retry(qp, sq->una_psn, "timeout");
}

void rc_rnr_timeout(struct sim_event *event)
{
    struct sim_qp *qp = weft_container_of(event, struct sim_qp, sq.rnr);
    qp->sq.is_rnr_waiting = false;
    rc_go_back(qp, qp->sq.una_psn, "rnr");
}

/* Returns the time of an RNR timer code (IBA 9.7.5.2.8), a multiple of 10 us. */
weft_ps rc_rnr_time(unsigned code)
{
    static const uint16_t units[32] = {
        65535, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
        48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
        2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    };
    /* Code 0 is 655.36 ms, one unit more than the table holds. */
    weft_ps time = (weft_ps)units[code & 31] * 10000000;
    return (code & 31) == 0 ? time + 10000000 : time;
}

void rc_go_back(struct sim_qp *qp, uint32_t psn, const char *why)
{
    struct rc_requester *sq = &qp->sq;
    sim_train_cut(qp->port->port);
    sq->packet = 0;
    if (sq->una != sq->post) {
        const struct sim_wqe *wqe = wqe_at(sq, sq->una);
        sq->packet = (psn - wqe->first_psn) & RC_PSN_MASK;
        weft_check(sq->packet < wqe->n_psn);
    }
    if (why != NULL && psn != sq->next_psn) {
        uint32_t n = (sq->next_psn - psn) & RC_PSN_MASK;
        qp->nic->counters.retransmits += n;
        sim_qp_trace(qp, "retransmit", "psn=%u packets=%u why=%s", psn, n, why);
    }
    sq->send = sq->una;
    sq->next_psn = psn;
    sq->is_faulted = false;
    rc_set_deadline(qp);
    rc_arm_doorbell(qp);
    rc_kick(qp);
}

void rc_retry(struct sim_qp *qp, uint32_t psn, const char *why)
{
    struct rc_requester *sq = &qp->sq;
    bool is_endless = qp->attr.retry_cnt == 7 && qp->nic->profile->retry_cnt_7_is_endless;
    if (!is_endless && sq->retries_left == 0) {
        rc_enter_error(qp, IBV_WC_RETRY_EXC_ERR, false);
        return;
    }
    if (!is_endless) {
        sq->retries_left--;
    }
    rc_go_back(qp, psn, why);
}

void rc_settle_fault(struct sim_qp *qp)
{
    if (qp->sq.is_faulted && qp->sq.una == qp->sq.send) {
        rc_enter_error(qp, qp->sq.fault, false);
    }
}

/* Fails the WR at `send` locally; it is completed when those before it are. */
static void fault(struct sim_qp *qp, enum ibv_wc_status status)
{
    qp->sq.is_faulted = true;
    qp->sq.fault = status;
    rc_settle_fault(qp);
}

/* Checks the SGEs of the WR at `send`, once per WR and again after a key was
 * invalidated. */
static bool check_sges(struct sim_qp *qp, const struct sim_wqe *wqe)
{
    struct rc_requester *sq = &qp->sq;
    struct sim_nic *nic = qp->nic;
    if (sq->checked == sq->send + 1 && sq->checked_generation == nic->mr_generation) {
        return true;
    }
    bool lands = rc_is_read_or_atomic(wqe);
    uint32_t access = lands ? IBV_ACCESS_LOCAL_WRITE : 0;
    if (wqe->is_too_long) {
        fault(qp, IBV_WC_LOC_LEN_ERR);
        return false;
    }
    if (lands && qp->attr.max_rd_atomic == 0) {
        fault(qp, IBV_WC_LOC_QP_OP_ERR);
        return false;
    }
    if (!wqe->is_inline &&
        !sim_sges_allowed(nic, qp->pd, sges_at(sq, sq->send), wqe->n_sge, access)) {
        bool is_rxe = nic->profile->dialect == SIM_DIALECT_RXE && !lands;
        fault(qp, is_rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR);
        return false;
    }
    if (nic->pieces != NULL && !lands && !wqe->is_inline) {
        /* A read flushes earlier writes. */
        sim_land_sources(nic, sges_at(sq, sq->send), wqe->n_sge);
    }
    sq->checked = sq->send + 1;
    sq->checked_generation = nic->mr_generation;
    return true;
}

/* Returns the BTH opcode of a packet of a SEND or WRITE. */
static uint8_t data_opcode(const struct sim_wqe *wqe, bool is_first, bool is_last)
{
    bool is_write =
        wqe->opcode == IBV_WR_RDMA_WRITE || wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    bool has_imm =
        wqe->opcode == IBV_WR_SEND_WITH_IMM || wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    uint8_t base = is_write ? RC_WRITE_FIRST : RC_SEND_FIRST;
    if (is_first && is_last) {
        return (uint8_t)(base + (has_imm ? 5 : 4));
    }
    if (is_first) {
        return base;
    }
    if (is_last) {
        return (uint8_t)(base + (has_imm ? 3 : 2));
    }
    return (uint8_t)(base + 1);
}

/* Sets the payload. Refers to the user's memory if the bytes lie in one piece and are
 * sent for the first time, because the WR then stays unretired until they have
 * arrived. */
static void set_payload(struct sim_qp *qp, struct sim_frame *frame,
                        const struct sim_wqe *wqe, uint64_t offset)
{
    struct rc_requester *sq = &qp->sq;
    struct ibv_sge scratch[SIM_SGES_MAX];
    const struct ibv_sge *sges;
    const uint8_t *piece;
    if (frame->n_payload == 0) {
        return;
    }
    sges = sim_sges_placed(qp->nic, sges_at(sq, sq->send), wqe->n_sge, scratch);
    if (wqe->is_inline) {
        piece =
            &sq->inline_bytes[(size_t)(sq->send & sq->mask) * sq->max_inline + offset];
    } else {
        piece = sim_sges_piece(sges, wqe->n_sge, offset, frame->n_payload);
    }
    if (piece != NULL) {
        frame->payload = piece;
        if ((frame->flags & SIM_FRAME_RETRANSMIT) != 0) {
            sim_frame_own(qp->nic->engine, frame);
        }
        return;
    }
    uint8_t *block = sim_pool_get(sim_engine_pool(qp->nic->engine));
    sim_sges_gather(qp->nic->phantom, sges, wqe->n_sge, offset, block, frame->n_payload);
    frame->payload = block;
    frame->flags |= SIM_FRAME_OWNED;
}

static void build_data(struct sim_qp *qp, struct sim_frame *frame,
                       const struct sim_wqe *wqe)
{
    struct rc_requester *sq = &qp->sq;
    uint32_t index = sq->packet;
    uint64_t offset = (uint64_t)index * qp->mtu_bytes;
    uint64_t left = wqe->length - offset;
    bool is_last = index + 1 == wqe->n_psn;
    frame->opcode = data_opcode(wqe, index == 0, is_last);
    frame->n_payload = is_last ? (uint32_t)left : qp->mtu_bytes;
    if (index == 0) {
        frame->va = wqe->remote_addr;
        frame->rkey = wqe->rkey;
        frame->dma_bytes = wqe->length;
    }
    frame->imm = wqe->imm;
    if (rc_takes_ack_req(qp, is_last)) {
        frame->flags |= SIM_FRAME_ACK_REQ;
    }
    if (is_last && wqe->is_solicited) {
        frame->flags |= SIM_FRAME_SOLICITED;
    }
    set_payload(qp, frame, wqe, offset);
}

static void build_read_or_atomic(struct sim_qp *qp, struct sim_frame *frame,
                                 const struct sim_wqe *wqe)
{
    uint64_t offset = (uint64_t)qp->sq.packet * qp->mtu_bytes;
    frame->va = wqe->remote_addr + offset;
    frame->rkey = wqe->rkey;
    frame->dma_bytes = wqe->length - (uint32_t)offset;
    frame->flags |= SIM_FRAME_ACK_REQ;
    if (wqe->opcode == IBV_WR_RDMA_READ) {
        frame->opcode = RC_READ_REQUEST;
    } else {
        const struct sim_operands *operands = &qp->sq.operands[qp->sq.send & qp->sq.mask];
        frame->swap_add = operands->swap_add;
        frame->compare = operands->compare;
        bool is_swap = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
        frame->opcode = is_swap ? RC_COMPARE_SWAP : RC_FETCH_ADD;
    }
}

/* Advances by what was just sent. */
static void advance(struct sim_qp *qp, struct sim_wqe *wqe)
{
    struct rc_requester *sq = &qp->sq;
    bool was_idle = sq->next_psn == sq->una_psn;
    uint32_t n_psn = rc_is_read_or_atomic(wqe) ? wqe->n_psn - sq->packet : 1;
    uint32_t n_again = (sq->max_psn - sq->next_psn) & RC_PSN_MASK;
    if (rc_is_read_or_atomic(wqe) && !wqe->is_outstanding) {
        wqe->is_outstanding = true;
        sq->n_outstanding++;
    }
    if (sq->send == sq->started) {
        sq->started++;
    }
    sq->next_psn = (sq->next_psn + n_psn) & RC_PSN_MASK;
    sq->packet += n_psn;
    if (n_psn > n_again) {
        sq->max_psn = sq->next_psn;
    }
    if (sq->packet == wqe->n_psn) {
        sq->packet = 0;
        sq->send++;
        rc_arm_doorbell(qp);
    }
    if (was_idle) {
        rc_set_deadline(qp);
    }
}

bool rc_build_any(struct sim_qp *qp, struct sim_frame *out, struct sim_wqe *wqe)
{
    struct rc_requester *sq = &qp->sq;
    if (!check_sges(qp, wqe)) {
        return false;
    }
    rc_frame_init(qp, out, 0, sq->next_psn);
    if (rc_psn_diff(sq->next_psn, sq->max_psn) < 0) {
        out->flags |= SIM_FRAME_RETRANSMIT;
    }
    if (rc_is_read_or_atomic(wqe)) {
        build_read_or_atomic(qp, out, wqe);
    } else {
        build_data(qp, out, wqe);
    }
    rc_frame_finish(qp, out);
    advance(qp, wqe);
    return true;
}

void rc_check_drained(struct sim_qp *qp)
{
    if (qp->state == IBV_QPS_SQD && qp->attr.en_sqd_async_notify &&
        qp->sq.una == qp->sq.started) {
        qp->attr.en_sqd_async_notify = 0;
        sim_nic_raise_qp(qp, IBV_EVENT_SQ_DRAINED);
    }
}

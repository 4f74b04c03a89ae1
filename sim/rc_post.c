#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/wire.h"
#include "sim/access.h"
#include "sim/rc_impl.h"

static bool is_atomic(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_send_or_write(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
           opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static uint64_t wr_bytes(const struct ibv_sge *sges, int n_sge)
{
    return sim_sges_bytes(sges, (uint32_t)n_sge);
}

/* Makes the checks of a send WR that do not depend on others. Stores the size of its SGEs
 * in `*out_bytes`. */
static int check_send_wr(const struct sim_qp *qp, const struct ibv_send_wr *wr,
                         uint64_t *out_bytes)
{
    const struct sim_profile *profile = qp->nic->profile;
    bool is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;
    bool is_read = wr->opcode == IBV_WR_RDMA_READ;
    if (!is_send_or_write(wr->opcode) && !is_read && !is_atomic(wr->opcode)) {
        return EINVAL;
    }
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge ||
        (is_read && (uint32_t)wr->num_sge > profile->max_sge_rd)) {
        return EINVAL;
    }
    uint64_t bytes = wr_bytes(wr->sg_list, wr->num_sge);
    *out_bytes = bytes;
    if (is_inline && (!is_send_or_write(wr->opcode) || bytes > qp->sq.max_inline)) {
        return EINVAL;
    }
    if (is_atomic(wr->opcode) && (bytes != 8 || wr->wr.atomic.remote_addr % 8 != 0 ||
                                  profile->atomic_cap == IBV_ATOMIC_NONE)) {
        return EINVAL;
    }
    return 0;
}

static int check_send_state(const struct sim_qp *qp)
{
    bool is_early = qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT ||
                    qp->state == IBV_QPS_RTR;
    return is_early && qp->nic->profile->post_check_strict ? EINVAL : 0;
}

static uint32_t n_packets(uint32_t length, uint32_t mtu_bytes)
{
    return length <= mtu_bytes || mtu_bytes == 0 ? 1 : (length - 1) / mtu_bytes + 1;
}

static void fill_remote(struct sim_wqe *wqe, struct sim_operands *operands,
                        const struct ibv_send_wr *wr)
{
    if (is_atomic(wr->opcode)) {
        wqe->remote_addr = wr->wr.atomic.remote_addr;
        wqe->rkey = wr->wr.atomic.rkey;
        bool is_swap = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
        operands->swap_add = is_swap ? wr->wr.atomic.swap : wr->wr.atomic.compare_add;
        operands->compare = is_swap ? wr->wr.atomic.compare_add : 0;
    } else {
        wqe->remote_addr = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
    }
}

static void fill_wqe(struct sim_qp *qp, struct sim_wqe *wqe, const struct ibv_send_wr *wr,
                     uint64_t bytes)
{
    struct rc_requester *sq = &qp->sq;
    memset(wqe, 0, sizeof(*wqe));
    wqe->wr_id = wr->wr_id;
    wqe->opcode = wr->opcode;
    /* An excessive length is not refused here. The WR fails when its turn comes (IBA
     * 11.6.2). */
    wqe->is_too_long = bytes > qp->nic->profile->max_msg_bytes;
    wqe->length = wqe->is_too_long ? 0 : (uint32_t)bytes;
    wqe->n_sge = (uint32_t)wr->num_sge;
    wqe->imm = wire_load_u32(&wr->imm_data);
    fill_remote(wqe, &sq->operands[sq->post & sq->mask], wr);
    wqe->is_signaled = qp->sq_sig_all || (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    wqe->is_fenced = (wr->send_flags & IBV_SEND_FENCE) != 0;
    wqe->is_solicited = (wr->send_flags & IBV_SEND_SOLICITED) != 0;
    wqe->is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;
    wqe->is_plain = is_send_or_write(wr->opcode) && wqe->n_sge == 1 && !wqe->is_inline &&
                    !wqe->is_too_long;
    wqe->ready_at = sim_now(qp->nic->engine) + qp->nic->profile->tx_overhead_ps;
    wqe->first_psn = sq->post_psn;
    bool is_one = is_atomic(wr->opcode);
    wqe->n_psn = is_one ? 1 : n_packets(wqe->length, qp->mtu_bytes);
    sq->post_psn = (sq->post_psn + wqe->n_psn) & RC_PSN_MASK;
}

static void copy_data(struct sim_qp *qp, const struct sim_wqe *wqe,
                      const struct ibv_send_wr *wr)
{
    struct rc_requester *sq = &qp->sq;
    uint32_t slot = sq->post & sq->mask;
    if (wqe->n_sge > 0) {
        memcpy(&sq->sges[(size_t)slot * sq->max_sge], wr->sg_list,
               wqe->n_sge * sizeof(*wr->sg_list));
    }
    if (wqe->is_inline) {
        sim_sges_gather(qp->nic->phantom, wr->sg_list, wqe->n_sge, 0,
                        &sq->inline_bytes[(size_t)slot * sq->max_inline], wqe->length);
    }
}

static void trace_post(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    if (sim_qp_traced(qp)) {
        sim_qp_trace(qp, "post", "opcode=%s bytes=%u psn=%u",
                     sim_wr_opcode_name(wqe->opcode), wqe->length, wqe->first_psn);
    }
}

static WEFT_APART int post_one_send(struct sim_qp *qp, const struct ibv_send_wr *wr)
{
    struct rc_requester *sq = &qp->sq;
    weft_ps by = 0;
    uint64_t bytes = 0;
    int error = qp->nic->faults == NULL
                    ? 0
                    : sim_nic_take_fault(qp->nic, SIM_VERB_POST_SEND, &by);
    error = error != 0 ? error : check_send_state(qp);
    error = error != 0 ? error : check_send_wr(qp, wr, &bytes);
    if (error != 0) {
        return error;
    }
    if (sq->post - sq->free >= sq->depth) {
        return ENOMEM;
    }
    struct sim_wqe *wqe = &sq->wqes[sq->post & sq->mask];
    fill_wqe(qp, wqe, wr, bytes);
    wqe->ready_at += by;
    copy_data(qp, wqe, wr);
    sq->post++;
    trace_post(qp, wqe);
    return 0;
}

/* Flushes WRs that were posted to a QP in ERR, and what is due (hns's library). */
static void flush_if_error(struct sim_qp *qp)
{
    if (qp->state == IBV_QPS_ERR) {
        rc_flush(qp);
    }
}

/* Posts a SEND or WRITE from one piece of memory to a QP in RTS, as most are. Returns
 * false, with nothing done, for other WRs. */
static inline bool post_plain(struct sim_qp *qp, const struct ibv_send_wr *wr)
{
    struct rc_requester *sq = &qp->sq;
    const struct sim_nic *nic = qp->nic;
    if (qp->state != IBV_QPS_RTS || nic->faults != NULL || wr->num_sge != 1 ||
        (wr->send_flags & ~(unsigned)IBV_SEND_SIGNALED) != 0 ||
        !is_send_or_write(wr->opcode) || sq->post - sq->free >= sq->depth ||
        sq->max_sge == 0 || wr->sg_list->length > nic->profile->max_msg_bytes) {
        return false;
    }
    uint32_t slot = sq->post & sq->mask;
    uint32_t n_psn = n_packets(wr->sg_list->length, qp->mtu_bytes);
    sq->wqes[slot] = (struct sim_wqe){
        .wr_id = wr->wr_id,
        .remote_addr = wr->wr.rdma.remote_addr,
        .ready_at = sim_now(nic->engine) + nic->profile->tx_overhead_ps,
        .rkey = wr->wr.rdma.rkey,
        .imm = wire_load_u32(&wr->imm_data),
        .length = wr->sg_list->length,
        .first_psn = sq->post_psn,
        .n_psn = n_psn,
        .n_sge = 1,
        .opcode = wr->opcode,
        .is_signaled = qp->sq_sig_all || wr->send_flags != 0,
        .is_plain = true,
    };
    sq->sges[(size_t)slot * sq->max_sge] = *wr->sg_list;
    sq->post_psn = (sq->post_psn + n_psn) & RC_PSN_MASK;
    sq->post++;
    trace_post(qp, &sq->wqes[slot]);
    return true;
}

/* Returns true if the waiting message can be sent at once. With one QP on the port it is
 * the first to be sent, whatever is posted next, so the same frames leave. An event log
 * with packets would show them earlier. */
static inline bool is_alone(const struct sim_qp *qp)
{
    return qp->port != NULL && qp->port->n_bound == 1 &&
           !weft_trace_on(sim_trace(qp->nic->engine), WEFT_TRACE_PACKET);
}

int sim_nic_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr,
                      struct ibv_send_wr **bad)
{
    struct sim_qp *qp = sim_qp_of(ibv_qp);
    int error = 0;
    for (; wr != NULL; wr = wr->next) {
        error = post_plain(qp, wr) ? 0 : post_one_send(qp, wr);
        if (error != 0) {
            *bad = wr;
            break;
        }
    }
    flush_if_error(qp);
    if (is_alone(qp) && rc_request_at_once(qp) && qp->sq.send == qp->sq.post) {
        return error;
    }
    rc_arm_doorbell(qp);
    rc_kick(qp);
    return error;
}

static int post_one_recv(struct sim_qp *qp, const struct ibv_recv_wr *wr)
{
    struct rc_responder *rq = &qp->rq;
    weft_ps by = 0;
    int error = qp->nic->faults == NULL
                    ? 0
                    : sim_nic_take_fault(qp->nic, SIM_VERB_POST_RECV, &by);
    if (error != 0) {
        return error;
    }
    if (qp->srq != NULL ||
        (qp->state == IBV_QPS_RESET && qp->nic->profile->post_check_strict) ||
        wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge) {
        return EINVAL;
    }
    if (rq->post - rq->free >= rq->depth) {
        return ENOMEM;
    }
    uint32_t slot = rq->post & rq->mask;
    rq->wqes[slot] = (struct sim_recv_wqe){
        .wr_id = wr->wr_id,
        .capacity = wr_bytes(wr->sg_list, wr->num_sge),
        .ready_at = by > 0 ? sim_now(qp->nic->engine) + by : 0,
        .n_sge = (uint32_t)wr->num_sge,
    };
    if (wr->num_sge > 0) {
        memcpy(&rq->sges[(size_t)slot * rq->max_sge], wr->sg_list,
               (size_t)wr->num_sge * sizeof(*wr->sg_list));
    }
    rq->post++;
    if (sim_qp_traced(qp)) {
        sim_qp_trace(qp, "post", "opcode=RECV bytes=%llu",
                     (unsigned long long)rq->wqes[slot].capacity);
    }
    return 0;
}

int sim_nic_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr,
                      struct ibv_recv_wr **bad)
{
    struct sim_qp *qp = sim_qp_of(ibv_qp);
    int error = 0;
    for (; wr != NULL; wr = wr->next) {
        error = post_one_recv(qp, wr);
        if (error != 0) {
            *bad = wr;
            break;
        }
    }
    flush_if_error(qp);
    return error;
}

/* ---- completions ---- */

/* Frees the queue slots up to and including the entry's, and flushes what is due (hns).
 * Reads `cqe` first, because the flush can overwrite that entry, which has left the ring. */
static void release(struct sim_cq *cq, const struct sim_cqe *cqe)
{
    struct sim_qp *qp = sim_nic_qp(cq->nic, cqe->wc.qp_num);
    if (qp == NULL || qp->serial != cqe->qp_serial) {
        return;
    }
    if (cqe->is_send) {
        qp->sq.free = cqe->n_retired;
    } else {
        qp->rq.free = cqe->n_retired;
    }
    if (cqe->wc.status != IBV_WC_SUCCESS && qp->flush_is_due) {
        rc_flush(qp);
    }
}

int sim_nic_poll_cq(struct ibv_cq *ibv_cq, int n_max, struct ibv_wc *wc, int *out_n)
{
    struct sim_cq *cq = sim_cq_of(ibv_cq);
    weft_ps now = sim_now(cq->nic->engine);
    int n = 0;
    *out_n = 0;
    if (cq->is_overrun) {
        return EIO;
    }
    for (; n < n_max && cq->n > 0; n++) {
        const struct sim_cqe *cqe = &cq->ring[cq->head];
        if (cqe->visible_at > now) {
            break;
        }
        cq->head = (cq->head + 1) & (cq->cap - 1);
        cq->n--;
        wc[n] = cqe->wc;
        release(cq, cqe);
    }
    *out_n = n;
    return 0;
}

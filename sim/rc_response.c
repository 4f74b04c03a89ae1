/* The requester's handling of responses: acknowledgements, NAKs and READ data. */
#include <string.h>

#include "base/check.h"
#include "sim/access.h"
#include "sim/landing.h"
#include "sim/rc_impl.h"
#include "sim/rc_ready.h"
#include "sim/train.h"

static struct sim_wqe *oldest(struct rc_requester *sq)
{
    return &sq->wqes[sq->una & sq->mask];
}

static void note_progress(struct sim_qp *qp)
{
    struct rc_requester *sq = &qp->sq;
    rc_renew_retries(sq);
    if (rc_psn_diff(sq->una_psn, sq->next_psn) > 0) {
        /* Packets that were to be retransmitted had arrived. */
        rc_go_back(qp, sq->una_psn, NULL);
    }
    rc_set_deadline(qp);
}

/* Returns true if a response with `psn` shows that an earlier one was lost. On some
 * devices only responses beyond the oldest READ do. */
static bool shows_loss(const struct sim_qp *qp, uint32_t psn)
{
    const struct rc_requester *sq = &qp->sq;
    const struct sim_wqe *wqe = &sq->wqes[sq->una & sq->mask];
    uint32_t last = (wqe->first_psn + wqe->n_psn - 1) & RC_PSN_MASK;
    return !qp->nic->profile->read_gap_waits || rc_psn_diff(psn, last) > 0;
}

/* Completes everything up to `psn`. Returns false if a READ or atomic in that range has
 * no response, which was lost. */
static WEFT_APART bool acknowledge_all(struct sim_qp *qp, uint32_t psn)
{
    struct rc_requester *sq = &qp->sq;
    uint32_t before = sq->una_psn;
    bool is_complete = true;
    while (sq->una != sq->post && rc_psn_diff(psn, oldest(sq)->first_psn) >= 0) {
        const struct sim_wqe *wqe = oldest(sq);
        uint32_t last = (wqe->first_psn + wqe->n_psn - 1) & RC_PSN_MASK;
        if (rc_is_read_or_atomic(wqe)) {
            is_complete = !shows_loss(qp, psn);
            break;
        }
        if (rc_psn_diff(psn, last) < 0) {
            sq->una_psn = (psn + 1) & RC_PSN_MASK;
            break;
        }
        sq->una_psn = (last + 1) & RC_PSN_MASK;
        rc_complete_send(qp, IBV_WC_SUCCESS);
    }
    if (sq->una_psn != before && qp->state != IBV_QPS_ERR) {
        note_progress(qp);
    }
    return is_complete;
}

/* Does the same, at once if `psn` belongs to the oldest WR, a SEND or WRITE. */
static inline bool acknowledge_through(struct sim_qp *qp, uint32_t psn)
{
    struct rc_requester *sq = &qp->sq;
    const struct sim_wqe *wqe = oldest(sq);
    uint32_t offset = (psn - wqe->first_psn) & RC_PSN_MASK;
    uint32_t una_psn = (psn + 1) & RC_PSN_MASK;
    if (sq->una == sq->post || offset >= wqe->n_psn || !wqe->is_plain ||
        qp->state == IBV_QPS_ERR) {
        return acknowledge_all(qp, psn);
    }
    bool is_progress = sq->una_psn != una_psn;
    sq->una_psn = una_psn;
    if (offset + 1 == wqe->n_psn) {
        rc_complete_send(qp, IBV_WC_SUCCESS);
    }
    if (is_progress && qp->state != IBV_QPS_ERR) {
        note_progress(qp);
    }
    return true;
}

/* Retries because a response was lost, at most once until there is progress. */
static void handle_lost_response(struct sim_qp *qp)
{
    struct rc_requester *sq = &qp->sq;
    if (!sq->went_back && !sq->is_rnr_waiting) {
        sq->went_back = true;
        rc_retry(qp, sq->una_psn, "implied_nak");
    }
}

static void start_rnr_wait(struct sim_qp *qp, unsigned code)
{
    struct rc_requester *sq = &qp->sq;
    bool is_endless = qp->attr.rnr_retry == 7;
    if (sq->is_rnr_waiting) {
        return;
    }
    sim_train_cut(qp->port->port);
    if (!is_endless && sq->rnr_retries_left == 0) {
        rc_enter_error(qp, IBV_WC_RNR_RETRY_EXC_ERR, false);
        return;
    }
    if (!is_endless) {
        sq->rnr_retries_left--;
    }
    sim_qp_trace(qp, "rnr_wait", "psn=%u code=%u", sq->una_psn, code);
    sq->is_rnr_waiting = true;
    sq->deadline = SIM_NEVER;
    sim_schedule(qp->nic->engine, &sq->rnr, sim_now(qp->nic->engine) + rc_rnr_time(code));
}

static void handle_fatal_nak(struct sim_qp *qp, uint8_t syndrome)
{
    switch (syndrome) {
    case RC_SYNDROME_INVALID:
        rc_enter_error(qp, IBV_WC_REM_INV_REQ_ERR, false);
        break;
    case RC_SYNDROME_ACCESS:
        rc_enter_error(qp, IBV_WC_REM_ACCESS_ERR, false);
        break;
    case RC_SYNDROME_OPERATIONAL:
        rc_enter_error(qp, IBV_WC_REM_OP_ERR, false);
        break;
    default:
        rc_enter_error(qp, IBV_WC_BAD_RESP_ERR, false);
        break;
    }
}

/* Returns true if the oldest WR is a READ or atomic without its response, and `psn`
 * belongs to a later WR. */
static bool is_beyond_read(const struct sim_qp *qp, uint32_t psn)
{
    const struct rc_requester *sq = &qp->sq;
    const struct sim_wqe *wqe = &sq->wqes[sq->una & sq->mask];
    uint32_t last = (wqe->first_psn + wqe->n_psn - 1) & RC_PSN_MASK;
    return sq->una != sq->post && rc_is_read_or_atomic(wqe) && rc_psn_diff(psn, last) > 0;
}

/* Acknowledges everything before the PSN of a NAK, which on some devices is no progress.
 * Returns false if a response before it was lost. */
static bool acknowledge_before(struct sim_qp *qp, uint32_t psn)
{
    struct rc_requester *sq = &qp->sq;
    uint32_t before = (psn - 1) & RC_PSN_MASK;
    bool went_back = sq->went_back;
    uint8_t retries_left = sq->retries_left;
    uint8_t rnr_retries_left = sq->rnr_retries_left;
    bool is_complete =
        rc_psn_diff(before, sq->una_psn) < 0 || acknowledge_through(qp, before);
    if (qp->nic->profile->nak_waits_for_ack) {
        sq->went_back = went_back;
        sq->retries_left = retries_left;
        sq->rnr_retries_left = rnr_retries_left;
    }
    return is_complete && !is_beyond_read(qp, psn);
}

static void handle_nak(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_requester *sq = &qp->sq;
    if (!acknowledge_before(qp, frame->psn)) {
        handle_lost_response(qp);
        return;
    }
    if (qp->state == IBV_QPS_ERR) {
        return;
    }
    if ((frame->syndrome & 0xe0) == RC_SYNDROME_RNR) {
        start_rnr_wait(qp, frame->syndrome & 0x1f);
    } else if (frame->syndrome == RC_SYNDROME_SEQUENCE) {
        if (!sq->went_back && !sq->is_rnr_waiting) {
            sq->went_back = true;
            rc_retry(qp, frame->psn, "nak");
        }
    } else {
        sim_qp_trace(qp, "nak", "syndrome=%u psn=%u", frame->syndrome, frame->psn);
        handle_fatal_nak(qp, frame->syndrome);
    }
}

/* Returns the oldest READ or atomic, if `frame` is its next response; otherwise NULL.
 * Acknowledges everything before it. */
static struct sim_wqe *expect_response(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_requester *sq = &qp->sq;
    uint32_t before = (frame->psn - 1) & RC_PSN_MASK;
    if (rc_psn_diff(frame->psn, sq->una_psn) > 0 &&
        rc_psn_diff(before, oldest(sq)->first_psn) >= 0 &&
        !rc_is_read_or_atomic(oldest(sq))) {
        (void)acknowledge_through(qp, before);
    }
    if (qp->state == IBV_QPS_ERR || sq->una == sq->post) {
        return NULL;
    }
    if (frame->psn != sq->una_psn) {
        if (shows_loss(qp, frame->psn)) {
            handle_lost_response(qp);
        }
        return NULL;
    }
    return oldest(sq);
}

static void finish_response(struct sim_qp *qp, struct sim_wqe *wqe)
{
    struct rc_requester *sq = &qp->sq;
    wqe->n_done++;
    sq->una_psn = (sq->una_psn + 1) & RC_PSN_MASK;
    if (wqe->n_done == wqe->n_psn) {
        rc_complete_send(qp, IBV_WC_SUCCESS);
    }
    if (qp->state != IBV_QPS_ERR) {
        note_progress(qp);
    }
}

static void handle_read_response(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_requester *sq = &qp->sq;
    struct sim_wqe *wqe = expect_response(qp, frame);
    if (wqe == NULL) {
        return;
    }
    uint64_t offset = (uint64_t)wqe->n_done * qp->mtu_bytes;
    uint64_t left = wqe->length - offset;
    uint32_t expected = left < qp->mtu_bytes ? (uint32_t)left : qp->mtu_bytes;
    if (wqe->opcode != IBV_WR_RDMA_READ || frame->n_payload != expected) {
        rc_enter_error(qp, IBV_WC_BAD_RESP_ERR, false);
        return;
    }
    const struct ibv_sge *sges = &sq->sges[(size_t)(sq->una & sq->mask) * sq->max_sge];
    if (!sim_sges_allowed(qp->nic, qp->pd, sges, wqe->n_sge, IBV_ACCESS_LOCAL_WRITE)) {
        rc_enter_error(qp, IBV_WC_LOC_PROT_ERR, false);
        return;
    }
    sim_land_list(qp->nic, sges, wqe->n_sge, offset, frame->payload, frame->n_payload);
    finish_response(qp, wqe);
}

static void handle_atomic_ack(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_requester *sq = &qp->sq;
    struct sim_wqe *wqe = expect_response(qp, frame);
    uint64_t original = frame->va; /* in the requester's byte order */
    uint8_t bytes[8];
    if (wqe == NULL) {
        return;
    }
    if (!rc_is_read_or_atomic(wqe) || wqe->opcode == IBV_WR_RDMA_READ) {
        rc_enter_error(qp, IBV_WC_BAD_RESP_ERR, false);
        return;
    }
    const struct ibv_sge *sges = &sq->sges[(size_t)(sq->una & sq->mask) * sq->max_sge];
    if (!sim_sges_allowed(qp->nic, qp->pd, sges, wqe->n_sge, IBV_ACCESS_LOCAL_WRITE)) {
        rc_enter_error(qp, IBV_WC_LOC_PROT_ERR, false);
        return;
    }
    memcpy(bytes, &original, sizeof(bytes));
    sim_land_list(qp->nic, sges, wqe->n_sge, 0, bytes, sizeof(bytes));
    finish_response(qp, wqe);
}

static void handle_acknowledge(struct sim_qp *qp, const struct sim_frame *frame)
{
    if ((frame->syndrome & 0xe0) != 0) {
        handle_nak(qp, frame);
    } else if (!acknowledge_through(qp, frame->psn)) {
        handle_lost_response(qp);
    }
}

/* Handles an ACK of a PSN that was never sent. On some devices it completes all WRs that
 * were sent completely. */
static void handle_ghost(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_requester *sq = &qp->sq;
    bool is_ack = frame->opcode == RC_ACK && (frame->syndrome & 0xe0) == 0;
    if (!qp->nic->profile->ghost_ack_completes || !is_ack || sq->send == sq->una) {
        return;
    }
    const struct sim_wqe *sent = &sq->wqes[(sq->send - 1) & sq->mask];
    if (!acknowledge_through(qp, (sent->first_psn + sent->n_psn - 1) & RC_PSN_MASK)) {
        handle_lost_response(qp);
    }
}

void rc_handle_any_response(struct sim_qp *qp, const struct sim_frame *frame)
{
    struct rc_requester *sq = &qp->sq;
    if (qp->port->port->in_train) {
        sim_train_acked(qp->port->port, qp, frame->psn);
    }
    if (rc_psn_diff(frame->psn, sq->una_psn) < 0 || sq->una == sq->post) {
        return; /* it belongs to a WR that is complete */
    }
    if (rc_psn_diff(frame->psn, sq->max_psn) >= 0) {
        handle_ghost(qp, frame);
    } else if (frame->opcode == RC_ACK) {
        handle_acknowledge(qp, frame);
    } else if (frame->opcode == RC_ATOMIC_ACK) {
        handle_atomic_ack(qp, frame);
    } else {
        handle_read_response(qp, frame);
    }
    if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) {
        if (sq->is_faulted) {
            rc_settle_fault(qp);
        }
        if (qp->state == IBV_QPS_SQD) {
            rc_check_drained(qp);
        }
        rc_kick(qp);
    }
}

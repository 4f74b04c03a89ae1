#include "base/check.h"
#include "conn/journal.h"
#include "rdma/cq.h"
#include "xfer/private.h"

#define POLL_MAX 32
#define RQ_CHAIN_MAX 16

/* ---- receives ---- */

static weft_status post_receives(struct xfer *xfer, uint32_t q, uint32_t n)
{
    struct conn *conn = xfer->conn;
    struct io_device *device = conn->rails[q % conn->n_rails].port->device;

    while (n > 0) {
        struct ibv_recv_wr wrs[RQ_CHAIN_MAX], *bad = NULL;
        uint32_t n_now = n < RQ_CHAIN_MAX ? n : RQ_CHAIN_MAX;
        int error;

        for (uint32_t i = 0; i < n_now; i++) {
            wrs[i] = (struct ibv_recv_wr){.wr_id = CONN_WR_RECV,
                                          .next = i + 1 < n_now ? &wrs[i + 1] : NULL};
        }
        error = device->ops->post_recv(conn->qps[q].qp, wrs, &bad);
        if (error != 0) {
            return xfer_fail_post(xfer, q, error, "post_recv was refused");
        }
        xfer->lanes[q].rq_posted += n_now;
        n -= n_now;
    }
    return WEFT_OK;
}

weft_status xfer_replenish(struct xfer *xfer, uint32_t n_missing_min)
{
    for (uint32_t q = 0; q < xfer->conn->n_qps; q++) {
        uint32_t n_missing = xfer->rq_depth - xfer->lanes[q].rq_posted;
        weft_status status = WEFT_OK;

        if (n_missing > 0 && n_missing >= n_missing_min && !xfer_is_dropped(xfer, q)) {
            status = post_receives(xfer, q, n_missing);
        }
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

/* ---- completions ---- */

/* Returns the index of the QP of rail `rail` that has number `qpn`, or n_qps. */
static uint32_t lane_of(const struct xfer *xfer, uint32_t rail, uint32_t qpn)
{
    const struct conn *conn = xfer->conn;

    for (uint32_t q = rail; q < conn->n_qps; q += conn->n_rails) {
        if (conn->qps[q].qp->qp_num == qpn) {
            return q;
        }
    }
    return conn->n_qps;
}

static weft_status take_receive(struct xfer *xfer, uint32_t q, const struct ibv_wc *wc)
{
    struct xfer_imm imm;

    weft_check(xfer->lanes[q].rq_posted > 0);
    xfer->lanes[q].rq_posted--;
    if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM ||
        (wc->wc_flags & IBV_WC_WITH_IMM) == 0) {
        return xfer_fail_protocol(xfer, q,
                                  "a message that is not a WRITE with an immediate");
    }
    imm = xfer_imm_decode(xfer_network_order(wc->imm_data));
    switch (imm.kind) {
    case XFER_IMM_CTS:
        return xfer_take_cts(xfer, q, &imm);
    case XFER_IMM_DATA:
        if (!xfer->conn->is_connector) {
            return xfer_take_data(xfer, q, &imm, wc->byte_len);
        }
        break;
    case XFER_IMM_NOTICE:
        if (xfer->conn->is_connector && xfer_is_control(xfer, q) && wc->byte_len == 0) {
            xfer->notice = imm.number;
            xfer->has_notice = true;
            return WEFT_OK;
        }
        break;
    case XFER_IMM_RAIL:
        if (wc->byte_len == 0) {
            return xfer_take_rail(xfer, q, &imm);
        }
        break;
    case XFER_IMM_HANDOVER:
        if (!xfer->conn->is_connector && wc->byte_len == 0) {
            xfer->is_handed_over = true;
            return WEFT_OK;
        }
        break;
    case XFER_IMM_NONE:
        break;
    }
    return xfer_fail_protocol(xfer, q, "immediate %#x means nothing here",
                              xfer_network_order(wc->imm_data));
}

/* A newer notice replaces one that was not sent yet. Beats are sent when nothing else completes.
 * RAIL and HANDOVER immediates are sent when ports change. */
bool xfer_is_by_the_clock(const struct ibv_wc *wc)
{
    uint64_t kind = wc->wr_id >> 56;
    enum xfer_imm_kind received;

    if (wc->wr_id != CONN_WR_RECV) {
        return kind == XFER_WR_NOTICE || kind == XFER_WR_BEAT || kind == XFER_WR_RAIL ||
               kind == XFER_WR_HANDOVER;
    }
    received = xfer_imm_decode(xfer_network_order(wc->imm_data)).kind;
    return wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
           (received == XFER_IMM_NOTICE || received == XFER_IMM_RAIL ||
            received == XFER_IMM_HANDOVER);
}

static weft_status take_sent(struct xfer *xfer, uint32_t q, uint64_t wr_id)
{
    struct xfer_lane *lane = &xfer->lanes[q];
    uint32_t number = (uint32_t)wr_id;
    struct xfer_request *request =
        &xfer->requests[(uint32_t)(wr_id >> 32) % XFER_REQUESTS_MAX];

    if (number - lane->n_retired >= lane->n_posted - lane->n_retired) {
        return xfer_fail_protocol(xfer, q, "completion %#llx of nothing that is posted",
                                  (unsigned long long)wr_id);
    }
    /* This completes all earlier work requests as well, because those of a queue complete in
     * order. */
    lane->n_retired = number + 1;
    if (wr_id >> 56 == XFER_WR_LAST) {
        xfer_part_done(xfer, request, (uint32_t)(wr_id >> 40) % CONN_QPS_MAX);
    } else if (wr_id >> 56 == XFER_WR_BEAT) {
        lane->has_beat = false;
    } else if (wr_id >> 56 == XFER_WR_NOTICE) {
        xfer->notice_on_its_way = false;
    } else if (wr_id >> 56 == XFER_WR_HANDOVER) {
        xfer->handover_is_done = true;
    } else if (wr_id >> 56 == XFER_WR_FLUSH) {
        weft_check(request->kind == XFER_FLUSH && request->as.flush.n_pending > 0);
        request->is_done = --request->as.flush.n_pending == 0;
        xfer->n_done += request->is_done;
    }
    return WEFT_OK;
}

/* In an error completion only wr_id, status, qp_num and vendor_err are valid. The first one that is
 * not flushed is the cause. The first flushed one is kept until all queues were polled. */
static weft_status take_error(struct xfer *xfer, uint32_t q, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_WR_FLUSH_ERR) {
        return xfer_fail_completion(xfer, q, wc);
    }
    if (!xfer->has_flushed) {
        xfer->has_flushed = true;
        xfer->flush_wc = *wc;
        xfer->flush_lane = q;
    }
    return WEFT_OK;
}

static weft_status take(struct xfer *xfer, uint32_t rail, const struct ibv_wc *wc)
{
    uint32_t q = lane_of(xfer, rail, wc->qp_num);

    if (q == xfer->conn->n_qps) {
        return xfer_fail_protocol(
            xfer, rail, "completion of queue pair %u, which is not ours", wc->qp_num);
    }
    if (wc->status != IBV_WC_SUCCESS && (xfer->is_draining || xfer_is_dropped(xfer, q))) {
        xfer->n_marks -= wc->wr_id != CONN_WR_RECV && wc->wr_id >> 56 == XFER_WR_MARK;
        return WEFT_OK;
    }
    if (wc->status != IBV_WC_SUCCESS) {
        return take_error(xfer, q, wc);
    }
    if (wc->wr_id == CONN_WR_RECV) {
        return take_receive(xfer, q, wc);
    }
    return take_sent(xfer, q, wc->wr_id);
}

static weft_status poll_rail(struct xfer *xfer, uint32_t rail)
{
    const struct conn_rail *own = &xfer->conn->rails[rail];
    struct ibv_wc wcs[POLL_MAX];
    weft_status first = WEFT_OK;
    int n = POLL_MAX;

    while (n == POLL_MAX) {
        int error = rdma_poll(xfer->conn->rdma, own->port->device_index, own->cq,
                              POLL_MAX, wcs, &n);

        if (error != 0) {
            return xfer_fail_post(xfer, rail, error, "the completion queue is broken");
        }
        /* Handle all of them even if one fails, because they are no longer in the queue. */
        for (int i = 0; i < n; i++) {
            weft_status status;

            conn_journal_note(xfer->conn, rail, &wcs[i]);
            status = take(xfer, rail, &wcs[i]);
            first = first == WEFT_OK ? status : first;
        }
        if (first != WEFT_OK) {
            return first;
        }
    }
    return WEFT_OK;
}

weft_status xfer_poll_all(struct xfer *xfer)
{
    for (uint32_t rail = 0; rail < xfer->conn->n_rails; rail++) {
        weft_status status = poll_rail(xfer, rail);

        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

weft_status xfer_arm_all(struct xfer *xfer)
{
    for (uint32_t rail = 0; rail < xfer->conn->n_rails; rail++) {
        struct io_device *device = xfer->conn->rails[rail].port->device;
        int error = device->ops->req_notify(xfer->conn->rails[rail].cq, 0);

        if (error != 0) {
            return xfer_fail_post(xfer, rail, error,
                                  "the completion queue cannot be armed");
        }
    }
    return WEFT_OK;
}

/* Polls before and after arming, because a completion that arrives before arming wakes no task. */
weft_status xfer_progress(struct xfer *xfer)
{
    weft_status status = xfer->error.status;

    if (status == WEFT_OK) {
        status = xfer_poll_all(xfer);
    }
    if (status == WEFT_OK) {
        status = xfer_arm_all(xfer);
    }
    if (status == WEFT_OK) {
        status = xfer_poll_all(xfer);
    }
    if (status == WEFT_OK && xfer->has_flushed) {
        status = xfer_fail_completion(xfer, xfer->flush_lane, &xfer->flush_wc);
    }
    if (status == WEFT_OK) {
        status = xfer_rails_progress(xfer);
    }
    if (status == WEFT_OK) {
        status = xfer_replenish(xfer, xfer->rq_batch);
    }
    if (status == WEFT_OK) {
        status = xfer_pump(xfer);
    }
    if (status == WEFT_OK) {
        status = xfer_pump_notice(xfer);
    }
    return status;
}

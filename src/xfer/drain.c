/* Drains the queue pairs of a connection, or of rails of it, that another connection will replace.
 * What completed before they flushed counts. A marked work request is posted behind the last one of
 * each queue. When all marks have flushed, nothing can come from these queue pairs any more,
 * neither a completion nor a WRITE into a buffer. */
#include "base/check.h"
#include "xfer/private.h"

#define MARK_SEND 1u
#define MARK_RECV 2u

static bool is_among(const struct xfer *xfer, uint32_t q, uint32_t rails)
{
    return (rails >> q % xfer->conn->n_rails & 1) != 0;
}

/* Moves the queue pairs of `rails` to ERR. Returns true if none of them is in transition any more.
 * A queue pair that cannot be moved counts as at rest. */
static bool all_at_rest(struct xfer *xfer, uint32_t rails)
{
    bool all = true;

    for (uint32_t q = 0; q < xfer->conn->n_qps; q++) {
        struct weft_error ignored = {0};

        if (!is_among(xfer, q, rails)) {
            continue;
        }
        rdma_qp_to_error(&xfer->conn->qps[q]);
        all = rdma_qp_progress(&xfer->conn->qps[q], &ignored) != WEFT_AGAIN && all;
    }
    return all;
}

static bool is_in_error(const struct xfer *xfer, uint32_t q)
{
    return xfer->conn->qps[q].state == RDMA_QP_ERR;
}

/* Posts the marks that are missing. A full queue has room again once something has flushed. */
static void post_marks(struct xfer *xfer, uint32_t rails)
{
    for (uint32_t q = 0; q < xfer->conn->n_qps; q++) {
        struct io_device *device =
            xfer->conn->rails[q % xfer->conn->n_rails].port->device;
        uint64_t id = (uint64_t)XFER_WR_MARK << 56 | (uint64_t)q << 48;
        struct ibv_send_wr send = {.wr_id = id | MARK_SEND,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .send_flags = IBV_SEND_SIGNALED};
        struct ibv_recv_wr receive = {.wr_id = id | MARK_RECV};
        struct ibv_send_wr *bad_send = NULL;
        struct ibv_recv_wr *bad_receive = NULL;

        if (!is_among(xfer, q, rails) || !is_in_error(xfer, q)) {
            continue;
        }
        if ((xfer->marked[q] & MARK_SEND) == 0 &&
            device->ops->post_send(xfer->conn->qps[q].qp, &send, &bad_send) == 0) {
            xfer->marked[q] |= MARK_SEND;
            xfer->n_marks++;
        }
        if ((xfer->marked[q] & MARK_RECV) == 0 &&
            device->ops->post_recv(xfer->conn->qps[q].qp, &receive, &bad_receive) == 0) {
            xfer->marked[q] |= MARK_RECV;
            xfer->n_marks++;
        }
    }
}

static bool is_drained(const struct xfer *xfer, uint32_t rails)
{
    for (uint32_t q = 0; q < xfer->conn->n_qps; q++) {
        if (is_among(xfer, q, rails) && is_in_error(xfer, q) &&
            xfer->marked[q] != (MARK_SEND | MARK_RECV)) {
            return false;
        }
    }
    return xfer->n_marks == 0;
}

weft_status xfer_drain_rails(struct xfer *xfer, uint32_t rails)
{
    if (!all_at_rest(xfer, rails)) {
        return WEFT_AGAIN; /* a queue pair that is not in ERR can still transfer data */
    }
    for (int look = 0; look < 2; look++) {
        post_marks(xfer, rails);
        /* A queue that fails delivers no more completions. */
        if (xfer_poll_all(xfer) != WEFT_OK || is_drained(xfer, rails) ||
            (look == 0 && xfer_arm_all(xfer) != WEFT_OK)) {
            return WEFT_OK;
        }
    }
    return WEFT_AGAIN;
}

weft_status xfer_drain(struct xfer *xfer, weft_ns deadline_ns)
{
    bool late = io_now(xfer->conn->rdma->env) >= deadline_ns;
    weft_status status;

    xfer->is_draining = true;
    if (!all_at_rest(xfer, UINT32_MAX)) {
        return WEFT_AGAIN; /* even after the deadline */
    }
    status = xfer_drain_rails(xfer, UINT32_MAX);
    return status == WEFT_AGAIN && late ? WEFT_OK : status;
}

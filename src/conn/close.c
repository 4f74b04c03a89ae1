/* Closes a connection in order. Moves its queue pairs to ERR and posts a mark (a work request) at
 * the end of each queue. Polls until all marks have flushed, because some NICs flush only while
 * polled. Then destroys the queue pairs and frees everything else. Abandons what is left after a
 * deadline. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "conn/private.h"
#include "rdma/cq.h"

#define WR_MARK UINT64_C(0x636c6f7365000000)
#define MARK_SEND 1u
#define MARK_RECV 2u

enum close_step { CLOSE_TO_ERROR, CLOSE_DRAIN, CLOSE_QPS };

static void close_with(struct conn *conn, const uint8_t *final, size_t n_bytes)
{
    struct conn_private *private = conn->private;
    bool may_say = private->link.stream != NULL && private->link.sealed &&
                   !private->peer_gave_up && conn->state != CONN_FAILED;

    if (conn->state == CONN_CLOSING || conn->state == CONN_CLOSED) {
        return;
    }
    if (may_say) {
        (void)frame_send(&private->link, CODEC_CLOSE, final, n_bytes);
    }
    (void)frame_finish(&private->link);
    conn_enter(conn, CONN_CLOSING);
    private->close_ns = io_now(conn_env(conn)) + TIMER_DRAIN_NS;
    for (uint32_t i = 0; i < private->n_qps_made; i++) {
        rdma_qp_to_error(&conn->qps[i]);
    }
    io_task_wake(&conn->task);
}

void conn_close(struct conn *conn)
{
    close_with(conn, NULL, 0);
}

void conn_close_with(struct conn *conn, const uint8_t final[CONN_PURPOSE_BYTES])
{
    close_with(conn, final, CONN_PURPOSE_BYTES);
}

/* Progresses all QPs. Returns true if none has a verb under way; a failed QP counts as at rest. */
static bool all_at_rest(struct conn *conn)
{
    bool all = true;

    for (uint32_t i = 0; i < conn->private->n_qps_made; i++) {
        struct weft_error ignored = {0};

        all = rdma_qp_progress(&conn->qps[i], &ignored) != WEFT_AGAIN && all;
    }
    return all;
}

/* Posts the missing marks. A full queue gets its mark in a later call, after some of its work
 * requests have flushed. */
static void post_marks(struct conn *conn)
{
    struct conn_private *private = conn->private;

    for (uint32_t i = 0; i < private->n_qps_made; i++) {
        struct io_device *device = conn->rails[i % conn->n_rails].port->device;
        struct ibv_send_wr send = {.wr_id = WR_MARK,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .send_flags = IBV_SEND_SIGNALED};
        struct ibv_recv_wr receive = {.wr_id = WR_MARK};
        struct ibv_send_wr *bad_send = NULL;
        struct ibv_recv_wr *bad_receive = NULL;

        if (conn->qps[i].state != RDMA_QP_ERR) {
            continue;
        }
        if ((private->marked[i] & MARK_SEND) == 0 &&
            device->ops->post_send(conn->qps[i].qp, &send, &bad_send) == 0) {
            private->marked[i] |= MARK_SEND;
            private->n_marks++;
        }
        if ((private->marked[i] & MARK_RECV) == 0 &&
            device->ops->post_recv(conn->qps[i].qp, &receive, &bad_receive) == 0) {
            private->marked[i] |= MARK_RECV;
            private->n_marks++;
        }
    }
}

/* Returns true if both queues of every QP in ERR have their marks. */
static bool is_marked(const struct conn *conn)
{
    for (uint32_t i = 0; i < conn->private->n_qps_made; i++) {
        if (conn->qps[i].state == RDMA_QP_ERR &&
            conn->private->marked[i] != (MARK_SEND | MARK_RECV)) {
            return false;
        }
    }
    return true;
}

/* Polls all CQs and counts the marks that flushed. Records the completions that succeeded and drops
 * the others. Returns false if a CQ cannot be polled, because its marks never arrive. */
static bool drain(struct conn *conn)
{
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        struct ibv_wc wc[16];
        int n = 1;

        while (conn->rails[i].cq != NULL && n > 0) {
            if (rdma_poll(conn->rdma, conn->rails[i].port->device_index,
                          conn->rails[i].cq, 16, wc, &n) != 0) {
                return false;
            }
            for (int k = 0; k < n; k++) {
                if (wc[k].wr_id == WR_MARK) {
                    conn->private->n_marks--;
                } else if (wc[k].status == IBV_WC_SUCCESS) {
                    conn_journal_note(conn, i, &wc[k]); /* completed before the close */
                }
            }
        }
    }
    return true;
}

/* Returns true if all marks have flushed, or if a CQ failed. Otherwise arms the CQs; it polls again
 * after that, because a completion that arrives during arming raises no event. */
static bool is_drained(struct conn *conn)
{
    for (int look = 0; look < 2; look++) {
        post_marks(conn);
        if (!drain(conn)) {
            return true;
        }
        if (is_marked(conn) && conn->private->n_marks == 0) {
            return true;
        }
        for (uint32_t i = 0; i < conn->n_rails && look == 0; i++) {
            struct io_device *device = conn->rails[i].port->device;

            if (conn->rails[i].cq != NULL &&
                device->ops->req_notify(conn->rails[i].cq, 0) != 0) {
                return true;
            }
        }
    }
    return false;
}

weft_status conn_step_closing(struct conn *conn)
{
    struct conn_private *private = conn->private;
    bool late = io_now(conn_env(conn)) >= private->close_ns;

    if (private->close_step == CLOSE_TO_ERROR && (late || all_at_rest(conn))) {
        private->close_step = CLOSE_DRAIN;
    }
    if (private->close_step == CLOSE_DRAIN && (late || is_drained(conn))) {
        for (uint32_t i = 0; i < private->n_qps_made; i++) {
            rdma_qp_close(&conn->qps[i]);
        }
        private->close_step = CLOSE_QPS;
    }
    if (late) {
        frame_close(&private->link, false);
    }
    if (frame_finish(&private->link) && private->close_step == CLOSE_QPS &&
        (late || all_at_rest(conn))) {
        conn_release(conn);
        conn_enter(conn, CONN_CLOSED);
        return WEFT_OK;
    }
    return WEFT_AGAIN;
}

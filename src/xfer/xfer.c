#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "xfer/private.h"

/* Number of missing receives of a QP at which they are posted; less if its queue is short. */
#define RQ_BATCH 16

/* Returns the maximum number of open groups for a connector that posts `recv_posted` receives.
 *
 * No data immediate or clear-to-send is answered "receiver not ready", for these reasons.
 *
 * A data immediate consumes one receive of an acceptor's QP. A group of n buffers brings at most n
 * immediates to each QP, because a message has at most one part on each. The acceptor grants a
 * group only if every QP has a receive for each incomplete buffer, including the new ones
 * (receive.c). The receives are posted before the CTS that allows their use.
 *
 * A CTS consumes one receive of the connector's QP 0. The acceptor sends the CTS of group g only
 * when group g - n is complete. The connector had then polled the CTS of that group, so that at
 * most n are under way or not polled. Both ends compute n from the connector's receives: 32, or
 * about half of them if there are at most 32. The connector posts receives again when rq_batch are
 * missing, so that n + rq_batch receives suffice. Only a notice, of which one at a time is under
 * way, or an immediate of kind 0 can find no receive. The NIC then retransmits it. */
static uint32_t open_max(uint32_t recv_posted)
{
    return recv_posted > XFER_SLOTS ? XFER_SLOTS : recv_posted - recv_posted / 2;
}

static weft_status check_depths(struct xfer *xfer, struct weft_error *error)
{
    struct conn *conn = xfer->conn;
    uint32_t least = conn->is_connector ? 2 : XFER_MULTI_MAX;

    if (conn->config.window_bytes < XFER_WINDOW_BYTES) {
        return weft_fail(error, WEFT_ERR_LIMIT, WEFT_PHASE_DATA,
                         "window of %u bytes, %u needed", conn->config.window_bytes,
                         XFER_WINDOW_BYTES);
    }
    if (!conn->is_connector && conn->peer_window_bytes < XFER_WINDOW_BYTES) {
        return weft_fail(error, WEFT_ERR_LIMIT, WEFT_PHASE_DATA,
                         "the peer's window has %u bytes, %u needed",
                         conn->peer_window_bytes, XFER_WINDOW_BYTES);
    }
    if (xfer->rq_depth < least) {
        return weft_fail(error, WEFT_ERR_LIMIT, WEFT_PHASE_DATA,
                         "%u receives posted per queue pair, at least %u needed",
                         xfer->rq_depth, least);
    }
    for (uint32_t q = 0; q < conn->n_qps; q++) {
        if (xfer->lanes[q].sq_depth < 2) {
            return weft_fail(error, WEFT_ERR_LIMIT, WEFT_PHASE_DATA,
                             "send queue of %u, at least 2 needed",
                             xfer->lanes[q].sq_depth);
        }
    }
    return WEFT_OK;
}

static void init_lanes(struct xfer *xfer)
{
    struct conn *conn = xfer->conn;
    uint32_t spare = conn->is_connector ? conn->recv_posted - open_max(conn->recv_posted)
                                        : conn->recv_posted / 2;

    xfer->rq_depth = conn->recv_posted;
    xfer->rq_batch = spare < RQ_BATCH ? spare : RQ_BATCH;
    xfer->n_open_max = open_max(conn->peer_recv_posted);
    for (uint32_t q = 0; q < conn->n_qps; q++) {
        uint32_t asked = conn->config.send_wr_max, granted = conn->qps[q].cap.max_send_wr;

        xfer->lanes[q] = (struct xfer_lane){.sq_depth = granted < asked ? granted : asked,
                                            .rq_posted = conn->recv_posted};
    }
}

/* Sets the weight of each QP to the rate of its rail, which is that of the slower port. */
static void weigh_rails(struct xfer *xfer)
{
    const struct conn *conn = xfer->conn;

    xfer->n_live = conn->n_qps;
    for (uint32_t q = 0; q < conn->n_qps; q++) {
        const struct conn_rail *rail = &conn->rails[q % conn->n_rails];
        uint64_t rate_bps = rail->port->rate_bps;

        if (rail->remote_port < conn->peer.n_ports &&
            conn->peer.ports[rail->remote_port].rate_bps < rate_bps) {
            rate_bps = conn->peer.ports[rail->remote_port].rate_bps;
        }
        xfer->live[q] = (uint8_t)q;
        xfer->weights[q] = rate_bps < 1000000 ? 1 : (uint32_t)(rate_bps / 1000000);
        xfer->is_weighted = xfer->is_weighted || xfer->weights[q] != xfer->weights[0];
    }
}

/* Returns true if the number of such completions depends on timing: those of notices (a newer one
 * replaces one that was not sent yet), of beats (sent when nothing else completes), and of RAIL and
 * HANDOVER immediates (sent when ports change). */
static bool is_by_the_clock(const struct ibv_wc *wc)
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

weft_status xfer_open(struct conn *conn, struct xfer **out, struct weft_error *error)
{
    struct xfer *xfer = calloc(1, sizeof(*xfer));
    weft_status status;

    *out = NULL;
    weft_check(conn->state == CONN_UP);
    if (xfer == NULL) {
        return weft_fail(error, WEFT_ERR_NOMEM, WEFT_PHASE_DATA,
                         "no memory for a transfer state");
    }
    xfer->conn = conn;
    conn->is_by_the_clock = is_by_the_clock;
    init_lanes(xfer);
    weigh_rails(xfer);
    for (uint32_t i = 0; i < XFER_REQUESTS_MAX; i++) {
        xfer->requests[i].index = (uint16_t)i;
        xfer->free_requests[i] = (uint16_t)(XFER_REQUESTS_MAX - 1 - i);
    }
    xfer->n_free = XFER_REQUESTS_MAX;
    xfer->n_bytes_max = xfer_n_bytes_max(conn->max_msg_bytes) < XFER_SIZE_MAX
                            ? xfer_n_bytes_max(conn->max_msg_bytes)
                            : XFER_SIZE_MAX;
    status = check_depths(xfer, error);
    if (status != WEFT_OK) {
        free(xfer);
        return status;
    }
    *out = xfer;
    /* Poll once and arm, because receives can have completed before if the peer was faster. */
    io_task_wake(&conn->task);
    return WEFT_OK;
}

void xfer_close(struct xfer *xfer)
{
    free(xfer);
}

const struct weft_error *xfer_error(const struct xfer *xfer)
{
    return &xfer->error;
}

void xfer_counters(const struct xfer *xfer, struct xfer_counters *out)
{
    *out = xfer->counters;
}

/* ---- memory ---- */

weft_status xfer_register(struct xfer *xfer, void *addr, size_t length,
                          struct xfer_memory *out, struct weft_error *error)
{
    struct conn *conn = xfer->conn;
    /* The peer gets no access to memory from which this end only sends. */
    int access =
        conn->is_connector ? 0 : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

    weft_check(length > 0);
    *out = (struct xfer_memory){.addr = addr, .length = length};
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        uint32_t device = conn->rails[i].port->device_index;
        weft_status status;

        weft_check(device < XFER_DEVICES_MAX);
        if (out->mrs[device].entry != NULL) {
            continue; /* two rails of one device */
        }
        status = rdma_mr_get(conn->rdma->mrs, device, addr, length, access, &conn->task,
                             &out->mrs[device], error);
        if (status != WEFT_OK) {
            xfer_deregister(xfer, out);
            return status;
        }
        out->n = device + 1 > out->n ? device + 1 : out->n;
    }
    return WEFT_OK;
}

weft_status xfer_register_progress(struct xfer *xfer, struct xfer_memory *memory,
                                   struct weft_error *error)
{
    weft_status result = WEFT_OK;

    for (uint32_t i = 0; i < memory->n; i++) {
        weft_status status =
            memory->mrs[i].entry == NULL
                ? WEFT_OK
                : rdma_mr_progress(xfer->conn->rdma->mrs, &memory->mrs[i], error);

        if (status != WEFT_OK && status != WEFT_AGAIN) {
            return status;
        }
        if (status == WEFT_AGAIN) {
            result = WEFT_AGAIN;
        }
    }
    return result;
}

void xfer_deregister(struct xfer *xfer, struct xfer_memory *memory)
{
    for (uint32_t i = 0; i < memory->n; i++) {
        if (memory->mrs[i].entry != NULL) {
            rdma_mr_put(xfer->conn->rdma->mrs, &memory->mrs[i]);
        }
    }
    *memory = (struct xfer_memory){0};
}

/* ---- requests ---- */

struct xfer_request *xfer_request_take(struct xfer *xfer, enum xfer_request_kind kind)
{
    struct xfer_request *request;

    if (xfer->n_free == 0) {
        return NULL;
    }
    request = &xfer->requests[xfer->free_requests[--xfer->n_free]];
    request->kind = kind;
    request->is_done = false;
    return request;
}

void xfer_request_give(struct xfer *xfer, struct xfer_request *request)
{
    weft_check(request->kind != XFER_FREE);
    request->kind = XFER_FREE;
    xfer->free_requests[xfer->n_free++] = request->index;
}

uint32_t xfer_n_done(const struct xfer *xfer)
{
    return xfer->n_done;
}

weft_status xfer_test(struct xfer *xfer, struct xfer_request *request, size_t *out_sizes)
{
    weft_check(request->kind != XFER_FREE);
    if (!request->is_done) {
        return xfer->error.status != WEFT_OK ? xfer->error.status : WEFT_AGAIN;
    }
    if (request->kind == XFER_SEND && out_sizes != NULL) {
        out_sizes[0] = (size_t)request->as.send.n_bytes;
    }
    if (request->kind == XFER_RECV) {
        for (uint32_t i = 0; out_sizes != NULL && i < request->as.recv.n; i++) {
            out_sizes[i] = (size_t)request->as.recv.buffers[i].n_bytes;
        }
        xfer->slots[request->as.recv.slot] = NULL;
    }
    xfer->n_done--;
    xfer_request_give(xfer, request);
    return WEFT_OK;
}

/* ---- send queues ---- */

uint32_t xfer_sq_free(const struct xfer *xfer, uint32_t q)
{
    const struct xfer_lane *lane = &xfer->lanes[q];

    return lane->sq_depth - (lane->n_posted - lane->n_retired);
}

uint64_t xfer_wr_id(struct xfer *xfer, uint32_t q, enum xfer_wr_kind kind,
                    uint32_t request, bool is_last, unsigned *out_flags)
{
    struct xfer_lane *lane = &xfer->lanes[q];

    weft_check(xfer_sq_free(xfer, q) > 0);
    lane->n_unsignalled++;
    *out_flags = 0;
    if (is_last || lane->n_unsignalled >= lane->sq_depth / 2) {
        *out_flags = IBV_SEND_SIGNALED;
        lane->n_unsignalled = 0;
    }
    return (uint64_t)kind << 56 | (uint64_t)q << 48 | (uint64_t)request << 32 |
           lane->n_posted++;
}

static void name_lane(struct xfer *xfer, uint32_t q)
{
    struct conn *conn = xfer->conn;
    const struct conn_rail *rail = &conn->rails[q % conn->n_rails];
    char text[64];

    weft_error_object(&xfer->error, "%s:%s qp %u", conn->rdma->env->name,
                      rail->port->name,
                      conn->qps[q].qp == NULL ? 0 : conn->qps[q].qp->qp_num);
    weft_error_text(&xfer->error, WEFT_VALUE_PEER, conn->peer.host);
    weft_error_int(&xfer->error, WEFT_VALUE_RAIL, q % conn->n_rails);
    weft_error_int(&xfer->error, WEFT_VALUE_QP, q);
    weft_error_text(&xfer->error, WEFT_VALUE_LOCAL_PORT, rail->port->name);
    weft_error_text(&xfer->error, WEFT_VALUE_LOCAL_GID,
                    rdma_gid_format(&rail->local_gid, text, sizeof(text)));
    weft_error_text(&xfer->error, WEFT_VALUE_REMOTE_GID,
                    rdma_gid_format(&rail->remote_gid, text, sizeof(text)));
    weft_error_text(&xfer->error, WEFT_VALUE_LOCAL_GID_TYPE,
                    rdma_gid_type_name(rail->gid_type));
    weft_error_text(&xfer->error, WEFT_VALUE_REMOTE_GID_TYPE,
                    rdma_gid_type_name(conn->qps[q].remote.gid_type));
    weft_error_int(&xfer->error, WEFT_VALUE_REMOTE_QPN, conn->qps[q].remote.qpn);
    weft_error_int(&xfer->error, WEFT_VALUE_PATH_MTU, rail->path_mtu);
}

weft_status xfer_fail_post(struct xfer *xfer, uint32_t q, int sys_errno, const char *what)
{
    weft_fail_errno(&xfer->error, sys_errno, WEFT_PHASE_DATA, "%s", what);
    name_lane(xfer, q);
    return xfer->error.status;
}

weft_status xfer_post(struct xfer *xfer, uint32_t q, struct ibv_send_wr *chain)
{
    struct conn *conn = xfer->conn;
    struct io_device *device = conn->rails[q % conn->n_rails].port->device;
    struct ibv_send_wr *bad = NULL;
    int error = device->ops->post_send(conn->qps[q].qp, chain, &bad);

    return error == 0 ? WEFT_OK : xfer_fail_post(xfer, q, error, "post_send was refused");
}

weft_status xfer_post_imm(struct xfer *xfer, uint32_t q, enum xfer_wr_kind kind,
                          const struct xfer_imm *imm)
{
    const struct conn_rail *rail = &xfer->conn->rails[q % xfer->conn->n_rails];
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .imm_data = xfer_network_order(xfer_imm_encode(imm))};
    unsigned flags;

    wr.wr_id = xfer_wr_id(xfer, q, kind, 0, true, &flags);
    wr.send_flags = flags;
    wr.wr.rdma.remote_addr = rail->remote_window;
    wr.wr.rdma.rkey = rail->remote_rkey;
    return xfer_post(xfer, q, &wr);
}

weft_status xfer_fail_protocol(struct xfer *xfer, uint32_t q, const char *format, ...)
{
    char text[160];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    weft_fail(&xfer->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_DATA, "%s", text);
    weft_error_text(&xfer->error, WEFT_VALUE_FIELD, "message");
    name_lane(xfer, q);
    return xfer->error.status;
}

weft_status xfer_fail_completion(struct xfer *xfer, uint32_t q, const struct ibv_wc *wc)
{
    uint64_t kind = wc->wr_id >> 56;
    const char *what = "receive";

    if (kind == XFER_WR_DATA || kind == XFER_WR_LAST) {
        what = "data";
    } else if (kind == XFER_WR_CTS) {
        what = "clear_to_send";
    } else if (kind == XFER_WR_NOTICE) {
        what = "notice";
    } else if (kind == XFER_WR_BEAT) {
        what = "beat";
    } else if (kind == XFER_WR_RAIL) {
        what = "rail";
    } else if (kind == XFER_WR_HANDOVER) {
        what = "handover";
    } else if (kind == XFER_WR_FLUSH) {
        what = "flush";
    }
    weft_fail_completion(&xfer->error, (int)wc->status, WEFT_PHASE_DATA,
                         "a %s work request failed: %s", what,
                         io_wc_status_name((int)wc->status));
    name_lane(xfer, q);
    weft_error_text(&xfer->error, WEFT_VALUE_WORK, what);
    weft_error_int(&xfer->error, WEFT_VALUE_VENDOR_ERR, wc->vendor_err);
    weft_error_int(&xfer->error, WEFT_VALUE_BYTES_SENT,
                   (int64_t)xfer->counters.bytes_sent);
    weft_error_int(&xfer->error, WEFT_VALUE_BYTES_RECEIVED,
                   (int64_t)xfer->counters.bytes_received);
    return xfer->error.status;
}

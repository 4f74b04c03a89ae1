/* Makes data visible that a flow has received. Every NIC that may have written to the memory reads
 * from it. */
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "rdma/cq.h"
#include "xfer/flow_private.h"
#include "xfer/private.h"

/* A queue pair connected to itself, on a rail whose peer has closed. Through it the NIC reads the
 * data that it wrote before. NCCL's net_ib has such a queue pair for every flush. */
struct flow_loop {
    struct conn *conn; /* Not owned; its CQ and window serve the loop */
    uint32_t rail;
    struct rdma_qp qp;
    bool is_connected, is_pending;
};

struct flow_loops {
    uint32_t n;
    uint32_t n_lost; /* rails without a loop because their device was lost */
    struct flow_loop loops[FLOW_LANES_MAX * CONN_RAILS_MAX];
    struct flow_request *request; /* the flush in progress, or NULL */
};

static uint32_t lanes_up(const struct flow *flow)
{
    uint32_t lanes = 0;

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        lanes |= flow->lanes[i].state == FLOW_LANE_UP ? 1u << i : 0;
    }
    return lanes;
}

/* Starts the flush on the lanes that have room for it. If a lane has gone down, starts it again on
 * all lanes that are up. */
static void start(struct flow *flow, struct flow_request *request, uint32_t up)
{
    if (request->as.flush.must_start && up != 0) {
        request->as.flush.wanted = up;
        request->as.flush.must_start = false;
    }
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct xfer_request **xfer = &request->as.flush.xfer[i];
        weft_status status;

        if ((request->as.flush.wanted >> i & 1) == 0) {
            continue;
        }
        if ((up >> i & 1) == 0) {
            request->as.flush.wanted &= ~(1u << i);
            request->as.flush.must_start = true;
            continue;
        }
        status = xfer_iflush(flow->lanes[i].xfer, request->as.flush.data,
                             request->as.flush.n_bytes, request->as.flush.memory, xfer);
        if (status == WEFT_AGAIN) {
            continue;
        }
        request->as.flush.wanted &= ~(1u << i);
        if (status < 0) {
            request->as.flush.must_start = true;
            /* The lane's progress handles the failure. */
            io_task_wake(&flow->lanes[i].conn->task);
        } else if (*xfer != NULL) {
            request->as.flush.lanes |= 1u << i;
        }
    }
}

static void look(struct flow *flow, struct flow_request *request)
{
    uint32_t up = lanes_up(flow);

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        if ((request->as.flush.lanes >> i & 1) == 0) {
            continue;
        }
        if ((up >> i & 1) == 0) {
            request->as.flush.lanes &= ~(1u << i);
            request->as.flush.must_start = true;
        } else if (xfer_test(flow->lanes[i].xfer, request->as.flush.xfer[i], NULL) ==
                   WEFT_OK) {
            request->as.flush.lanes &= ~(1u << i);
        }
    }
    start(flow, request, up);
    request->is_done = !request->as.flush.must_start && request->as.flush.wanted == 0 &&
                       request->as.flush.lanes == 0;
}

void flow_flush_progress(struct flow *flow)
{
    struct flow_request **at = &flow->flushes;

    while (*at != NULL) {
        struct flow_request *request = *at;

        look(flow, request);
        if (request->is_done) {
            *at = request->next;
        } else {
            at = &request->next;
        }
    }
}

/* ---- the peer has closed ---- */

static void open_loop(struct flow *flow, struct conn *conn, uint32_t rail)
{
    struct flow_loop *loop = &flow->loops->loops[flow->loops->n++];
    struct rdma_qp_config config = {.port = conn->rails[rail].port,
                                    .gid = conn->rails[rail].local_gid,
                                    .gid_type = conn->rails[rail].gid_type,
                                    .cq = conn->rails[rail].cq,
                                    .max_send_wr = 2,
                                    .max_recv_wr = 1,
                                    .max_rd_atomic = 1,
                                    .timeout = TIMER_ACK_CODE_STALL,
                                    .retry_cnt = conn->config.retry_cnt,
                                    .rnr_retry = 7,
                                    .min_rnr_timer = 12};

    loop->conn = conn;
    loop->rail = rail;
    rdma_qp_init(&loop->qp, flow->rdma, &config, &conn->task);
}

/* Returns true if the device of a rail is lost. It can flush nothing, so no flush waits for it. */
static bool is_lost(const struct flow *flow, const struct conn *conn, uint32_t rail)
{
    return flow->rdma->is_lost[conn->rails[rail].port->device_index];
}

static void open_loops(struct flow *flow)
{
    flow->loops = weft_calloc(1, sizeof(*flow->loops));
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct conn *conn = flow->lanes[i].conn;

        for (uint32_t r = 0; conn != NULL && flow->lanes[i].was_up && r < conn->n_rails &&
                             conn->rails[r].cq != NULL;
             r++) {
            if (is_lost(flow, conn, r)) {
                flow->loops->n_lost++;
            } else {
                open_loop(flow, conn, r);
            }
        }
    }
}

void flow_flush_end(struct flow *flow)
{
    for (uint32_t i = 0; flow->loops != NULL && i < flow->loops->n; i++) {
        rdma_qp_abandon(&flow->loops->loops[i].qp);
    }
    free(flow->loops);
    flow->loops = NULL;
}

/* Makes progress with a loop's queue pair. Returns WEFT_OK once it is in state RTS. */
static weft_status connect_loop(struct flow_loop *loop, struct weft_error *error)
{
    const struct conn_rail *rail = &loop->conn->rails[loop->rail];
    weft_status status = rdma_qp_progress(&loop->qp, error);

    if (status == WEFT_OK && loop->qp.state == RDMA_QP_INIT && !loop->is_connected) {
        loop->is_connected = true;
        rdma_qp_connect(&loop->qp, &(struct rdma_qp_remote){.qpn = loop->qp.qp->qp_num,
                                                            .psn = loop->qp.config.psn,
                                                            .gid = rail->local_gid,
                                                            .gid_type = rail->gid_type,
                                                            .path_mtu = rail->path_mtu,
                                                            .max_rd_atomic = 1});
        status = rdma_qp_progress(&loop->qp, error);
    }
    return status == WEFT_OK && loop->qp.state != RDMA_QP_RTS ? WEFT_AGAIN : status;
}

/* Starts a flush on a loop. The NIC reads the GPU's memory, after what it wrote there before, and
 * writes the bytes to the window of its own connection. */
static weft_status post_loop(struct flow_loop *loop, const struct flow_request *request,
                             struct weft_error *error)
{
    const struct conn_rail *rail = &loop->conn->rails[loop->rail];
    const struct xfer_memory *memory = request->as.flush.memory;
    struct ibv_sge sge = {.addr = (uintptr_t)request->as.flush.data,
                          .length = request->as.flush.n_bytes < XFER_FLUSH_BYTES
                                        ? (uint32_t)request->as.flush.n_bytes
                                        : XFER_FLUSH_BYTES,
                          .lkey = memory->mrs[rail->port->device_index].lkey};
    struct ibv_send_wr wr = {.wr_id = (uint64_t)XFER_WR_FLUSH << 56,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad = NULL;
    int result;

    wr.wr.rdma.remote_addr = (uintptr_t)loop->conn->window + XFER_FLUSH_OFFSET;
    wr.wr.rdma.rkey = rail->window_mr.rkey;
    result = rail->port->device->ops->post_send(loop->qp.qp, &wr, &bad);
    if (result != 0) {
        return weft_fail_errno(error, result, WEFT_PHASE_FLUSH, "post_send was refused");
    }
    loop->is_pending = true;
    return WEFT_OK;
}

static weft_status poll_loop(struct flow *flow, struct flow_loop *loop,
                             struct weft_error *error)
{
    const struct conn_rail *rail = &loop->conn->rails[loop->rail];
    struct ibv_wc wc;
    int n = 1;

    for (int look = 0; look < 2; look++) {
        while (rdma_poll(flow->rdma, rail->port->device_index, rail->cq, 1, &wc, &n) ==
                   0 &&
               n > 0) {
            if (wc.qp_num != loop->qp.qpn) {
                continue; /* a flushed completion of the connection */
            }
            if (wc.status != IBV_WC_SUCCESS) {
                return weft_fail_completion(error, (int)wc.status, WEFT_PHASE_FLUSH,
                                            "a flush of %s failed", rail->port->name);
            }
            loop->is_pending = false;
        }
        if (look == 0 && loop->is_pending &&
            rail->port->device->ops->req_notify(rail->cq, 0) != 0) {
            break;
        }
    }
    return WEFT_OK;
}

/* Returns true if devices were lost and none is left, so that a flush would reach no memory. */
static bool has_lost_all(const struct flow *flow)
{
    const struct flow_loops *loops = flow->loops;
    uint32_t n_lost = loops->n_lost;

    for (uint32_t i = 0; i < loops->n; i++) {
        n_lost += is_lost(flow, loops->loops[i].conn, loops->loops[i].rail) ? 1 : 0;
    }
    return n_lost > 0 && n_lost == loops->n_lost + loops->n;
}

/* Makes progress with the first flush, on all loops. Returns WEFT_OK when it is complete. */
static weft_status progress_loops(struct flow *flow, struct weft_error *error)
{
    struct flow_loops *loops = flow->loops;
    bool is_new = loops->request == NULL;
    weft_status all = WEFT_OK;

    if (has_lost_all(flow)) {
        return weft_fail_errno(error, EIO, WEFT_PHASE_FLUSH,
                               "every device of the connection is lost");
    }
    for (uint32_t i = 0; i < loops->n && is_new; i++) {
        struct flow_loop *loop = &loops->loops[i];
        weft_status status =
            is_lost(flow, loop->conn, loop->rail) ? WEFT_OK : connect_loop(loop, error);

        if (status < 0) {
            return status;
        }
        all = status == WEFT_AGAIN ? status : all;
    }
    if (all != WEFT_OK) {
        return all;
    }
    loops->request = flow->flushes;
    for (uint32_t i = 0; i < loops->n; i++) {
        struct flow_loop *loop = &loops->loops[i];
        weft_status status = WEFT_OK;

        if (is_lost(flow, loop->conn, loop->rail)) {
            loop->is_pending = false;
            continue;
        }
        if (is_new) {
            status = post_loop(loop, loops->request, error);
        }
        if (status == WEFT_OK) {
            status = poll_loop(flow, loop, error);
        }
        if (status < 0) {
            return status;
        }
        all = loop->is_pending ? WEFT_AGAIN : all;
    }
    return all;
}

weft_status flow_flush_after_close(struct flow *flow, struct weft_error *error)
{
    weft_check(flow_peer_has_closed(flow));
    if (flow->flushes != NULL && flow->loops == NULL) {
        open_loops(flow);
    }
    while (flow->flushes != NULL) {
        struct flow_request *request = flow->flushes;
        weft_status status = progress_loops(flow, error);

        if (status != WEFT_OK) {
            return status;
        }
        request->is_done = true;
        flow->flushes = request->next;
        flow->loops->request = NULL;
    }
    return WEFT_OK;
}

weft_status flow_iflush(struct flow *flow, const void *data, size_t n_bytes,
                        const struct xfer_memory *memory, struct flow_request **out)
{
    struct flow_request *request;

    *out = NULL;
    weft_check(!flow->config.is_sender && !flow->is_closing);
    if (n_bytes == 0 || (flow->error.status != WEFT_OK && !flow_peer_has_closed(flow))) {
        return flow->error.status;
    }
    if (flow->n_flushes == FLOW_FLUSHES) {
        return WEFT_AGAIN; /* because the other requests are for receives */
    }
    request = flow_request_take(flow, FLOW_FLUSH);
    flow->n_flushes++;
    request->as.flush.data = data;
    request->as.flush.n_bytes = n_bytes;
    request->as.flush.memory = memory;
    request->as.flush.must_start = true;
    if (flow->flushes != NULL && flow_peer_has_closed(flow)) {
        request->next = flow->flushes->next; /* the first one may be in progress */
        flow->flushes->next = request;
    } else {
        request->next = flow->flushes;
        flow->flushes = request;
    }
    if (!flow_peer_has_closed(flow)) {
        flow_flush_progress(flow);
    }
    *out = request;
    return WEFT_OK;
}

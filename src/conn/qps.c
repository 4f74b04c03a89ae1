/* Creates and frees what a connection owns on its devices: memory regions, CQs and queue pairs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/private.h"
#include "io/gpu.h"
#include "nccl/policies.h"
#include "rdma/policy.h"

#define RNR_RETRY_FOR_EVER 7
#define MIN_RNR_TIMER 12 /* 0.64 ms (ibv_modify_qp(3)) */
#define RECVS_PER_CALL 64u

static struct io_device *device_of(const struct conn_rail *rail)
{
    return rail->port->device;
}

/* Returns the size of one probe area: a slot per QP. */
static size_t slots_bytes(const struct conn *conn)
{
    return (size_t)conn->n_qps * CONN_PROBE_BYTES;
}

static weft_status alloc_memory(struct conn *conn, size_t n_bytes, uint8_t **out)
{
    struct io_gpu *gpu = conn_env(conn)->gpu;
    void *memory = NULL;
    int result = gpu->ops->alloc(gpu, IO_MEMORY_HOST, n_bytes, &memory);

    if (result != 0) {
        return weft_fail_errno(&conn->error, result, WEFT_PHASE_MEMORY,
                               "%zu bytes of host memory", n_bytes);
    }
    *out = memory;
    return WEFT_OK;
}

static weft_status start_rail(struct conn *conn, uint32_t i)
{
    struct conn_private *private = conn->private;
    struct conn_rail *rail = &conn->rails[i];
    struct conn_rail_private *own = &private->rails[i];
    struct rdma_mr_cache *mrs = conn->rdma->mrs;
    uint32_t device = rail->port->device_index;
    const struct ibv_device_attr *attr = &conn->rdma->attrs[device].ibv;
    uint32_t per_qp = conn->config.send_wr_max + conn->config.recv_wr_max + 4;
    uint64_t cqe = (uint64_t)per_qp * (conn->n_qps / conn->n_rails);
    weft_status status;
    int result;

    /* The peer writes its clear-to-sends here, and READs to flush received data to memory. */
    status = rdma_mr_get(mrs, device, conn->window, conn->config.window_bytes,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ,
                         &conn->task, &rail->window_mr, &conn->error);
    if (status == WEFT_OK) {
        status = rdma_mr_get(mrs, device, private->probe, slots_bytes(conn),
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                 IBV_ACCESS_REMOTE_READ,
                             &conn->task, &own->target, &conn->error);
    }
    if (status == WEFT_OK) {
        status = rdma_mr_get(mrs, device, private->probe + slots_bytes(conn),
                             2 * slots_bytes(conn), IBV_ACCESS_LOCAL_WRITE, &conn->task,
                             &own->local, &conn->error);
    }
    if (status != WEFT_OK) {
        return status;
    }
    if (attr->max_cqe > 0 && cqe > (uint64_t)attr->max_cqe) {
        cqe = (uint64_t)attr->max_cqe;
    }
    own->cq_op = (struct io_op){.kind = IO_OP_CREATE_CQ, .task = &conn->task};
    own->cq_op.arg.create_cq.cqe = (int)cqe;
    own->cq_op.arg.create_cq.task = &conn->task;
    result = device_of(rail)->ops->submit(device_of(rail), &own->cq_op);
    if (result != 0) {
        return weft_fail_errno(&conn->error, result, WEFT_PHASE_CREATE,
                               "create_cq of %llu entries", (unsigned long long)cqe);
    }
    return WEFT_OK;
}

/* Allocates the window and the probe areas, and starts all rails. */
static weft_status start(struct conn *conn)
{
    weft_status status = alloc_memory(conn, conn->config.window_bytes, &conn->window);

    if (status == WEFT_OK) {
        status = alloc_memory(conn, 3 * slots_bytes(conn), &conn->private->probe);
    }
    for (uint32_t i = 0; i < conn->n_rails && status == WEFT_OK; i++) {
        status = start_rail(conn, i);
    }
    return status;
}

/* Finishes the memory regions and the CQ of one rail. Returns WEFT_AGAIN until they exist. */
static weft_status finish_rail(struct conn *conn, uint32_t i)
{
    struct conn_rail *rail = &conn->rails[i];
    struct conn_rail_private *own = &conn->private->rails[i];
    struct rdma_mr *mrs[3] = {&rail->window_mr, &own->target, &own->local};
    weft_status status;
    int result;

    for (size_t m = 0; m < WEFT_LENGTH(mrs); m++) {
        status = rdma_mr_progress(conn->rdma->mrs, mrs[m], &conn->error);
        if (status != WEFT_OK) {
            return status;
        }
    }
    if (rail->cq == NULL) {
        result = device_of(rail)->ops->poll(device_of(rail), &own->cq_op);
        if (result == EINPROGRESS) {
            return WEFT_AGAIN;
        }
        if (result != 0) {
            return weft_fail_errno(&conn->error, result, WEFT_PHASE_CREATE,
                                   "create_cq of %d entries",
                                   own->cq_op.arg.create_cq.cqe);
        }
        rail->cq = own->cq_op.out.cq;
    }
    return WEFT_OK;
}

static uint8_t own_rd_atomic(const struct conn *conn, uint32_t rail)
{
    const struct ibv_device_attr *attr =
        &conn->rdma->attrs[conn->rails[rail].port->device_index].ibv;
    int least = attr->max_qp_rd_atom < attr->max_qp_init_rd_atom
                    ? attr->max_qp_rd_atom
                    : attr->max_qp_init_rd_atom;

    return (uint8_t)(least < 1 ? 1 : least > 16 ? 16 : least);
}

/* Returns the number in NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT or NCCL_IB_USE_INLINE, which only NCCL's
 * policies read. */
static int64_t nccl_setting(const struct conn *conn, const char *name, int64_t otherwise)
{
    struct io_env *env = conn_env(conn);

    return weft_policy_is_nccl(conn->config.policy)
               ? nccl_number(env->ops->setting(env, name), otherwise)
               : otherwise;
}

/* Returns `value`, or the nearest limit if it is not in the range from 0 to `most`. */
static uint8_t within(int64_t value, uint8_t most)
{
    return (uint8_t)(value < 0 ? 0 : value > most ? most : value);
}

static bool may_stall(const struct conn *conn, uint32_t rail)
{
    const struct rdma_rail *chosen = &conn->private->chosen[rail];

    return conn->private->local[chosen->local_port].may_stall ||
           conn->peer.ports[chosen->remote_port].may_stall;
}

bool conn_may_stall(const struct conn *conn)
{
    for (uint32_t rail = 0; rail < conn->n_rails; rail++) {
        if (may_stall(conn, rail)) {
            return true;
        }
    }
    return false;
}

/* Returns the ACK timeout code of a rail. The default is short unless an end may stall, because a
 * NIC responds within microseconds. */
static uint8_t timeout_of(const struct conn *conn, uint32_t rail)
{
    return conn->config.timeout != 0 ? conn->config.timeout
           : may_stall(conn, rail)   ? TIMER_ACK_CODE_STALL
                                     : TIMER_ACK_CODE;
}

weft_ns conn_probe_ns(const struct conn *conn, uint32_t rail)
{
    weft_ns least = timer_limit(TIMER_PROBE_STALL_NS, conn->config.patience);

    return conn->config.probe_ns < least && may_stall(conn, rail) ? least
                                                                  : conn->config.probe_ns;
}

static struct rdma_patience patience_of(const struct conn *conn, uint32_t rail)
{
    struct io_env *env = conn_env(conn);
    struct rdma_patience patience = {
        .timeout =
            within(nccl_setting(conn, "NCCL_IB_TIMEOUT", timeout_of(conn, rail)), 31),
        .retry_cnt =
            within(nccl_setting(conn, "NCCL_IB_RETRY_CNT", conn->config.retry_cnt), 7),
        .rnr_retry = RNR_RETRY_FOR_EVER,
    };

    rdma_lower_patience(conn->config.policy,
                        env->ops->setting(env, "NCCL_MESH_FAST_FAIL"), &patience);
    return patience;
}

/* Returns the PSN that a queue pair starts with: `drawn`, or one of the 16 from WEFT_FIRST_PSN on
 * if that is set, so that a test can start shortly before PSNs wrap. */
static uint32_t first_psn(struct io_env *env, uint32_t drawn)
{
    const char *text = env->ops->setting(env, "WEFT_FIRST_PSN");
    char *end = NULL;
    unsigned long first = text == NULL ? 0 : strtoul(text, &end, 10);

    if (text == NULL || end == text || *end != '\0' || first > 0xffffff) {
        return drawn;
    }
    return (uint32_t)(first + drawn % 16) & 0xffffff;
}

static void init_qps(struct conn *conn)
{
    const struct conn_kept *kept = conn->config.kept;
    const struct conn_private *private = conn->private;
    struct io_env *env = conn_env(conn);

    for (uint32_t i = 0; i < conn->n_qps; i++) {
        uint32_t r = i % conn->n_rails;
        struct rdma_patience patience = patience_of(conn, r);
        const struct conn_rail *rail = &conn->rails[r];
        struct rdma_qp_config config = {
            .port = rail->port,
            .gid = rail->local_gid,
            .gid_type = rail->gid_type,
            .keeps_index = kept != NULL,
            .kept_index =
                kept == NULL ? 0 : kept->rails[private->kept_rails[r]].local_index,
            .cq = rail->cq,
            .max_send_wr = conn->config.send_wr_max,
            .max_recv_wr = conn->config.recv_wr_max + 1,
            .max_inline_bytes = CONN_INLINE_WISH,
            .max_inline_is_raw = nccl_setting(conn, "NCCL_IB_USE_INLINE", 0) != 0,
            .max_rd_atomic = own_rd_atomic(conn, r),
            .timeout = patience.timeout,
            .retry_cnt = patience.retry_cnt,
            .retry_cnt_is_raw = conn->config.policy != WEFT_POLICY_WEFT,
            .rnr_retry = patience.rnr_retry,
            .min_rnr_timer = MIN_RNR_TIMER,
            .traffic_class = conn->config.traffic_class,
        };
        uint8_t psn[3];

        /* The PSN is random so that a packet of an older connection with the same queue pair number
         * is most likely outside the window. */
        env->ops->random(env, psn, sizeof(psn));
        config.psn = (uint32_t)psn[0] << 16 | (uint32_t)psn[1] << 8 | psn[2];
        config.psn = first_psn(env, config.psn);
        rdma_qp_init(&conn->qps[i], conn->rdma, &config, &conn->task);
        conn->private->n_qps_made = i + 1;
    }
}

/* Posts `n` receives on a QP, many per call. They are for WRITE_WITH_IMM, which needs no memory,
 * only an entry of the queue. */
static weft_status fill_queue(struct conn *conn, uint32_t q, uint32_t n)
{
    struct io_device *device = device_of(&conn->rails[q % conn->n_rails]);
    struct ibv_recv_wr wrs[RECVS_PER_CALL];

    for (uint32_t n_posted = 0, n_now; n_posted < n; n_posted += n_now) {
        struct ibv_recv_wr *bad = wrs;
        int result;

        n_now = n - n_posted < RECVS_PER_CALL ? n - n_posted : RECVS_PER_CALL;
        for (uint32_t i = 0; i < n_now; i++) {
            wrs[i] = (struct ibv_recv_wr){.wr_id = CONN_WR_RECV,
                                          .next = i + 1 < n_now ? &wrs[i + 1] : NULL};
        }
        result = device->ops->post_recv(conn->qps[q].qp, wrs, &bad);
        if (result != 0) {
            return weft_fail_errno(&conn->error, result, WEFT_PHASE_INIT,
                                   "post_recv %u of %u on qp %u",
                                   n_posted + (uint32_t)(bad - wrs), n, q);
        }
    }
    return WEFT_OK;
}

/* Fills the receive queues. If `again`, only those that lost their receives in a reset. */
static weft_status fill_queues(struct conn *conn, bool again)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < conn->n_qps && status == WEFT_OK; i++) {
        struct rdma_qp *qp = &conn->qps[i];

        if (!again || qp->has_lost_receives) {
            status = fill_queue(conn, i, conn->recv_posted);
        }
        qp->has_lost_receives = qp->has_lost_receives && status != WEFT_OK;
    }
    return status;
}

static weft_status post_receives(struct conn *conn)
{
    conn->recv_posted = conn->config.recv_wr_max;
    conn->max_inline_bytes = UINT32_MAX;
    for (uint32_t i = 0; i < conn->n_qps; i++) {
        const struct ibv_qp_cap *cap = &conn->qps[i].cap;

        /* One entry stays free for the mark of close.c. */
        if (cap->max_recv_wr > 1 && cap->max_recv_wr - 1 < conn->recv_posted) {
            conn->recv_posted = cap->max_recv_wr - 1;
        }
        if (cap->max_inline_data < conn->max_inline_bytes) {
            conn->max_inline_bytes = cap->max_inline_data;
        }
    }
    return fill_queues(conn, false);
}

/* Progresses all QPs. Returns WEFT_AGAIN while any has a verb under way. Sets stuck_rail if one
 * fails. */
static weft_status progress_qps(struct conn *conn, struct weft_error *error)
{
    weft_status all = WEFT_OK;

    for (uint32_t i = 0; i < conn->n_qps; i++) {
        weft_status status = rdma_qp_progress(&conn->qps[i], error);

        if (status < 0) {
            conn->stuck_rail = i % conn->n_rails;
            conn_add_values(conn, conn->stuck_rail);
            return status;
        }
        if (status == WEFT_AGAIN) {
            all = WEFT_AGAIN;
        }
    }
    return all;
}

weft_status conn_make_qps(struct conn *conn)
{
    struct conn_private *private = conn->private;
    weft_status all = WEFT_OK;

    if (conn->window == NULL) {
        weft_status status = start(conn);

        if (status != WEFT_OK) {
            return status;
        }
    }
    if (!private->qps_started) {
        for (uint32_t i = 0; i < conn->n_rails; i++) {
            weft_status status = finish_rail(conn, i);

            if (status < 0) {
                return status;
            }
            all = status == WEFT_OK ? all : status;
        }
        if (all != WEFT_OK) {
            return all;
        }
        init_qps(conn);
        private->qps_started = true;
    }
    all = progress_qps(conn, &conn->error);
    return all == WEFT_OK ? post_receives(conn) : all;
}

void conn_fill_meta(struct conn *conn, struct codec_meta *out)
{
    const struct conn_private *private = conn->private;

    memset(out, 0, sizeof(*out));
    out->n_rails = conn->n_rails;
    out->n_qps = conn->n_qps;
    out->max_rd_atomic = UINT8_MAX;
    out->max_msg_bytes = UINT32_MAX;
    out->window_bytes = conn->config.window_bytes;
    out->recv_posted =
        (uint16_t)(conn->recv_posted < UINT16_MAX ? conn->recv_posted : UINT16_MAX);
    memcpy(out->answer, conn->answer, sizeof(out->answer));
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        const struct conn_rail *rail = &conn->rails[i];
        const struct rdma_rail *chosen = &private->chosen[i];
        uint8_t rd_atomic = own_rd_atomic(conn, i);
        uint32_t max_msg = conn->rdma->attrs[rail->port->device_index].max_msg_bytes;

        out->rails[i] = (struct codec_rail){
            .local_port = (uint8_t)chosen->local_port,
            .remote_port = (uint8_t)chosen->remote_port,
            .local_gid = rail->local_gid,
            .remote_gid = rail->remote_gid,
            .local_type = (uint8_t)rail->gid_type,
            .remote_type = (uint8_t)rail->remote_gid_type,
            .path_mtu = (uint16_t)rail->path_mtu,
            .window_addr = (uint64_t)(uintptr_t)conn->window,
            .window_rkey = rail->window_mr.rkey,
            .probe_addr = (uint64_t)(uintptr_t) private->probe,
            .probe_rkey = private->rails[i].target.rkey,
        };
        out->max_rd_atomic =
            rd_atomic < out->max_rd_atomic ? rd_atomic : out->max_rd_atomic;
        out->max_msg_bytes = max_msg < out->max_msg_bytes ? max_msg : out->max_msg_bytes;
    }
    for (uint32_t i = 0; i < conn->n_qps; i++) {
        out->qps[i] = (struct codec_qp){
            .qpn = rdma_sent_qpn(conn->config.policy, conn->qps[i].qp->qp_num),
            .psn = conn->qps[i].config.psn};
    }
}

/* Connects every QP to the peer's, with the lesser of both ends' limits. */
static void set_peers(struct conn *conn)
{
    const struct codec_meta *mine = &conn->private->mine,
                            *theirs = &conn->private->theirs;

    conn->peer_recv_posted = theirs->recv_posted;
    conn->peer_window_bytes = theirs->window_bytes;
    conn->max_msg_bytes = mine->max_msg_bytes < theirs->max_msg_bytes
                              ? mine->max_msg_bytes
                              : theirs->max_msg_bytes;
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        conn->rails[i].remote_window = theirs->rails[i].window_addr;
        conn->rails[i].remote_rkey = theirs->rails[i].window_rkey;
    }
    for (uint32_t i = 0; i < conn->n_qps; i++) {
        uint32_t r = i % conn->n_rails;
        struct rdma_qp_remote peer = {
            .qpn = theirs->qps[i].qpn,
            .psn = theirs->qps[i].psn,
            .gid = conn->rails[r].remote_gid,
            .gid_type = conn->rails[r].remote_gid_type,
            .path_mtu = conn->rails[r].path_mtu,
            .max_rd_atomic = mine->max_rd_atomic < theirs->max_rd_atomic
                                 ? mine->max_rd_atomic
                                 : theirs->max_rd_atomic,
        };

        rdma_qp_connect(&conn->qps[i], &peer);
    }
}

weft_status conn_connect_qps(struct conn *conn)
{
    weft_status status;

    if (conn->qps[0].state == RDMA_QP_INIT && conn->max_msg_bytes == 0) {
        set_peers(conn);
    }
    status = progress_qps(conn, &conn->error);
    /* The peer sends once both ends are ready. */
    return status == WEFT_OK ? fill_queues(conn, true) : status;
}

/* A cause that keeps one end from connecting usually affects the other end, too. */
void conn_qps_heard(struct conn *conn)
{
    for (uint32_t i = 0; i < conn->n_qps && conn->stuck_rail == UINT32_MAX; i++) {
        if (conn->qps[i].state < RDMA_QP_RTS) {
            conn->stuck_rail = i % conn->n_rails;
        }
    }
}

/* ---- freeing ---- */

static void free_memory(struct conn *conn, uint8_t **memory, size_t n_bytes)
{
    struct io_gpu *gpu = conn_env(conn)->gpu;

    if (*memory != NULL) {
        rdma_mr_invalidate(conn->rdma->mrs, *memory, n_bytes);
        gpu->ops->free(gpu, *memory);
        *memory = NULL;
    }
}

void conn_release_probe(struct conn *conn)
{
    struct conn_private *private = conn->private;

    for (uint32_t i = 0; i < conn->n_rails; i++) {
        rdma_mr_put(conn->rdma->mrs, &private->rails[i].target);
        rdma_mr_put(conn->rdma->mrs, &private->rails[i].local);
    }
    free_memory(conn, &private->probe, 3 * slots_bytes(conn));
}

void conn_release(struct conn *conn)
{
    struct conn_private *private = conn->private;

    for (uint32_t i = 0; i < private->n_qps_made; i++) {
        rdma_qp_abandon(&conn->qps[i]);
    }
    private->n_qps_made = 0;
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        struct conn_rail *rail = &conn->rails[i];
        struct io_op *op = &private->rails[i].cq_op;

        if (op->state == IO_OP_RUNNING) {
            device_of(rail)->ops->abandon(device_of(rail), op);
        } else if (rail->cq == NULL && op->kind == IO_OP_CREATE_CQ &&
                   op->state == IO_OP_DONE && op->error == 0) {
            rail->cq = op->out.cq; /* created, but not yet fetched by finish_rail */
        }
        if (rail->cq != NULL) {
            struct io_op destroy = {.kind = IO_OP_DESTROY_CQ};

            destroy.arg.destroy_cq = rail->cq;
            rdma_forget_op(device_of(rail), &destroy);
            rail->cq = NULL;
        }
        *op = (struct io_op){.kind = IO_OP_NONE};
        rdma_mr_put(conn->rdma->mrs, &rail->window_mr);
    }
    conn_release_probe(conn);
    free_memory(conn, &conn->window, conn->config.window_bytes);
}

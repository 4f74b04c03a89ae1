#include "base/check.h"
#include "xfer/private.h"

/* Groups per signalled CTS work request. The others need no signal, because a receive is done when
 * its data has arrived. */
#define CTS_SIGNAL_EVERY 8
#define RQ_CHAIN_MAX 16

/* ---- receives of the queue pairs ---- */

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

/* ---- granting ---- */

/* Returns true if every QP in use has a receive for each immediate that can arrive when n more
 * buffers are granted. */
static bool has_credits(const struct xfer *xfer, uint32_t n)
{
    uint32_t n_extra = xfer->rails.n_extra * xfer->rails.extra;

    for (uint32_t i = 0; i < xfer->n_live; i++) {
        if (xfer->lanes[xfer->live[i]].rq_posted < xfer->n_granted + n_extra + n) {
            return false;
        }
    }
    return true;
}

/* Returns true if the slot's previous CTS is complete, so that the entries from which it was sent
 * can be overwritten. */
static bool is_retired(const struct xfer *xfer, uint32_t slot)
{
    const struct xfer_lane *lane = &xfer->lanes[xfer->control];
    uint32_t age = lane->n_posted - (xfer->cts_wr[slot] - 1);

    return xfer->cts_wr[slot] == 0 || age > lane->n_posted - lane->n_retired;
}

/* Returns true if no further group may be opened, because the group that is n_open_max before the
 * next one is not complete. */
static bool has_all_open(const struct xfer *xfer)
{
    const struct xfer_request *before =
        xfer->slots[(xfer->next_group - xfer->n_open_max) % XFER_SLOTS];

    return before != NULL && !before->is_done;
}

static void write_entries(struct xfer *xfer, uint32_t slot, uint32_t n, void *const *data,
                          const size_t *sizes, const uint32_t *tags,
                          const struct xfer_memory *const *memories,
                          const struct xfer_hint *hints, uint8_t *at)
{
    struct conn *conn = xfer->conn;
    for (uint32_t i = 0; i < n; i++) {
        struct xfer_cts cts = {.size = sizes[i],
                               .tag = tags[i],
                               .group = xfer->next_group,
                               .slot = (uint8_t)slot,
                               .index = (uint8_t)i,
                               .n = (uint8_t)n};

        if (sizes[i] > 0) {
            cts.address = (uintptr_t)data[i];
            for (uint32_t k = 0; k < conn->n_rails; k++) {
                cts.rkeys[k] = memories[i]->mrs[conn->rails[k].port->device_index].rkey;
            }
        }
        if (hints != NULL) {
            cts.hint = hints[i];
        }
        xfer_cts_encode(&cts, at + (size_t)i * XFER_CTS_BYTES);
    }
}

/* Writes the group's entries into the sender's ring. They stand at the same offset of this end's
 * window until the slot's next group, so that a retransmission reads the same bytes. One QP carries
 * every CTS, so that they arrive in order. */
weft_status xfer_send_cts(struct xfer *xfer, uint32_t group, uint32_t n)
{
    struct conn *conn = xfer->conn;
    uint32_t q = xfer->control, slot = group % XFER_SLOTS;
    const struct conn_rail *rail = &conn->rails[q % conn->n_rails];
    size_t offset = (size_t)slot * XFER_MULTI_MAX * XFER_CTS_BYTES;
    struct xfer_imm imm = {.kind = XFER_IMM_CTS, .slot = slot, .n = n, .group = group};
    struct ibv_sge sge = {.addr = (uintptr_t)conn->window + offset,
                          .length = n * XFER_CTS_BYTES,
                          .lkey = rail->window_mr.lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .imm_data = xfer_network_order(xfer_imm_encode(&imm))};
    unsigned flags;

    xfer->cts_wr[slot] = xfer->lanes[q].n_posted + 1;
    wr.wr_id = xfer_wr_id(xfer, q, XFER_WR_CTS, slot,
                          group % CTS_SIGNAL_EVERY == CTS_SIGNAL_EVERY - 1, &flags);
    wr.send_flags = flags | (sge.length <= conn->max_inline_bytes ? IBV_SEND_INLINE : 0);
    wr.wr.rdma.remote_addr = rail->remote_window + offset;
    wr.wr.rdma.rkey = rail->remote_rkey;
    return xfer_post(xfer, q, &wr);
}

static weft_status check_sizes(uint32_t n, const size_t *sizes)
{
    weft_check(n >= 1 && n <= XFER_MULTI_MAX);
    for (uint32_t i = 0; i < n; i++) {
        if (sizes[i] > XFER_SIZE_MAX) {
            return WEFT_ERR_LIMIT;
        }
    }
    return WEFT_OK;
}

weft_status xfer_irecv(struct xfer *xfer, uint32_t n, void *const *data,
                       const size_t *sizes, const uint32_t *tags,
                       const struct xfer_memory *const *memories,
                       const struct xfer_hint *hints, struct xfer_request **out)
{
    uint32_t slot = xfer->next_group % XFER_SLOTS;
    struct xfer_request *request;
    weft_status status = check_sizes(n, sizes);

    *out = NULL;
    weft_check(!xfer->conn->is_connector);
    if (status != WEFT_OK || xfer->error.status != WEFT_OK) {
        return status != WEFT_OK ? status : xfer->error.status;
    }
    if (xfer->slots[slot] != NULL || xfer->n_free == 0 ||
        xfer_sq_free(xfer, xfer->control) == 0 || !is_retired(xfer, slot) ||
        has_all_open(xfer) || !xfer_may_grant(xfer)) {
        return WEFT_AGAIN;
    }
    if (!has_credits(xfer, n)) {
        status = xfer_replenish(xfer, 1);
        if (status != WEFT_OK || !has_credits(xfer, n)) {
            return status != WEFT_OK ? status : WEFT_AGAIN;
        }
    }
    request = xfer_request_take(xfer, XFER_RECV);
    request->as.recv.slot = slot;
    request->as.recv.n = n;
    request->as.recv.n_missing = n;
    request->as.recv.group = xfer->next_group;
    for (uint32_t i = 0; i < n; i++) {
        request->as.recv.buffers[i] = (struct xfer_buffer){.size = sizes[i]};
    }
    write_entries(xfer, slot, n, data, sizes, tags, memories, hints,
                  xfer->conn->window + (size_t)slot * XFER_MULTI_MAX * XFER_CTS_BYTES);
    xfer->slots[slot] = request;
    xfer->n_granted += n;
    xfer->counters.cts_sent += n;
    *out = request;
    status = xfer_send_cts(xfer, xfer->next_group++, n);
    xfer->rails.next_cts = xfer->next_group;
    return status;
}

/* ---- arriving data ---- */

/* Adds a part that has arrived: `n_full` pieces of max_msg_bytes and one of `n_bytes`. Fails if the
 * peer breaks the protocol. */
static weft_status add_part(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm,
                            uint32_t n_bytes, struct xfer_buffer *buffer)
{
    uint64_t part = (uint64_t)imm->n_full * xfer->conn->max_msg_bytes + n_bytes;

    if (buffer->is_done || ((buffer->parts >> q & 1) != 0 && xfer->rails.dropped == 0)) {
        return xfer_fail_protocol(xfer, q, "slot %u, buffer %u: this part came before",
                                  imm->slot, imm->index);
    }
    if (buffer->n_parts != 0 && buffer->n_parts != imm->n_parts) {
        return xfer_fail_protocol(xfer, q, "slot %u, buffer %u: %u parts, then %u",
                                  imm->slot, imm->index, buffer->n_parts, imm->n_parts);
    }
    if (imm->n_parts > xfer->conn->n_qps || part > buffer->size - buffer->n_bytes) {
        return xfer_fail_protocol(
            xfer, q, "slot %u, buffer %u: part of %llu bytes of %u, buffer of %llu",
            imm->slot, imm->index, (unsigned long long)part, imm->n_parts,
            (unsigned long long)buffer->size);
    }
    buffer->parts |= 1u << q;
    buffer->n_in++;
    buffer->n_parts = imm->n_parts;
    buffer->n_bytes += part;
    return WEFT_OK;
}

weft_status xfer_take_data(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm,
                           uint32_t n_bytes)
{
    struct xfer_request *request = xfer->slots[imm->slot];
    uint32_t want = xfer->lanes[q].sequence & XFER_IMM_SEQUENCE_MASK;
    struct xfer_buffer *buffer;
    weft_status status;

    if (imm->sequence != want) {
        return xfer_fail_protocol(xfer, q,
                                  "immediate %u of this queue pair instead of %u",
                                  imm->sequence, want);
    }
    xfer->lanes[q].sequence++;
    if (request == NULL || imm->index >= request->as.recv.n) {
        return xfer_fail_protocol(xfer, q,
                                  "data for slot %u, buffer %u, which is not posted",
                                  imm->slot, imm->index);
    }
    buffer = &request->as.recv.buffers[imm->index];
    status = add_part(xfer, q, imm, n_bytes, buffer);
    if (status != WEFT_OK || buffer->n_in < buffer->n_parts) {
        return status;
    }
    buffer->is_done = true;
    xfer->n_granted--;
    if (xfer->rails.n_extra > 0 &&
        (int32_t)(request->as.recv.group - xfer->rails.extra_group) < 0) {
        xfer->rails.n_extra--;
    }
    xfer->counters.messages_received++;
    xfer->counters.bytes_received += buffer->n_bytes;
    request->as.recv.n_missing--;
    request->is_done = request->as.recv.n_missing == 0;
    xfer->n_done += request->is_done;
    return WEFT_OK;
}

uint32_t xfer_arrived(const struct xfer_request *request, size_t *out_sizes)
{
    uint32_t arrived = 0;

    weft_check(request->kind == XFER_RECV);
    for (uint32_t i = 0; i < request->as.recv.n; i++) {
        if (request->as.recv.buffers[i].is_done) {
            arrived |= 1u << i;
            out_sizes[i] = (size_t)request->as.recv.buffers[i].n_bytes;
        }
    }
    return arrived;
}

/* ---- notices ---- */

weft_status xfer_notify(struct xfer *xfer, uint32_t number)
{
    weft_check(!xfer->conn->is_connector);
    xfer->notice = number & XFER_IMM_NOTICE_MASK;
    xfer->has_notice = true;
    return xfer_pump_notice(xfer);
}

/* At most one notice is under way, so that a burst of notices becomes one. */
weft_status xfer_pump_notice(struct xfer *xfer)
{
    uint32_t q = xfer->control;
    struct xfer_imm imm = {.kind = XFER_IMM_NOTICE, .number = xfer->notice};

    if (xfer->error.status != WEFT_OK) {
        return xfer->error.status;
    }
    if (xfer->conn->is_connector || !xfer->has_notice || xfer->notice_on_its_way ||
        xfer_sq_free(xfer, q) == 0 || !xfer_may_grant(xfer)) {
        return WEFT_OK;
    }
    xfer->has_notice = false;
    xfer->notice_on_its_way = true;
    return xfer_post_imm(xfer, q, XFER_WR_NOTICE, &imm);
}

bool xfer_notice(const struct xfer *xfer, uint32_t *out)
{
    *out = xfer->notice;
    return xfer->conn->is_connector && xfer->has_notice;
}

/* ---- flush ---- */

/* To WRITE bytes of GPU memory, each rail's NIC reads them first. Its earlier writes to that memory
 * are visible then, because in PCIe no read passes a write of the same function. A flush of host
 * memory is a READ, whose response the NIC writes behind everything that it wrote there. */
weft_status xfer_iflush(struct xfer *xfer, const void *data, size_t n_bytes,
                        const struct xfer_memory *memory, struct xfer_request **out)
{
    struct conn *conn = xfer->conn;
    struct xfer_request *request;

    *out = NULL;
    if (xfer->error.status != WEFT_OK || n_bytes == 0) {
        return xfer->error.status;
    }
    if (xfer->rails.dropped != 0) {
        return WEFT_AGAIN; /* because the flush is made on the connection that replaces this one */
    }
    for (uint32_t q = 0; q < conn->n_rails; q++) {
        if (xfer_sq_free(xfer, q) == 0) {
            return WEFT_AGAIN;
        }
    }
    request = xfer_request_take(xfer, XFER_FLUSH);
    if (request == NULL) {
        return WEFT_AGAIN;
    }
    request->as.flush.n_pending = conn->n_rails;
    *out = request;
    for (uint32_t q = 0; q < conn->n_rails; q++) {
        const struct conn_rail *rail = &conn->rails[q];
        struct ibv_sge sge = {.addr = (uintptr_t)conn->window + XFER_FLUSH_OFFSET,
                              .length = XFER_FLUSH_BYTES,
                              .lkey = rail->window_mr.lkey};
        struct ibv_send_wr wr = {
            .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};
        unsigned flags;

        if (memory != NULL && memory->is_gpu) {
            sge.addr = (uintptr_t)data;
            sge.length =
                n_bytes < XFER_FLUSH_BYTES ? (uint32_t)n_bytes : XFER_FLUSH_BYTES;
            sge.lkey = memory->mrs[rail->port->device_index].lkey;
            wr.opcode = IBV_WR_RDMA_WRITE;
        }
        wr.wr_id = xfer_wr_id(xfer, q, XFER_WR_FLUSH, request->index, true, &flags);
        wr.send_flags = flags;
        wr.wr.rdma.remote_addr = rail->remote_window + XFER_FLUSH_OFFSET;
        wr.wr.rdma.rkey = rail->remote_rkey;
        if (xfer_post(xfer, q, &wr) != WEFT_OK) {
            break;
        }
    }
    return xfer->error.status;
}

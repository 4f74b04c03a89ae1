#include "base/check.h"
#include "xfer/private.h"

/* ---- clear-to-sends ---- */

/* The ring's bytes are read after the completion of the WRITE_WITH_IMM that brought them, which
 * orders them (rc-QP rules: when the receive completion is polled, the message is visible):
 * nothing here polls memory. */
weft_status xfer_take_cts(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm)
{
    struct xfer_group *group = &xfer->groups[imm->slot];
    uint32_t number = xfer->n_groups;

    if (!xfer->conn->is_connector || q != 0) {
        return xfer_fail_protocol(xfer, q, "a clear-to-send came where none may");
    }
    if (imm->slot != number % XFER_SLOTS ||
        imm->group != (number & XFER_IMM_GROUP_MASK)) {
        return xfer_fail_protocol(
            xfer, q, "clear-to-send of group %u in slot %u instead of group %u",
            imm->group, imm->slot, number & XFER_IMM_GROUP_MASK);
    }
    if (number - xfer->head_group >= XFER_SLOTS) {
        return xfer_fail_protocol(xfer, q,
                                  "clear-to-send of group %u, but %u is not used up",
                                  number, xfer->head_group);
    }
    *group = (struct xfer_group){.n = imm->n};
    for (uint32_t i = 0; i < imm->n; i++) {
        struct xfer_cts *cts = &group->entries[i];
        const uint8_t *at = xfer->conn->window +
                            (size_t)(imm->slot * XFER_MULTI_MAX + i) * XFER_CTS_BYTES;

        if (!xfer_cts_decode(at, cts) || cts->group != number || cts->slot != imm->slot ||
            cts->index != i || cts->n != imm->n) {
            return xfer_fail_protocol(
                xfer, q,
                "entry %u of group %u is not the one announced (group %u, %u of %u)", i,
                number, cts->group, cts->index, cts->n);
        }
    }
    xfer->n_groups++;
    return WEFT_OK;
}

/* The buffer of the oldest open group that waits for `tag`, or NULL. */
static const struct xfer_cts *match(const struct xfer *xfer, uint32_t tag)
{
    const struct xfer_group *group = &xfer->groups[xfer->head_group % XFER_SLOTS];

    if (xfer->head_group == xfer->n_groups) {
        return NULL;
    }
    for (uint32_t i = 0; i < group->n; i++) {
        if ((group->matched >> i & 1) == 0 && group->entries[i].tag == tag) {
            return &group->entries[i];
        }
    }
    return NULL;
}

const struct xfer_cts *xfer_next_grant(const struct xfer *xfer,
                                       struct xfer_cursor *cursor)
{
    if ((int32_t)(cursor->group - xfer->head_group) < 0) {
        *cursor = (struct xfer_cursor){.group = xfer->head_group};
    }
    while (cursor->group != xfer->n_groups) {
        const struct xfer_group *group = &xfer->groups[cursor->group % XFER_SLOTS];
        uint32_t i = cursor->index++;

        if (i >= group->n) {
            *cursor = (struct xfer_cursor){.group = cursor->group + 1};
        } else if ((group->matched >> i & 1) == 0) {
            return &group->entries[i];
        }
    }
    return NULL;
}

/* The buffer has its message. */
static void use_up(struct xfer *xfer, const struct xfer_cts *cts)
{
    struct xfer_group *group = &xfer->groups[cts->slot];

    weft_check((group->matched >> cts->index & 1) == 0);
    group->matched |= 1u << cts->index;
    group->n_matched++;
    while (xfer->head_group != xfer->n_groups) {
        group = &xfer->groups[xfer->head_group % XFER_SLOTS];
        if (group->n_matched < group->n) {
            break;
        }
        xfer->head_group++;
    }
}

/* ---- data ---- */

/* How many work requests are handed over at once. */
#define CHAIN_MAX 16

static void fill_wr(struct xfer *xfer, struct xfer_request *request, uint32_t q,
                    uint64_t begin, uint64_t n_bytes, bool is_last,
                    struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    uint32_t rail = q % xfer->conn->n_rails;
    uint32_t n_full = request->as.send.piece;
    unsigned flags;

    *sge = (struct ibv_sge){.addr = (uintptr_t)request->as.send.data + begin,
                            .length = (uint32_t)n_bytes,
                            .lkey = request->as.send.lkeys[rail]};
    *wr = (struct ibv_send_wr){
        .sg_list = sge, .num_sge = n_bytes == 0 ? 0 : 1, .opcode = IBV_WR_RDMA_WRITE};
    wr->wr_id = xfer_wr_id(xfer, q, is_last ? XFER_WR_LAST : XFER_WR_DATA, request->index,
                           is_last, &flags);
    wr->send_flags = flags;
    wr->wr.rdma.remote_addr = request->as.send.cts.address + begin;
    wr->wr.rdma.rkey = request->as.send.cts.rkeys[rail];
    if (is_last) {
        struct xfer_imm imm = {.kind = XFER_IMM_DATA,
                               .slot = request->as.send.cts.slot,
                               .index = request->as.send.cts.index,
                               .n_parts = request->as.send.n_parts,
                               .n_full = n_full,
                               .sequence = xfer->lanes[q].sequence++};

        wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr->imm_data = xfer_network_order(xfer_imm_encode(&imm));
    }
}

/* Posts what fits of the present part. WEFT_OK: all of it. AGAIN: the queue is full. */
static weft_status post_part(struct xfer *xfer, struct xfer_request *request)
{
    struct conn *conn = xfer->conn;
    uint32_t q = (request->as.send.first_qp + request->as.send.part) % conn->n_qps;
    struct ibv_send_wr wrs[CHAIN_MAX];
    struct ibv_sge sges[CHAIN_MAX];
    uint64_t begin, end;
    uint32_t n_pieces;

    if (xfer->is_weighted && request->as.send.n_parts > 1) {
        xfer_weighted_part(request->as.send.n_bytes, xfer->weights, conn->n_qps,
                           request->as.send.first_qp, request->as.send.part, &begin,
                           &end);
    } else {
        xfer_part(request->as.send.n_bytes, conn->n_qps, request->as.send.part, &begin,
                  &end);
    }
    n_pieces = xfer_n_pieces(end - begin, conn->max_msg_bytes);
    while (request->as.send.piece < n_pieces) {
        uint32_t room = xfer_sq_free(xfer, q), n = 0;
        weft_status status;

        if (room == 0) {
            return WEFT_AGAIN;
        }
        for (; n < CHAIN_MAX && n < room && request->as.send.piece < n_pieces; n++) {
            uint64_t at = begin + (uint64_t)request->as.send.piece * conn->max_msg_bytes;
            bool is_last = request->as.send.piece + 1 == n_pieces;

            fill_wr(xfer, request, q, at, is_last ? end - at : conn->max_msg_bytes,
                    is_last, &wrs[n], &sges[n]);
            if (n > 0) {
                wrs[n - 1].next = &wrs[n];
            }
            request->as.send.piece++;
        }
        status = xfer_post(xfer, q, wrs);
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

weft_status xfer_pump(struct xfer *xfer)
{
    while (xfer->unposted != NULL) {
        struct xfer_request *request = xfer->unposted;

        while (request->as.send.part < request->as.send.n_parts) {
            weft_status status = post_part(xfer, request);

            if (status != WEFT_OK) {
                return status == WEFT_AGAIN ? WEFT_OK : status;
            }
            request->as.send.part++;
            request->as.send.piece = 0;
        }
        xfer->unposted = request->as.send.next;
    }
    xfer->unposted_last = NULL;
    return WEFT_OK;
}

static weft_status check_send(const struct xfer *xfer, size_t n_bytes)
{
    weft_check(xfer->conn->is_connector);
    if (xfer->error.status != WEFT_OK) {
        return xfer->error.status;
    }
    if (n_bytes > xfer->n_bytes_max) {
        return WEFT_ERR_LIMIT;
    }
    return xfer->n_free == 0 ? WEFT_AGAIN : WEFT_OK;
}

weft_status xfer_beat(struct xfer *xfer)
{
    weft_status status = xfer->error.status;

    for (uint32_t q = 0; q < xfer->conn->n_qps && status == WEFT_OK; q++) {
        struct xfer_lane *lane = &xfer->lanes[q];
        const struct conn_rail *rail = &xfer->conn->rails[q % xfer->conn->n_rails];
        struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
        bool is_quiet = lane->n_retired == lane->beat_retired;
        unsigned flags;

        lane->beat_retired = lane->n_retired;
        if (!is_quiet || lane->has_beat || xfer_sq_free(xfer, q) == 0) {
            continue;
        }
        lane->has_beat = true;
        wr.wr_id = xfer_wr_id(xfer, q, XFER_WR_BEAT, 0, true, &flags);
        wr.send_flags = flags;
        wr.wr.rdma.remote_addr = rail->remote_window;
        wr.wr.rdma.rkey = rail->remote_rkey;
        status = xfer_post(xfer, q, &wr);
    }
    return status;
}

weft_status xfer_isend(struct xfer *xfer, const void *data, size_t n_bytes, uint32_t tag,
                       const struct xfer_memory *memory, struct xfer_request **out)
{
    const struct xfer_cts *cts = match(xfer, tag);
    weft_status status = check_send(xfer, n_bytes);

    *out = NULL;
    if (status != WEFT_OK || cts == NULL) {
        return status != WEFT_OK ? status : WEFT_AGAIN;
    }
    return xfer_isend_to(xfer, cts, data, n_bytes, memory, out);
}

weft_status xfer_isend_to(struct xfer *xfer, const struct xfer_cts *cts, const void *data,
                          size_t n_bytes, const struct xfer_memory *memory,
                          struct xfer_request **out)
{
    struct conn *conn = xfer->conn;
    struct xfer_request *request;
    weft_status status = check_send(xfer, n_bytes);

    *out = NULL;
    if (status != WEFT_OK) {
        return status;
    }
    request = xfer_request_take(xfer, XFER_SEND);
    request->as.send.data = data;
    request->as.send.n_bytes = n_bytes < cts->size ? n_bytes : cts->size;
    request->as.send.cts = *cts;
    request->as.send.n_parts = xfer_n_parts(request->as.send.n_bytes, conn->n_qps);
    if (xfer->is_weighted && request->as.send.n_parts > 1) {
        request->as.send.n_parts = conn->n_qps;
    }
    request->as.send.n_pending = request->as.send.n_parts;
    request->as.send.first_qp = xfer->n_messages++ % conn->n_qps;
    for (uint32_t i = 0; i < conn->n_rails && request->as.send.n_bytes > 0; i++) {
        request->as.send.lkeys[i] = memory->mrs[conn->rails[i].port->device_index].lkey;
    }
    use_up(xfer, cts);
    if (xfer->unposted == NULL) {
        xfer->unposted = request;
    } else {
        xfer->unposted_last->as.send.next = request;
    }
    xfer->unposted_last = request;
    xfer->counters.messages_sent++;
    xfer->counters.bytes_sent += request->as.send.n_bytes;
    *out = request;
    return xfer_pump(xfer);
}

#include "base/check.h"
#include "xfer/private.h"

/* ---- clear-to-sends ---- */

/* Reads the entries only after the completion of the WRITE_WITH_IMM that brought them. The bytes of
 * a message are visible when its receive completion is polled, so that no memory is polled here. */
weft_status xfer_take_cts(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm)
{
    struct xfer_group *group = &xfer->groups[imm->slot];
    uint32_t number = xfer->n_groups;

    if (!xfer->conn->is_connector || !xfer_is_control(xfer, q)) {
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

/* Marks a buffer as matched, and closes the oldest groups whose buffers all are. */
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

/* Maximum number of work requests per call of post_send. */
#define CHAIN_MAX 16

static void fill_wr(struct xfer *xfer, struct xfer_request *request, uint32_t i,
                    uint64_t begin, uint64_t n_bytes, bool is_last,
                    struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    struct xfer_part_send *part = &request->as.send.parts[i];
    uint32_t q = part->qp, rail = q % xfer->conn->n_rails;
    unsigned flags;

    *sge = (struct ibv_sge){.addr = (uintptr_t)request->as.send.data + begin,
                            .length = (uint32_t)n_bytes,
                            .lkey = request->as.send.lkeys[rail]};
    *wr = (struct ibv_send_wr){
        .sg_list = sge, .num_sge = n_bytes == 0 ? 0 : 1, .opcode = IBV_WR_RDMA_WRITE};
    wr->wr_id = xfer_wr_id(xfer, q, is_last ? XFER_WR_LAST : XFER_WR_DATA,
                           request->index | i << 8, is_last, &flags);
    wr->send_flags = flags;
    wr->wr.rdma.remote_addr = request->as.send.cts.address + begin;
    wr->wr.rdma.rkey = request->as.send.cts.rkeys[rail];
    if (is_last) {
        struct xfer_imm imm = {.kind = XFER_IMM_DATA,
                               .slot = request->as.send.cts.slot,
                               .index = request->as.send.cts.index,
                               .n_parts = request->as.send.n_parts,
                               .n_full = part->n_pieces,
                               .sequence = xfer->lanes[q].sequence};

        part->sequence = xfer->lanes[q].sequence++;
        wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr->imm_data = xfer_network_order(xfer_imm_encode(&imm));
    }
}

/* Posts what fits of part i. Returns WEFT_OK if all of it is posted, WEFT_AGAIN if the queue is
 * full. */
static weft_status part_post(struct xfer *xfer, struct xfer_request *request, uint32_t i)
{
    uint32_t max_bytes = xfer->conn->max_msg_bytes;
    struct xfer_part_send *part = &request->as.send.parts[i];
    uint32_t n_pieces = xfer_n_pieces(part->end - part->begin, max_bytes);
    struct ibv_send_wr wrs[CHAIN_MAX];
    struct ibv_sge sges[CHAIN_MAX];

    while (part->n_pieces < n_pieces) {
        uint32_t room = xfer_sq_free(xfer, part->qp), n = 0;
        weft_status status;

        if (room == 0) {
            return WEFT_AGAIN;
        }
        if (part->n_pieces == 0) {
            xfer_pace_begin(xfer, part);
        }
        for (; n < CHAIN_MAX && n < room && part->n_pieces < n_pieces; n++) {
            uint64_t at = part->begin + (uint64_t)part->n_pieces * max_bytes;
            bool is_last = part->n_pieces + 1u == n_pieces;

            fill_wr(xfer, request, i, at, is_last ? part->end - at : max_bytes, is_last,
                    &wrs[n], &sges[n]);
            if (n > 0) {
                wrs[n - 1].next = &wrs[n];
            }
            part->n_pieces++;
        }
        status = xfer_post(xfer, part->qp, wrs);
        if (status != WEFT_OK) {
            return status;
        }
    }
    part->state = XFER_PART_POSTED;
    return WEFT_OK;
}

/* Posts the parts that were lost on dropped rails. All of these must be settled. */
static weft_status pump_lost(struct xfer *xfer)
{
    for (uint32_t r = 0; r < XFER_REQUESTS_MAX && xfer->rails.n_lost > 0; r++) {
        struct xfer_request *request = &xfer->requests[r];

        if (request->kind != XFER_SEND) {
            continue;
        }
        for (uint32_t i = 0; i < request->as.send.n_parts; i++) {
            weft_status status;

            if (request->as.send.parts[i].state != XFER_PART_LOST) {
                continue;
            }
            status = part_post(xfer, request, i);
            if (status != WEFT_OK) {
                return status;
            }
            xfer->rails.n_lost--;
        }
    }
    return WEFT_OK;
}

weft_status xfer_pump(struct xfer *xfer)
{
    weft_status status = WEFT_OK;

    if (xfer->rails.n_lost > 0 && xfer->rails.unsettled == 0) {
        status = pump_lost(xfer);
    }
    while (status == WEFT_OK && xfer->unposted != NULL) {
        struct xfer_request *request = xfer->unposted;

        while (request->as.send.part < request->as.send.n_parts && status == WEFT_OK) {
            uint32_t i = request->as.send.part;

            if (request->as.send.parts[i].state == XFER_PART_WAITING) {
                status = part_post(xfer, request, i);
            }
            request->as.send.part += status == WEFT_OK;
        }
        if (status == WEFT_OK) {
            xfer->unposted = request->as.send.next;
        }
    }
    if (xfer->unposted == NULL) {
        xfer->unposted_last = NULL;
    }
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

void xfer_part_done(struct xfer *xfer, struct xfer_request *request, uint32_t i)
{
    weft_check(request->kind == XFER_SEND && request->as.send.n_pending > 0);
    request->as.send.parts[i].state = XFER_PART_DONE;
    xfer_pace_end(xfer, &request->as.send.parts[i]);
    request->is_done = --request->as.send.n_pending == 0;
    xfer->n_done += request->is_done;
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
    weft_ns now = io_now(xfer->conn->rdma->env);

    for (uint32_t q = 0; q < xfer->conn->n_qps && status == WEFT_OK; q++) {
        struct xfer_lane *lane = &xfer->lanes[q];
        const struct conn_rail *rail = &xfer->conn->rails[q % xfer->conn->n_rails];
        struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
        bool is_quiet = lane->n_retired == lane->beat_retired;
        unsigned flags;

        lane->beat_retired = lane->n_retired;
        if (!is_quiet || lane->n_posted == lane->n_retired) {
            lane->quiet_ns = 0;
        } else if (lane->quiet_ns == 0) {
            lane->quiet_ns = now;
        }
        if (xfer_is_dropped(xfer, q) || !is_quiet || lane->has_beat ||
            xfer_sq_free(xfer, q) == 0) {
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

const struct conn_rail *xfer_stalled(struct xfer *xfer, struct weft_error *out)
{
    weft_ns now = io_now(xfer->conn->rdma->env);

    for (uint32_t i = 0; i < xfer->n_live; i++) {
        uint32_t q = xfer->live[i];
        const struct xfer_lane *lane = &xfer->lanes[q];

        if (lane->quiet_ns != 0 && lane->n_retired == lane->beat_retired &&
            now - lane->quiet_ns >= TIMER_DETECT_STALL_NS) {
            weft_fail(out, WEFT_ERR_TIMEOUT, WEFT_PHASE_DATA,
                      "nothing of what is posted completed for %lld ms",
                      (long long)((now - lane->quiet_ns) / 1000000));
            return &xfer->conn->rails[q % xfer->conn->n_rails];
        }
    }
    return NULL;
}

void xfer_beat_now(struct xfer *xfer)
{
    /* After the first call every queue pair counts as quiet, so that the second posts on all of
     * them. xfer_progress() reports an error. */
    if (xfer_beat(xfer) == WEFT_OK && xfer_beat(xfer) != WEFT_OK) {
        return;
    }
}

/* Divides a message among the queue pairs that are in use. */
static void divide(struct xfer *xfer, struct xfer_request *request)
{
    uint64_t n_bytes = request->as.send.n_bytes;
    uint32_t n_live = xfer->n_live, first = xfer->n_messages++ % n_live;
    uint32_t n_parts = xfer_n_parts(n_bytes, n_live);
    bool is_weighted = xfer->is_weighted && n_parts > 1;

    n_parts = is_weighted ? n_live : n_parts;
    request->as.send.n_parts = n_parts;
    request->as.send.part = 0;
    request->as.send.n_pending = n_parts;
    for (uint32_t i = 0; i < n_parts; i++) {
        uint64_t begin, end;

        if (is_weighted) {
            xfer_weighted_part(n_bytes, xfer->weights, n_live, first, i, &begin, &end);
        } else {
            xfer_part(n_bytes, n_live, i, &begin, &end);
        }
        request->as.send.parts[i] =
            (struct xfer_part_send){.begin = (uint32_t)begin,
                                    .end = (uint32_t)end,
                                    .qp = xfer->live[(first + i) % n_live]};
    }
}

weft_status xfer_isend(struct xfer *xfer, const struct xfer_cts *cts, const void *data,
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
    request->as.send.next = NULL;
    request->as.send.data = data;
    request->as.send.n_bytes = n_bytes < cts->size ? n_bytes : cts->size;
    request->as.send.cts = *cts;
    divide(xfer, request);
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

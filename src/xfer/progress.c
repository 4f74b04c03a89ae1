/* Progress of a connection's transfers: completions, and rails that are dropped. */
#include "base/check.h"
#include "conn/journal.h"
#include "rdma/cq.h"
#include "xfer/private.h"

#define MARK_SEND 1u
#define MARK_RECV 2u
#define POLL_MAX 32

static weft_status xfer_poll_all(struct xfer *xfer);
static weft_status xfer_arm_all(struct xfer *xfer);

/* ---- draining ---- */

/* Drains the queue pairs of a connection, or of rails of it, that another connection will replace.
 * What completed before they flushed counts. A marked work request is posted behind the last one of
 * each queue. When all marks have flushed, nothing can come from these queue pairs any more,
 * neither a completion nor a WRITE into a buffer. */

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

/* Moves the queue pairs of `rails` (bit r for rail r) to ERR and takes what completed before that.
 * Returns WEFT_AGAIN while something is under way, otherwise WEFT_OK. An error of a completion
 * queue also ends the wait, because such a queue delivers nothing more. */
static weft_status xfer_drain_rails(struct xfer *xfer, uint32_t rails)
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

/* Returns true if nothing more can arrive on the queue pairs of lost devices. They cannot be moved
 * to ERR, and nothing can be posted on them. But their receives flush when the device does, behind
 * everything that arrived. */
static bool has_lost_flushed(const struct xfer *xfer)
{
    const struct conn *conn = xfer->conn;

    for (uint32_t q = 0; q < conn->n_qps; q++) {
        uint32_t device = conn->rails[q % conn->n_rails].port->device_index;

        if (conn->rdma->is_lost[device] && conn->qps[q].state == RDMA_QP_FAILED &&
            (xfer->flushed >> q & 1) == 0) {
            return false;
        }
    }
    return true;
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
    if (status == WEFT_OK && !has_lost_flushed(xfer)) {
        status = WEFT_AGAIN;
    }
    return status == WEFT_AGAIN && late ? WEFT_OK : status;
}

/* ---- dropped rails ---- */

/* Drops rails of a connection, which goes on without them until another connection replaces it.
 *
 * Each end stops the queue pairs of the rail: it moves them to ERR and processes all that completed
 * before. After that nothing can arrive on them, and the end sends RAIL to the peer, with the
 * number of immediates that it received. An end that has stopped a queue pair and has the peer's
 * count knows what was lost, because a queue pair delivers in order. The sender then sends the lost
 * parts on other queue pairs, and the receiver sends the lost clear-to-sends. The buffer of a lost
 * part cannot be reused before, because the receiver has not counted that part. Until then the
 * receiver grants nothing, so that no grant uses the dropped rail. docs/wire.md, "Dropped
 * rails". */

uint32_t xfer_dropped(const struct xfer *xfer)
{
    return xfer->rails.dropped;
}

bool xfer_is_settled(const struct xfer *xfer)
{
    return xfer->rails.unsettled == 0;
}

/* Returns the queue pairs of a rail, bit q for queue pair q. */
static uint32_t rail_qps(const struct xfer *xfer, uint32_t rail)
{
    uint32_t qps = 0;

    for (uint32_t q = rail; q < xfer->conn->n_qps; q += xfer->conn->n_rails) {
        qps |= 1u << q;
    }
    return qps;
}

/* ---- the parts of messages, at the sender ---- */

static void part_lose(struct xfer *xfer, struct xfer_part_send *part)
{
    part->state = XFER_PART_LOST;
    xfer->rails.n_lost++;
}

/* Marks the parts that wait on dropped queue pairs as lost. Pieces of them that were posted may
 * still arrive. The peer also accepts only one part of a message on each queue pair until it has
 * dropped the rail. So these parts wait until then. */
static void request_leave_rail(struct xfer *xfer, struct xfer_request *request)
{
    for (uint32_t i = 0; i < request->as.send.n_parts; i++) {
        struct xfer_part_send *part = &request->as.send.parts[i];

        if (part->state == XFER_PART_WAITING && xfer_is_dropped(xfer, part->qp)) {
            part_lose(xfer, part);
        }
    }
}

static bool part_is_taken(const struct xfer *xfer, const struct xfer_part_send *part)
{
    return ((part->sequence - xfer->rails.taken[part->qp]) & XFER_IMM_SEQUENCE_MASK) >
           XFER_IMM_SEQUENCE_MASK / 2;
}

static void request_settle(struct xfer *xfer, struct xfer_request *request, uint32_t qps)
{
    for (uint32_t i = 0; i < request->as.send.n_parts; i++) {
        struct xfer_part_send *part = &request->as.send.parts[i];

        if ((qps >> part->qp & 1) == 0) {
            continue;
        }
        if (part->state == XFER_PART_POSTED && part_is_taken(xfer, part)) {
            xfer_part_done(xfer, request, i);
        } else if (part->state == XFER_PART_POSTED) {
            part_lose(xfer, part);
        }
        if (part->state == XFER_PART_LOST) {
            part->qp = xfer->live[i % xfer->n_live];
            part->n_pieces = 0;
        }
    }
}

/* ---- dropping ---- */

static uint32_t n_live_without(const struct xfer *xfer, uint32_t rail)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < xfer->n_live; i++) {
        n += xfer->live[i] % xfer->conn->n_rails != rail;
    }
    return n;
}

/* Returns how many parts of one message can arrive on one queue pair in addition to its own, if
 * `n_live` queue pairs carry all parts. */
static uint32_t n_extra_of(const struct xfer *xfer, uint32_t n_live)
{
    return (xfer->conn->n_qps - n_live + n_live - 1) / n_live;
}

static bool can_drop(const struct xfer *xfer, uint32_t rail)
{
    uint32_t n_live = n_live_without(xfer, rail);

    return n_live > 0 && !xfer->is_draining &&
           (xfer->conn->is_connector ||
            xfer->n_granted * (1 + n_extra_of(xfer, n_live)) <= xfer->rq_depth);
}

static void drop(struct xfer *xfer, uint32_t rail)
{
    uint32_t n = 0;

    xfer->rails.dropped |= 1u << rail;
    xfer->rails.unsettled |= 1u << rail;
    xfer->is_weighted = false;
    for (uint32_t i = 0; i < xfer->n_live; i++) {
        if (!xfer_is_dropped(xfer, xfer->live[i])) {
            xfer->live[n] = xfer->live[i];
            xfer->weights[n++] = xfer->weights[i];
        }
    }
    xfer->n_live = n;
    for (uint32_t i = 1; i < n; i++) {
        xfer->is_weighted = xfer->is_weighted || xfer->weights[i] != xfer->weights[0];
    }
    for (uint32_t i = 0; i < XFER_REQUESTS_MAX && xfer->conn->is_connector; i++) {
        if (xfer->requests[i].kind == XFER_SEND) {
            request_leave_rail(xfer, &xfer->requests[i]);
        }
    }
}

weft_status xfer_drop_rail(struct xfer *xfer, uint32_t rail)
{
    weft_check(rail < xfer->conn->n_rails);
    if (xfer->error.status != WEFT_OK || (xfer->rails.dropped >> rail & 1) != 0) {
        return xfer->error.status;
    }
    if (!can_drop(xfer, rail)) {
        return WEFT_ERR_LIMIT;
    }
    drop(xfer, rail);
    io_task_wake(&xfer->conn->task);
    return WEFT_OK;
}

/* Handles an immediate of kind XFER_IMM_RAIL, which reports that the peer has stopped queue pair
 * `imm->qp`. */
static weft_status xfer_take_rail(struct xfer *xfer, uint32_t q,
                                  const struct xfer_imm *imm)
{
    struct xfer_rails *rails = &xfer->rails;
    uint32_t n_rails = xfer->conn->n_rails, rail = imm->qp % n_rails;

    if (xfer->is_draining) {
        return WEFT_OK; /* no rail carries more */
    }
    if (imm->qp >= xfer->conn->n_qps || q % n_rails == rail ||
        (rails->heard >> imm->qp & 1) != 0) {
        return xfer_fail_protocol(
            xfer, q, "the peer stopped queue pair %u, which it cannot", imm->qp);
    }
    if ((rails->dropped >> rail & 1) == 0) {
        if (!can_drop(xfer, rail)) {
            return xfer_fail_protocol(xfer, q, "the peer stopped rail %u of %u", rail,
                                      n_rails);
        }
        drop(xfer, rail);
    }
    if (xfer->conn->is_connector &&
        ((xfer->lanes[imm->qp].sequence - imm->sequence) & XFER_IMM_SEQUENCE_MASK) >
            XFER_IMM_SEQUENCE_MASK / 2) {
        return xfer_fail_protocol(xfer, q, "the peer took %u parts, and %u were sent",
                                  imm->sequence, xfer->lanes[imm->qp].sequence);
    }
    rails->heard |= 1u << imm->qp;
    rails->taken[imm->qp] = (uint16_t)imm->sequence;
    return WEFT_OK;
}

/* ---- settling ---- */

static weft_status stop(struct xfer *xfer)
{
    struct xfer_rails *rails = &xfer->rails;
    uint32_t due = 0;

    for (uint32_t r = 0; r < xfer->conn->n_rails; r++) {
        if ((rails->unsettled >> r & 1) != 0 &&
            (rails->stopped & rail_qps(xfer, r)) == 0) {
            due |= 1u << r;
        }
    }
    if (due == 0 || xfer_drain_rails(xfer, due) == WEFT_AGAIN) {
        return xfer->error.status;
    }
    if (xfer->error.status == WEFT_OK) {
        /* Parts that are sent again need receives on other queue pairs. */
        xfer_replenish(xfer, 1);
    }
    for (uint32_t r = 0; r < xfer->conn->n_rails; r++) {
        if ((due >> r & 1) != 0) {
            rails->stopped |= rail_qps(xfer, r);
            rails->to_tell |= rail_qps(xfer, r);
        }
    }
    return xfer->error.status;
}

static weft_status notify(struct xfer *xfer)
{
    struct xfer_rails *rails = &xfer->rails;
    weft_status status = WEFT_OK;

    while (rails->to_tell != 0 && status == WEFT_OK &&
           xfer_sq_free(xfer, xfer->live[0]) > 0) {
        uint32_t q = (uint32_t)__builtin_ctz(rails->to_tell);
        uint32_t taken =
            xfer->conn->is_connector ? xfer->n_groups : xfer->lanes[q].sequence;

        rails->to_tell &= ~(1u << q);
        status = xfer_post_imm(
            xfer, xfer->live[0], XFER_WR_RAIL,
            &(struct xfer_imm){.kind = XFER_IMM_RAIL, .qp = q, .sequence = taken});
    }
    return status;
}

/* Moves clear-to-sends and notices to another queue pair, on which the lost ones are sent again. */
static weft_status move_control(struct xfer *xfer)
{
    struct xfer_rails *rails = &xfer->rails;
    uint32_t n =
        (xfer->next_group - rails->taken[xfer->control]) & XFER_IMM_SEQUENCE_MASK;

    if (n > XFER_SLOTS) {
        return xfer_fail_protocol(xfer, xfer->live[0],
                                  "the peer took %u clear-to-sends of %u",
                                  rails->taken[xfer->control], xfer->next_group);
    }
    xfer->control = xfer->live[0];
    rails->next_cts = xfer->next_group - n;
    for (uint32_t slot = 0; slot < XFER_SLOTS; slot++) {
        xfer->cts_wr[slot] = 0; /* the work requests of the old queue pair are retired */
    }
    xfer->has_notice = xfer->has_notice || xfer->notice_on_its_way;
    xfer->notice_on_its_way = false;
    return WEFT_OK;
}

static weft_status settle(struct xfer *xfer, uint32_t rail)
{
    struct xfer_rails *rails = &xfer->rails;

    rails->unsettled &= ~(1u << rail);
    for (uint32_t i = 0; i < XFER_REQUESTS_MAX && xfer->conn->is_connector; i++) {
        if (xfer->requests[i].kind == XFER_SEND) {
            request_settle(xfer, &xfer->requests[i], rail_qps(xfer, rail));
        }
    }
    if (xfer->conn->is_connector) {
        return WEFT_OK;
    }
    rails->extra = n_extra_of(xfer, xfer->n_live);
    rails->extra_group = xfer->next_group;
    rails->n_extra = xfer->n_granted;
    return xfer_is_dropped(xfer, xfer->control) ? move_control(xfer) : WEFT_OK;
}

static weft_status repeat_cts(struct xfer *xfer)
{
    struct xfer_rails *rails = &xfer->rails;
    weft_status status = WEFT_OK;

    while (status == WEFT_OK && rails->next_cts != xfer->next_group &&
           xfer_sq_free(xfer, xfer->control) > 0) {
        const struct xfer_request *request = xfer->slots[rails->next_cts % XFER_SLOTS];

        weft_check(request != NULL); /* the sender cannot have completed it */
        status = xfer_send_cts(xfer, rails->next_cts++, request->as.recv.n);
    }
    return status;
}

/* Advances the settling of dropped rails. Called by every xfer_progress(). */
static weft_status xfer_rails_progress(struct xfer *xfer)
{
    struct xfer_rails *rails = &xfer->rails;
    weft_status status;

    if (rails->dropped == 0) {
        return WEFT_OK;
    }
    status = stop(xfer);
    if (status == WEFT_OK) {
        status = notify(xfer);
    }
    for (uint32_t r = 0; r < xfer->conn->n_rails && status == WEFT_OK; r++) {
        uint32_t qps = rail_qps(xfer, r);

        if ((rails->unsettled >> r & 1) != 0 &&
            (rails->stopped & rails->heard & qps) == qps) {
            status = settle(xfer, r);
        }
    }
    if (status == WEFT_OK && rails->unsettled == 0 && !xfer->conn->is_connector) {
        status = repeat_cts(xfer);
    }
    return status;
}

/* ---- handover ---- */

weft_status xfer_hand_over(struct xfer *xfer)
{
    if (xfer->error.status != WEFT_OK || xfer->handover_is_done) {
        return xfer->error.status;
    }
    if (!xfer->has_handed_over && xfer_sq_free(xfer, xfer->live[0]) > 0) {
        weft_status status = xfer_post_imm(xfer, xfer->live[0], XFER_WR_HANDOVER,
                                           &(struct xfer_imm){.kind = XFER_IMM_HANDOVER});

        xfer->has_handed_over = true;
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_AGAIN;
}

bool xfer_is_handed_over(const struct xfer *xfer)
{
    return xfer->is_handed_over;
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
    if (wc->status != IBV_WC_SUCCESS && wc->wr_id == CONN_WR_RECV) {
        xfer->flushed |= 1u << q;
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
        /* Handle all of them even if one fails, because they are no longer in the queue. If the
         * connection has failed before, handle all of all queues. What they bring has arrived, and
         * the peer sends none of it again. */
        for (int i = 0; i < n; i++) {
            weft_status status;

            conn_journal_note(xfer->conn, rail, &wcs[i]);
            status = take(xfer, rail, &wcs[i]);
            first = first == WEFT_OK && !xfer->is_draining ? status : first;
        }
        if (first != WEFT_OK) {
            return first;
        }
    }
    return WEFT_OK;
}

/* Handles all completions of every CQ. */
static weft_status xfer_poll_all(struct xfer *xfer)
{
    for (uint32_t rail = 0; rail < xfer->conn->n_rails; rail++) {
        weft_status status = poll_rail(xfer, rail);

        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

static weft_status xfer_arm_all(struct xfer *xfer)
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

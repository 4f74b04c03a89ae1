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
#include "base/check.h"
#include "xfer/private.h"

bool xfer_is_dropped(const struct xfer *xfer, uint32_t q)
{
    return (xfer->rails.dropped >> q % xfer->conn->n_rails & 1) != 0;
}

bool xfer_is_control(const struct xfer *xfer, uint32_t q)
{
    return q == 0 || xfer->rails.dropped != 0;
}

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

weft_status xfer_take_rail(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm)
{
    struct xfer_rails *rails = &xfer->rails;
    uint32_t n_rails = xfer->conn->n_rails, rail = imm->qp % n_rails;

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

bool xfer_may_grant(const struct xfer *xfer)
{
    return xfer->rails.unsettled == 0 && xfer->rails.next_cts == xfer->next_group;
}

weft_status xfer_rails_progress(struct xfer *xfer)
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

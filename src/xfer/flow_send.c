/* Implements the sending end of a flow. A message waits for clear-to-sends, which can arrive on any
 * lane. */
#include "base/check.h"
#include "xfer/flow_private.h"
#include "xfer/private.h"

#define GROUP_MAX XFER_MULTI_MAX

static struct flow_message *message_of(struct flow *flow, uint32_t number)
{
    struct flow_message *message = &flow->messages[number % FLOW_MESSAGES];

    return message->state != FLOW_UNKNOWN && message->number == number ? message : NULL;
}

/* Returns the send in progress with this number, or NULL. */
static struct flow_request *send_of(struct flow *flow, uint32_t number)
{
    const struct flow_message *message = message_of(flow, number);
    struct flow_request *request = message == NULL ? NULL : message->request;

    if (message != NULL) {
        return request;
    }
    for (request = flow->open; request != NULL && request->number != number;) {
        request = request->next;
    }
    return request;
}

/* ---- done ---- */

static void check_done(struct flow *flow, struct flow_request *request)
{
    struct flow_message *message = message_of(flow, request->number);
    bool is_acked = !request->as.send.needs_notice && request->as.send.has_ack &&
                    request->as.send.n_acked >= request->as.send.whole;

    if (request->as.send.n_moving > 0 || !(is_acked || request->as.send.is_noticed)) {
        return;
    }
    request->is_done = true;
    flow_open_remove(flow, request);
    if (message != NULL && message->request == request) {
        message->request = NULL;
    }
}

void flow_send_base(struct flow *flow, uint32_t base)
{
    struct flow_request *next;

    for (struct flow_request *request = flow->open; request != NULL; request = next) {
        next = request->next;
        if (flow_distance(request->number, base) < 0) {
            request->as.send.is_noticed = true;
            check_done(flow, request);
        }
    }
}

void flow_send_final(struct flow *flow, const struct flow_final *final)
{
    struct flow_request *next;

    for (struct flow_request *request = flow->open; request != NULL; request = next) {
        int32_t ahead = flow_distance(request->number, final->base);
        bool is_bit = ahead >= 0 && ahead < (int32_t)FLOW_FINAL_MESSAGES;

        next = request->next;
        if (ahead < 0 || (is_bit && (final->complete[ahead / 8] >> ahead % 8 & 1) != 0)) {
            request->as.send.is_noticed = true;
            check_done(flow, request);
        }
    }
}

static void harvest(struct flow *flow, struct flow_lane *lane)
{
    struct flow_piece *before = NULL, *piece = lane->pieces, *next;

    for (; piece != NULL && xfer_n_done(lane->xfer) > 0; piece = next) {
        struct flow_request *request = piece->request;

        next = piece->next;
        if (xfer_test(lane->xfer, piece->xfer, NULL) != WEFT_OK) {
            before = piece;
            continue;
        }
        flow->n_stalls = flow->n_refusals = 0;
        flow->has_moved = true;
        request->as.send.n_moving--;
        request->as.send.n_acked += piece->n_bytes;
        request->as.send.has_ack = true;
        flow_piece_give(flow, lane, before, piece);
        check_done(flow, request);
    }
}

void flow_send_stopped(struct flow *flow, struct flow_lane *lane)
{
    struct flow_request *next;

    harvest(flow, lane);
    while (lane->pieces != NULL) {
        lane->pieces->request->as.send.n_moving--;
        flow_piece_give(flow, lane, NULL, lane->pieces);
    }
    /* This end cannot know which parts of a message the receiver has, so that only a notice shows
     * that the message has arrived. */
    for (struct flow_request *request = flow->open; request != NULL; request = next) {
        next = request->next;
        request->as.send.needs_notice = true;
        check_done(flow, request);
    }
}

/* ---- clear-to-sends ---- */

/* Records what a grant says about its message. Fails if the grant is invalid. */
static weft_status learn(struct flow *flow, struct flow_lane *lane,
                         const struct xfer_cts *cts)
{
    const struct xfer_hint *hint = &cts->hint;
    uint64_t at = (uint64_t)hint->fragment * FLOW_FRAGMENT_BYTES;
    int32_t ahead = flow_distance(hint->message, flow->next_number);
    struct flow_message *message = &flow->messages[hint->message % FLOW_MESSAGES];

    if (at > hint->whole || cts->size > hint->whole - at) {
        return xfer_fail_protocol(
            lane->xfer, 0, "clear-to-send of %llu bytes at %llu of a message of %u",
            (unsigned long long)cts->size, (unsigned long long)at, hint->whole);
    }
    if (ahead >= (int32_t)FLOW_MESSAGES || ahead < -(int32_t)FLOW_MESSAGES ||
        (ahead < 0 && send_of(flow, hint->message) == NULL)) {
        return xfer_fail_protocol(lane->xfer, 0,
                                  "clear-to-send of message %u, %u is the next",
                                  hint->message, flow->next_number);
    }
    if (ahead >= 0 && message_of(flow, hint->message) == NULL) {
        *message = (struct flow_message){.state = FLOW_OPEN,
                                         .number = hint->message,
                                         .tag = cts->tag,
                                         .whole = hint->whole,
                                         .index = hint->index,
                                         .n = (uint8_t)(hint->n + 1)};
    }
    return WEFT_OK;
}

/* Sends the data that a grant requests. Returns WEFT_AGAIN if there is no room for it now. */
static weft_status send_piece(struct flow *flow, struct flow_lane *lane,
                              const struct xfer_cts *cts, struct flow_request *request)
{
    uint64_t at = (uint64_t)cts->hint.fragment * FLOW_FRAGMENT_BYTES;
    uint64_t left = request->as.send.n_bytes > at ? request->as.send.n_bytes - at : 0;
    uint64_t n_bytes = left < cts->size ? left : cts->size;
    const uint8_t *data = request->as.send.data;
    struct xfer_request *moving;
    struct flow_piece *piece;
    uint32_t size = (uint32_t)cts->size;
    weft_status status;

    if (flow->free_pieces == NULL) {
        return WEFT_AGAIN;
    }
    data = n_bytes > 0 ? data + at : data; /* NULL is allowed for an empty message */
    status = xfer_isend(lane->xfer, cts, data, n_bytes, request->as.send.memory, &moving);
    if (status != WEFT_OK) {
        return status;
    }
    piece = flow_piece_take(flow, lane);
    piece->request = request;
    piece->xfer = moving;
    piece->n_bytes = size;
    request->as.send.n_moving++;
    request->as.send.needs_notice =
        request->as.send.needs_notice || flow_is_noticed(flow, lane);
    return WEFT_OK;
}

/* Answers the grants from `cursor` on, as far as there is room. If `only` is not NULL, answers only
 * the grants of that request. */
static weft_status serve(struct flow *flow, struct flow_lane *lane,
                         struct xfer_cursor cursor, struct flow_request *only)
{
    const struct xfer_cts *cts;

    if (lane->is_leaving) {
        return WEFT_OK; /* the receiver requests the rest on the next connection */
    }
    while ((cts = xfer_next_grant(lane->xfer, &cursor)) != NULL) {
        struct flow_request *request = only;
        weft_status status;

        if (only == NULL) {
            request = send_of(flow, cts->hint.message);
        }
        if (request == NULL || request->number != cts->hint.message) {
            continue;
        }
        status = send_piece(flow, lane, cts, request);
        if (status != WEFT_OK) {
            lane->has_passed_over = true;
            return status == WEFT_AGAIN ? WEFT_OK : status;
        }
        if (only != NULL && cts->size == cts->hint.whole) {
            break;
        }
    }
    return WEFT_OK;
}

weft_status flow_send_progress(struct flow *flow, struct flow_lane *lane)
{
    struct xfer_cursor from = lane->seen;
    const struct xfer_cts *cts;
    uint32_t base;
    weft_status status = xfer_progress(lane->xfer);

    if (status == WEFT_OK && xfer_notice(lane->xfer, &base)) {
        /* Each once: numbers wrap, so that an old one would become a future one. */
        if (!lane->has_heard || lane->heard != base) {
            lane->has_heard = true;
            lane->heard = base;
            flow_send_base(flow, base & XFER_MESSAGE_MASK);
        }
        if ((base & FLOW_NOTICE_LATE) != 0 && lane->n_via == 0) {
            flow_hear_late(flow, lane);
        }
    }
    harvest(flow, lane);
    while (status == WEFT_OK &&
           (cts = xfer_next_grant(lane->xfer, &lane->seen)) != NULL) {
        status = learn(flow, lane, cts);
    }
    if (lane->has_passed_over) {
        from = (struct xfer_cursor){0};
        lane->has_passed_over = false;
    }
    return status == WEFT_OK ? serve(flow, lane, from, NULL) : status;
}

/* ---- sending ---- */

/* Returns the first buffer with `tag` that has no send, in the oldest group with such buffers, or
 * NULL. A buffer that is not known yet ends the search, because it may have the same tag. */
static struct flow_message *match(struct flow *flow, uint32_t tag)
{
    struct flow_message *first = message_of(flow, flow->next_number);
    uint32_t n = first == NULL ? 0 : (uint32_t)first->n - first->index;

    for (uint32_t i = 0; i < n; i++) {
        struct flow_message *message =
            message_of(flow, (flow->next_number + i) & XFER_MESSAGE_MASK);

        if (message == NULL) {
            return NULL;
        }
        if (message->state == FLOW_OPEN && message->tag == tag) {
            return message;
        }
    }
    return NULL;
}

static void use_up(struct flow *flow, struct flow_message *message)
{
    const struct flow_message *next = message;

    message->state = FLOW_MATCHED;
    while ((next = message_of(flow, flow->next_number)) != NULL &&
           next->state == FLOW_MATCHED) {
        flow->next_number = (flow->next_number + 1) & XFER_MESSAGE_MASK;
    }
}

weft_status flow_isend(struct flow *flow, const void *data, size_t n_bytes, uint32_t tag,
                       const struct xfer_memory *memory, struct flow_request **out)
{
    struct flow_message *message;
    struct flow_request *request;

    *out = NULL;
    weft_check(flow->config.is_sender && !flow->is_closing);
    if (flow->error.status != WEFT_OK) {
        return flow->error.status;
    }
    if (n_bytes > XFER_SIZE_MAX) {
        return WEFT_ERR_LIMIT;
    }
    message = flow->peer_closed ? NULL : match(flow, tag);
    if (message == NULL || (request = flow_request_take(flow, FLOW_SEND)) == NULL) {
        return WEFT_AGAIN;
    }
    request->number = message->number;
    request->as.send.data = data;
    request->as.send.n_bytes = n_bytes < message->whole ? n_bytes : message->whole;
    request->as.send.whole = message->whole;
    request->as.send.memory = memory;
    message->request = request;
    flow_open_append(flow, request);
    use_up(flow, message);
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->state == FLOW_LANE_UP &&
            serve(flow, lane, (struct xfer_cursor){0}, request) != WEFT_OK) {
            io_task_wake(&lane->conn->task); /* the lane's progress handles the failure */
        }
    }
    *out = request;
    return WEFT_OK;
}

weft_status flow_test(struct flow *flow, struct flow_request *request, size_t *out_sizes)
{
    weft_check(request->kind != FLOW_FREE);
    if (!request->is_done) {
        return flow->error.status != WEFT_OK ? flow->error.status : WEFT_AGAIN;
    }
    if (request->kind == FLOW_SEND && out_sizes != NULL) {
        out_sizes[0] = (size_t)request->as.send.n_bytes;
    }
    if (request->kind == FLOW_RECV) {
        for (uint32_t i = 0; out_sizes != NULL && i < request->as.recv.n; i++) {
            out_sizes[i] = (size_t)request->as.recv.buffers[i].n_bytes;
        }
        flow->n_receives--;
    }
    flow->n_flushes -= request->kind == FLOW_FLUSH;
    flow_request_give(flow, request);
    return WEFT_OK;
}

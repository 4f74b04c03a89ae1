/* Holds what all parts of a flow use: pools and lists, counters, and whether it has ended. */
#include "base/check.h"
#include "xfer/flow_private.h"

/* ---- pools and lists ---- */

struct flow_request *flow_request_take(struct flow *flow, enum flow_request_kind kind)
{
    struct flow_request *request = flow->free;
    struct flow_buffer *buffers;

    if (request == NULL) {
        return NULL;
    }
    flow->free = request->next;
    buffers = flow->buffers == NULL
                  ? NULL
                  : &flow->buffers[(size_t)(request - flow->requests) * XFER_MULTI_MAX];
    *request = (struct flow_request){.kind = kind};
    if (kind == FLOW_RECV) {
        request->as.recv.buffers = buffers;
    }
    return request;
}

void flow_request_give(struct flow *flow, struct flow_request *request)
{
    weft_check(request->kind != FLOW_FREE);
    request->kind = FLOW_FREE;
    request->next = flow->free;
    flow->free = request;
}

struct flow_piece *flow_piece_take(struct flow *flow, struct flow_lane *lane)
{
    struct flow_piece *piece = flow->free_pieces;

    if (piece == NULL) {
        return NULL;
    }
    flow->free_pieces = piece->next;
    *piece = (struct flow_piece){0};
    if (lane->pieces == NULL) {
        lane->pieces = piece;
    } else {
        lane->last_piece->next = piece;
    }
    lane->last_piece = piece;
    return piece;
}

void flow_piece_give(struct flow *flow, struct flow_lane *lane, struct flow_piece *before,
                     struct flow_piece *piece)
{
    if (before == NULL) {
        lane->pieces = piece->next;
    } else {
        before->next = piece->next;
    }
    if (lane->last_piece == piece) {
        lane->last_piece = before;
    }
    piece->next = flow->free_pieces;
    flow->free_pieces = piece;
}

void flow_open_append(struct flow *flow, struct flow_request *request)
{
    request->next = NULL;
    if (flow->open == NULL) {
        flow->open = request;
    } else {
        flow->open_last->next = request;
    }
    flow->open_last = request;
}

void flow_open_remove(struct flow *flow, struct flow_request *request)
{
    struct flow_request *before = NULL;

    for (struct flow_request *at = flow->open; at != request; at = at->next) {
        weft_check(at != NULL);
        before = at;
    }
    if (before == NULL) {
        flow->open = request->next;
    } else {
        before->next = request->next;
    }
    if (flow->open_last == request) {
        flow->open_last = before;
    }
    request->next = NULL;
}

/* ---- counters ---- */

static void add_counters(struct xfer_counters *sum, const struct xfer *xfer)
{
    struct xfer_counters more;

    xfer_counters(xfer, &more);
    sum->messages_sent += more.messages_sent;
    sum->bytes_sent += more.bytes_sent;
    sum->messages_received += more.messages_received;
    sum->bytes_received += more.bytes_received;
    sum->cts_sent += more.cts_sent;
}

void flow_counters_keep(struct flow *flow, const struct xfer *xfer)
{
    add_counters(&flow->counters.xfer, xfer);
}

void flow_counters(const struct flow *flow, struct flow_counters *out)
{
    *out = flow->counters;
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        if (flow->lanes[i].xfer != NULL) {
            add_counters(&out->xfer, flow->lanes[i].xfer);
        }
    }
    if (flow->without_ns != 0) {
        out->without_lane_ns += io_now(flow->rdma->env) - flow->without_ns;
    }
}

/* ---- up, or ended ---- */

bool flow_any_up(const struct flow *flow)
{
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        if (flow->lanes[i].state == FLOW_LANE_UP) {
            return true;
        }
    }
    return false;
}

bool flow_peer_has_closed(const struct flow *flow)
{
    return flow->peer_closed && flow->error.status != WEFT_OK;
}

weft_status flow_give_up(struct flow *flow, const struct weft_error *why)
{
    flow->n_looks++;
    if (flow->error.status == WEFT_OK) {
        flow->error = *why;
        weft_error_int(&flow->error, WEFT_VALUE_FROM, flow->config.from);
        weft_error_int(&flow->error, WEFT_VALUE_TO, flow->config.to);
    }
    return flow->error.status;
}

weft_ns flow_doubled(weft_ns first, uint32_t times, weft_ns most)
{
    while (times-- > 0 && first < most) {
        first *= 2;
    }
    return first < most ? first : most;
}

/* Implements the receiving end of a flow. It requests every part of every message, once at a time,
 * on a lane that it selects. If a lane fails, it requests again the parts that did not arrive. */
#include <string.h>

#include "base/check.h"
#include "xfer/flow_private.h"
#include "xfer/private.h"

static uint32_t n_fragments(uint64_t size)
{
    return size == 0 ? 1
                     : (uint32_t)((size + FLOW_FRAGMENT_BYTES - 1) / FLOW_FRAGMENT_BYTES);
}

/* ---- what arrived ---- */

static bool has_lost(const struct flow *flow, const struct flow_request *request,
                     uint32_t buffer)
{
    for (uint32_t i = 0; i < flow->n_lost; i++) {
        if (flow->lost[i].request == request && flow->lost[i].buffer == buffer) {
            return true;
        }
    }
    return false;
}

/* Sets `base` to the first message that has not arrived. */
static void advance_base(struct flow *flow)
{
    const struct flow_request *oldest = flow->open;
    uint32_t base = flow->next_number;

    if (oldest != NULL) {
        base = oldest->number;
        for (uint32_t i = 0; oldest->as.recv.buffers[i].is_done; i++) {
            base++;
        }
    }
    flow->base = base & XFER_MESSAGE_MASK;
}

static void check_done(struct flow *flow, struct flow_request *request, uint32_t i)
{
    struct flow_buffer *buffer = &request->as.recv.buffers[i];

    if (buffer->is_done || buffer->n_moving > 0 ||
        buffer->n_posted < buffer->n_fragments || has_lost(flow, request, i)) {
        return;
    }
    buffer->is_done = true;
    if (--request->as.recv.n_missing == 0) {
        request->is_done = true;
        flow_open_remove(flow, request);
    }
    advance_base(flow);
}

static void harvest(struct flow *flow, struct flow_lane *lane)
{
    struct flow_piece *before = NULL, *piece = lane->pieces, *next;

    for (; piece != NULL && xfer_n_done(lane->xfer) > 0; piece = next) {
        struct flow_request *request = piece->request;
        uint32_t buffers = piece->buffers;
        size_t sizes[XFER_MULTI_MAX];
        uint32_t n = 0;

        next = piece->next;
        if (xfer_test(lane->xfer, piece->xfer, sizes) != WEFT_OK) {
            before = piece;
            continue;
        }
        flow->n_stalls = flow->n_refusals = 0;
        flow->has_moved = true;
        flow_piece_give(flow, lane, before, piece);
        for (uint32_t i = 0; i < XFER_MULTI_MAX; i++) {
            if ((buffers >> i & 1) != 0) {
                request->as.recv.buffers[i].n_bytes += sizes[n++];
                request->as.recv.buffers[i].n_moving--;
                check_done(flow, request, i);
            }
        }
    }
}

/* Returns a direct lane on which a port must be reported, or NULL. While no direct lane is up, the
 * report waits, because the sender ignores it on a relayed lane. */
static struct flow_lane *lane_to_tell_late(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->config.n_lanes && flow->must_tell_late; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->state == FLOW_LANE_UP && lane->n_via == 0) {
            return lane;
        }
    }
    return NULL;
}

/* Returns a lane on which the receiver must report what has arrived, or NULL. */
static struct flow_lane *lane_to_tell(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->state == FLOW_LANE_UP && flow_is_noticed(flow, lane)) {
            return lane;
        }
    }
    return NULL;
}

/* Sends a notice if one is due. It reports `base` where an ACK does not show that data has arrived,
 * and a port that could add a rail. If it is refused, its lane fails, which may be another than the
 * one in progress. */
static void tell(struct flow *flow)
{
    struct flow_lane *lane = lane_to_tell_late(flow);
    uint32_t late = 0;

    if (lane == NULL && flow->base == flow->noticed && !flow->must_notify) {
        return;
    }
    lane = lane != NULL ? lane : lane_to_tell(flow);
    if (lane == NULL) {
        flow->must_notify =
            true; /* on the first lane that has notices; `noticed` is out of date */
        return;
    }
    if (lane->n_via == 0) {
        late = flow->has_late_port ? FLOW_NOTICE_LATE : 0;
        flow->must_tell_late = false;
    }
    flow->noticed = flow->base;
    flow->must_notify = false;
    if (xfer_notify(lane->xfer, flow->base | late) != WEFT_OK) {
        io_task_wake(&lane->conn->task); /* the lane's progress handles the failure */
    }
}

void flow_receive_take(struct flow *flow, struct flow_lane *lane)
{
    if (lane->state != FLOW_LANE_UP || lane->xfer == NULL) {
        return;
    }
    if (xfer_progress(lane->xfer) != WEFT_OK) {
        flow->n_looks++; /* data that arrived before the failure counts */
    }
    harvest(flow, lane);
}

static bool is_open(const struct flow *flow, uint32_t number)
{
    for (const struct flow_request *request = flow->open; request != NULL;
         request = request->next) {
        int32_t at = flow_distance(number, request->number);

        if (at >= 0 && at < (int32_t)request->as.recv.n) {
            return !request->as.recv.buffers[at].is_done;
        }
    }
    return false;
}

void flow_receive_final(const struct flow *flow, struct flow_final *out)
{
    int32_t n = flow_distance(flow->next_number, flow->base);

    out->base = flow->base;
    for (int32_t i = 0; i < n && i < (int32_t)FLOW_FINAL_MESSAGES; i++) {
        if (!is_open(flow, (flow->base + (uint32_t)i) & XFER_MESSAGE_MASK)) {
            out->complete[i / 8] |= (uint8_t)(1u << i % 8);
        }
    }
}

weft_status flow_receive_progress(struct flow *flow, struct flow_lane *lane)
{
    weft_status status = xfer_progress(lane->xfer);

    harvest(flow, lane);
    if (status == WEFT_OK) {
        tell(flow);
    }
    return status;
}

/* ---- what was lost ---- */

static bool is_before(const struct flow_lost *a, const struct flow_lost *b)
{
    if (a->request != b->request) {
        return flow_distance(a->request->number, b->request->number) < 0;
    }
    return a->buffer != b->buffer ? a->buffer < b->buffer : a->fragment < b->fragment;
}

static void add_lost(struct flow *flow, const struct flow_lost *lost)
{
    uint32_t at = flow->n_lost++;

    weft_check(at < WEFT_LENGTH(flow->lost));
    flow->has_all_asked = false;
    while (at > 0 && is_before(lost, &flow->lost[at - 1])) {
        flow->lost[at] = flow->lost[at - 1];
        at--;
    }
    flow->lost[at] = *lost;
}

/* Handles a piece that its lane did not complete. Messages of a group that have arrived count,
 * because the sender may know that they have. Fragments that have not arrived are requested
 * again. */
static void lose(struct flow *flow, const struct flow_piece *piece)
{
    size_t sizes[XFER_MULTI_MAX];
    uint32_t arrived = xfer_arrived(piece->xfer, sizes), n = 0;

    for (uint32_t i = 0; i < XFER_MULTI_MAX; i++) {
        struct flow_buffer *buffer = &piece->request->as.recv.buffers[i];

        if ((piece->buffers >> i & 1) == 0) {
            continue;
        }
        buffer->n_moving--;
        if ((arrived >> n & 1) != 0) {
            buffer->n_bytes += sizes[n];
            check_done(flow, piece->request, i);
        } else if (piece->fragment == 0 && piece->n_fragments >= buffer->n_fragments) {
            buffer->n_posted = 0;
            flow->has_all_asked = false;
        } else {
            add_lost(flow, &(struct flow_lost){.request = piece->request,
                                               .buffer = i,
                                               .fragment = piece->fragment,
                                               .n_fragments = piece->n_fragments});
        }
        n++;
    }
}

void flow_receive_stopped(struct flow *flow, struct flow_lane *lane)
{
    harvest(flow, lane);
    while (lane->pieces != NULL) {
        lose(flow, lane->pieces);
        flow_piece_give(flow, lane, NULL, lane->pieces);
    }
    flow->must_notify = true;
}

/* ---- asking ---- */

/* Returns the share of a lane, in 1/65536. A lane without a share stands in for the rails that a
 * direct lane lacks. If the pair lacks the share f of its rails, it gets f / (1 + f) of the data.
 * In a ring whose other cables are equally busy, both routes then finish at the same time. */
static uint32_t share_of(struct flow *flow, const struct flow_lane *lane)
{
    const struct flow_lane *lesser = flow_lesser_lane(flow);
    uint32_t lost, stand_in;

    if (lesser == NULL || lesser->share < FLOW_SHARE_WHOLE) {
        return lane->share;
    }
    lost = flow->n_rails_best - lesser->conn->n_rails;
    stand_in = FLOW_SHARE_WHOLE / (flow->n_rails_best + lost) * lost;
    if (lane->share == 0) {
        return stand_in;
    }
    return lane == lesser ? lane->share - stand_in : lane->share;
}

/* Returns the lane that is furthest behind its share, among those that are up and not in `full`, or
 * NULL. If no lane with a share is up, all have the same share. */
static struct flow_lane *pick_lane(struct flow *flow, uint32_t full)
{
    struct flow_lane *best = NULL;
    uint64_t best_share = 0;
    bool has_share = false;

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        has_share = has_share ||
                    (flow->lanes[i].state == FLOW_LANE_UP && flow->lanes[i].share > 0);
    }
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];
        uint64_t share = has_share ? share_of(flow, lane) : 1;

        if (lane->state == FLOW_LANE_UP && (full >> i & 1) == 0 && share > 0 &&
            (best == NULL || lane->dealt * best_share < best->dealt * share)) {
            best = lane;
            best_share = share;
        }
    }
    return best;
}

/* Returns the number of bytes of a buffer from `fragment` on, in at most `n` fragments. */
static size_t span(const struct flow_buffer *buffer, uint32_t fragment, uint32_t n)
{
    uint64_t begin = (uint64_t)fragment * FLOW_FRAGMENT_BYTES;
    uint64_t most = (uint64_t)n * FLOW_FRAGMENT_BYTES;

    return (size_t)(buffer->size - begin < most ? buffer->size - begin : most);
}

/* Posts [fragment, fragment + n) of every buffer in `buffers` as one group of the lane. Returns
 * WEFT_AGAIN if there is no room. */
static weft_status post(struct flow *flow, struct flow_lane *lane,
                        struct flow_request *request, uint32_t buffers, uint32_t fragment,
                        uint32_t n)
{
    void *data[XFER_MULTI_MAX];
    size_t sizes[XFER_MULTI_MAX];
    uint32_t tags[XFER_MULTI_MAX];
    const struct xfer_memory *memories[XFER_MULTI_MAX];
    struct xfer_hint hints[XFER_MULTI_MAX];
    struct xfer_request *moving = NULL;
    struct flow_piece *piece;
    uint32_t k = 0;
    weft_status status;

    for (uint32_t i = 0; i < request->as.recv.n; i++) {
        struct flow_buffer *buffer = &request->as.recv.buffers[i];

        if ((buffers >> i & 1) == 0) {
            continue;
        }
        sizes[k] = span(buffer, fragment, n);
        data[k] = sizes[k] == 0 ? buffer->data
                                : buffer->data + (size_t)fragment * FLOW_FRAGMENT_BYTES;
        tags[k] = buffer->tag;
        memories[k] = buffer->memory;
        hints[k++] =
            (struct xfer_hint){.message = (request->number + i) & XFER_MESSAGE_MASK,
                               .fragment = fragment,
                               .whole = (uint32_t)buffer->size,
                               .index = (uint8_t)i,
                               .n = (uint8_t)(request->as.recv.n - 1)};
    }
    if (flow->free_pieces == NULL) {
        return WEFT_AGAIN;
    }
    status = xfer_irecv(lane->xfer, k, data, sizes, tags, memories, hints, &moving);
    if (moving == NULL) {
        return status;
    }
    piece = flow_piece_take(flow, lane);
    piece->request = request;
    piece->xfer = moving;
    piece->buffers = buffers;
    piece->fragment = fragment;
    piece->n_fragments = n;
    for (uint32_t i = 0; i < request->as.recv.n; i++) {
        request->as.recv.buffers[i].n_moving += buffers >> i & 1;
    }
    for (uint32_t i = 0; i < k; i++) {
        lane->dealt += sizes[i];
    }
    return status;
}

/* Returns the buffers that a direct lane can take as one group: `first` and those after it of which
 * nothing has been requested. */
static uint32_t whole_group(const struct flow_request *request, uint32_t first)
{
    uint32_t buffers = 0;

    for (uint32_t i = first; i < request->as.recv.n; i++) {
        const struct flow_buffer *buffer = &request->as.recv.buffers[i];

        if (!buffer->is_done && buffer->n_posted == 0) {
            buffers |= 1u << i;
        }
    }
    return buffers;
}

/* Requests fragments of buffer i, from `fragment` on, at most `n` of them, on the lane that is
 * furthest behind its share and has room. A direct lane can take more buffers with it. Returns how
 * many fragments of buffer i are requested; 0 if no lane has room. */
static uint32_t ask(struct flow *flow, struct flow_request *request, uint32_t i,
                    uint32_t fragment, uint32_t n)
{
    struct flow_buffer *buffer = &request->as.recv.buffers[i];
    bool is_whole = fragment == 0 && n == buffer->n_fragments && buffer->n_posted == 0;
    uint32_t full = 0;
    struct flow_lane *lane;

    while ((lane = pick_lane(flow, full)) != NULL) {
        uint32_t buffers = 1u << i, n_now = lane->n_via > 0 ? 1 : n;
        weft_status status;

        if (is_whole && lane->n_via == 0) {
            buffers = whole_group(request, i);
            n_now = UINT32_MAX / 2;
        }
        status = post(flow, lane, request, buffers, fragment, n_now);
        if (status == WEFT_OK) {
            for (uint32_t k = i + 1; k < request->as.recv.n; k++) {
                if ((buffers >> k & 1) != 0) {
                    request->as.recv.buffers[k].n_posted =
                        request->as.recv.buffers[k].n_fragments;
                }
            }
            return n_now < n ? n_now : n;
        }
        if (status < 0) {
            io_task_wake(&lane->conn->task); /* the lane's progress handles the failure */
        }
        full |= 1u << lane->index;
    }
    return 0;
}

/* Requests the lost fragments of a buffer again. Returns false if there is no room for all. */
static bool ask_for_lost(struct flow *flow, struct flow_request *request, uint32_t i)
{
    uint32_t at = 0;

    while (at < flow->n_lost) {
        struct flow_lost *lost = &flow->lost[at];
        uint32_t n;

        if (lost->request != request || lost->buffer != i) {
            at++;
            continue;
        }
        n = ask(flow, request, i, lost->fragment, lost->n_fragments);
        if (n == 0) {
            return false;
        }
        lost->fragment += n;
        lost->n_fragments -= n;
        if (lost->n_fragments == 0) {
            flow->n_lost--;
            memmove(lost, lost + 1, (flow->n_lost - at) * sizeof(*lost));
        }
    }
    return true;
}

/* Requests everything that is missing of a request. Returns false if there is no room for all. */
static bool ask_for_request(struct flow *flow, struct flow_request *request)
{
    for (uint32_t i = 0; i < request->as.recv.n; i++) {
        struct flow_buffer *buffer = &request->as.recv.buffers[i];

        if (buffer->is_done) {
            continue;
        }
        if (flow->n_lost > 0 && !ask_for_lost(flow, request, i)) {
            return false;
        }
        while (buffer->n_posted < buffer->n_fragments) {
            uint32_t n = ask(flow, request, i, buffer->n_posted,
                             buffer->n_fragments - buffer->n_posted);

            if (n == 0) {
                return false;
            }
            buffer->n_posted += n;
        }
    }
    return true;
}

/* Requests data in the order of messages, because the sender can only send it in that order. In
 * another order, the few buffers of a relay could fill with requests that must wait. */
void flow_post(struct flow *flow)
{
    struct flow_request *request = flow->open;

    if (!flow->has_all_asked) {
        while (request != NULL && ask_for_request(flow, request)) {
            request = request->next;
        }
        flow->has_all_asked = request == NULL;
    }
    tell(flow);
}

weft_status flow_irecv(struct flow *flow, uint32_t n, void *const *data,
                       const size_t *sizes, const uint32_t *tags,
                       const struct xfer_memory *const *memories,
                       struct flow_request **out)
{
    struct flow_request *request;

    *out = NULL;
    weft_check(!flow->config.is_sender && !flow->is_closing);
    weft_check(n >= 1 && n <= XFER_MULTI_MAX);
    if (flow->error.status != WEFT_OK) {
        return flow->error.status;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (sizes[i] > XFER_SIZE_MAX) {
            return WEFT_ERR_LIMIT;
        }
    }
    if (flow->peer_closed || flow->n_receives == FLOW_RECEIVES ||
        flow_distance(flow->next_number + n, flow->base) > (int32_t)FLOW_MESSAGES) {
        return WEFT_AGAIN;
    }
    request = flow_request_take(flow, FLOW_RECV);
    flow->n_receives++;
    request->number = flow->next_number;
    request->as.recv.n = n;
    request->as.recv.n_missing = n;
    for (uint32_t i = 0; i < n; i++) {
        request->as.recv.buffers[i] =
            (struct flow_buffer){.data = data[i],
                                 .size = sizes[i],
                                 .memory = memories[i],
                                 .tag = tags[i],
                                 .n_fragments = n_fragments(sizes[i])};
    }
    flow->next_number = (flow->next_number + n) & XFER_MESSAGE_MASK;
    flow_open_append(flow, request);
    flow->has_all_asked = false;
    *out = request;
    flow_post(flow);
    return WEFT_OK;
}

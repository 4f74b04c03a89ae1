/* Making visible what a flow received: a READ through every NIC that may have brought it. */
#include "base/check.h"
#include "xfer/flow_private.h"

static uint32_t lanes_up(const struct flow *flow)
{
    uint32_t lanes = 0;

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        lanes |= flow->lanes[i].state == FLOW_LANE_UP ? 1u << i : 0;
    }
    return lanes;
}

/* Starts the READs that have room; forgets those whose lane is gone, to start anew. */
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
            io_task_wake(&flow->lanes[i].conn->task); /* it fails when it is looked at */
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

weft_status flow_iflush(struct flow *flow, const void *data, size_t n_bytes,
                        const struct xfer_memory *memory, struct flow_request **out)
{
    struct flow_request *request;

    *out = NULL;
    weft_check(!flow->config.is_sender && !flow->is_closing);
    if (flow->error.status != WEFT_OK || n_bytes == 0) {
        return flow->error.status;
    }
    request = flow_request_take(flow, FLOW_FLUSH);
    if (request == NULL) {
        return WEFT_AGAIN;
    }
    request->as.flush.data = data;
    request->as.flush.n_bytes = n_bytes;
    request->as.flush.memory = memory;
    request->as.flush.must_start = true;
    request->next = flow->flushes;
    flow->flushes = request;
    flow_flush_progress(flow);
    *out = request;
    return WEFT_OK;
}

#include "xfer/flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "xfer/flow_private.h"

#define FAILOVER_NS INT64_C(30000000000)
#define RELAY_BUFFERS 8

static weft_status check_config(const struct flow_config *config,
                                struct weft_error *error)
{
    bool ok = config->n_lanes >= 1 && config->n_lanes <= FLOW_LANES_MAX &&
              config->from != config->to;

    for (uint32_t i = 0; ok && i < config->n_lanes; i++) {
        ok = config->lanes[i].n_via <= FLOW_VIA_MAX && config->lanes[i].share <= 65536;
        for (uint32_t k = 0; ok && k < config->lanes[i].n_via; k++) {
            ok = config->lanes[i].via[k] <= UINT16_MAX;
        }
    }
    return ok ? WEFT_OK
              : weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_FLOW,
                          "%u lanes from rank %u to %u: a flow has two ranks and 1 to %u "
                          "lanes, each of at most %u relays and a share of at most 65536",
                          config->n_lanes, config->from, config->to, FLOW_LANES_MAX,
                          FLOW_VIA_MAX);
}

static void copy_config(struct flow *flow, const struct flow_config *config)
{
    flow->config = *config;
    if (flow->config.relay_buffers == 0) {
        flow->config.relay_buffers = RELAY_BUFFERS;
    }
    if (flow->config.hysteresis_ns == 0) {
        flow->config.hysteresis_ns = TIMER_HOLD_NS;
    }
    if (flow->config.failover_ns == 0) {
        flow->config.failover_ns = FAILOVER_NS;
    }
    for (uint32_t i = 0; i < config->n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        lane->index = (uint8_t)i;
        lane->share = config->lanes[i].share;
        lane->n_via = config->lanes[i].n_via;
        for (uint32_t k = 0; k < lane->n_via; k++) {
            lane->via[k] = (uint16_t)config->lanes[i].via[k];
        }
        memcpy(lane->handle, config->lanes[i].handle, sizeof(lane->handle));
        flow->config.lanes[i].via = NULL;
    }
}

static void open_pools(struct flow *flow)
{
    flow->n_requests =
        flow->config.is_sender ? FLOW_MESSAGES : FLOW_RECEIVES + FLOW_FLUSHES;
    flow->n_pieces = flow->config.is_sender ? XFER_REQUESTS_MAX : FLOW_PIECES;
    flow->requests = weft_calloc(flow->n_requests, sizeof(*flow->requests));
    flow->pieces = weft_calloc(flow->n_pieces, sizeof(*flow->pieces));
    for (uint32_t i = flow->n_requests; i-- > 0;) {
        flow->requests[i].next = flow->free;
        flow->free = &flow->requests[i];
    }
    for (uint32_t i = flow->n_pieces; i-- > 0;) {
        flow->pieces[i].next = flow->free_pieces;
        flow->free_pieces = &flow->pieces[i];
    }
    if (flow->config.is_sender) {
        flow->messages = weft_calloc(FLOW_MESSAGES, sizeof(*flow->messages));
    } else {
        flow->buffers = weft_calloc((size_t)flow->n_requests * XFER_MULTI_MAX,
                                    sizeof(*flow->buffers));
    }
}

weft_status flow_open(struct rdma *rdma, const struct flow_config *config,
                      struct io_task *task, struct flow **out, struct weft_error *error)
{
    struct flow *flow;
    weft_status status = check_config(config, error);

    *out = NULL;
    if (status != WEFT_OK) {
        return status;
    }
    flow = weft_calloc(1, sizeof(*flow));
    flow->rdma = rdma;
    flow->task = task;
    flow->opened_ns = io_now(rdma->env);
    copy_config(flow, config);
    open_pools(flow);
    status = flow_lanes_open(flow);
    if (status < 0) {
        if (error != NULL) {
            *error = flow->error;
        }
        flow_destroy(flow);
        return status;
    }
    *out = flow;
    return WEFT_OK;
}

void flow_destroy(struct flow *flow)
{
    if (flow == NULL) {
        return;
    }
    flow_flush_end(flow);
    for (uint32_t i = 0; i < FLOW_LANES_MAX; i++) {
        xfer_close(flow->lanes[i].xfer);
        conn_destroy(flow->lanes[i].conn);
        conn_destroy(flow->lanes[i].next);
        conn_destroy(flow->lanes[i].past);
        free(flow->lanes[i].no_way);
        free(flow->lanes[i].why);
    }
    conn_destroy(flow->trial);
    for (size_t i = 0; i < WEFT_LENGTH(flow->closing); i++) {
        conn_destroy(flow->closing[i]);
    }
    free(flow->requests);
    free(flow->buffers);
    free(flow->pieces);
    free(flow->messages);
    free(flow->left_out);
    free(flow);
}

/* Encodes this end's final state. A receiver first processes everything that has arrived. */
static void fill_final(struct flow *flow, uint8_t out[CONN_PURPOSE_BYTES])
{
    struct flow_final final = {.is_sender = flow->config.is_sender};

    if (!flow->config.is_sender) {
        for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
            flow_receive_take(flow, &flow->lanes[i]);
        }
        flow_receive_final(flow, &final);
    }
    flow_final_encode(&final, out);
}

void flow_close(struct flow *flow)
{
    const uint8_t *final = flow->own_final;

    if (flow->is_closing) {
        return;
    }
    fill_final(flow, flow->own_final);
    flow_flush_end(flow);
    flow_note_unconnected(flow);
    flow->is_closing = true;
    flow_retire(flow, flow->trial);
    flow->trial = NULL;
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->xfer != NULL) {
            flow_counters_keep(flow, lane->xfer);
        }
        xfer_close(lane->xfer);
        lane->xfer = NULL;
        lane->state = FLOW_LANE_IDLE;
        flow_retire_with(flow, lane->conn, final);
        flow_retire_with(flow, lane->next, final);
        flow_retire_with(flow, lane->past, final);
        lane->conn = NULL;
        lane->next = NULL;
        lane->past = NULL;
    }
}

const uint8_t *flow_final_state(const struct flow *flow)
{
    weft_check(flow->is_closing);
    return flow->own_final;
}

bool flow_is_closed(const struct flow *flow)
{
    bool closed = flow->is_closing;

    for (size_t i = 0; i < WEFT_LENGTH(flow->closing); i++) {
        closed = closed && flow->closing[i] == NULL;
    }
    return closed;
}

bool flow_owns(const struct flow *flow, const struct conn *conn)
{
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        if (flow->lanes[i].conn == conn || flow->lanes[i].next == conn ||
            flow->lanes[i].past == conn) {
            return true;
        }
    }
    for (size_t i = 0; i < WEFT_LENGTH(flow->closing); i++) {
        if (flow->closing[i] == conn) {
            return true;
        }
    }
    return flow->trial == conn;
}

struct flow *flow_of(const struct conn *conn)
{
    return conn->user;
}

uint32_t flow_peer(const struct flow *flow)
{
    return flow->config.is_sender ? flow->config.to : flow->config.from;
}

bool flow_is_sender(const struct flow *flow)
{
    return flow->config.is_sender;
}

void *flow_user(const struct flow *flow)
{
    return flow->config.user;
}

uint64_t flow_n_looks(const struct flow *flow)
{
    return flow->n_looks;
}

bool flow_is_up(const struct flow *flow)
{
    if (flow->peer_closed && flow->was_up) {
        return true; /* the peer was up before it closed, though some lanes may not be here */
    }
    return io_now(flow->rdma->env) >= flow_first_lanes_end(flow);
}

const struct weft_error *flow_error(const struct flow *flow)
{
    return &flow->error;
}

uint32_t flow_n_lanes(const struct flow *flow)
{
    return flow->config.n_lanes;
}

uint32_t flow_lane_via(const struct flow *flow, uint32_t lane, uint32_t *out,
                       uint32_t cap)
{
    weft_check(lane < flow->config.n_lanes);
    for (uint32_t i = 0; i < flow->lanes[lane].n_via && i < cap; i++) {
        out[i] = flow->lanes[lane].via[i];
    }
    return flow->lanes[lane].n_via;
}

const struct conn *flow_lane_conn(const struct flow *flow, uint32_t lane)
{
    weft_check(lane < flow->config.n_lanes);
    return flow->lanes[lane].state == FLOW_LANE_UP ? flow->lanes[lane].conn : NULL;
}

struct xfer_pace flow_lane_pace(const struct flow *flow, uint32_t lane, uint32_t rail)
{
    return xfer_pace_of(flow->lanes[lane].xfer, rail);
}

/* ---- memory ---- */

/* Returns true if memory must be registered on a device. With failover, these are all devices with
 * a GID on a port that the configuration does not exclude, because each may carry the flow later.
 * Without it, these are the devices that carry the flow, or the former while no lane is up. */
static bool is_wanted(const struct flow *flow, uint32_t device)
{
    bool none = true;

    if (flow->rdma->is_lost[device]) {
        return false;
    }
    for (uint32_t l = 0; l < flow->config.n_lanes && !flow->config.may_fail_over; l++) {
        const struct conn *conn = flow_lane_conn(flow, l);

        for (uint32_t r = 0; conn != NULL && r < conn->n_rails; r++) {
            none = false;
            if (conn->rails[r].port->device_index == device) {
                return true;
            }
        }
    }
    for (uint32_t p = 0; p < flow->rdma->n_ports && none; p++) {
        const struct rdma_port *port = &flow->rdma->ports[p];

        if (port->device_index == device && port->n_gids > 0 &&
            !conn_excludes(&flow->config.conn, device, port->port)) {
            return true;
        }
    }
    return false;
}

struct dmabuf {
    int fd;
    uint64_t offset;
};

/* Starts registering memory on each device that needs it. `dmabuf` is NULL for memory of the host,
 * and for other memory that is registered in the same way. */
static weft_status register_all(struct flow *flow, void *addr, size_t length,
                                const struct dmabuf *dmabuf, struct xfer_memory *out,
                                struct weft_error *error)
{
    /* The peer never gets access to memory that is only sent. */
    int access =
        flow->config.is_sender ? 0 : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

    weft_check(length > 0);
    *out = (struct xfer_memory){.addr = addr, .length = length};
    for (uint32_t d = 0; d < flow->rdma->env->n_devices && d < XFER_DEVICES_MAX; d++) {
        weft_status status;

        if (!is_wanted(flow, d)) {
            continue;
        }
        status = dmabuf == NULL ? rdma_mr_get(flow->rdma->mrs, d, addr, length, access,
                                              flow->task, &out->mrs[d], error)
                                : rdma_mr_get_dmabuf(flow->rdma->mrs, d, addr, length,
                                                     access, dmabuf->fd, dmabuf->offset,
                                                     flow->task, &out->mrs[d], error);
        if (status != WEFT_OK) {
            flow_deregister(flow, out);
            return status;
        }
        out->n = d + 1;
    }
    return WEFT_OK;
}

weft_status flow_register(struct flow *flow, void *addr, size_t length,
                          struct xfer_memory *out, struct weft_error *error)
{
    return register_all(flow, addr, length, NULL, out, error);
}

weft_status flow_register_dmabuf(struct flow *flow, void *addr, size_t length, int fd,
                                 uint64_t offset, struct xfer_memory *out,
                                 struct weft_error *error)
{
    const struct dmabuf dmabuf = {.fd = fd, .offset = offset};
    weft_status status = register_all(flow, addr, length, &dmabuf, out, error);

    out->is_gpu = status == WEFT_OK;
    return status;
}

weft_status flow_register_progress(struct flow *flow, struct xfer_memory *memory,
                                   struct weft_error *error)
{
    weft_status result = WEFT_OK;

    for (uint32_t d = 0; d < memory->n; d++) {
        weft_status status =
            memory->mrs[d].entry == NULL || flow->rdma->is_lost[d]
                ? WEFT_OK
                : rdma_mr_progress(flow->rdma->mrs, &memory->mrs[d], error);

        if (status < 0) {
            return status;
        }
        result = status == WEFT_AGAIN ? WEFT_AGAIN : result;
    }
    return result;
}

void flow_deregister(struct flow *flow, struct xfer_memory *memory)
{
    for (uint32_t d = 0; d < memory->n; d++) {
        if (memory->mrs[d].entry != NULL) {
            rdma_mr_put(flow->rdma->mrs, &memory->mrs[d]);
        }
    }
    *memory = (struct xfer_memory){0};
}

void flow_invalidate(struct flow *flow, const void *addr, size_t length)
{
    rdma_mr_invalidate(flow->rdma->mrs, addr, length);
}

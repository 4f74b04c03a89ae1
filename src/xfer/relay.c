#include "xfer/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "io/gpu.h"
#include "rdma/timers.h"
#include "xfer/attempt.h"
#include "xfer/suspects.h"
#include "xfer/wire.h"

enum relay_lane_state {
    RELAY_LANE_WAITING, /* waits for a port to the next member, all of which are down */
    RELAY_LANE_CONNECTING, /* waits until the connection out is up; `in` has no answer */
    RELAY_LANE_ANSWERED,   /* waits until the connection in is up */
    RELAY_LANE_UP,         /* forwards messages */
    RELAY_LANE_CLOSING     /* waits until both connections are closed or failed */
};

enum relay_slot_state {
    RELAY_SLOT_FREE,   /* waits for a clear-to-send */
    RELAY_SLOT_POSTED, /* waits for the sender's message */
    RELAY_SLOT_FULL,   /* waits for a free request of `to` */
    RELAY_SLOT_SENDING /* waits for the completion of the send */
};

/* One buffer of a lane. */
struct relay_slot {
    enum relay_slot_state state;
    struct xfer_cts grant;       /* the next member's clear-to-send for this message */
    size_t n_bytes;              /* size of the message; valid when FULL or SENDING */
    struct xfer_request *moving; /* the receive (POSTED) or the send (SENDING) */
};

/* One lane that the relay forwards. */
struct relay_lane {
    struct relay_lane *next;
    const struct relay_config *config; /* Not owned; the relay's */
    struct suspects *suspects;         /* Not owned; the relay's */
    enum relay_lane_state state;
    struct flow_purpose purpose;
    uint32_t member;        /* the next member */
    struct conn *in, *out;  /* Owned; `out` is NULL until the lane connects */
    struct xfer *from, *to; /* Owned; messages arrive by `from` and leave by `to` */
    uint64_t memory;        /* bytes reserved for buffers */
    uint8_t *buffers;       /* Owned: n_slots x fragment_bytes */
    struct xfer_memory in_memory, out_memory;
    bool is_registered;
    struct relay_slot slots[XFER_SLOTS];
    uint32_t n_slots;
    struct xfer_cursor seen; /* position behind the last grant that has a buffer */
    uint32_t notice;         /* last notice that was forwarded, if has_notice */
    bool has_notice;
    weft_ns wait_ns;              /* deadline of WAITING */
    weft_ns beat_ns;              /* time of the next xfer_beat() */
    uint64_t n_messages, n_bytes; /* forwarded since the relay last added them up */
    struct weft_error error;      /* the failure as it is sent to both neighbours */
    struct weft_error cause;      /* the failure as this relay detected it */
    uint32_t lost;                /* member at the other end of what failed */
};

static void lost(struct relay_lane *lane, const struct conn *conn,
                 const struct weft_error *why);
static void relay_lane_fail(struct relay_lane *lane);
static void relay_lane_refuse(struct relay_lane *lane, weft_status status,
                              const char *reason, uint32_t member, const char *text);

/* Forwards one lane. Each clear-to-send of the next member that finds a free buffer is sent on to
 * the sender, with that buffer instead of the receiver's. So only data that can leave again
 * enters, and no lane waits for another. */

static struct io_env *env_of(const struct relay_lane *lane)
{
    return lane->in->rdma->env;
}

static void enter(struct relay_lane *lane, enum relay_lane_state next)
{
    weft_check(next == lane->state + 1 || next == RELAY_LANE_CLOSING ||
               (next == RELAY_LANE_WAITING && lane->state == RELAY_LANE_CONNECTING));
    lane->state = next;
}

/* ---- a lane: starting ---- */

/* Lowers the limits of the connection out according to `purpose`. The sender is then answered
 * before its own attempt times out, and can try another route. From the second epoch on, a member
 * that does not listen is not waited for, because it has listened before. */
static void limit_attempt(struct conn_config *onwards, const struct flow_purpose *purpose)
{
    bool is_first = purpose->epoch == 1;
    weft_ns address = timer_limit(TIMER_ADDRESS_NS, onwards->patience);

    attempt_lower(&onwards->authenticate_ns, address);
    attempt_lower(&onwards->patience_ns, is_first ? address : 0);
    attempt_lower(&onwards->total_ns, attempt_ns(onwards, is_first, purpose->n_hops));
    /* The cable can be the one whose failure ended the epoch before. */
    onwards->management_first = !is_first;
}

static void exclude_lost(const struct rdma *rdma, struct conn_config *config)
{
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        if (rdma->is_lost[rdma->ports[i].device_index]) {
            suspects_exclude(config, rdma->ports[i].device_index, rdma->ports[i].port);
        }
    }
}

/* Returns the configuration of the connection out. It excludes the ports that are suspected or, if
 * no port to the next member would be left, only those that are down. Ports of lost devices are
 * always excluded. */
static struct conn_config onward_config(const struct relay_lane *lane,
                                        const uint8_t *handle)
{
    const struct relay_config *config = lane->config;
    struct conn_config onwards = config->conn;
    struct flow_purpose purpose = lane->purpose;

    purpose.kind =
        purpose.n_hops > (config->names_all ? 1 : 0) ? FLOW_FORWARD : FLOW_DELIVER;
    if (purpose.n_hops > 0) {
        purpose.n_hops--;
        memmove(purpose.hops, purpose.hops + 1, purpose.n_hops * sizeof(*purpose.hops));
    }
    flow_purpose_encode(&purpose, onwards.purpose);
    onwards.wants_answer = true;
    limit_attempt(&onwards, &purpose);
    if (io_now(env_of(lane)) - lane->suspects->blamed_ns >= TIMER_RELAY_SUSPECT_NS) {
        suspects_acquit_unproved(lane->suspects);
    }
    exclude_lost(lane->in->rdma, &onwards);
    suspects_exclude_all(lane->suspects, &onwards);
    if (!conn_faces(lane->in->rdma, &onwards, handle)) {
        onwards.n_excluded = config->conn.n_excluded;
        exclude_lost(lane->in->rdma, &onwards);
        suspects_exclude_down(lane->suspects, &onwards);
    }
    return onwards;
}

/* Starts to wait for a port to the next member. Records in `cause` that it is down, which the relay
 * reports if the lane does not come up. */
static void wait_for_port(struct relay_lane *lane, const struct conn_facing *facing)
{
    char ip[IO_IP_TEXT_BYTES];

    weft_error_clear(&lane->cause);
    weft_fail(&lane->cause, WEFT_ERR_CLOSED, WEFT_PHASE_PORT, "%s is down",
              facing->port->name);
    weft_error_text(&lane->cause, WEFT_VALUE_LOCAL_PORT, facing->port->name);
    weft_error_text(&lane->cause, WEFT_VALUE_LOCAL_GID,
                    io_ip_format(&facing->local, ip, sizeof(ip)));
    weft_error_text(&lane->cause, WEFT_VALUE_REMOTE_GID,
                    io_ip_format(&facing->remote, ip, sizeof(ip)));
    lane->lost = lane->member;
    lane->wait_ns = io_now(env_of(lane)) + TIMER_RELAY_WAIT_NS;
    io_task_wake(&lane->in->task);
}

static void fail_device(struct weft_error *why, const struct io_device *device)
{
    weft_fail_errno(why, EIO, WEFT_PHASE_DEVICE, "%s is gone", device->name);
}

/* Ends the lane because every device that leads to the next member is lost. */
static void lose_device(struct relay_lane *lane, const struct conn_facing *facing)
{
    struct weft_error why = {0};

    fail_device(&why, facing->port->device);
    weft_error_text(&why, WEFT_VALUE_LOCAL_PORT, facing->port->name);
    lost(lane, NULL, &why);
}

/* Connects to the next member, or waits while every port that leads to it is down. */
static void relay_lane_start(struct relay_lane *lane)
{
    const struct relay_config *config = lane->config;
    const uint8_t *handle = config->handle_of(config->context, lane->member);
    struct conn_config onwards, left = config->conn;
    struct conn_facing facing;

    weft_check(lane->state == RELAY_LANE_WAITING);
    exclude_lost(lane->in->rdma, &left);
    if (handle == NULL) {
        relay_lane_refuse(lane, WEFT_ERR_ROUTE, "host", lane->member,
                          "it does not know the next member");
        return;
    }
    onwards = onward_config(lane, handle);
    if (!conn_faces(lane->in->rdma, &onwards, handle) &&
        conn_find_facing(lane->in->rdma, &config->conn, handle, &facing)) {
        if (conn_find_facing(lane->in->rdma, &left, handle, &facing)) {
            wait_for_port(lane, &facing);
        } else {
            lose_device(lane, &facing);
        }
        return;
    }
    if (conn_connect(lane->in->rdma, &onwards, handle, config->task_kind, &lane->out,
                     &lane->error) != WEFT_OK) {
        lane->cause = lane->error;
        lane->lost = lane->member;
        relay_lane_fail(lane);
        return;
    }
    weft_error_clear(&lane->cause);
    enter(lane, RELAY_LANE_CONNECTING);
}

/* Handles a port that went down or came up. Connects a lane that waits. Starts the connection out
 * again if the next member has not authenticated this end yet. */
static void relay_lane_restart(struct relay_lane *lane)
{
    if (lane->state == RELAY_LANE_CONNECTING && lane->out->state <= CONN_CHALLENGE) {
        /* The next member has not learned of this lane, so that its epoch can be used again. */
        conn_destroy(lane->out);
        lane->out = NULL;
        enter(lane, RELAY_LANE_WAITING);
    }
    if (lane->state == RELAY_LANE_WAITING) {
        relay_lane_start(lane);
    }
}

/* ---- a lane: ending ---- */

/* Starts to close both connections. If a neighbour sent CLOSE, its final state goes to the
 * other. */
static void end(struct relay_lane *lane)
{
    xfer_close(lane->from);
    xfer_close(lane->to);
    lane->from = NULL;
    lane->to = NULL;
    enter(lane, RELAY_LANE_CLOSING);
    if (lane->out != NULL && lane->out->peer_closed) {
        conn_close_with(lane->in, lane->out->peer_final);
    } else {
        conn_close(lane->in);
    }
    if (lane->out != NULL && lane->in->peer_closed) {
        conn_close_with(lane->out, lane->in->peer_final);
    } else if (lane->out != NULL) {
        conn_close(lane->out);
    }
}

/* Ends the lane with lane->error, which is sent to both neighbours. */
static void relay_lane_fail(struct relay_lane *lane)
{
    weft_check(lane->error.status < 0);
    if (lane->state == RELAY_LANE_CLOSING) {
        return;
    }
    conn_refuse(lane->in, &lane->error);
    if (lane->out != NULL) {
        conn_refuse(lane->out, &lane->error);
    }
    end(lane);
}

/* Ends a lane that is not up. The phase of the ABORT, such as "relay.memory.3", names the reason
 * and a member: the one that refuses or the one that is unknown. `text` explains the reason. */
static void relay_lane_refuse(struct relay_lane *lane, weft_status status,
                              const char *reason, uint32_t member, const char *text)
{
    weft_fail(&lane->error, status, WEFT_PHASE_RELAY, "%s", text);
    weft_format(lane->error.phase_detail, sizeof(lane->error.phase_detail), "%s.%u",
                reason, member);
    relay_lane_fail(lane);
}

/* Closes the lane in order. */
static void relay_lane_close(struct relay_lane *lane)
{
    if (lane->state != RELAY_LANE_CLOSING) {
        end(lane);
    }
}

/* Returns true if a connection of the lane can come up later, over the same ports or over others.
 * The conditions are those of a flow's direct lane. */
static bool may_come_back(const struct relay_lane *lane, const struct conn *conn,
                          const struct weft_error *why)
{
    bool is_unheard = why->phase == WEFT_PHASE_TCP &&
                      (why->sys_errno == ETIMEDOUT || why->sys_errno == EHOSTUNREACH);

    return why->phase == WEFT_PHASE_PORT || is_unheard ||
           suspects_wait_for_port(lane->suspects, conn->rdma, conn, why) ||
           (conn->n_rails > 1 && (suspects_accused(conn->rdma, why) != NULL ||
                                  weft_error_value(why, WEFT_VALUE_PEER_PHASE) != NULL));
}

/* Returns true if the process at the other end of `conn` stood still for the whole set-up. Its
 * kernel acknowledged what was sent to it. */
static bool stood_still(const struct relay_lane *lane, const struct conn *conn,
                        const struct weft_error *why)
{
    weft_ns now = io_now(env_of(lane));
    weft_ns limit = timer_limit(TIMER_STILL_NS, conn->config.patience);
    weft_ns still = conn_still_ns(conn);

    return why->status == WEFT_ERR_TIMEOUT && now - conn->started_ns >= limit &&
           still != 0 && now - still < TIMER_BEAT_NS;
}

/* Returns the reason to be sent in the ABORT: "gone", "dead", "still", "again", "port", "refused"
 * or "lost". */
static const char *reason_of(const struct relay_lane *lane, const struct conn *conn,
                             const struct weft_error *why)
{
    /* A stream that ends without ABORT or CLOSE shows that a process has ended. During set-up it
     * does not, because the connector may have dialled again. */
    bool was_up = lane->state == RELAY_LANE_UP ||
                  (lane->state == RELAY_LANE_ANSWERED && conn == lane->out);
    bool is_dead = why->sys_errno == ECONNREFUSED ||
                   (was_up && why->phase == WEFT_PHASE_STREAM &&
                    (why->sys_errno == 0 || why->sys_errno == ECONNRESET ||
                     why->sys_errno == EPIPE));

    if (conn == NULL && why->phase == WEFT_PHASE_DEVICE) {
        return "gone";
    }
    if (is_dead) {
        return "dead";
    }
    if (conn != NULL && stood_still(lane, conn, why)) {
        return "still";
    }
    if (conn_path_is_judged(why)) {
        return "again"; /* a later attempt can succeed, with the same or a lower path MTU */
    }
    if (may_come_back(lane, conn, why)) {
        return "port";
    }
    return conn_is_refused(why) ? "refused" : "lost";
}

/* Adds the port of this host that a failure of the connection out blames to the suspects, which
 * later connections exclude. */
static void suspect(const struct relay_lane *lane, const struct weft_error *why)
{
    const struct rdma_port *port = suspects_blamed(lane->in->rdma, lane->out, why);

    if (port != NULL) {
        suspects_add(lane->suspects, port->device_index, port->port, false);
        lane->suspects->blamed_ns = io_now(env_of(lane));
    }
}

/* Ends the lane because its connection `conn` ended, or because it has no port to the next member
 * (NULL). An orderly CLOSE closes the lane in order. For a failure both neighbours get a reason:
 * that of another relay unchanged, otherwise this relay's with the member at the other end of
 * `conn`. */
static void lost(struct relay_lane *lane, const struct conn *conn,
                 const struct weft_error *why)
{
    const struct weft_value *phase = weft_error_value(why, WEFT_VALUE_PEER_PHASE);
    const struct weft_value *reason = weft_error_value(why, WEFT_VALUE_PEER_REASON);
    bool is_of_relay = phase != NULL && strncmp(phase->text, "relay.", 6) == 0;
    uint32_t member = conn == lane->in ? lane->purpose.from : lane->member;
    char text[WEFT_PHASE_TEXT_BYTES];

    if (why->phase == WEFT_PHASE_PEER && phase == NULL) {
        relay_lane_close(lane);
        return;
    }
    if (is_of_relay) {
        weft_format(text, sizeof(text), "%s", phase->text);
    } else {
        weft_format(text, sizeof(text), "relay.%s.%u", reason_of(lane, conn, why),
                    member);
    }
    if (conn != NULL && conn == lane->out) {
        suspect(lane, why);
    }
    lane->cause = *why;
    lane->lost = member;
    lane->error = *why;
    weft_error_set_phase(&lane->error, text);
    if (is_of_relay && reason != NULL) {
        weft_format(lane->error.message, sizeof(lane->error.message), "%s", reason->text);
    }
    relay_lane_fail(lane);
}

/* Returns true if a connection should end because a port that it uses went down. A connection with
 * another rail ends, because the next epoch can use that. One without another rail depends on the
 * retransmissions of its queue pairs. It ends only if the lane is not up and the port is still
 * down, because a new set-up then takes less time than one that waits. */
static bool has_another_port(const struct relay_lane *lane, const struct conn *conn,
                             uint32_t device, uint8_t port)
{
    return conn->n_rails > 1 ||
           (lane->state < RELAY_LANE_UP && !suspects_is_active(conn->rdma, device, port));
}

/* Handles a port that went down, or whose device is lost (`is_lost`). For each connection that uses
 * the port, ends the lane with `why` if the device is lost, if the connection has another rail, or
 * if the lane is not up and the port is still down. Otherwise probes the queue pairs of `to` at
 * once if the lane is up. */
static void relay_lane_port_down(struct relay_lane *lane, uint32_t device, uint8_t port,
                                 bool is_lost, const struct weft_error *why)
{
    struct conn *conns[] = {lane->in, lane->out};

    for (size_t i = 0; i < WEFT_LENGTH(conns) && lane->state < RELAY_LANE_CLOSING; i++) {
        const struct conn_rail *rail = suspects_rail(conns[i], device, port);
        struct weft_error named = *why;

        if (rail != NULL && (is_lost || has_another_port(lane, conns[i], device, port))) {
            suspects_name_rail(&named, conns[i], rail);
            lost(lane, conns[i], &named);
        } else if (rail != NULL && lane->state == RELAY_LANE_UP &&
                   conns[i] == lane->out) {
            xfer_beat_now(lane->to);
            io_task_wake(&lane->out->task);
        }
    }
}

static bool free_buffers(struct relay_lane *lane)
{
    struct io_gpu *gpu = env_of(lane)->gpu;
    struct rdma_mr_cache *mrs = lane->in->rdma->mrs;

    for (uint32_t d = 0; d < XFER_DEVICES_MAX; d++) {
        if (lane->in_memory.mrs[d].entry != NULL) {
            rdma_mr_put(mrs, &lane->in_memory.mrs[d]);
        }
        if (lane->out_memory.mrs[d].entry != NULL) {
            rdma_mr_put(mrs, &lane->out_memory.mrs[d]);
        }
    }
    if (lane->buffers != NULL) {
        rdma_mr_invalidate(mrs, lane->buffers, lane->memory);
        gpu->ops->free(gpu, lane->buffers);
        lane->buffers = NULL;
    }
    return true;
}

static bool has_stopped(struct relay_lane *lane)
{
    bool in = conn_progress(lane->in) != WEFT_AGAIN;
    bool out = lane->out == NULL || conn_progress(lane->out) != WEFT_AGAIN;

    return in && out;
}

static void relay_lane_destroy(struct relay_lane *lane)
{
    xfer_close(lane->from);
    xfer_close(lane->to);
    free_buffers(lane);
    conn_destroy(lane->in);
    conn_destroy(lane->out);
    free(lane);
}

/* ---- a lane: coming up ---- */

static weft_status open_buffers(struct relay_lane *lane)
{
    struct io_gpu *gpu = env_of(lane)->gpu;
    void *memory = NULL;
    int result = gpu->ops->alloc(gpu, IO_MEMORY_HOST, (size_t)lane->memory, &memory);
    weft_status status;

    if (result != 0) {
        return weft_fail_errno(&lane->error, result, WEFT_PHASE_RELAY,
                               "%llu bytes of host memory",
                               (unsigned long long)lane->memory);
    }
    lane->buffers = memory;
    status = xfer_register(lane->from, memory, (size_t)lane->memory, &lane->in_memory,
                           &lane->error);
    if (status == WEFT_OK) {
        status = xfer_register(lane->to, memory, (size_t)lane->memory, &lane->out_memory,
                               &lane->error);
    }
    return status;
}

static weft_status finish_buffers(struct relay_lane *lane)
{
    weft_status in = xfer_register_progress(lane->from, &lane->in_memory, &lane->error);
    weft_status out =
        in < 0 ? in : xfer_register_progress(lane->to, &lane->out_memory, &lane->error);

    lane->is_registered = in == WEFT_OK && out == WEFT_OK;
    return out < 0 ? out : WEFT_OK;
}

/* Opens the transfers and allocates the buffers, once both connections are up. */
static weft_status come_up(struct relay_lane *lane)
{
    weft_status status = xfer_open(lane->in, &lane->from, &lane->error);

    if (status == WEFT_OK) {
        status = xfer_open(lane->out, &lane->to, &lane->error);
    }
    if (status == WEFT_OK) {
        status = open_buffers(lane);
    }
    if (status == WEFT_OK) {
        enter(lane, RELAY_LANE_UP);
    }
    return status;
}

/* ---- a lane: forwarding ---- */

static uint8_t *buffer_of(const struct relay_lane *lane, const struct relay_slot *slot)
{
    return lane->buffers + (size_t)(slot - lane->slots) * lane->purpose.fragment_bytes;
}

static struct relay_slot *free_slot(struct relay_lane *lane)
{
    for (uint32_t i = 0; i < lane->n_slots; i++) {
        if (lane->slots[i].state == RELAY_SLOT_FREE) {
            return &lane->slots[i];
        }
    }
    return NULL;
}

/* Sends the next member's clear-to-sends on to the sender, in order, each with a free buffer of
 * this lane. */
static weft_status repeat_grants(struct relay_lane *lane)
{
    struct relay_slot *slot;

    while ((slot = free_slot(lane)) != NULL) {
        struct xfer_cursor before = lane->seen;
        const struct xfer_cts *grant = xfer_next_grant(lane->to, &lane->seen);
        const struct xfer_memory *memory = &lane->in_memory;
        void *data = buffer_of(lane, slot);
        weft_status status;
        size_t size;

        if (grant == NULL) {
            return WEFT_OK;
        }
        if (grant->size > lane->purpose.fragment_bytes) {
            return weft_fail(&lane->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_RELAY,
                             "a clear-to-send of %llu bytes, buffers have %u",
                             (unsigned long long)grant->size,
                             lane->purpose.fragment_bytes);
        }
        size = (size_t)grant->size;
        slot->grant = *grant;
        status = xfer_irecv(lane->from, 1, &data, &size, &grant->tag, &memory,
                            &grant->hint, &slot->moving);
        if (status == WEFT_AGAIN) {
            lane->seen = before;
            return WEFT_OK;
        }
        if (status != WEFT_OK) {
            return status;
        }
        slot->state = RELAY_SLOT_POSTED;
    }
    return WEFT_OK;
}

/* Advances one buffer by one state. Returns WEFT_AGAIN if it must wait or has become free. */
static weft_status move(struct relay_lane *lane, struct relay_slot *slot)
{
    weft_status status = WEFT_AGAIN;

    switch (slot->state) {
    case RELAY_SLOT_POSTED:
        status = xfer_test(lane->from, slot->moving, &slot->n_bytes);
        slot->state = status == WEFT_OK ? RELAY_SLOT_FULL : slot->state;
        break;
    case RELAY_SLOT_FULL:
        status = xfer_isend(lane->to, &slot->grant, buffer_of(lane, slot), slot->n_bytes,
                            &lane->out_memory, &slot->moving);
        slot->state = status == WEFT_OK ? RELAY_SLOT_SENDING : slot->state;
        break;
    case RELAY_SLOT_SENDING:
        status = xfer_test(lane->to, slot->moving, NULL);
        if (status == WEFT_OK) {
            lane->n_messages++;
            lane->n_bytes += slot->n_bytes;
            slot->state = RELAY_SLOT_FREE;
            return WEFT_AGAIN;
        }
        break;
    case RELAY_SLOT_FREE:
        break;
    }
    return status;
}

static weft_status pass_notice(struct relay_lane *lane)
{
    uint32_t number;

    if (!xfer_notice(lane->to, &number) || (lane->has_notice && number == lane->notice)) {
        return WEFT_OK;
    }
    lane->has_notice = true;
    lane->notice = number;
    return xfer_notify(lane->from, number);
}

static weft_status forward(struct relay_lane *lane)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < lane->n_slots && status == WEFT_OK; i++) {
        while (status == WEFT_OK) {
            status = move(lane, &lane->slots[i]);
        }
        status = status == WEFT_AGAIN ? WEFT_OK : status;
    }
    if (status == WEFT_OK) {
        status = repeat_grants(lane);
    }
    return status == WEFT_OK ? pass_notice(lane) : status;
}

/* ---- a lane: progress ---- */

/* Ends the lane because data cannot be forwarded. The reason is the failure of a transfer or
 * lane->error. */
static void lost_transfer(struct relay_lane *lane)
{
    bool is_in = xfer_error(lane->from)->status != WEFT_OK;
    struct weft_error why = lane->error;

    if (why.status == WEFT_OK) {
        why = *xfer_error(is_in ? lane->from : lane->to);
    }
    lost(lane, is_in ? lane->in : lane->out, &why);
}

static weft_status progress_transfers(struct relay_lane *lane)
{
    weft_status status = xfer_progress(lane->from);

    if (status < 0) {
        lost(lane, lane->in, xfer_error(lane->from));
        return status;
    }
    status = xfer_progress(lane->to);
    if (status < 0) {
        lost(lane, lane->out, xfer_error(lane->to));
        return status;
    }
    if (!lane->is_registered) {
        status = finish_buffers(lane);
    }
    if (status == WEFT_OK && lane->is_registered) {
        status = forward(lane);
    }
    if (status < 0) {
        lost_transfer(lane);
    }
    return status;
}

/* Probes quiet queue pairs of the connection out, because the next member's report that it has
 * ended can be lost with the cable. Ends the lane if a rail is stalled. */
static void beat(struct relay_lane *lane)
{
    weft_ns now = io_now(env_of(lane));
    const struct conn_rail *rail;
    struct weft_error why = {0};

    if (now >= lane->beat_ns) {
        lane->beat_ns = now + TIMER_BEAT_NS;
        if (xfer_beat(lane->to) != WEFT_OK) {
            io_task_wake(&lane->out->task); /* the next progress ends the lane */
        } else if ((rail = xfer_stalled(lane->to, &why)) != NULL) {
            suspects_name_rail(&why, lane->out, rail);
            lost(lane, lane->out, &why);
            return;
        }
    }
    io_task_deadline(&lane->out->task, lane->beat_ns);
}

/* Ends the lane with reason "port", after which the sender can try again, if no port came up before
 * the deadline. */
static void progress_waiting(struct relay_lane *lane)
{
    struct weft_error why = lane->cause;

    if (io_now(env_of(lane)) >= lane->wait_ns) {
        lost(lane, NULL, &why);
    } else {
        io_task_deadline(&lane->in->task, lane->wait_ns);
    }
}

/* Does what is possible now. Returns true once the lane is closed and can be destroyed. */
static bool relay_lane_progress(struct relay_lane *lane)
{
    if (lane->state == RELAY_LANE_CLOSING) {
        return has_stopped(lane);
    }
    if (conn_progress(lane->in) < 0) {
        lost(lane, lane->in, &lane->in->error);
        return false;
    }
    if (lane->state == RELAY_LANE_WAITING) {
        progress_waiting(lane);
        return false;
    }
    if (conn_progress(lane->out) < 0) {
        /* A receiver can close as soon as it is up, when the sender is not up yet. The lane is then
         * closed only after the connection in is up. */
        if (lane->state != RELAY_LANE_ANSWERED || !lane->out->peer_closed ||
            lane->in->state == CONN_UP) {
            lost(lane, lane->out, &lane->out->error);
        }
        return false;
    }
    if (lane->state == RELAY_LANE_CONNECTING && lane->out->state == CONN_UP) {
        if (lane->in->peer.wants_answer) {
            conn_answer(lane->in, lane->out->answer);
        }
        enter(lane, RELAY_LANE_ANSWERED);
    }
    if (lane->state == RELAY_LANE_ANSWERED && lane->in->state == CONN_UP) {
        weft_status status = come_up(lane);

        if (status < 0) {
            struct weft_error why = lane->error;

            lost(lane, lane->from == NULL ? lane->in : lane->out, &why);
            return false;
        }
    }
    if (lane->state == RELAY_LANE_UP && progress_transfers(lane) == WEFT_OK) {
        beat(lane);
    }
    return false;
}

#define MEMORY_MAX (UINT64_C(256) << 20)
#define LANES_MAX 1024

struct relay {
    struct rdma *rdma;
    struct relay_config config;
    struct io_task *task;     /* Not owned. */
    struct relay_lane *lanes; /* Owned, the newest first */
    bool is_closing;
    struct suspects suspects;
    struct relay_trouble {
        struct weft_error why; /* status is WEFT_OK if there is none */
        uint32_t member, from, to;
    } trouble;
    struct relay_counters counters;
};

weft_status relay_open(struct rdma *rdma, const struct relay_config *config,
                       struct io_task *task, struct relay **out, struct weft_error *error)
{
    struct relay *relay;

    *out = NULL;
    if (config->handle_of == NULL) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_RELAY,
                         "no way to find members");
    }
    relay = weft_calloc(1, sizeof(*relay));
    relay->rdma = rdma;
    relay->config = *config;
    relay->task = task;
    if (relay->config.memory_max == 0) {
        relay->config.memory_max = MEMORY_MAX;
    }
    if (relay->config.lanes_max == 0) {
        relay->config.lanes_max = LANES_MAX;
    }
    *out = relay;
    return WEFT_OK;
}

/* ---- failures of lanes ---- */

/* Returns true if a neighbour ended the lane, which can be a consequence of an earlier failure at
 * this relay. */
static bool is_consequence(const struct relay_lane *lane)
{
    const struct weft_error *why = &lane->cause;
    enum weft_phase there = weft_error_peer_phase(why);
    bool is_stream = why->phase == WEFT_PHASE_TCP || why->phase == WEFT_PHASE_STREAM;

    if (there != WEFT_PHASE_NONE) {
        return lane->lost != lane->member ||
               (there != WEFT_PHASE_CONNECT_QPS && there != WEFT_PHASE_RTR &&
                there != WEFT_PHASE_PROBE);
    }
    return why->phase == WEFT_PHASE_PEER || why->phase == WEFT_PHASE_EPOCH ||
           (is_stream && why->sys_errno != ETIMEDOUT);
}

/* Returns true if the recorded failure is that of a port which is up again, and the lane's failure
 * is not a consequence of it. The connection out, if any, must have been started after a port last
 * went down. */
static bool is_over(const struct relay *relay, const struct relay_lane *lane)
{
    const struct relay_trouble *trouble = &relay->trouble;
    const struct conn *out = lane->out;

    return !is_consequence(lane) &&
           (out == NULL || out->started_ns > relay->suspects.flapped_ns) &&
           suspects_is_back(relay->rdma, lane->member == trouble->member ? out : NULL,
                            &trouble->why);
}

/* Returns true if the cause of the lane's end is at the next member or beyond it. */
static bool is_hearsay(const struct relay_lane *lane)
{
    return lane->cause.phase == WEFT_PHASE_PEER ||
           lane->cause.phase == WEFT_PHASE_EPOCH ||
           (lane->lost == lane->member && lane->member != lane->purpose.to &&
            flow_failed_beyond(&lane->cause));
}

static void note_trouble(struct relay *relay, const struct relay_lane *lane)
{
    struct relay_trouble *trouble = &relay->trouble;
    bool is_news = is_hearsay(lane);

    if (lane->cause.status == WEFT_OK) {
        return;
    }
    if (is_over(relay, lane)) {
        weft_error_clear(&trouble->why);
    }
    if (is_news || trouble->why.status != WEFT_OK) {
        return;
    }
    *trouble = (struct relay_trouble){.why = lane->cause,
                                      .member = lane->lost,
                                      .from = lane->purpose.from,
                                      .to = lane->purpose.to};
    weft_error_int(&trouble->why, WEFT_VALUE_FROM, trouble->from);
    weft_error_int(&trouble->why, WEFT_VALUE_TO, trouble->to);
}

static void forget_trouble(struct relay *relay, const struct relay_lane *lane)
{
    if (relay->trouble.from == lane->purpose.from &&
        relay->trouble.to == lane->purpose.to) {
        weft_error_clear(&relay->trouble.why);
    }
}

const struct weft_error *relay_trouble(const struct relay *relay, uint32_t *member)
{
    *member = relay->trouble.member;
    return relay->trouble.why.status == WEFT_OK ? NULL : &relay->trouble.why;
}

/* ---- admission ---- */

static void refuse(struct relay *relay, struct relay_lane *lane, weft_status status,
                   const char *reason, uint32_t member, const char *text)
{
    relay->counters.refused++;
    relay_lane_refuse(lane, status, reason, member, text);
}

/* Returns true if `old` is an earlier epoch of `lane`. */
static bool is_earlier(const struct relay_lane *old, const struct relay_lane *lane)
{
    return old != lane && old->purpose.from == lane->purpose.from &&
           old->purpose.to == lane->purpose.to &&
           old->purpose.lane == lane->purpose.lane &&
           old->purpose.epoch < lane->purpose.epoch;
}

/* Ends the earlier epochs of a lane, because the sender connects again before this relay has
 * detected that they failed. */
static void replace(struct relay *relay, const struct relay_lane *lane)
{
    for (struct relay_lane *old = relay->lanes; old != NULL; old = old->next) {
        if (old->state < RELAY_LANE_CLOSING && is_earlier(old, lane)) {
            weft_fail(&old->error, WEFT_ERR_CLOSED, WEFT_PHASE_EPOCH,
                      "the sender connects again");
            relay_lane_fail(old);
        }
    }
}

/* Starts a lane, which can fail at once, or waits if no port to its next member is up. */
static void start(struct relay *relay, struct relay_lane *lane)
{
    relay_lane_start(lane);
    if (lane->state != RELAY_LANE_CONNECTING) {
        note_trouble(relay, lane);
    }
}

/* Returns the newest earlier epoch of a lane that has buffers, or NULL. It ends, and what it holds
 * until it has ended does not count against its successor. */
static const struct relay_lane *predecessor(const struct relay *relay,
                                            const struct relay_lane *lane)
{
    const struct relay_lane *old = relay->lanes;

    while (old != NULL && (!is_earlier(old, lane) || old->memory == 0)) {
        old = old->next;
    }
    return old;
}

/* Returns the number of buffers of a lane if the others hold `held` bytes. Half of the memory is
 * given as it is requested. A lane that exceeds that half has at least one buffer, with which it
 * forwards too, so that the other half is enough for many lanes. */
static uint32_t slots_of(const struct relay *relay, const struct relay_lane *lane,
                         uint64_t held)
{
    uint64_t half = relay->config.memory_max / 2;
    uint64_t n = held < half ? (half - held) / lane->purpose.fragment_bytes : 0;

    n = n == 0 ? 1 : n;
    return n < lane->n_slots ? (uint32_t)n : lane->n_slots;
}

static void admit(struct relay *relay, struct relay_lane *lane, uint32_t self)
{
    const struct flow_purpose *purpose = &lane->purpose;
    uint32_t member = purpose->n_hops > 0 ? purpose->hops[0] : purpose->to;
    const uint8_t *handle = relay->config.handle_of(relay->config.context, member);
    const struct relay_lane *old = predecessor(relay, lane);
    uint32_t n_lanes = relay->counters.lanes - (old != NULL);
    uint64_t held = relay->counters.memory - (old != NULL ? old->memory : 0);
    uint64_t memory;
    char text[96];

    lane->n_slots = slots_of(relay, lane, held);
    memory = (uint64_t)lane->n_slots * purpose->fragment_bytes;
    replace(relay, lane);
    if (relay->config.names_all && purpose->n_hops == 0) {
        refuse(relay, lane, WEFT_ERR_ROUTE, "host", self, "the route ends at the relay");
    } else if (n_lanes > relay->config.lanes_max) {
        weft_format(text, sizeof(text), "it forwards %u of at most %u lanes", n_lanes - 1,
                    relay->config.lanes_max);
        refuse(relay, lane, WEFT_ERR_LIMIT, "lanes", self, text);
    } else if (held + memory > relay->config.memory_max) {
        weft_format(text, sizeof(text),
                    "its lanes (%u) hold %llu of %llu KiB, this needs %llu", n_lanes - 1,
                    (unsigned long long)held >> 10,
                    (unsigned long long)relay->config.memory_max >> 10,
                    (unsigned long long)memory >> 10);
        refuse(relay, lane, WEFT_ERR_LIMIT, "memory", self, text);
    } else if (handle == NULL) {
        weft_format(text, sizeof(text), "it does not know member %u", member);
        refuse(relay, lane, WEFT_ERR_ROUTE, "host", member, text);
    } else {
        lane->member = member;
        lane->memory = memory;
        relay->counters.memory += memory;
        if (relay->counters.memory > relay->counters.memory_peak) {
            relay->counters.memory_peak = relay->counters.memory;
        }
        start(relay, lane);
    }
}

bool relay_accept(struct relay *relay, struct conn *conn)
{
    struct flow_purpose purpose;
    struct relay_lane *lane;

    if (!flow_purpose_decode(conn->peer.purpose, &purpose) ||
        purpose.kind != FLOW_FORWARD) {
        return false;
    }
    lane = weft_calloc(1, sizeof(*lane));
    lane->config = &relay->config;
    lane->suspects = &relay->suspects;
    lane->in = conn;
    lane->purpose = purpose;
    lane->n_slots =
        purpose.relay_buffers < XFER_SLOTS ? purpose.relay_buffers : XFER_SLOTS;
    lane->next = relay->lanes;
    relay->lanes = lane;
    relay->counters.lanes++;
    if (relay->counters.lanes > relay->counters.lanes_peak) {
        relay->counters.lanes_peak = relay->counters.lanes;
    }
    if (relay->is_closing) {
        refuse(relay, lane, WEFT_ERR_CLOSED, "closing", relay->config.member,
               "it is closing");
    } else {
        admit(relay, lane, relay->config.member);
    }
    io_task_wake(&conn->task);
    return true;
}

bool relay_owns(const struct relay *relay, const struct conn *conn)
{
    for (const struct relay_lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        if (lane->in == conn || lane->out == conn) {
            return true;
        }
    }
    return false;
}

/* ---- progress ---- */

/* Advances a lane and updates the counters. Returns false if the lane can be destroyed. */
static bool look(struct relay *relay, struct relay_lane *lane)
{
    bool was_up = lane->state == RELAY_LANE_UP;
    bool was_alive = lane->state < RELAY_LANE_CLOSING;
    bool is_gone = relay_lane_progress(lane);

    if (!was_up && lane->state == RELAY_LANE_UP) {
        forget_trouble(relay, lane);
    }
    if (was_alive && lane->state >= RELAY_LANE_CLOSING) {
        note_trouble(relay, lane);
    }
    if (was_alive && lane->state >= RELAY_LANE_CLOSING && lane->error.status != WEFT_OK) {
        relay->counters.failed++;
    }
    relay->counters.messages += lane->n_messages;
    relay->counters.bytes += lane->n_bytes;
    lane->n_messages = 0;
    lane->n_bytes = 0;
    return !is_gone;
}

static void look_at(struct relay *relay, const struct conn *only)
{
    struct relay_lane **at = &relay->lanes;

    while (*at != NULL) {
        struct relay_lane *lane = *at;

        if (only != NULL && lane->in != only && lane->out != only) {
            at = &lane->next;
        } else if (look(relay, lane)) {
            at = &lane->next;
        } else {
            *at = lane->next;
            relay->counters.memory -= lane->memory;
            relay->counters.lanes--;
            relay_lane_destroy(lane);
        }
    }
}

void relay_progress(struct relay *relay)
{
    look_at(relay, NULL);
}

void relay_conn_progress(struct relay *relay, const struct conn *conn)
{
    look_at(relay, conn);
}

/* ---- ports ---- */

static void ports_down(struct relay *relay, uint32_t device, uint8_t port, bool is_lost,
                       const struct weft_error *why)
{
    for (struct relay_lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        bool was_alive = lane->state < RELAY_LANE_CLOSING;

        relay_lane_port_down(lane, device, port, is_lost, why);
        if (was_alive && lane->state == RELAY_LANE_CLOSING) {
            relay->counters.failed++;
            note_trouble(relay, lane);
            io_task_wake(&lane->in->task);
        }
    }
}

static void port_event(struct relay *relay, uint32_t device, uint8_t port, bool is_up)
{
    struct suspects *suspects = &relay->suspects;
    struct weft_error why = {0};

    for (uint32_t i = suspects->n; is_up && i-- > 0;) {
        if (suspects->list[i].device == device && suspects->list[i].port == port) {
            suspects_acquit(suspects, i);
        }
    }
    if (!is_up) {
        suspects->flapped_ns = io_now(relay->rdma->env);
        suspects_add(suspects, device, port, true);
        weft_fail(&why, WEFT_ERR_CLOSED, WEFT_PHASE_PORT, "device %u port %u went down",
                  device, port);
        ports_down(relay, device, port, false, &why);
    }
    for (struct relay_lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        relay_lane_restart(lane);
        if (lane->state == RELAY_LANE_WAITING) {
            note_trouble(relay, lane);
        }
    }
}

static void device_lost(struct relay *relay, uint32_t device)
{
    const struct rdma *rdma = relay->rdma;
    struct weft_error why = {0};

    fail_device(&why, rdma->env->devices[device]);
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        if (rdma->ports[i].device_index == device) {
            ports_down(relay, device, rdma->ports[i].port, true, &why);
        }
    }
}

void relay_device_event(struct relay *relay, uint32_t device,
                        const struct io_async_event *event)
{
    if (relay->is_closing) {
        return;
    }
    if (event->type == IBV_EVENT_DEVICE_FATAL) {
        device_lost(relay, device);
    } else if (event->type == IBV_EVENT_PORT_ACTIVE ||
               event->type == IBV_EVENT_PORT_ERR) {
        port_event(relay, device, event->port, event->type == IBV_EVENT_PORT_ACTIVE);
    }
}

/* ---- the end ---- */

void relay_close(struct relay *relay)
{
    relay->is_closing = true;
    for (struct relay_lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        relay_lane_close(lane);
    }
}

bool relay_is_closed(const struct relay *relay)
{
    return relay->is_closing && relay->lanes == NULL;
}

void relay_destroy(struct relay *relay)
{
    if (relay == NULL) {
        return;
    }
    while (relay->lanes != NULL) {
        struct relay_lane *lane = relay->lanes;

        relay->lanes = lane->next;
        relay_lane_destroy(lane);
    }
    free(relay);
}

static bool has_data(const struct relay_lane *lane)
{
    bool any = false;

    for (uint32_t i = 0; i < lane->n_slots; i++) {
        enum relay_slot_state state = lane->slots[i].state;

        any = any || state == RELAY_SLOT_FULL || state == RELAY_SLOT_SENDING;
    }
    return any;
}

static bool awaits_next(const struct relay_lane *lane)
{
    switch (lane->state) {
    case RELAY_LANE_WAITING:
    case RELAY_LANE_CONNECTING:
        return true;
    case RELAY_LANE_UP:
        return has_data(lane);
    case RELAY_LANE_ANSWERED: /* the member before it has to connect, or both have to close */
    case RELAY_LANE_CLOSING:
        break;
    }
    return false;
}

void relay_awaited(const struct relay *relay, void (*add)(void *context, uint32_t member),
                   void *context)
{
    for (const struct relay_lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        if (awaits_next(lane)) {
            add(context, lane->member);
        }
    }
}

void relay_counters(const struct relay *relay, struct relay_counters *out)
{
    *out = relay->counters;
}

/* Forwards one lane. Each clear-to-send of the next member that finds a free buffer is sent on to
 * the sender, with that buffer instead of the receiver's. So only data that can leave again enters,
 * and no lane waits for another. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "xfer/attempt.h"
#include "xfer/relay_private.h"

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

/* ---- starting ---- */

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

/* Returns the configuration of the connection out. It excludes the ports that are suspected or, if
 * no port to the next member would be left, only those that are down. */
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
    suspects_exclude_all(lane->suspects, &onwards);
    if (!conn_faces(lane->in->rdma, &onwards, handle)) {
        onwards.n_excluded = config->conn.n_excluded;
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

void relay_lane_start(struct relay_lane *lane)
{
    const struct relay_config *config = lane->config;
    const uint8_t *handle = config->handle_of(config->context, lane->member);
    struct conn_config onwards;
    struct conn_facing facing;

    weft_check(lane->state == RELAY_LANE_WAITING);
    if (handle == NULL) {
        relay_lane_refuse(lane, WEFT_ERR_ROUTE, "host", lane->member,
                          "it does not know the next member");
        return;
    }
    onwards = onward_config(lane, handle);
    if (!conn_faces(lane->in->rdma, &onwards, handle) &&
        conn_find_facing(lane->in->rdma, &config->conn, handle, &facing)) {
        wait_for_port(lane, &facing);
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

void relay_lane_restart(struct relay_lane *lane)
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

/* ---- ending ---- */

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

void relay_lane_fail(struct relay_lane *lane)
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

void relay_lane_refuse(struct relay_lane *lane, weft_status status, const char *reason,
                       uint32_t member, const char *text)
{
    weft_fail(&lane->error, status, WEFT_PHASE_RELAY, "%s", text);
    weft_format(lane->error.phase_detail, sizeof(lane->error.phase_detail), "%s.%u",
                reason, member);
    relay_lane_fail(lane);
}

void relay_lane_close(struct relay_lane *lane)
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

/* Returns the reason to be sent in the ABORT: "dead", "again", "port" or "lost". */
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

    if (is_dead) {
        return "dead";
    }
    if (conn_path_is_judged(why)) {
        return "again"; /* a later attempt can succeed, with the same or a lower path MTU */
    }
    return may_come_back(lane, conn, why) ? "port" : "lost";
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

/* Ends the lane because its connection `conn` ended, or because the deadline of WAITING passed
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

void relay_lane_port_down(struct relay_lane *lane, uint32_t device, uint8_t port,
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

static bool is_over(struct relay_lane *lane)
{
    bool in = conn_progress(lane->in) != WEFT_AGAIN;
    bool out = lane->out == NULL || conn_progress(lane->out) != WEFT_AGAIN;

    return in && out;
}

void relay_lane_destroy(struct relay_lane *lane)
{
    xfer_close(lane->from);
    xfer_close(lane->to);
    free_buffers(lane);
    conn_destroy(lane->in);
    conn_destroy(lane->out);
    free(lane);
}

/* ---- coming up ---- */

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

/* ---- forwarding ---- */

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

/* ---- progress ---- */

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

bool relay_lane_progress(struct relay_lane *lane)
{
    if (lane->state == RELAY_LANE_CLOSING) {
        return is_over(lane);
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

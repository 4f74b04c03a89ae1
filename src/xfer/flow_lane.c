/* Manages the lanes of a flow and their connections, one epoch after the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "xfer/flow_private.h"

static struct io_env *env_of(const struct flow *flow)
{
    return flow->rdma->env;
}

/* ---- connections that are over ---- */

static void keep_closing(struct flow *flow, struct conn *conn)
{
    size_t i = 0;

    while (i + 1 < WEFT_LENGTH(flow->closing) && flow->closing[i] != NULL) {
        i++;
    }
    conn_destroy(flow->closing[i]);
    flow->closing[i] = conn;
}

void flow_retire(struct flow *flow, struct conn *conn)
{
    if (conn != NULL) {
        conn_close(conn);
        keep_closing(flow, conn);
    }
}

void flow_retire_with(struct flow *flow, struct conn *conn,
                      const uint8_t final[CONN_PURPOSE_BYTES])
{
    if (conn != NULL) {
        conn_close_with(conn, final);
        keep_closing(flow, conn);
    }
}

static void fail_replaced(struct weft_error *why)
{
    weft_fail(why, WEFT_ERR_CLOSED, WEFT_PHASE_EPOCH,
              "another connection takes its place");
}

/* Aborts a connection that the flow does not use, because CLOSE would mean that the flow ends. */
static void retire_unused(struct flow *flow, struct conn *conn)
{
    struct weft_error why = {0};

    if (conn != NULL) {
        fail_replaced(&why);
        conn_refuse(conn, &why);
        flow_retire(flow, conn);
    }
}

void flow_retire_next(struct flow *flow, struct flow_lane *lane)
{
    retire_unused(flow, lane->next);
    lane->next = NULL;
    lane->is_leaving = false;
}

static void retire_past(struct flow *flow, struct flow_lane *lane)
{
    retire_unused(flow, lane->past);
    lane->past = NULL;
}

static void progress_closing(struct flow *flow)
{
    for (size_t i = 0; i < WEFT_LENGTH(flow->closing); i++) {
        if (flow->closing[i] != NULL && conn_progress(flow->closing[i]) != WEFT_AGAIN) {
            conn_destroy(flow->closing[i]);
            flow->closing[i] = NULL;
        }
    }
}

/* ---- starting ---- */

/* Returns an epoch that is newer than all that the lane has had. */
static uint32_t next_epoch(const struct flow_lane *lane)
{
    return (lane->next_epoch > lane->epoch ? lane->next_epoch : lane->epoch) + 1;
}

void flow_fill_purpose(const struct flow *flow, const struct flow_lane *lane,
                       enum flow_purpose_kind kind, uint32_t epoch,
                       uint8_t out[CONN_PURPOSE_BYTES])
{
    struct flow_purpose purpose = {
        .kind = kind,
        .lane = lane->index,
        .from = flow->config.from,
        .to = flow->config.to,
        .epoch = epoch,
        .share = lane->share,
        .fragment_bytes = FLOW_FRAGMENT_BYTES,
        .relay_buffers = (uint16_t)(flow->config.relay_buffers < UINT16_MAX
                                        ? flow->config.relay_buffers
                                        : UINT16_MAX),
    };

    /* The first relay is the acceptor, so the hops are the relays after it. */
    for (uint32_t i = 1; i < lane->n_via; i++) {
        purpose.hops[purpose.n_hops++] = lane->via[i];
    }
    flow_purpose_encode(&purpose, out);
}

/* Updates the route of a relayed lane that connects again. Returns WEFT_AGAIN if there is no route
 * now; the lane then stays down for TIMER_REROUTE_NS. */
static weft_status find_way(struct flow *flow, struct flow_lane *lane)
{
    uint8_t handle[CONN_HANDLE_BYTES];
    uint32_t via[FLOW_VIA_MAX], n_via;

    if (lane->n_via == 0 || lane->epoch == 0 || flow->config.reroute == NULL) {
        return WEFT_OK;
    }
    if (flow->config.reroute(flow->config.user, lane->index, handle, via, &n_via) !=
        WEFT_OK) {
        lane->retry_ns = io_now(env_of(flow)) + TIMER_REROUTE_NS;
        return WEFT_AGAIN;
    }
    weft_check(n_via > 0 && n_via <= FLOW_VIA_MAX);
    memcpy(lane->handle, handle, sizeof(lane->handle));
    lane->n_via = n_via;
    for (uint32_t i = 0; i < n_via; i++) {
        lane->via[i] = (uint16_t)via[i];
    }
    flow_outage_turn(lane);
    return WEFT_OK;
}

weft_status flow_start_lane(struct flow *flow, struct flow_lane *lane)
{
    struct conn_config config = flow->config.conn;
    struct weft_error error = {0};
    weft_status status = find_way(flow, lane);

    if (status != WEFT_OK) {
        return status;
    }
    flow_retire(flow, lane->conn);
    lane->conn = NULL;
    flow_retire_next(flow, lane);
    lane->epoch = next_epoch(lane);
    flow_fill_purpose(flow, lane, lane->n_via > 0 ? FLOW_FORWARD : FLOW_DELIVER,
                      lane->epoch, config.purpose);
    flow_failover_config(flow, lane, &config);
    config.wants_answer = true;
    status = conn_connect(flow->rdma, &config, lane->handle, flow->config.task_kind,
                          &lane->conn, &error);
    if (status != WEFT_OK) {
        return flow_give_up(flow, &error);
    }
    lane->conn->user = flow;
    lane->state = FLOW_LANE_CONNECTING;
    return WEFT_OK;
}

weft_status flow_lanes_open(struct flow *flow)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < flow->config.n_lanes && status == WEFT_OK; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (flow->config.is_sender && (lane->share > 0 || flow->config.n_lanes == 1)) {
            status = flow_start_lane(flow, lane);
        }
    }
    return status;
}

static void answer(struct flow *flow, struct conn *conn, uint32_t epoch)
{
    struct flow_answer answer = {.epoch = epoch, .base = flow->base};
    uint8_t bytes[CONN_PURPOSE_BYTES];

    flow_answer_encode(&answer, bytes);
    if (conn->peer.wants_answer) {
        conn_answer(conn, bytes);
    }
    io_task_wake(&conn->task);
}

/* Replaces the lane's connection by `next`, which waited until the lane had stopped. */
static void take_next(struct flow *flow, struct flow_lane *lane)
{
    flow_retire(flow, lane->conn);
    lane->conn = lane->next;
    lane->next = NULL;
    lane->is_leaving = false;
    lane->epoch = lane->next_epoch;
    lane->state = FLOW_LANE_CONNECTING;
    if (!flow->config.is_sender && !lane->next_is_answered) {
        answer(flow, lane->conn, lane->epoch);
    }
    io_task_wake(&lane->conn->task);
}

/* Returns true if `conn` is another attempt at the connection `before`. The connector's stream
 * ended before this end's facts arrived, so that it connected again. */
static bool is_next_attempt(const struct conn *before, const struct conn *conn)
{
    return before != NULL && before->id == conn->id;
}

/* Returns true if `conn`, with epoch `epoch`, is newer than each connection of the lane. */
static bool is_news(const struct flow_lane *lane, const struct conn *conn, uint32_t epoch)
{
    if (lane->next != NULL && epoch <= lane->next_epoch) {
        return epoch == lane->next_epoch && is_next_attempt(lane->next, conn);
    }
    return epoch > lane->epoch ||
           (epoch == lane->epoch && is_next_attempt(lane->conn, conn));
}

bool flow_accept(struct flow *flow, struct conn *conn)
{
    struct flow_purpose purpose;
    struct flow_lane *lane;
    struct weft_error replaced = {0};

    if (flow->config.is_sender || flow->is_closing || flow->peer_closed ||
        flow->error.status != WEFT_OK ||
        !flow_purpose_decode(conn->peer.purpose, &purpose) ||
        purpose.kind == FLOW_FORWARD || purpose.from != flow->config.from ||
        purpose.to != flow->config.to || purpose.lane >= flow->config.n_lanes ||
        purpose.fragment_bytes != FLOW_FRAGMENT_BYTES) {
        return false;
    }
    conn->config.kept = flow->config.conn.kept;
    if (purpose.kind == FLOW_TRIAL) {
        flow_retire(flow, flow->trial);
        conn->user = flow;
        flow->trial = conn;
        answer(flow, conn, purpose.epoch);
        return true;
    }
    lane = &flow->lanes[purpose.lane];
    if (!is_news(lane, conn, purpose.epoch)) {
        return false;
    }
    flow_retire_next(flow, lane);
    conn->user = flow;
    lane->next = conn;
    lane->next_epoch = purpose.epoch;
    lane->next_is_answered = purpose.kind == FLOW_REPLACE && lane->state == FLOW_LANE_UP;
    if (lane->next_is_answered) {
        answer(flow, conn, purpose.epoch);
        return true;
    }
    if (lane->state == FLOW_LANE_UP || lane->state == FLOW_LANE_CONNECTING) {
        weft_fail(&replaced, WEFT_ERR_CLOSED, WEFT_PHASE_EPOCH,
                  "the sender connects again");
        flow_lane_fail(flow, lane, &replaced);
    }
    if (lane->state != FLOW_LANE_STOPPING) {
        take_next(flow, lane);
    }
    return true;
}

/* ---- going down ---- */

/* Replaces an error whose peer_phase is like "relay.memory.3" by one that names the relay (3) and
 * its reason ("memory"). The values of the connection to the first relay are dropped, because they
 * say nothing about that. */
static void name_relay(struct weft_error *error)
{
    const struct weft_value *phase = weft_error_value(error, WEFT_VALUE_PEER_PHASE);
    const struct weft_value *text = weft_error_value(error, WEFT_VALUE_PEER_REASON);
    struct weft_error named = {.sys_errno = error->sys_errno};
    char reason[24];
    size_t length;

    if (phase == NULL || strncmp(phase->text, "relay.", 6) != 0) {
        return;
    }
    weft_format(reason, sizeof(reason), "%s", phase->text + 6);
    length = strcspn(reason, ".");
    if (reason[length] != '\0') {
        weft_error_int(&named, WEFT_VALUE_RELAY, strtol(reason + length + 1, NULL, 10));
        reason[length] = '\0';
    }
    weft_error_text(&named, WEFT_VALUE_REASON, reason);
    weft_fail(&named, WEFT_ERR_ROUTE, WEFT_PHASE_RELAY, "a relay gives up: %s%s%s",
              reason, text == NULL ? "" : ": ", text == NULL ? "" : text->text);
    weft_error_object(&named, "%s", error->object);
    *error = named;
}

/* Restarts a receiver's other relayed lanes after a lane lost pieces. The receiver requests the
 * lost pieces again, and they are older than what it has requested on the other lanes. Behind that
 * they could wait forever, because a relay has few buffers. */
static void restart_relayed(struct flow *flow, const struct flow_lane *failed)
{
    struct weft_error why = {0};

    if (flow->config.is_sender || failed->pieces == NULL) {
        return;
    }
    weft_fail(&why, WEFT_ERR_CLOSED, WEFT_PHASE_EPOCH, "another lane failed");
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->state == FLOW_LANE_UP && lane->n_via > 0) {
            flow_lane_fail(flow, lane, &why);
        }
    }
}

static void end_conn(struct flow *flow, struct flow_lane *lane,
                     const struct weft_error *why)
{
    conn_refuse(lane->conn, why);
    if (lane->xfer != NULL) {
        lane->state = FLOW_LANE_STOPPING;
        lane->stop_ns = io_now(env_of(flow)) + TIMER_DRAIN_NS;
        io_task_wake(&lane->conn->task);
    } else {
        lane->state = FLOW_LANE_DOWN;
    }
}

/* Handles that nothing moves on the lane any more: counts what completed, and frees the xfer. */
static void lane_stopped(struct flow *flow, struct flow_lane *lane)
{
    if (flow->config.is_sender) {
        flow_send_stopped(flow, lane);
    } else {
        flow_receive_stopped(flow, lane);
    }
    flow_counters_keep(flow, lane->xfer);
    xfer_close(lane->xfer);
    lane->xfer = NULL;
    lane->state = FLOW_LANE_DOWN;
}

/* Ends the use of a lane's present connection, which `next` replaces. `is_at_rest` is true if both
 * ends have agreed that nothing moves on it; otherwise its queues flush. */
static void lane_leave(struct flow *flow, struct flow_lane *lane, bool is_at_rest)
{
    struct weft_error why = {0};

    lane->is_returning = lane->must_return || lane->next->n_rails > lane->conn->n_rails;
    lane->must_return = false;
    restart_relayed(flow, lane);
    if (is_at_rest) {
        weft_check(!flow->config.is_sender || lane->pieces == NULL);
        lane_stopped(flow, lane);
        if (flow->config.is_sender) {
            retire_unused(flow, lane->conn);
        } else {
            retire_past(flow, lane);
            lane->past = lane->conn;
            lane->past_ns = io_now(env_of(flow)) + TIMER_DRAIN_NS;
        }
        lane->conn = NULL;
    } else {
        fail_replaced(&why);
        end_conn(flow, lane, &why);
    }
}

bool flow_failed_beyond(const struct weft_error *why)
{
    return why->status == WEFT_ERR_TIMEOUT && why->phase == WEFT_PHASE_META &&
           why->sys_errno == 0;
}

/* Adds the member at the other end of a relayed lane's connection to a sender's error, unless a
 * relay reports about another member. */
static void name_next_hop(const struct flow *flow, const struct flow_lane *lane,
                          struct weft_error *error)
{
    if (flow->config.is_sender && lane->n_via > 0 && error->phase != WEFT_PHASE_RELAY) {
        weft_error_int(error, WEFT_VALUE_NEXT_HOP, lane->via[0]);
    }
}

void flow_lane_fail(struct flow *flow, struct flow_lane *lane,
                    const struct weft_error *why)
{
    struct weft_error named = *why;

    name_relay(&named);
    name_next_hop(flow, lane, &named);
    flow->last_failure = named;
    lane->must_return = false;
    end_conn(flow, lane, why);
    if (flow->config.may_fail_over) {
        flow_failed(flow, lane, &named);
        restart_relayed(flow, lane);
    } else {
        flow_give_up(flow, &named);
    }
}

/* ---- replacement ---- */

/* Replaces the connection of a direct lane that is up, without a pause. It does so if rails were
 * dropped, or if a trial has shown that there can be more. The sender connects with the next epoch
 * (FLOW_REPLACE) while the present connection goes on. When the new connection is up, the sender
 * starts nothing more on the present one. It waits for what is in progress, and hands over. */

static void trace_lane(const struct flow *flow, const char *what,
                       const struct flow_lane *lane)
{
    struct io_env *env = flow->rdma->env;
    char object[32];

    weft_format(object, sizeof(object), "flow:%u>%u", flow->config.from, flow->config.to);
    weft_trace_event(env->trace, io_now(env), env->name, object, what,
                     "epoch=%u rails=%u dropped=%#x", lane->epoch, lane->conn->n_rails,
                     lane->xfer == NULL ? 0 : xfer_dropped(lane->xfer));
}

bool flow_drop_rail(struct flow *flow, struct flow_lane *lane,
                    const struct conn_rail *rail)
{
    if (lane->state != FLOW_LANE_UP || lane->n_via > 0 || flow->is_closing ||
        flow->config.conn.policy != WEFT_POLICY_WEFT ||
        xfer_drop_rail(lane->xfer, (uint32_t)(rail - lane->conn->rails)) != WEFT_OK) {
        return false;
    }
    trace_lane(flow, "rail_dropped", lane);
    lane->retry_ns = io_now(env_of(flow));
    return true;
}

static bool wants_another(const struct flow *flow, const struct flow_lane *lane)
{
    return flow->config.is_sender && lane->state == FLOW_LANE_UP && lane->next == NULL &&
           (lane->must_return || xfer_dropped(lane->xfer) != 0);
}

weft_ns flow_replace_at(const struct flow *flow, const struct flow_lane *lane)
{
    weft_ns at = lane->past != NULL ? lane->past_ns : WEFT_NEVER;

    if (wants_another(flow, lane) && lane->retry_ns < at) {
        at = lane->retry_ns;
    }
    if (lane->state == FLOW_LANE_UP && lane->next != NULL && lane->is_leaving &&
        lane->leave_ns < at) {
        at = lane->leave_ns;
    }
    return at;
}

/* Makes progress with `past`. */
static void progress_past(struct flow *flow, struct flow_lane *lane)
{
    if (lane->past != NULL &&
        (conn_progress(lane->past) < 0 || io_now(env_of(flow)) >= lane->past_ns)) {
        retire_past(flow, lane);
    }
}

static void connect_next(struct flow *flow, struct flow_lane *lane)
{
    struct conn_config config = flow->config.conn;
    struct weft_error error = {0};

    lane->next_epoch = next_epoch(lane);
    flow_fill_purpose(flow, lane, FLOW_REPLACE, lane->next_epoch, config.purpose);
    flow_failover_config(flow, lane, &config);
    config.wants_answer = true;
    if (conn_connect(flow->rdma, &config, lane->handle, flow->config.task_kind,
                     &lane->next, &error) != WEFT_OK) {
        lane->next = NULL;
        lane->retry_ns = io_now(env_of(flow)) + TIMER_RETRY_NS;
        return;
    }
    lane->next->user = flow;
}

static void next_failed(struct flow *flow, struct flow_lane *lane)
{
    flow->last_failure = lane->next->error;
    flow_retire_next(flow, lane);
    lane->tries++;
    lane->retry_ns = io_now(env_of(flow)) +
                     flow_doubled(TIMER_RETRY_FIRST_NS, lane->tries, TIMER_RETRY_NS);
    if (lane->must_return) {
        lane->must_return = false; /* another trial must succeed first */
        flow->n_trials++;
        flow->trial_ns = flow_trial_at(flow);
    }
}

/* Returns true if a port is down whose rail the lane has not dropped. */
static bool rests_on_down_port(const struct flow *flow, const struct flow_lane *lane)
{
    for (uint32_t i = 0; i < flow->suspects.n; i++) {
        const struct suspect *suspect = &flow->suspects.list[i];
        const struct conn_rail *rail =
            suspects_rail(lane->conn, suspect->device, suspect->port);

        if (suspect->is_down && rail != NULL &&
            (xfer_dropped(lane->xfer) >> (rail - lane->conn->rails) & 1) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_handed_over(struct flow *flow, struct flow_lane *lane)
{
    if (!flow->config.is_sender) {
        return xfer_is_handed_over(lane->xfer);
    }
    return lane->pieces == NULL && xfer_hand_over(lane->xfer) == WEFT_OK;
}

/* Sender: connects a replacement if the lane needs one. Both ends: makes progress with `next`, and
 * hands over to it. The lane must be UP. */
static void progress_replacement(struct flow *flow, struct flow_lane *lane)
{
    weft_status status;
    bool is_at_rest;

    if (wants_another(flow, lane) && io_now(env_of(flow)) >= lane->retry_ns) {
        connect_next(flow, lane);
    }
    if (lane->state != FLOW_LANE_UP || lane->next == NULL) {
        return;
    }
    status = conn_progress(lane->next);
    if (status < 0) {
        next_failed(flow, lane);
        return;
    }
    if (status == WEFT_OK && !lane->is_leaving) {
        lane->is_leaving = true;
        lane->leave_ns = io_now(env_of(flow)) + TIMER_DRAIN_NS +
                         (flow->config.is_sender ? 0 : TIMER_MARGIN_NS);
        if (!xfer_is_settled(lane->xfer) || rests_on_down_port(flow, lane)) {
            /* Work in progress might not complete. */
            lane->leave_ns = io_now(env_of(flow));
        }
    }
    is_at_rest =
        (lane->is_leaving || !flow->config.is_sender) && has_handed_over(flow, lane);
    if (is_at_rest || (lane->is_leaving && io_now(env_of(flow)) >= lane->leave_ns)) {
        trace_lane(flow, "handover", lane);
        lane->is_leaving = false;
        lane_leave(flow, lane, is_at_rest);
    }
}

/* ---- the peer closes ---- */

static void stop_lane(struct flow *flow, struct flow_lane *lane)
{
    flow_retire_next(flow, lane);
    retire_past(flow, lane);
    if (lane->state == FLOW_LANE_CONNECTING) {
        flow_retire(flow, lane->conn);
        lane->conn = NULL;
        lane->state = FLOW_LANE_IDLE;
    } else if (lane->state == FLOW_LANE_UP) {
        lane->state = FLOW_LANE_STOPPING;
        lane->stop_ns = io_now(env_of(flow)) + TIMER_DRAIN_NS;
        io_task_wake(&lane->conn->task);
    }
}

/* Handles that the peer has closed its end of the flow, with `why` and its final state. CLOSE can
 * be read before the completions of what the peer did earlier, so that the lanes must be drained
 * before the flow ends. */
static void peer_closed(struct flow *flow, const struct flow_final *final,
                        const struct weft_error *why)
{
    flow->peer_closed = true;
    flow->final = *final;
    flow->last_failure = *why;
    flow_retire(flow, flow->trial);
    flow->trial = NULL;
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        stop_lane(flow, &flow->lanes[i]);
    }
}

/* Handles the end of a connection. A relay that closes sends no final state, and neither does a
 * peer that never had this flow. */
static void conn_ended(struct flow *flow, struct flow_lane *lane)
{
    struct conn *conn = lane->conn;
    struct flow_final final;

    if (conn->peer_closed && (flow->was_up || lane->xfer != NULL) &&
        flow_final_decode(conn->peer_final, &final) &&
        final.is_sender != flow->config.is_sender) {
        peer_closed(flow, &final, &conn->error);
    } else {
        flow_lane_fail(flow, lane, &conn->error);
    }
}

/* Ends the flow after the peer has closed, once no lane is stopping. */
static weft_status settle(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        if (flow->lanes[i].state == FLOW_LANE_STOPPING) {
            return WEFT_OK;
        }
    }
    if (flow->config.is_sender) {
        flow_send_final(flow, &flow->final);
    }
    for (uint32_t i = 0; i < flow->config.n_lanes && flow->config.is_sender; i++) {
        /* A receiver keeps its connections for flushes. */
        flow_retire(flow, flow->lanes[i].conn);
        flow->lanes[i].conn = NULL;
    }
    return flow_give_up(flow, &flow->last_failure);
}

/* ---- progress ---- */

static weft_status came_up(struct flow *flow, struct flow_lane *lane)
{
    struct flow_answer answer;
    struct weft_error error = {0};
    weft_status status = xfer_open(lane->conn, &lane->xfer, &error);

    if (status != WEFT_OK) {
        return flow_give_up(flow, &error);
    }
    lane->state = FLOW_LANE_UP;
    lane->was_up = true;
    lane->seen = (struct xfer_cursor){0};
    lane->has_heard = false;
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        flow->lanes[i].dealt = 0; /* a lane that was down has nothing to catch up on */
    }
    flow->counters.epochs++;
    flow_came_up(flow, lane);
    if (flow->config.is_sender && flow_answer_decode(lane->conn->answer, &answer)) {
        flow_send_base(flow, answer.base);
    }
    return WEFT_OK;
}

static weft_status transfer(struct flow *flow, struct flow_lane *lane)
{
    return flow->config.is_sender ? flow_send_progress(flow, lane)
                                  : flow_receive_progress(flow, lane);
}

/* Makes progress with a lane that is CONNECTING or UP. It polls completions before it reads the
 * stream, because data that arrived before the stream ended counts. It handles the end of the
 * stream before a failed queue pair, because the stream says why the queue pair failed. */
static weft_status progress_up(struct flow *flow, struct flow_lane *lane)
{
    weft_status moved = lane->xfer != NULL ? transfer(flow, lane) : WEFT_OK, status;

    if (moved == WEFT_OK && lane->xfer != NULL) {
        progress_replacement(flow, lane);
        if (lane->state != FLOW_LANE_UP) {
            return WEFT_OK; /* the lane has left this connection */
        }
    }
    status = conn_progress(lane->conn);
    if (status < 0) {
        conn_ended(flow, lane);
        return WEFT_OK;
    }
    if (lane->xfer == NULL) {
        if (lane->conn->state != CONN_UP) {
            return WEFT_OK;
        }
        status = came_up(flow, lane);
        if (status != WEFT_OK) {
            return status;
        }
        moved = transfer(flow, lane);
    }
    if (moved < 0 && xfer_error(lane->xfer)->status != WEFT_OK) {
        flow_lane_fail(flow, lane, xfer_error(lane->xfer));
        return WEFT_OK;
    }
    return moved < 0 ? moved : WEFT_OK;
}

static void progress_stopping(struct flow *flow, struct flow_lane *lane)
{
    if (xfer_drain(lane->xfer, lane->stop_ns) == WEFT_AGAIN) {
        io_task_deadline(&lane->conn->task, lane->stop_ns);
        return;
    }
    lane_stopped(flow, lane);
}

static weft_status progress_lane(struct flow *flow, struct flow_lane *lane)
{
    weft_status status = WEFT_OK;

    progress_past(flow, lane);
    if (lane->state == FLOW_LANE_CONNECTING || lane->state == FLOW_LANE_UP) {
        status = progress_up(flow, lane);
    }
    if (status == WEFT_OK && flow->error.status != WEFT_OK) {
        return flow->error.status;
    }
    if (lane->conn != NULL && lane->conn->state == CONN_FAILED) {
        /* The ABORT may wait for room in the stream. */
        (void)(conn_progress(lane->conn) < 0);
    }
    if (lane->state == FLOW_LANE_STOPPING) {
        progress_stopping(flow, lane);
    }
    if (lane->state == FLOW_LANE_DOWN && lane->next != NULL) {
        take_next(flow, lane);
    }
    return status;
}

weft_status flow_lanes_progress(struct flow *flow)
{
    weft_status status = flow->error.status;

    progress_closing(flow);
    for (uint32_t i = 0; i < flow->config.n_lanes && status == WEFT_OK; i++) {
        status = progress_lane(flow, &flow->lanes[i]);
    }
    return status == WEFT_OK && flow->peer_closed ? settle(flow) : status;
}

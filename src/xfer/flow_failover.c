/* What becomes of a lane that failed: which ports are suspected, when the sender connects again and
 * over what, when it returns to the better way, and when both ends give up. The sender acts; the
 * receiver waits, within the same limit. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "rdma/path_mtu.h"
#include "xfer/flow_private.h"

#define RETRY_MIN_NS INT64_C(1000000)
#define RETRY_MAX_NS INT64_C(1000000000)
/* A lane that fails again within this time is not a fresh start: pauses grow. */
#define STEADY_NS INT64_C(1000000000)
/* How often a quiet lane is asked for a sign of life: the receiver's word that it gave the lane
 * up may be lost with the lane. */
#define BEAT_NS INT64_C(1000000000)

static weft_ns now_of(const struct flow *flow)
{
    return io_now(flow->rdma->env);
}

weft_ns flow_doubled(weft_ns first, uint32_t times, weft_ns most)
{
    while (times-- > 0 && first < most) {
        first *= 2;
    }
    return first < most ? first : most;
}

bool flow_any_up(const struct flow *flow)
{
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        if (flow->lanes[i].state == FLOW_LANE_UP) {
            return true;
        }
    }
    return false;
}

/* ---- suspects ---- */

/* The port that an error of this end's queue pairs names. */
static const struct rdma_port *accused(const struct flow *flow,
                                       const struct weft_error *why)
{
    const struct weft_value *name = weft_error_value(why, "local_port");
    bool by_queue_pair = strcmp(why->phase, "data") == 0 ||
                         strcmp(why->phase, "probe") == 0 ||
                         strcmp(why->phase, "rtr") == 0 || strcmp(why->phase, "rts") == 0;
    bool is_fault = why->status == WEFT_ERR_COMPLETION ||
                    why->status == WEFT_ERR_TIMEOUT || why->status == WEFT_ERR_SYSTEM;

    if (conn_path_is_judged(why)) {
        return NULL; /* it is to be asked again, or used otherwise, not left */
    }
    for (uint32_t i = 0;
         name != NULL && by_queue_pair && is_fault && i < flow->rdma->n_ports; i++) {
        if (strcmp(flow->rdma->ports[i].name, name->text) == 0) {
            return &flow->rdma->ports[i];
        }
    }
    return NULL;
}

/* ... or, where the peer gave up and cannot say by which port, that this end was stuck at. */
static const struct rdma_port *stuck(const struct conn *conn,
                                     const struct weft_error *why)
{
    return conn->stuck_rail < conn->n_rails && !conn_path_is_judged(why)
               ? conn->rails[conn->stuck_rail].port
               : NULL;
}

const struct rdma_port *flow_blamed(const struct flow *flow, const struct conn *conn,
                                    const struct weft_error *why)
{
    const struct rdma_port *own = accused(flow, why);

    return own != NULL ? own : stuck(conn, why);
}

void flow_exclude(struct conn_config *config, uint32_t device, uint8_t port)
{
    if (!conn_excludes(config, device, port) && config->n_excluded < CONN_EXCLUDED_MAX) {
        config->excluded[config->n_excluded].device = device;
        config->excluded[config->n_excluded].port = port;
        config->n_excluded++;
    }
}

/* How long a flow that was up may be without a lane. */
static weft_ns allowed_ns(const struct flow *flow)
{
    weft_ns allowed = flow->config.failover_ns;

    return flow->may_stall && allowed < FLOW_STALL_NS ? FLOW_STALL_NS : allowed;
}

void flow_failover_config(const struct flow *flow, const struct flow_lane *lane,
                          struct conn_config *config)
{
    weft_ns left = allowed_ns(flow);
    weft_ns way = FLOW_WAY_NS;

    for (uint32_t i = 0; i < flow->n_suspects && lane->n_via == 0; i++) {
        flow_exclude(config, flow->suspects[i].device, flow->suspects[i].port);
    }
    /* A lost SYN is repeated after a second: by then other ways should have been tried. Also if
     * the flow was never up here: the peer may have seen it up, and waits no longer. */
    if (flow->without_ns != 0 && left / 4 < way) {
        way = left / 4;
    }
    if ((flow->was_up || flow->without_ns != 0) && config->authenticate_ns > way) {
        config->authenticate_ns = way;
    }
    if (lane->n_via > 0 && flow->config.reroute != NULL &&
        config->patience_ns > FLOW_WAY_NS) {
        config->patience_ns = FLOW_WAY_NS; /* there may be another by then */
    }
    if (!flow->was_up) {
        return;
    }
    if (flow->without_ns != 0) {
        left -= now_of(flow) - flow->without_ns;
    }
    config->management_first = true; /* a cable may be the very one that failed */
    config->patience_ns = 0; /* a peer that was there and listens no more is gone */
    config->total_ns = left < config->total_ns ? left : config->total_ns;
}

/* ---- a lane failed ---- */

/* Nobody is left to connect to, or to wait for. */
static bool is_peer_dead(const struct flow *flow, const struct flow_lane *lane,
                         const struct weft_error *why)
{
    const struct weft_value *relay = weft_error_value(why, "relay");
    const struct weft_value *reason = weft_error_value(why, "reason");
    uint32_t peer = flow->config.is_sender ? flow->config.to : flow->config.from;

    if (reason != NULL && relay != NULL) {
        return strcmp(reason->text, "dead") == 0 && relay->number == (int64_t)peer &&
               flow->was_up;
    }
    if (strcmp(why->phase, "peer") == 0 && weft_error_value(why, "peer_phase") == NULL) {
        return true; /* it closed; relays pass that on */
    }
    if (lane->n_via > 0) {
        return false;
    }
    if (strcmp(why->phase, "stream") == 0) {
        /* Its end, and no word before: what a process does that dies. */
        return lane->conn_was_up &&
               (why->sys_errno == 0 || why->sys_errno == ECONNRESET ||
                why->sys_errno == EPIPE);
    }
    return flow->was_up && strcmp(why->phase, "tcp") == 0 &&
           why->sys_errno == ECONNREFUSED;
}

/* A relay asked its own path again, or lowered its path MTU; it does not say which. */
static bool is_relays_path(const struct weft_error *why)
{
    const struct weft_value *reason = weft_error_value(why, "reason");

    return reason != NULL && strcmp(reason->text, "again") == 0;
}

/* A device that went: this end's, in its own words or in those of a verb that it refused. What the
 * ends had told each other before is not true any more. */
static bool is_of_lost_device(const struct flow *flow, const struct weft_error *why)
{
    bool any = false;

    for (uint32_t i = 0; i < flow->rdma->env->n_devices; i++) {
        any = any || flow->rdma->is_lost[i];
    }
    return any && why->sys_errno == EIO;
}

/* Set-up that failed is worth another attempt where something else can be tried. */
static bool may_retry(const struct flow *flow, const struct flow_lane *lane,
                      const struct weft_error *why)
{
    if (flow->was_up || flow->config.n_lanes > 1 || conn_path_is_judged(why) ||
        is_relays_path(why) || is_of_lost_device(flow, why)) {
        return true;
    }
    if (lane->n_via > 0 && flow->config.reroute != NULL &&
        (strcmp(why->phase, "tcp") == 0 || strcmp(why->phase, "stream") == 0)) {
        return true; /* the relay is not there any more, or not yet again */
    }
    return !flow->config.is_sender ||
           (lane->conn->n_rails > 1 &&
            (accused(flow, why) != NULL || strcmp(why->phase, "port") == 0 ||
             weft_error_value(why, "peer_phase") != NULL)) ||
           flow_waits_for_port(flow, lane, why);
}

static weft_ns pause_of(const struct flow_lane *lane, const struct weft_error *why)
{
    if (weft_error_value(why, "suspected_mtu") != NULL || is_relays_path(why)) {
        return RDMA_PATH_PAUSE_NS;
    }
    return lane->tries <= 1 ? 0 : flow_doubled(RETRY_MIN_NS, lane->tries, RETRY_MAX_NS);
}

/* What was never up has time for a lost SYN or two, which TCP repeats after 1 and 3 s (RFC 6298):
 * its peer may have had no other way to try. */
weft_ns flow_patience(const struct flow *flow)
{
    weft_ns patience = allowed_ns(flow);

    return flow->was_up || patience > FLOW_SET_UP_NS ? patience : FLOW_SET_UP_NS;
}

/* The error is the failure that began it; what was tried since is told beside. */
static weft_status give_up_waiting(struct flow *flow)
{
    struct weft_error error = flow->first_failure;
    const struct weft_error *last = &flow->last_failure;

    weft_error_int(&error, "failover_ns", flow_patience(flow));
    weft_error_int(&error, "from", flow->config.from);
    weft_error_int(&error, "to", flow->config.to);
    weft_error_int(&error, "lanes", flow->config.n_lanes);
    weft_error_text(&error, "last_phase", last->phase);
    weft_error_text(&error, "last_message", last->message);
    return flow_give_up(flow, &error);
}

/* What both ends agreed on, whether it came up or not: a rail that set-up goes on without is
 * as good as lost. */
static void note_rails(struct flow *flow, const struct flow_lane *lane)
{
    flow->may_stall = flow->may_stall || conn_may_stall(lane->conn);
    if (lane->n_via == 0 && lane->conn->n_rails > flow->n_rails_best) {
        flow->n_rails_best = lane->conn->n_rails;
    }
}

void flow_failed(struct flow *flow, struct flow_lane *lane, const struct weft_error *why)
{
    const struct weft_value *phase = weft_error_value(why, "peer_phase");
    const struct rdma_port *port = flow_blamed(flow, lane->conn, why);
    weft_ns now = now_of(flow);

    note_rails(flow, lane);
    lane->is_returning = strcmp(why->phase, "return") == 0 ||
                         (phase != NULL && strcmp(phase->text, "return") == 0);
    lane->tries =
        lane->is_returning || (lane->conn_was_up && now - lane->up_ns >= STEADY_NS &&
                               !lane->is_rerouted)
            ? 1
            : lane->tries + 1;
    lane->retry_ns = now + pause_of(lane, why);
    if (!flow_any_up(flow) && flow->without_ns == 0) {
        flow->without_ns = now;
        flow->first_failure = *why;
    }
    if (is_peer_dead(flow, lane, why) || !may_retry(flow, lane, why)) {
        /* A peer that gave up a little earlier refuses: that is not what began it. */
        if (flow->without_ns == 0 || flow->without_ns == now) {
            flow_give_up(flow, why);
        } else {
            give_up_waiting(flow);
        }
        return;
    }
    if (port != NULL && flow->config.is_sender) {
        flow_leave_out(flow, port, why);
    }
    if (why->status == WEFT_ERR_ROUTE && lane->n_via == 0) {
        /* Too much was suspected. */
        for (uint32_t i = flow->n_suspects; i-- > 0;) {
            if (!flow->suspects[i].is_down) {
                flow_acquit(flow, i);
            }
        }
    }
}

void flow_came_up(struct flow *flow, struct flow_lane *lane)
{
    weft_ns now = now_of(flow);

    if (flow->without_ns != 0) {
        flow->counters.without_lane_ns += now - flow->without_ns;
        flow->without_ns = 0;
    }
    if (lane->is_returning) {
        flow->counters.returns++;
    } else if (lane->conn_was_up || (flow->was_up && lane->share == 0)) {
        flow->counters.failovers++;
    }
    lane->is_returning = false;
    lane->conn_was_up = true;
    lane->up_ns = now;
    lane->is_rerouted = false;
    if (!flow->was_up && rdma_recovery(flow->config.conn.policy)->keeps_rails) {
        conn_keep(lane->conn, &flow->kept);
        flow->config.conn.kept = &flow->kept;
    }
    flow->was_up = true;
    note_rails(flow, lane);
    if (lane->n_via == 0) {
        flow->has_late_port = false; /* a notice of another epoch may have been lost */
    }
    flow_expect_rails(flow, lane);
    flow->trial_ns = WEFT_NEVER;
    if (lane->n_via == 0 && lane->conn->n_rails < flow->n_rails_best) {
        flow->trial_ns = flow_trial_at(flow);
    }
}

const struct weft_error *flow_trouble(const struct flow *flow)
{
    return flow->without_ns != 0 ? &flow->first_failure : NULL;
}

/* ---- every look ---- */

/* Those without a share are asked when the others do not come back at once, or not as they were.
 */
static bool is_wanted(struct flow *flow, const struct flow_lane *lane)
{
    bool others_failed = true;

    if (lane->share > 0 || flow->config.n_lanes == 1 || flow_lesser_lane(flow) != NULL) {
        return true;
    }
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        const struct flow_lane *other = &flow->lanes[i];

        others_failed =
            others_failed &&
            (other->share == 0 || (other->state != FLOW_LANE_UP && other->tries > 1));
    }
    return others_failed;
}

static void beat(struct flow *flow)
{
    if (!flow->config.is_sender || now_of(flow) < flow->beat_ns) {
        return;
    }
    flow->beat_ns = now_of(flow) + BEAT_NS;
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->state == FLOW_LANE_UP && xfer_beat(lane->xfer) != WEFT_OK) {
            io_task_wake(&lane->conn->task); /* it fails when it is looked at */
        }
    }
}

/* The flow has no task of its own: a connection that waits for nothing else wakes it. */
static void set_timer(struct flow *flow)
{
    weft_ns at =
        flow->without_ns == 0 ? WEFT_NEVER : flow->without_ns + flow_patience(flow);
    struct conn *carrier = NULL;

    if (flow->config.is_sender && flow_any_up(flow) && flow->beat_ns < at) {
        at = flow->beat_ns;
    }
    if (flow->config.is_sender && flow->trial == NULL && flow_lesser_lane(flow) != NULL &&
        flow->trial_ns < at) {
        at = flow->trial_ns;
    }
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (flow->config.is_sender && lane->state == FLOW_LANE_DOWN &&
            lane->retry_ns < at) {
            at = lane->retry_ns;
        }
        if (lane->state == FLOW_LANE_STOPPING && lane->stop_ns < at) {
            at = lane->stop_ns;
        }
        if (lane->state == FLOW_LANE_UP || lane->state == FLOW_LANE_STOPPING ||
            lane->state == FLOW_LANE_DOWN) {
            carrier = carrier == NULL ? lane->conn : carrier;
        }
    }
    if (carrier != NULL) {
        io_task_deadline(&carrier->task, at);
    }
}

weft_status flow_failover_progress(struct flow *flow)
{
    weft_ns now = now_of(flow);

    for (uint32_t i = 0; i < flow->config.n_lanes && flow->config.is_sender; i++) {
        struct flow_lane *lane = &flow->lanes[i];
        weft_status status = WEFT_OK;

        if ((lane->state == FLOW_LANE_DOWN && now >= lane->retry_ns) ||
            (lane->state == FLOW_LANE_IDLE && is_wanted(flow, lane))) {
            status = flow_start_lane(flow, lane);
        }
        if (status < 0) {
            return status;
        }
    }
    flow_trial_progress(flow);
    if (flow->without_ns != 0 && now - flow->without_ns >= flow_patience(flow)) {
        return give_up_waiting(flow);
    }
    beat(flow);
    set_timer(flow);
    return flow->error.status;
}

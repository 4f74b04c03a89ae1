/* Handles events of ports and devices for a flow. Decides which ports the flow must not use, which
 * lanes fail, and what a port that is back may be used for. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "xfer/flow_private.h"

/* Number of lanes that stall in succession before a flow over its only cable ends. */
#define STALLS_MAX 2u

/* ---- suspects ---- */

void flow_note_left_out(struct flow *flow, const struct rdma_port *port,
                        const struct weft_error *why)
{
    if (flow->left_out == NULL) {
        flow->left_out = weft_calloc(1, sizeof(*flow->left_out));
    }
    *flow->left_out = *why;
    flow->left_out_port =
        (struct suspect){.device = port->device_index, .port = port->port};
}

void flow_leave_out(struct flow *flow, const struct rdma_port *port,
                    const struct weft_error *why)
{
    suspects_add(&flow->suspects, port->device_index, port->port, false);
    if (!flow->was_up && flow->left_out == NULL) {
        flow_note_left_out(flow, port, why);
    }
}

const struct weft_error *flow_left_out(const struct flow *flow)
{
    for (uint32_t i = 0; flow->was_up && i < flow->suspects.n; i++) {
        const struct suspect *suspect = &flow->suspects.list[i];

        if (suspect->device == flow->left_out_port.device &&
            suspect->port == flow->left_out_port.port && !suspect->is_down) {
            return flow->left_out;
        }
    }
    for (uint32_t i = 0; flow->was_up && i < flow->config.n_lanes; i++) {
        const struct flow_lane *lane = &flow->lanes[i];

        if (flow->config.is_sender && !lane->was_up && lane->no_way != NULL) {
            return lane->no_way;
        }
        if (flow->config.is_sender && !lane->was_up && lane->n_via == 0 &&
            lane->share > 0 && lane->why != NULL) {
            return lane->why; /* a relay stood in for its cable */
        }
    }
    return NULL;
}

/* ---- lanes ---- */

static bool uses(const struct conn *conn, uint32_t device, uint8_t port)
{
    return suspects_rail(conn, device, port) != NULL;
}

/* Returns true if data can go on without a port that a lane uses, over other rails or another lane.
 * If not, the lane should stay, because the queue pairs' own retries survive a cable that comes
 * back soon. Before the flow is up, a set-up that starts again takes less time than one that waits,
 * unless the port is back already. */
static bool has_another_way(const struct flow *flow, const struct flow_lane *lane,
                            bool is_back)
{
    return flow->config.n_lanes > 1 || lane->conn->n_rails > 1 ||
           (!flow->was_up && !is_back);
}

/* Fails the lanes that use a port, or drops their rails, before their queue pairs fail. Ends trials
 * and replacements over the port. A lane that has no other way fails only if `even_the_last`. `why`
 * describes the event. */
static void fail_lanes(struct flow *flow, uint32_t device, uint8_t port,
                       bool even_the_last, const struct weft_error *why)
{
    bool is_back = suspects_is_active(flow->rdma, device, port);

    if (uses(flow->trial, device, port)) {
        flow_retire(flow, flow->trial);
        flow->trial = NULL;
        flow->trial_ns = flow_trial_at(flow);
    }
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];
        struct weft_error named = *why;

        if (uses(lane->next, device, port)) {
            flow_retire_next(flow, lane);
            lane->retry_ns = io_now(flow->rdma->env);
        }
        if ((lane->state != FLOW_LANE_UP && lane->state != FLOW_LANE_CONNECTING) ||
            !uses(lane->conn, device, port)) {
            continue;
        }
        if (!even_the_last &&
            flow_drop_rail(flow, lane, suspects_rail(lane->conn, device, port))) {
            continue;
        }
        if (even_the_last || has_another_way(flow, lane, is_back)) {
            suspects_name_rail(&named, lane->conn,
                               suspects_rail(lane->conn, device, port));
            flow_lane_fail(flow, lane, &named);
        } else if (lane->state == FLOW_LANE_UP && flow->config.is_sender) {
            xfer_beat_now(lane->xfer);
        }
        io_task_wake(&lane->conn->task);
    }
}

void flow_leave_stalled(struct flow *flow, struct flow_lane *lane)
{
    struct weft_error why = {0};
    const struct conn_rail *rail = xfer_stalled(lane->xfer, &why);
    bool has_other_routes = lane->n_via > 0 && flow->config.reroute != NULL;
    /* A queue pair whose port is held by pause frames never fails. Without this rule the flow could
     * wait for it until the job ends. */
    bool is_ranks =
        flow->config.conn.policy == WEFT_POLICY_WEFT && flow->config.cables_ns != 0;
    bool has_other_way = has_other_routes || has_another_way(flow, lane, true);

    if (rail == NULL) {
        return;
    }
    suspects_name_rail(&why, lane->conn, rail);
    if (is_ranks && !has_other_way && ++flow->n_stalls >= STALLS_MAX) {
        /* Over a cable that is so slow, the flow would start again forever. */
        weft_error_int(&why, WEFT_VALUE_STALLS, flow->n_stalls);
        flow_give_up(flow, &why);
        return;
    }
    flow_leave_out(flow, rail->port, &why); /* a trial may find another port */
    if ((has_other_way || is_ranks) && !flow_drop_rail(flow, lane, rail)) {
        flow_lane_fail(flow, lane, &why);
    }
}

/* Reads the ports, because the event of a port can come later than the failure that it caused. It
 * can also come long after the port is back, because the step to RTR waits for the reply to a lost
 * packet. */
bool flow_waits_for_port(const struct flow *flow, const struct flow_lane *lane,
                         const struct weft_error *why)
{
    struct io_env *env = flow->rdma->env;
    char object[32];
    char phase[WEFT_PHASE_TEXT_BYTES];

    if (!suspects_wait_for_port(&flow->suspects, flow->rdma, lane->conn, why)) {
        return false;
    }
    weft_format(object, sizeof(object), "flow:%u>%u", flow->config.from, flow->config.to);
    weft_trace_event(env->trace, io_now(env), env->name, object, "waits_for_port",
                     "phase=%s for_ns=%lld", weft_error_phase_text(why, phase),
                     (long long)flow_patience(flow));
    return true;
}

/* Receiver: records whether a port could add a rail. A notice reports that to the sender, because
 * no event occurs there. */
static void tell_late(struct flow *flow, const struct rdma_port *port)
{
    struct io_env *env = flow->rdma->env;
    char object[32];

    if (port != NULL && !flow->has_late_port) {
        flow->must_tell_late = true;
        weft_format(object, sizeof(object), "flow:%u>%u", flow->config.from,
                    flow->config.to);
        weft_trace_event(env->trace, io_now(env), env->name, object, "late_port",
                         "port=%s", port->name);
    }
    flow->has_late_port = port != NULL;
}

void flow_hear_late(struct flow *flow, const struct flow_lane *lane)
{
    uint32_t n_rails = lane->conn->n_rails + 1;

    /* A rail that this end expects already keeps its own pauses, because its port may flap. */
    if (flow->config.may_fail_over && n_rails <= CONN_RAILS_MAX &&
        n_rails > flow->n_rails_best) {
        flow->n_rails_best = n_rails;
        flow->trial_ns = io_now(flow->rdma->env) + flow->config.hysteresis_ns;
    }
}

void flow_expect_rails(struct flow *flow, const struct flow_lane *lane)
{
    const struct conn_config *config = &flow->config.conn;
    const struct rdma_port *ports[CONN_RAILS_MAX];
    uint32_t n_rails = lane->conn->n_rails, n;

    if (lane->n_via > 0 || !flow->config.may_fail_over) {
        return;
    }
    n = conn_late_ports(lane->conn, ports);
    /* The sender makes trials; the receiver reports the port to it. The receiver does not raise
     * n_rails_best, because no lane has to stand in for a rail that was never up. */
    if (!flow->config.is_sender) {
        tell_late(flow, n > 0 ? ports[0] : NULL);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!conn_excludes(config, ports[i]->device_index, ports[i]->port)) {
            suspects_add(&flow->suspects, ports[i]->device_index, ports[i]->port, false);
            n_rails++;
        }
    }
    if (n_rails > flow->n_rails_best) {
        flow->n_rails_best = n_rails;
    }
}

static void port_down(struct flow *flow, uint32_t device, uint8_t port)
{
    weft_ns now = io_now(flow->rdma->env);
    struct weft_error why = {0};

    flow->n_flaps =
        flow->suspects.flapped_ns != 0 && now - flow->suspects.flapped_ns < TIMER_FLAPS_NS
            ? flow->n_flaps + 1
            : 0;
    flow->suspects.flapped_ns = now;
    flow->trial_ns = flow_trial_at(flow);
    suspects_add(&flow->suspects, device, port, true);
    weft_fail(&why, WEFT_ERR_CLOSED, WEFT_PHASE_PORT, "device %u port %u went down",
              device, port);
    fail_lanes(flow, device, port, false, &why);
}

/* Handles that a port came up. If a direct lane is up without it, a trial decides when the port is
 * used. Otherwise it may be used at once. But while another lane is up, a lane that is down waits
 * for some time, because the port may flap. */
static void port_up(struct flow *flow, uint32_t device, uint8_t port)
{
    bool is_needed;
    weft_ns hold =
        flow_doubled(flow->config.hysteresis_ns, flow->n_flaps, TIMER_HOLD_MAX_NS);
    weft_ns now = io_now(flow->rdma->env);

    flow->port_up_ns = now;
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        if (flow->lanes[i].state == FLOW_LANE_UP) {
            flow_expect_rails(flow, &flow->lanes[i]);
        }
    }
    is_needed = flow_lesser_lane(flow) == NULL;
    for (uint32_t i = flow->suspects.n; i-- > 0;) {
        struct suspect *suspect = &flow->suspects.list[i];

        if (suspect->device == device && suspect->port == port) {
            suspect->is_down = false;
            if (is_needed) {
                suspects_acquit(&flow->suspects, i);
            }
        }
    }
    if (rdma_recovery(flow->config.conn.policy)->attempts_max == 0) {
        flow->trial_ns = now + hold; /* a port that flapped often must stay up longer */
    }
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->state == FLOW_LANE_DOWN) {
            weft_ns retry_ns = flow_any_up(flow) ? now + hold : now;

            /* The port may not help a relayed lane, which then keeps its pause. */
            lane->retry_ns =
                lane->n_via == 0 || retry_ns < lane->retry_ns ? retry_ns : lane->retry_ns;
        }
        if (lane->conn != NULL) {
            io_task_wake(&lane->conn->task);
        }
    }
}

void flow_port_event(struct flow *flow, uint32_t device, uint8_t port, bool is_up)
{
    if (!flow->config.may_fail_over || flow->is_closing ||
        flow->error.status != WEFT_OK) {
        return;
    }
    flow->n_looks++;
    if (is_up) {
        port_up(flow, device, port);
    } else {
        port_down(flow, device, port);
    }
}

/* Fails a lane whose set-up uses a GID that was removed, so that it starts again. The ABORT reports
 * this to the peer like a port that is down, because no event occurs there, and its probes would
 * only time out. */
static void fail_without_gid(struct flow *flow, struct flow_lane *lane)
{
    const struct conn *conn = lane->conn;

    for (uint32_t r = 0; r < conn->n_rails; r++) {
        const struct conn_rail *rail = &conn->rails[r];
        struct weft_error why = {0};

        if (rdma_port_gid(rail->port, &rail->local_gid, rail->gid_type) == NULL) {
            weft_fail(&why, WEFT_ERR_CLOSED, WEFT_PHASE_PORT, "a GID of %s went away",
                      rail->port->name);
            suspects_name_rail(&why, conn, rail);
            flow_lane_fail(flow, lane, &why);
            return;
        }
    }
}

/* Handles that a port may have got or lost an address. */
static void gids_event(struct flow *flow)
{
    uint32_t n_before = flow->n_rails_best;

    if (!flow->config.may_fail_over || flow->is_closing ||
        flow->error.status != WEFT_OK) {
        return;
    }
    flow->n_looks++;
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->state == FLOW_LANE_UP) {
            flow_expect_rails(flow, lane);
            io_task_wake(&lane->conn->task);
        } else if (lane->state == FLOW_LANE_CONNECTING && !flow->was_up &&
                   flow->config.conn.policy == WEFT_POLICY_WEFT) {
            fail_without_gid(flow, lane);
            io_task_wake(&lane->conn->task);
        }
    }
    flow->port_up_ns = io_now(flow->rdma->env);
    if (flow->n_rails_best > n_before) {
        flow->trial_ns = io_now(flow->rdma->env) + flow->config.hysteresis_ns;
    }
}

/* The facts that this end sends from now on report the device's ports as inactive, so that neither
 * end chooses them. */
void flow_device_lost(struct flow *flow, uint32_t device)
{
    const struct rdma *rdma = flow->rdma;
    struct weft_error why = {0};
    bool any_left = false;

    if (flow->is_closing || flow->error.status != WEFT_OK) {
        return;
    }
    flow->n_looks++;
    weft_fail_errno(&why, EIO, WEFT_PHASE_DEVICE, "%s is gone",
                    rdma->env->devices[device]->name);
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        any_left = any_left || !rdma->is_lost[rdma->ports[i].device_index];
        if (rdma->ports[i].device_index == device) {
            fail_lanes(flow, device, rdma->ports[i].port, true, &why);
        }
    }
    /* After the peer has closed, the flow ends once its lanes have stopped (settle). The peer's
     * final state then completes requests. */
    if (!any_left && !flow->peer_closed) {
        flow_give_up(flow, flow->without_ns != 0 ? &flow->first_failure : &why);
    }
}

void flow_device_event(struct flow *flow, uint32_t device,
                       const struct io_async_event *event)
{
    if (event->type == IBV_EVENT_DEVICE_FATAL) {
        flow_device_lost(flow, device);
    } else if (event->type == IBV_EVENT_GID_CHANGE) {
        gids_event(flow);
    } else {
        flow_port_event(flow, device, event->port, event->type == IBV_EVENT_PORT_ACTIVE);
    }
}

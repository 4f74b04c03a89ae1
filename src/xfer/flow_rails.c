/* Records which ports a flow leaves out, and which rails a direct lane lacks. Decides when a trial
 * is due that may get them back. */
#include "base/text.h"
#include "rdma/policy.h"
#include "xfer/flow_private.h"

static weft_ns now_of(const struct flow *flow)
{
    return io_now(flow->rdma->env);
}

/* ---- ports left out ---- */

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

/* ---- rails that a lane lacks ---- */

struct flow_lane *flow_lesser_lane(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->n_via == 0 && lane->state == FLOW_LANE_UP &&
            lane->conn->n_rails < flow->n_rails_best) {
            return lane;
        }
    }
    return NULL;
}

weft_ns flow_trial_at(const struct flow *flow)
{
    const struct rdma_recovery *recovery = rdma_recovery(flow->config.conn.policy);
    weft_ns pause = flow_doubled(TIMER_TRIAL_NS, flow->n_trials, TIMER_TRIAL_MAX_NS);

    if (recovery->attempts_max > 0 && flow->n_trials >= recovery->attempts_max) {
        return WEFT_NEVER;
    }
    if (recovery->attempts_max > 0) {
        pause = flow->n_trials == 0 ? recovery->start_ns : recovery->step_ns;
    }
    return now_of(flow) + pause;
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

/* Replaces the connection of a direct lane that is up, without a pause. It does so if rails were
 * dropped, or if a trial has shown that there can be more. The sender connects with the next epoch
 * (FLOW_REPLACE) while the present connection goes on. When the new connection is up, the sender
 * starts nothing more on the present one. It waits for what is in progress, and hands over. */
#include "base/text.h"
#include "xfer/flow_private.h"

static weft_ns now_of(const struct flow *flow)
{
    return io_now(flow->rdma->env);
}

static void say(const struct flow *flow, const char *what, const struct flow_lane *lane)
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
    say(flow, "rail_dropped", lane);
    lane->retry_ns = now_of(flow);
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

void flow_past_progress(struct flow *flow, struct flow_lane *lane)
{
    if (lane->past != NULL &&
        (conn_progress(lane->past) < 0 || now_of(flow) >= lane->past_ns)) {
        flow_retire_past(flow, lane);
    }
}

static void connect_next(struct flow *flow, struct flow_lane *lane)
{
    struct conn_config config = flow->config.conn;
    struct weft_error error = {0};

    lane->next_epoch = flow_next_epoch(lane);
    flow_fill_purpose(flow, lane, FLOW_REPLACE, lane->next_epoch, config.purpose);
    flow_failover_config(flow, lane, &config);
    config.wants_answer = true;
    if (conn_connect(flow->rdma, &config, lane->handle, flow->config.task_kind,
                     &lane->next, &error) != WEFT_OK) {
        lane->next = NULL;
        lane->retry_ns = now_of(flow) + TIMER_RETRY_NS;
        return;
    }
    lane->next->user = flow;
}

static void next_failed(struct flow *flow, struct flow_lane *lane)
{
    flow->last_failure = lane->next->error;
    flow_retire_next(flow, lane);
    lane->tries++;
    lane->retry_ns =
        now_of(flow) + flow_doubled(TIMER_RETRY_FIRST_NS, lane->tries, TIMER_RETRY_NS);
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

void flow_replace_progress(struct flow *flow, struct flow_lane *lane)
{
    weft_status status;
    bool is_at_rest;

    if (wants_another(flow, lane) && now_of(flow) >= lane->retry_ns) {
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
        lane->leave_ns = now_of(flow) + TIMER_DRAIN_NS +
                         (flow->config.is_sender ? 0 : TIMER_MARGIN_NS);
        if (!xfer_is_settled(lane->xfer) || rests_on_down_port(flow, lane)) {
            lane->leave_ns = now_of(flow); /* what is in progress might not complete */
        }
    }
    is_at_rest =
        (lane->is_leaving || !flow->config.is_sender) && has_handed_over(flow, lane);
    if (is_at_rest || (lane->is_leaving && now_of(flow) >= lane->leave_ns)) {
        say(flow, "handover", lane);
        lane->is_leaving = false;
        flow_lane_leave(flow, lane, is_at_rest);
    }
}

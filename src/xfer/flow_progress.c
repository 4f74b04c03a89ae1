/* Makes progress with a flow: with its lanes, with the attempts and trials that are due, and with
 * requests. Sets the flow's timer. */
#include "base/check.h"
#include "xfer/flow_private.h"

static weft_ns now_of(const struct flow *flow)
{
    return io_now(flow->rdma->env);
}

/* Returns until when a lane's set-up may go on although the flow's patience has ended, because both
 * ends have agreed on rails and it only waits for queue pairs; 0 if there is none. Each step of a
 * queue pair has a limit, but a stream that loses what is sent on it has none. A peer that goes on
 * is heard. */
static weft_ns agreed_until(const struct flow *flow)
{
    weft_ns silence = timer_limit(TIMER_SILENCE_NS, flow->config.conn.patience);
    weft_ns until = 0;

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        const struct flow_lane *lane = &flow->lanes[i];

        if (lane->state == FLOW_LANE_CONNECTING && lane->conn->state >= CONN_QPS &&
            lane->conn->state < CONN_PROBE &&
            conn_heard_ns(lane->conn) + silence > until) {
            until = conn_heard_ns(lane->conn) + silence;
        }
    }
    return until;
}

/* Returns when a flow that was never up connects its lanes without a share, or WEFT_NEVER. It
 * cannot wait for the others to fail, because a first attempt over a dead cable takes longer. */
static weft_ns detour_at(const struct flow *flow)
{
    for (uint32_t i = 1; i < flow->config.n_lanes && !flow->was_up; i++) {
        if (flow->lanes[i].share == 0 && flow->lanes[i].state == FLOW_LANE_IDLE) {
            return flow->opened_ns + TIMER_FIRST_LANE_NS;
        }
    }
    return WEFT_NEVER;
}

/* Returns true if an idle lane must be connected. A lane without a share is needed if the others do
 * not come up within TIMER_FIRST_LANE_NS, have failed twice, or are up with fewer rails. */
static bool is_wanted(struct flow *flow, const struct flow_lane *lane)
{
    bool others_failed = true;

    if (lane->share > 0 || flow->config.n_lanes == 1 || flow_lesser_lane(flow) != NULL ||
        now_of(flow) >= detour_at(flow)) {
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

/* Returns true if this end probes quiet lanes. A receiver does so if it has another lane, because
 * the sender's report that a lane failed may be stuck on that lane's cable. It also does so if NICs
 * answer without software, because nothing else shows it that the sender is cut off. On its only
 * lane it does not probe a process, which does not answer while it stalls. */
static bool has_beats(const struct flow *flow)
{
    return flow->config.is_sender || flow->config.n_lanes > 1 || !flow_may_stall(flow);
}

static void beat(struct flow *flow)
{
    if (!has_beats(flow) || now_of(flow) < flow->beat_ns) {
        return;
    }
    flow->beat_ns = now_of(flow) + TIMER_BEAT_NS;
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->state != FLOW_LANE_UP ||
            (!flow->config.is_sender && flow->open == NULL)) {
            continue;
        }
        if (xfer_beat(lane->xfer) != WEFT_OK) {
            io_task_wake(&lane->conn->task); /* the lane's progress handles the failure */
        } else {
            flow_leave_stalled(flow, lane);
        }
    }
}

/* Wakes the set-ups of lanes by the end of the flow. Their own limits may be later, because a
 * stream that loses most of what is sent on it is waited for longer with each attempt. */
static void wake_by_end(struct flow *flow, weft_ns end)
{
    for (uint32_t i = 0; i < flow->config.n_lanes && end != WEFT_NEVER; i++) {
        if (flow->lanes[i].state == FLOW_LANE_CONNECTING) {
            io_task_wake_by(&flow->lanes[i].conn->task, end);
        }
    }
}

/* Sets the flow's next timer. The flow has no task, so it uses that of a connection which sets no
 * deadline itself. */
static void set_timer(struct flow *flow)
{
    weft_ns end = flow_end_of_patience(flow), agreed = agreed_until(flow);
    weft_ns at = agreed > end ? agreed : end;
    struct conn *carrier = NULL;
    weft_ns all_up = flow_first_lanes_end(flow);
    weft_ns detour = flow->config.is_sender ? detour_at(flow) : WEFT_NEVER;
    weft_ns replace;

    wake_by_end(flow, at);
    if (now_of(flow) < all_up && all_up < at) {
        at = all_up; /* the flow counts as up then, which its owner must see */
    }
    if (has_beats(flow) && flow_any_up(flow) && flow->beat_ns < at) {
        at = flow->beat_ns;
    }
    if (flow->without_ns != 0 && flow_may_stall(flow) &&
        now_of(flow) + TIMER_BEAT_NS < at) {
        at = now_of(flow) + TIMER_BEAT_NS; /* to see whether an end still stalls */
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
        if (lane->state == FLOW_LANE_CONNECTING && detour != WEFT_NEVER &&
            now_of(flow) < detour) {
            /* the connection's own deadline may be later */
            io_task_wake_by(&lane->conn->task, detour);
        }
        if (lane->state == FLOW_LANE_STOPPING && lane->stop_ns < at) {
            at = lane->stop_ns;
        }
        replace = flow_replace_at(flow, lane);
        if (replace < at) {
            at = replace;
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

static weft_status progress_failover(struct flow *flow)
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
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        flow_note_still(flow, &flow->lanes[i]);
    }
    flow_trial_progress(flow);
    if (now >= flow_end_of_patience(flow) &&
        (flow_outage_is_over(flow) || now >= agreed_until(flow))) {
        return flow_give_up_waiting(flow);
    }
    beat(flow);
    set_timer(flow);
    return flow->error.status;
}

weft_status flow_progress(struct flow *flow)
{
    weft_status status;

    flow->n_looks++;
    status = flow_lanes_progress(flow);
    if (status == WEFT_OK && flow->config.may_fail_over && !flow->is_closing &&
        !flow->peer_closed) {
        status = progress_failover(flow);
    }
    if (status == WEFT_OK && !flow->is_closing && !flow->config.is_sender) {
        flow_post(flow);
    }
    if (status == WEFT_OK && !flow->is_closing) {
        flow_flush_progress(flow);
    }
    return status;
}

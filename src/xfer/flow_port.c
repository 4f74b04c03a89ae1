/* Handles events of ports and devices for a flow. Decides which ports the flow must not use, which
 * lanes fail, and what a port that is back may be used for. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "rdma/policy.h"
#include "xfer/flow_private.h"

/* Number of lanes that stall in succession before a flow over its only cable ends. */
#define STALLS_MAX 2u

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
            conn_lost_address(lane->conn);
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

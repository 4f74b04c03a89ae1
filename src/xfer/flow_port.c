/* Ports that come and go under a flow: those it is not to use now, which lanes end with them,
 * and what one that is back may be used for. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "xfer/flow_private.h"

/* An only cable over which nothing passes is given up with the second lane in a row. */
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

/* Whether data can go on without a port that a lane uses: over its other rails, or another lane.
 * If not, the queue pairs' own retries are the best chance: a cable that is back in time costs
 * no more than they do. Before there is data a set-up that begins again costs less than one that
 * waits, unless the port is back already. */
static bool has_another_way(const struct flow *flow, const struct flow_lane *lane,
                            bool is_back)
{
    return flow->config.n_lanes > 1 || lane->conn->n_rails > 1 ||
           (!flow->was_up && !is_back);
}

/* Lanes that are not to wait for their queue pairs to tell. `why` says what became of the port. */
static void fail_lanes(struct flow *flow, uint32_t device, uint8_t port,
                       bool even_the_last, const struct weft_error *why)
{
    bool is_back = suspects_is_active(flow->rdma, device, port);

    if (uses(flow->trial, device, port)) {
        flow_retire(flow, flow->trial);
        flow->trial = NULL;
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
    /* A queue pair that is held never fails: waiting for it would last until the job's end. */
    bool is_ranks =
        flow->config.conn.policy == RDMA_POLICY_WEFT && flow->config.cables_ns != 0;
    bool has_other_way = has_other_routes || has_another_way(flow, lane, true);

    if (rail == NULL) {
        return;
    }
    suspects_name_rail(&why, lane->conn, rail);
    if (is_ranks && !has_other_way && ++flow->n_stalls >= STALLS_MAX) {
        /* What is so slow begins again for ever. */
        weft_error_int(&why, "stalls", flow->n_stalls);
        flow_give_up(flow, &why);
        return;
    }
    flow_leave_out(flow, rail->port, &why); /* a trial may find another port */
    if ((has_other_way || is_ranks) && !flow_drop_rail(flow, lane, rail)) {
        flow_lane_fail(flow, lane, &why);
    }
}

/* Ports are asked: the event that tells of one may come later than the failure that it made. And
 * the failure may come when the port has long been back, as that of RTR, which waits for an answer
 * to what was lost. */
bool flow_waits_for_port(const struct flow *flow, const struct flow_lane *lane,
                         const struct weft_error *why)
{
    struct io_env *env = flow->rdma->env;
    char object[32];

    if (!suspects_wait_for_port(&flow->suspects, flow->rdma, lane->conn, why)) {
        return false;
    }
    weft_format(object, sizeof(object), "flow:%u>%u", flow->config.from, flow->config.to);
    weft_trace_event(env->trace, io_now(env), env->name, object, "waits_for_port",
                     "phase=%s for_ns=%lld", why->phase, (long long)flow_patience(flow));
    return true;
}

/* The receiver's port came up, or has the address: no event tells the sender. */
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

    /* What this end knows of by itself keeps its own pauses: a port may flap. */
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
    /* Who sends tries; who receives has nothing to make up for before a rail was there, and tells
     * who sends. */
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
        now - flow->suspects.flapped_ns < TIMER_FLAPS_NS ? flow->n_flaps + 1 : 0;
    flow->suspects.flapped_ns = now;
    flow->trial_ns = flow_trial_at(flow);
    suspects_add(&flow->suspects, device, port, true);
    weft_fail(&why, WEFT_ERR_CLOSED, "port", "device %u port %u went down", device, port);
    fail_lanes(flow, device, port, false, &why);
}

/* A port that came back: where a lane is up without it a trial says when it may be used. Else
 * there is nothing to lose, but that alternates need not be left for a port that flaps. */
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
        flow->trial_ns = now + hold; /* the more it flapped the longer it must hold */
    }
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->state == FLOW_LANE_DOWN) {
            weft_ns retry_ns = flow_any_up(flow) ? now + hold : now;

            /* The port may be of no use to a lane over a relay, which then keeps its pause. */
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

/* Begins set-up again that uses a GID which went away. The peer hears of it as of a port that is
 * down, because no event reports it there, and probes would only time out. */
static void fail_without_gid(struct flow *flow, struct flow_lane *lane)
{
    const struct conn *conn = lane->conn;

    for (uint32_t r = 0; r < conn->n_rails; r++) {
        const struct conn_rail *rail = &conn->rails[r];
        struct weft_error why = {0};

        if (rdma_port_gid(rail->port, &rail->local_gid, rail->gid_type) == NULL) {
            weft_fail(&why, WEFT_ERR_CLOSED, "port", "a GID of %s went away",
                      rail->port->name);
            suspects_name_rail(&why, conn, rail);
            flow_lane_fail(flow, lane, &why);
            return;
        }
    }
}

/* A port that had no address may have one now, or have lost it. */
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
                   flow->config.conn.policy == RDMA_POLICY_WEFT) {
            fail_without_gid(flow, lane);
            io_task_wake(&lane->conn->task);
        }
    }
    flow->port_up_ns = io_now(flow->rdma->env);
    if (flow->n_rails_best > n_before) {
        flow->trial_ns = io_now(flow->rdma->env) + flow->config.hysteresis_ns;
    }
}

/* Its ports are inactive in what this end tells from now on, so that neither end chooses them. */
void flow_device_lost(struct flow *flow, uint32_t device)
{
    const struct rdma *rdma = flow->rdma;
    struct weft_error why = {0};
    bool any_left = false;

    if (flow->is_closing || flow->error.status != WEFT_OK) {
        return;
    }
    flow->n_looks++;
    weft_fail_errno(&why, EIO, "device", "%s is gone", rdma->env->devices[device]->name);
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        any_left = any_left || !rdma->is_lost[rdma->ports[i].device_index];
        if (rdma->ports[i].device_index == device) {
            fail_lanes(flow, device, rdma->ports[i].port, true, &why);
        }
    }
    if (!any_left) {
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

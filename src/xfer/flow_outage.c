/* Detects that a flow has no lane for longer than any outage that it has to survive, or that all
 * its routes need devices that relays have lost. An attempt that began after the end of such an
 * outage fails for another reason. */
#include <string.h>

#include "rdma/timers.h"
#include "xfer/flow_private.h"

static bool has_no_relays(const struct flow *flow)
{
    return flow->config.n_lanes == 1 && flow->lanes[0].n_via == 0;
}

/* Returns when the longest outage is over that began before the flow failed, or before a port of
 * this host came up: 4 s on the only cable, 5 s in a mesh (docs/scenario.md, "Faults"). */
static weft_ns outage_end(const struct flow *flow)
{
    weft_ns longest =
        has_no_relays(flow) ? TIMER_FIRST_LANE_NS - TIMER_SYN_NS : TIMER_OUTAGE_NS;
    weft_ns since = flow->silent_ns != 0 ? flow->silent_ns : flow->without_ns;

    since = flow->port_up_ns > since ? flow->port_up_ns : since;
    return since + timer_limit(longest, flow->config.conn.patience);
}

static bool may_turn(const struct flow *flow, const struct flow_lane *lane)
{
    return lane->n_via > 0 && flow->config.reroute != NULL;
}

static bool is_relays(const struct weft_error *why, const char *reason)
{
    const struct weft_value *given = weft_error_value(why, WEFT_VALUE_REASON);

    return given != NULL && strcmp(given->text, reason) == 0;
}

/* Returns true if the receiver, or a path MTU probe, ended an attempt that otherwise could have
 * succeeded. */
static bool is_cut_short(const struct weft_error *why)
{
    enum weft_phase first = weft_error_first_phase(why);

    return first == WEFT_PHASE_EPOCH || first == WEFT_PHASE_RETURN ||
           is_relays(why, "again");
}

static bool is_route(const struct flow_lane *lane, const uint16_t *via, uint32_t n_via)
{
    return lane->n_via == n_via && memcmp(lane->via, via, n_via * sizeof(*via)) == 0;
}

/* Records whether relays have lost the devices of the lane's routes, which do not come back. While
 * another lane is up, this one keeps its route, so that its failures say nothing about others. */
static void note_gone(const struct flow *flow, struct flow_lane *lane,
                      const struct weft_error *why)
{
    if (flow_any_up(flow) || !is_relays(why, "gone")) {
        lane->n_gone_via = 0;
        lane->is_gone = false;
    } else if (lane->n_gone_via == 0) {
        lane->n_gone_via = lane->n_via;
        memcpy(lane->gone_via, lane->via, sizeof(lane->gone_via));
    } else if (is_route(lane, lane->gone_via, lane->n_gone_via)) {
        lane->is_gone = true;
    }
}

void flow_outage_note(struct flow *flow, struct flow_lane *lane,
                      const struct weft_error *why, bool shows_suspicion)
{
    const struct conn *conn = lane->conn;
    bool is_wanted = flow->config.is_sender && flow->config.cables_ns != 0 &&
                     flow->config.conn.policy == WEFT_POLICY_WEFT;

    if (is_wanted) {
        note_gone(flow, lane, why);
    }
    /* One of several rails may have failed whose ports the next attempt leaves out. */
    if (!is_wanted || shows_suspicion || is_cut_short(why) || conn->n_rails > 1 ||
        conn->started_ns < outage_end(flow)) {
        return;
    }
    if (!may_turn(flow, lane)) {
        lane->over_ns = conn->started_ns;
    } else if (lane->round_ns < outage_end(flow)) {
        lane->round_ns = conn->started_ns;
        lane->n_round_via = lane->n_via;
        memcpy(lane->round_via, lane->via, sizeof(lane->round_via));
    }
}

void flow_outage_turn(struct flow_lane *lane)
{
    if (lane->round_ns != 0 && is_route(lane, lane->round_via, lane->n_round_via)) {
        lane->over_ns = lane->round_ns;
    }
}

bool flow_outage_is_over(const struct flow *flow)
{
    /* A process that stands still is waited for. */
    bool all = flow->without_ns != 0 && flow->still_ns == 0;

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        const struct flow_lane *lane = &flow->lanes[i];

        all = all && (lane->is_gone ||
                      (lane->over_ns != 0 && lane->over_ns >= outage_end(flow)));
    }
    return all;
}

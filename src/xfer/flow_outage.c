/* Detects that a flow that was never up has no lane for longer than any outage that it has to
 * survive. An attempt that began after the end of such an outage fails for another reason. */
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

void flow_outage_note(struct flow *flow, struct flow_lane *lane, bool shows_suspicion)
{
    const struct conn *conn = lane->conn;
    bool is_wanted = flow->config.is_sender && flow->config.cables_ns != 0 &&
                     flow->config.conn.policy == WEFT_POLICY_WEFT;

    /* One of several rails may have failed whose ports the next attempt leaves out. */
    if (flow->was_up || !is_wanted || shows_suspicion || conn->n_rails > 1 ||
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
    if (lane->round_ns != 0 && lane->n_via == lane->n_round_via &&
        memcmp(lane->via, lane->round_via, lane->n_via * sizeof(lane->via[0])) == 0) {
        lane->over_ns = lane->round_ns;
    }
}

bool flow_outage_is_over(const struct flow *flow)
{
    /* A process that stands still is waited for. */
    bool all = !flow->was_up && flow->without_ns != 0 && flow->still_ns == 0;

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        weft_ns over = flow->lanes[i].over_ns;

        all = all && over != 0 && over >= outage_end(flow);
    }
    return all;
}

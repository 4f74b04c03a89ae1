/* Handles lanes that failed. Decides which ports are suspected, when the sender connects again and
 * over which ports, and when both ends give up. The sender acts. The receiver waits, within the
 * same limit. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "rdma/path_mtu.h"
#include "rdma/policy.h"
#include "xfer/attempt.h"
#include "xfer/flow_private.h"

/* Refusals without a moved message after which a flow ends. */
#define REFUSALS_MAX 3u

static weft_ns now_of(const struct flow *flow)
{
    return io_now(flow->rdma->env);
}

/* Returns a limit of rdma/timers.h at the patience of the flow. */
static weft_ns limit_of(const struct flow *flow, weft_ns limit)
{
    return timer_limit(limit, flow->config.conn.patience);
}

/* Returns true if the flow has no route but the cables that both ends share. */
static bool has_cables_only(const struct flow *flow)
{
    return flow->config.n_lanes == 1 && flow->lanes[0].n_via == 0 &&
           flow->config.cables_ns != 0;
}

/* Returns how long a flow that was up may be without a lane. */
static weft_ns allowed_ns(const struct flow *flow)
{
    weft_ns allowed =
        has_cables_only(flow) ? flow->config.cables_ns : flow->config.failover_ns;
    weft_ns stall = limit_of(flow, TIMER_STALL_NS);

    return flow->may_stall && allowed < stall ? stall : allowed;
}

/* Returns the time limit for one address of the peer. */
static weft_ns address_ns(const struct flow *flow, const struct flow_lane *lane)
{
    bool is_urgent = flow->without_ns != 0 && !flow->may_stall;
    weft_ns most = limit_of(flow, TIMER_ADDRESS_NS);
    uint32_t n_doubled = lane->tries > 0 ? lane->tries - 1 : 0;

    return is_urgent ? flow_doubled(TIMER_ADDRESS_FIRST_NS, n_doubled, most) : most;
}

bool flow_may_stall(const struct flow *flow)
{
    bool any = flow->may_stall;

    for (uint32_t i = 0; i < flow->rdma->env->n_devices; i++) {
        any = any || flow->rdma->attrs[i].may_stall;
    }
    return any;
}

void flow_failover_config(const struct flow *flow, const struct flow_lane *lane,
                          struct conn_config *config)
{
    /* Before the flow was up, this end does not know whether the peer is software. */
    weft_ns attempt = attempt_ns(config, flow->may_stall || !flow->was_up, lane->n_via);

    suspects_exclude_all(&flow->suspects, config);
    /* This also applies after a failure if the flow was never up here, because it may have been up
     * at the peer. */
    if (flow->was_up || flow->without_ns != 0) {
        attempt_lower(&config->authenticate_ns, address_ns(flow, lane));
    }
    if (lane->n_via > 0 && flow->config.reroute != NULL) {
        /* Leave time for another route. */
        attempt_lower(&config->patience_ns, limit_of(flow, TIMER_ADDRESS_NS));
        attempt_lower(&config->total_ns, attempt);
    }
    if (!flow->was_up) {
        /* The rendezvous has brought the handle of a rank that listens. Further attempts
         * show whether its cable is away, for as long as any cable may be. */
        config->is_known_to_run = lane->n_via == 0 && flow->config.cables_ns != 0 &&
                                  flow->config.conn.policy == WEFT_POLICY_WEFT;
        if (lane->n_via == 0 && flow->suspects.n > 0) {
            /* The only cable left may have failed, while the suspected port is back. */
            attempt_lower(&config->patience_ns,
                          limit_of(flow, TIMER_ADDRESSES * TIMER_ADDRESS_NS));
        }
        if (flow->config.redials) {
            /* The cable of the stream may have failed, and another attempt uses another address.
             * Each attempt has a longer limit, for a cable that only loses many packets. */
            config->silence_ns = flow_doubled(
                flow_may_stall(flow) ? attempt : limit_of(flow, TIMER_SILENCE_NS),
                lane->tries, config->total_ns);
        }
        return;
    }
    config->management_first = true; /* the cable may be the one that failed */
    config->patience_ns = 0; /* a peer that has listened and no longer does has exited */
    attempt_lower(&config->total_ns, attempt);
}

/* ---- a lane failed ---- */

/* Returns true if the peer has closed or its process has exited, as the failure shows. */
static bool is_peer_dead(const struct flow *flow, const struct flow_lane *lane,
                         const struct weft_error *why)
{
    const struct weft_value *relay = weft_error_value(why, WEFT_VALUE_RELAY);
    const struct weft_value *reason = weft_error_value(why, WEFT_VALUE_REASON);
    uint32_t peer = flow->config.is_sender ? flow->config.to : flow->config.from;

    if (reason != NULL && relay != NULL) {
        /* A relay has waited long enough for a process that stands still. */
        bool is_gone = strcmp(reason->text, "dead") == 0 && flow->was_up;
        bool is_still = strcmp(reason->text, "still") == 0 && !flow_any_up(flow);

        return relay->number == (int64_t)peer && (is_gone || is_still);
    }
    if (why->phase == WEFT_PHASE_PEER &&
        weft_error_value(why, WEFT_VALUE_PEER_PHASE) == NULL) {
        return true; /* the peer closed; relays forward that */
    }
    if (lane->n_via > 0) {
        return false;
    }
    if (why->phase == WEFT_PHASE_STREAM) {
        /* The stream ended without a message, as that of a process that exits does. */
        return lane->conn_was_up &&
               (why->sys_errno == 0 || why->sys_errno == ECONNRESET ||
                why->sys_errno == EPIPE);
    }
    return flow->was_up && why->phase == WEFT_PHASE_TCP && why->sys_errno == ECONNREFUSED;
}

static bool is_relays(const struct weft_error *why, const char *reason)
{
    const struct weft_value *given = weft_error_value(why, WEFT_VALUE_REASON);

    return given != NULL && strcmp(given->text, reason) == 0;
}

/* Returns true if a relay wants another attempt after a path MTU probe of its own. It may have
 * lowered the path MTU, but does not report that. */
static bool is_relays_path(const struct weft_error *why)
{
    return is_relays(why, "again");
}

/* Returns true if a port of a relay went down. The relay waits for it, or has another one. */
static bool is_relays_port(const struct weft_error *why)
{
    return is_relays(why, "port");
}

/* Returns true if this end lost a device and the failure has errno 5 (EIO), as every verb on a lost
 * device does. Facts exchanged before the loss are stale. */
static bool is_of_lost_device(const struct flow *flow, const struct weft_error *why)
{
    bool any = false;

    for (uint32_t i = 0; i < flow->rdma->env->n_devices; i++) {
        any = any || flow->rdma->is_lost[i];
    }
    return any && why->sys_errno == EIO;
}

/* Returns true if a relayed lane may come up over another route, or over the same one later. A
 * relay reports `dead` if the next member refuses connections. Before the flow was up, that does
 * not prove that the member has exited, because it may have no room for a moment. */
static bool may_detour(const struct flow *flow, const struct flow_lane *lane,
                       const struct weft_error *why)
{
    if (lane->n_via == 0) {
        return false;
    }
    if (why->phase == WEFT_PHASE_RELAY) {
        return is_relays_path(why) || is_relays_port(why) || is_relays(why, "lost") ||
               is_relays(why, "dead") || is_relays(why, "refused") ||
               is_relays(why, "gone");
    }
    return flow->config.reroute != NULL &&
           (why->status == WEFT_ERR_SYSTEM || why->status == WEFT_ERR_CLOSED ||
            why->status == WEFT_ERR_TIMEOUT || why->status == WEFT_ERR_ROUTE ||
            why->status == WEFT_ERR_COMPLETION);
}

/* Returns true if the failure only shows that nothing came from the peer. */
static bool is_silence(const struct weft_error *why)
{
    return why->status == WEFT_ERR_TIMEOUT &&
           weft_error_value(why, WEFT_VALUE_SILENT_NS) != NULL;
}

/* Returns true if nothing came from the peer and the flow redials, because the cable of the stream
 * may have failed. */
static bool is_stuck(const struct flow *flow, const struct weft_error *why)
{
    return flow->config.redials && is_silence(why);
}

/* Returns true if an attempt left out a suspected port that is active. A port that is down would
 * not have been chosen either. */
static bool left_out_active(const struct flow *flow, const struct conn_config *config)
{
    for (uint32_t i = flow->config.conn.n_excluded; i < config->n_excluded; i++) {
        if (suspects_is_active(flow->rdma, config->excluded[i].device,
                               config->excluded[i].port)) {
            return true;
        }
    }
    return false;
}

/* Returns true if either end has no address in a subnet of its peer. */
static bool lacks_address(const struct weft_error *why)
{
    enum weft_phase there = weft_error_peer_phase(why);

    return there == WEFT_PHASE_NONE ? conn_lacks_address(why) : there == WEFT_PHASE_ROUTE;
}

/* Records whether the last attempt showed that a direct lane has no ports to come up over. An
 * attempt that excluded suspected ports does not show that. */
static void note_no_way(const struct flow *flow, struct flow_lane *lane,
                        const struct weft_error *why)
{
    bool has_none = lane->n_via == 0 && lacks_address(why) &&
                    lane->conn->config.n_excluded == flow->config.conn.n_excluded;

    if (!has_none) {
        free(lane->no_way);
        lane->no_way = NULL;
        return;
    }
    if (lane->no_way == NULL) {
        lane->no_way = weft_calloc(1, sizeof(*lane->no_way));
    }
    *lane->no_way = *why;
}

/* Returns true if a verb at an end of the lane, or at a relay of it, was refused for a reason that
 * waiting does not remove. */
static bool is_refused(const struct weft_error *why)
{
    return conn_is_refused(why) || is_relays(why, "refused");
}

/* Returns true if waiting does not help after the failure of a lane, as far as this end knows. A
 * port that is down may come up and get its addresses. An end to which the peer reported the
 * failure does not know that the peer's address is missing for good. A host with other ports may
 * have another route. */
static bool is_for_good(const struct flow *flow, const struct flow_lane *lane,
                        const struct weft_error *why)
{
    bool is_all = lane->conn->config.n_excluded == flow->config.conn.n_excluded;
    bool has_one_way = has_cables_only(flow) || flow->rdma->n_ports == 1;

    return flow->config.conn.policy == WEFT_POLICY_WEFT &&
           (is_refused(why) || (has_one_way && is_all && conn_lacks_address(why) &&
                                !conn_any_down(lane->conn)));
}

/* Returns true if an attempt may only show that an end excluded the ports that it suspects. The
 * receiver cannot distinguish that from other reasons of the sender. */
static bool shows_suspicion(const struct flow *flow, const struct flow_lane *lane,
                            const struct weft_error *why)
{
    enum weft_phase there = weft_error_peer_phase(why);

    if (there != WEFT_PHASE_NONE) {
        return !flow->config.is_sender && there == WEFT_PHASE_ROUTE;
    }
    return why->status == WEFT_ERR_ROUTE && left_out_active(flow, &lane->conn->config);
}

/* Returns true if the connection that failed had been up for a while. An attempt to replace it that
 * fails does not count, however long ago the lane was up. */
static bool was_steady(const struct flow_lane *lane, weft_ns now)
{
    return lane->state == FLOW_LANE_STOPPING && now - lane->up_ns >= TIMER_STEADY_NS;
}

/* Records since when the lane fails for a reason that waiting does not remove, and when the last
 * attempt began. */
static void note_hope(struct flow *flow, struct flow_lane *lane,
                      const struct weft_error *why)
{
    bool is_first = true;

    if (shows_suspicion(flow, lane, why)) {
        return;
    }
    lane->hopeless_ns = was_steady(lane, now_of(flow)) ? 0 : lane->hopeless_ns;
    lane->asked_ns = lane->conn->started_ns;
    if (!is_for_good(flow, lane, why)) {
        lane->hopeless_ns = 0;
        return;
    }
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        is_first = is_first && flow->lanes[i].hopeless_ns == 0;
    }
    if (is_first) {
        flow->hopeless_failure = *why;
    }
    lane->hopeless_ns = lane->hopeless_ns != 0 ? lane->hopeless_ns : now_of(flow);
}

/* Returns true if the cause of a failure was a port, at either end, that is up again. */
static bool is_port_back(const struct flow *flow, const struct conn *conn,
                         const struct weft_error *why)
{
    return suspects_is_back(flow->rdma, conn, why);
}

/* Returns true if this end observed the failure itself, and if it does not only show that the peer
 * has given up. */
static bool is_own(const struct weft_error *why)
{
    enum weft_phase phase = why->phase;
    bool is_others = phase == WEFT_PHASE_TCP || phase == WEFT_PHASE_STREAM ||
                     phase == WEFT_PHASE_PEER || phase == WEFT_PHASE_EPOCH ||
                     phase == WEFT_PHASE_RETURN || phase == WEFT_PHASE_RELAY;

    return !is_others && weft_error_peer_phase(why) == WEFT_PHASE_NONE;
}

/* Returns true if this end had ports for the attempt, and the attempt failed on their cables. */
static bool is_of_cable(const struct weft_error *why)
{
    bool is_cable = why->phase == WEFT_PHASE_CONNECT_QPS ||
                    why->phase == WEFT_PHASE_RTR || why->phase == WEFT_PHASE_PROBE ||
                    why->phase == WEFT_PHASE_DATA;

    return is_cable && is_own(why) && why->status != WEFT_ERR_ROUTE;
}

/* Returns true if the failure shows what an end lacks: ports that face the peer, or a verb that was
 * refused. It shows more than a silence, which can have any cause. */
static bool names_lack(const struct flow *flow, const struct flow_lane *lane,
                       const struct weft_error *why)
{
    return (lacks_address(why) || is_refused(why)) && !shows_suspicion(flow, lane, why);
}

/* Drops the reason why a lane is not up, if that is a port that is up again. */
static void drop_why(const struct flow *flow, struct flow_lane *lane)
{
    if (lane->why != NULL && is_port_back(flow, lane->conn, lane->why)) {
        free(lane->why);
        lane->why = NULL;
    }
}

/* Records the first reason why a lane is not up. A failure that this end observed replaces one that
 * the peer reported. A failure of a cable replaces the lack of one, and what an end lacks replaces
 * a silence. An attempt that found no ports perhaps because an end excluded some does not count. */
static void note_why(const struct flow *flow, struct flow_lane *lane,
                     const struct weft_error *why)
{
    bool is_end = why->phase == WEFT_PHASE_EPOCH || why->phase == WEFT_PHASE_RETURN;
    bool is_heard = why->phase == WEFT_PHASE_PEER;
    bool is_route = why->status == WEFT_ERR_ROUTE;
    bool is_closer;

    drop_why(flow, lane);
    is_closer =
        lane->why != NULL && ((lane->why->status == WEFT_ERR_ROUTE && is_of_cable(why)) ||
                              (is_silence(lane->why) && names_lack(flow, lane, why)));
    if (is_end || shows_suspicion(flow, lane, why) ||
        (lane->why != NULL && !is_closer &&
         (is_heard || is_route || lane->why->phase != WEFT_PHASE_PEER))) {
        return;
    }
    if (lane->why == NULL) {
        lane->why = weft_calloc(1, sizeof(*lane->why));
    }
    *lane->why = *why;
}

/* Returns the number of relays of the lanes that are up, or that have been up if none is now. They
 * stood in for a lane that was never up. */
static uint32_t relays_in_use(const struct flow *flow)
{
    uint16_t relays[FLOW_LANES_MAX * FLOW_VIA_MAX];
    bool any_up = flow_any_up(flow);
    uint32_t n = 0;

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        const struct flow_lane *lane = &flow->lanes[i];
        bool is_used = any_up ? lane->state == FLOW_LANE_UP : lane->was_up;

        for (uint32_t v = 0; is_used && v < lane->n_via; v++) {
            bool is_new = true;

            for (uint32_t k = 0; k < n; k++) {
                is_new = is_new && relays[k] != lane->via[v];
            }
            if (is_new) {
                relays[n++] = lane->via[v];
            }
        }
    }
    return n;
}

/* Records that a lane still waits for its first connection. */
static void note_waiting(const struct flow *flow, struct flow_lane *lane)
{
    const struct conn *conn = lane->conn;
    struct weft_error why = {0};

    weft_fail(&why, WEFT_ERR_TIMEOUT, conn_state_phase(conn->state),
              "no connection came up while another lane carried the job");
    if (conn->n_rails > 0) {
        suspects_name_rail(&why, conn, &conn->rails[0]);
    }
    note_why(flow, lane, &why);
}

void flow_note_unconnected(struct flow *flow)
{
    uint32_t n_relays = relays_in_use(flow);
    bool is_overdue =
        flow->config.is_sender && flow->was_up &&
        now_of(flow) - flow->first_up_ns >= limit_of(flow, TIMER_FIRST_LANES_NS);

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        struct flow_lane *lane = &flow->lanes[i];

        if (lane->was_up || lane->share == 0 || lane->n_via > 0) {
            continue;
        }
        drop_why(flow, lane);
        if (is_overdue && lane->state == FLOW_LANE_CONNECTING) {
            note_waiting(flow, lane);
        }
        if (lane->why != NULL && n_relays > 0) {
            weft_error_int(lane->why, WEFT_VALUE_STOOD_IN_RELAYS, n_relays);
        }
        if (lane->no_way != NULL && n_relays > 0) {
            weft_error_int(lane->no_way, WEFT_VALUE_STOOD_IN_RELAYS, n_relays);
        }
    }
}

/* Returns how long an address may be missing, or a verb may be refused, before the lane counts as
 * hopeless (docs/scenario.md, "Faults"). In a mesh an address may be missing as long as any
 * route. */
static weft_ns away_ns(const struct flow *flow)
{
    bool is_short = has_cables_only(flow) || is_refused(&flow->hopeless_failure);

    return limit_of(flow, is_short ? TIMER_ARP_NS : TIMER_OUTAGE_NS);
}

/* Returns since when no lane can come up in a rank's flow that moved no data yet, as far as this
 * end knows, or WEFT_NEVER. An address may be missing for away_ns(), also after other failures. So
 * only an attempt that began later than that shows that it stays missing. */
static weft_ns hopeless_since(const struct flow *flow)
{
    weft_ns since = flow->port_up_ns;
    bool all = !flow->has_moved && flow->config.cables_ns != 0;

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        weft_ns lanes = flow->lanes[i].hopeless_ns;

        all = all && lanes != 0;
        since = lanes > since ? lanes : since;
    }
    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        all = all && flow->lanes[i].asked_ns >= since + away_ns(flow);
    }
    return all ? since : WEFT_NEVER;
}

/* Returns true if a set-up that failed because an address is missing may be tried again. An end can
 * have started before its port had all of its addresses. */
static bool may_get_address(const struct flow *flow, const struct weft_error *why)
{
    return flow->config.conn.policy == WEFT_POLICY_WEFT && lacks_address(why) &&
           now_of(flow) - flow->without_ns < limit_of(flow, TIMER_CABLES_NS);
}

/* Returns true if TCP failed on a direct lane while suspected ports were excluded. */
static bool is_unreached_without(const struct flow *flow, const struct flow_lane *lane,
                                 const struct weft_error *why)
{
    const struct conn_config *config = &lane->conn->config;

    return lane->n_via == 0 && config->n_excluded > flow->config.conn.n_excluded &&
           why->phase == WEFT_PHASE_TCP;
}

void flow_note_still(struct flow *flow, const struct flow_lane *lane)
{
    struct io_env *env = flow->rdma->env;
    weft_ns still;

    if (flow->without_ns == 0 || lane->conn == NULL || !flow_may_stall(flow)) {
        return;
    }
    still = conn_still_ns(lane->conn);
    if (still <= flow->still_ns || still + TIMER_BEAT_NS < flow->without_ns) {
        return;
    }
    if (flow->still_ns == 0 && weft_trace_on(env->trace, WEFT_TRACE_STORY)) {
        weft_ns now = io_log_now(env);

        weft_trace_event(env->trace, now, env->name, "flow", "stands_still",
                         "from=%u to=%u lane=%u without_ns=%lld", flow->config.from,
                         flow->config.to, lane->index,
                         (long long)(now - flow->without_ns));
    }
    flow->still_ns = still < flow->without_ns ? flow->without_ns : still;
}

/* Returns true if an end stalled when the lane failed. The failure then proves nothing about the
 * cable. */
static bool is_still(const struct flow *flow, const struct flow_lane *lane)
{
    weft_ns still = conn_still_ns(lane->conn);

    return flow_may_stall(flow) && still != 0 && now_of(flow) - still < TIMER_BEAT_NS;
}

/* Returns how long the flow may be without a lane, unless it is hopeless. A flow that was never up
 * has time for two lost SYNs, which TCP retransmits after 1 s and 3 s (RFC 6298). */
static weft_ns usual_patience(const struct flow *flow)
{
    weft_ns patience = allowed_ns(flow), least = limit_of(flow, TIMER_FIRST_LANE_NS);

    return flow->was_up || patience > least ? patience : least;
}

/* Returns how long the flow may be without a lane. */
static weft_ns patience_of(const struct flow *flow)
{
    return hopeless_since(flow) != WEFT_NEVER
               ? flow->config.cables_ns + away_ns(flow) - limit_of(flow, TIMER_ARP_NS)
               : usual_patience(flow);
}

/* Returns true if set-up failed because a port at either end is down, or because nothing passed.
 * Another attempt within patience_of() can then succeed. Records that in the event log.
 *
 * Reads the ports, because the event of a port can come later than the failure that it caused. It
 * can also come long after the port is back, because the step to RTR waits for the reply to a lost
 * packet. */
static bool waits_for_port(const struct flow *flow, const struct flow_lane *lane,
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
                     (long long)patience_of(flow));
    return true;
}

/* Returns true if another attempt can succeed, now or later. */
static bool may_retry(const struct flow *flow, const struct flow_lane *lane,
                      const struct weft_error *why)
{
    if (flow->was_up || flow->config.n_lanes > 1 || conn_path_is_judged(why) ||
        is_still(flow, lane) || may_detour(flow, lane, why) ||
        is_of_lost_device(flow, why) || is_stuck(flow, why) ||
        conn_is_unanswered(lane->conn) || may_get_address(flow, why) ||
        is_unreached_without(flow, lane, why)) {
        return true;
    }
    return !flow->config.is_sender ||
           (lane->conn->n_rails > 1 &&
            (suspects_accused(flow->rdma, why) != NULL || why->phase == WEFT_PHASE_PORT ||
             weft_error_value(why, WEFT_VALUE_PEER_PHASE) != NULL)) ||
           waits_for_port(flow, lane, why);
}

static weft_ns pause_of(const struct flow_lane *lane, const struct weft_error *why)
{
    if (weft_error_value(why, WEFT_VALUE_SUSPECTED_MTU) != NULL || is_relays_path(why)) {
        return RDMA_PATH_PAUSE_NS;
    }
    return lane->tries <= 1
               ? 0
               : flow_doubled(TIMER_RETRY_FIRST_NS, lane->tries,
                              is_relays_port(why) ? TIMER_RETRY_VIA_NS : TIMER_RETRY_NS);
}

/* Returns when a flow without a lane ends, unless it is hopeless. A port that comes up may end the
 * last fault. Recovery takes some time from then on, however long the flow was without a lane
 * before. The same applies after an end has stalled. */
static weft_ns usual_end(const struct flow *flow)
{
    weft_ns patience = usual_patience(flow), end = flow->without_ns + patience;
    weft_ns recovery = limit_of(flow, TIMER_RECOVERY_NS);
    weft_ns hope =
        flow->config.failover_ns < recovery ? flow->config.failover_ns : recovery;
    weft_ns most = flow->without_ns + limit_of(flow, TIMER_FAILOVER_MAX_NS);
    weft_ns extended = flow->port_up_ns + hope < most ? flow->port_up_ns + hope : most;

    weft_ns last = flow->without_ns + limit_of(flow, TIMER_STILL_NS);
    weft_ns still = flow->still_ns + patience < last ? flow->still_ns + patience : last;

    end = flow->still_ns != 0 && still > end ? still : end;
    return flow->port_up_ns != 0 && extended > end ? extended : end;
}

weft_ns flow_end_of_patience(const struct flow *flow)
{
    weft_ns since, end, sooner;

    if (flow->without_ns == 0) {
        return WEFT_NEVER;
    }
    since = hopeless_since(flow);
    end = usual_end(flow);
    if (flow_outage_is_over(flow) && now_of(flow) < end) {
        end = now_of(flow);
    }
    if (since == WEFT_NEVER) {
        return end;
    }
    sooner = (flow->still_ns > since ? flow->still_ns : since) + patience_of(flow);
    return sooner < end ? sooner : end;
}

weft_status flow_give_up_waiting(struct flow *flow)
{
    const struct weft_error *last = &flow->last_failure;
    struct weft_error error =
        hopeless_since(flow) != WEFT_NEVER ? flow->hopeless_failure : flow->first_failure;
    char phase[WEFT_PHASE_TEXT_BYTES];

    weft_error_int(&error, WEFT_VALUE_FAILOVER_NS,
                   flow_outage_is_over(flow) ? now_of(flow) - flow->without_ns
                                             : patience_of(flow));
    if (flow->still_ns != 0) {
        weft_error_int(&error, WEFT_VALUE_STILL_NS, flow->still_ns - flow->without_ns);
    }
    weft_error_int(&error, WEFT_VALUE_FROM, flow->config.from);
    weft_error_int(&error, WEFT_VALUE_TO, flow->config.to);
    weft_error_int(&error, WEFT_VALUE_LANES, flow->config.n_lanes);
    weft_error_text(&error, WEFT_VALUE_LAST_PHASE, weft_error_phase_text(last, phase));
    weft_error_text(&error, WEFT_VALUE_LAST_MESSAGE, last->message);
    return flow_give_up(flow, &error);
}

/* Records whether an end of a lane is software, and on how many rails the ends of a direct lane
 * agreed. A rail on which they agreed but that did not come up is recovered like one that failed
 * later. */
static void note_rails(struct flow *flow, const struct flow_lane *lane)
{
    flow->may_stall = flow->may_stall || conn_may_stall(lane->conn);
    if (lane->n_via == 0 && lane->conn->n_rails > flow->n_rails_best) {
        flow->n_rails_best = lane->conn->n_rails;
    }
}

/* Returns true if this end refused what the peer sent on each of the last connections, and nothing
 * was moved in between. A new connection repeats the same. A single refusal can be of a message
 * that was damaged on its way. */
static bool is_refused_again(struct flow *flow, const struct weft_error *why)
{
    bool is_refusal =
        why->status == WEFT_ERR_PROTOCOL && why->phase == WEFT_PHASE_DATA && is_own(why);

    return is_refusal && ++flow->n_refusals >= REFUSALS_MAX;
}

/* Returns true if a later failure shows better why the flow has no lane than the first one, whose
 * cause is over, or which was only a silence. */
static bool replaces_first(const struct flow *flow, const struct flow_lane *lane,
                           const struct weft_error *why)
{
    bool is_known = is_own(why) || is_relays_path(why) || is_relays_port(why);

    return (is_known && is_port_back(flow, lane->conn, &flow->first_failure)) ||
           (is_silence(&flow->first_failure) && names_lack(flow, lane, why));
}

void flow_failed(struct flow *flow, struct flow_lane *lane, const struct weft_error *why)
{
    const struct rdma_port *port = suspects_blamed(flow->rdma, lane->conn, why);
    weft_ns now = now_of(flow);

    note_rails(flow, lane);
    note_no_way(flow, lane, why);
    note_hope(flow, lane, why);
    note_why(flow, lane, why);
    if (is_refused_again(flow, why)) {
        flow_give_up(flow, why);
        return;
    }
    if (lane->n_via > 0 && flow->config.is_sender && flow->config.lane_failed != NULL) {
        flow->config.lane_failed(flow->config.user, lane->via, lane->n_via, why);
    }
    lane->is_returning = why->phase == WEFT_PHASE_RETURN ||
                         weft_error_peer_phase(why) == WEFT_PHASE_RETURN;
    lane->tries = lane->is_returning || was_steady(lane, now) ? 1 : lane->tries + 1;
    lane->retry_ns = now + pause_of(lane, why);
    if (!flow_any_up(flow) && flow->without_ns == 0) {
        flow->without_ns = now;
        flow->still_ns = 0;
        flow->silent_ns = conn_silent_since(lane->conn, why);
        flow->first_failure = *why;
    } else if (!flow_any_up(flow) && replaces_first(flow, lane, why)) {
        flow->first_failure = *why;
    }
    flow_note_still(flow, lane);
    flow_outage_note(flow, lane, why, shows_suspicion(flow, lane, why));
    if (is_peer_dead(flow, lane, why) || !may_retry(flow, lane, why)) {
        /* A peer that gave up slightly earlier refuses connections, which is not the cause. */
        if (flow->without_ns == 0 || flow->without_ns == now) {
            flow_give_up(flow, why);
        } else {
            flow_give_up_waiting(flow);
        }
        return;
    }
    if (port != NULL && flow->config.is_sender) {
        flow_leave_out(flow, port, why);
    }
    if (is_unreached_without(flow, lane, why) ||
        (why->status == WEFT_ERR_ROUTE && why->phase != WEFT_PHASE_RELAY)) {
        /* Too many ports were suspected. */
        suspects_acquit_unproved(&flow->suspects);
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
    free(lane->no_way);
    lane->no_way = NULL;
    free(lane->why);
    lane->why = NULL;
    if (!flow->was_up && rdma_recovery(flow->config.conn.policy)->keeps_rails) {
        conn_keep(lane->conn, &flow->kept);
        flow->config.conn.kept = &flow->kept;
    }
    flow->first_up_ns = flow->was_up ? flow->first_up_ns : now;
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

weft_ns flow_first_lanes_end(const struct flow *flow)
{
    bool all_up = true;

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        const struct flow_lane *lane = &flow->lanes[i];

        all_up =
            all_up && (lane->was_up || (lane->share == 0 && flow->config.n_lanes > 1) ||
                       (lane->no_way != NULL && flow->was_up));
    }
    if (all_up) {
        return 0;
    }
    return flow->was_up && flow->config.may_fail_over
               ? flow->first_up_ns + limit_of(flow, TIMER_FIRST_LANES_NS)
               : WEFT_NEVER;
}

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "host/private.h"
#include "rdma/policy.h"

/* ---- starting ---- */

/* Notes the member that an error of a flow with `member` concerns. */
static weft_status blame(struct host *host, uint32_t member, weft_status status)
{
    if (status < 0) {
        host->error_peer = host_concerned(host, member);
        host->error_is_hearsay = host_is_hearsay(&host->error);
    }
    return status;
}

/* Returns WEFT_RELAY_BUFFERS of the environment, 1..64: the number of buffers that flows request
 * from relays. */
static uint32_t relay_buffers(const struct host *host)
{
    struct io_env *env = host->env;
    const char *text = env->ops->setting(env, "WEFT_RELAY_BUFFERS");
    char *end;
    unsigned long n;

    if (text == NULL || text[0] == '\0') {
        return host->config.flow.relay_buffers;
    }
    n = strtoul(text, &end, 10);
    if (*end != '\0' || n < 1 || n > HOST_RELAY_BUFFERS_MAX) {
        weft_log(env->log, WEFT_LOG_WARN, "%s: WEFT_RELAY_BUFFERS is not 1..%u: %s",
                 env->name, HOST_RELAY_BUFFERS_MAX, text);
        return host->config.flow.relay_buffers;
    }
    return (uint32_t)n;
}

static weft_status open_flow(struct host *host, uint32_t peer, bool is_sender,
                             struct flow **out)
{
    uint32_t self = host->config.rank;
    struct flow_config config = host->config.flow;

    /* Without other hosts no device is required, as long as all data stays inside. */
    if (host->env->n_devices == 0) {
        weft_fail(&host->error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_DISCOVER,
                  "no RDMA device");
        weft_error_object(&host->error, "%s", host->env->name);
        return WEFT_ERR_ENVIRONMENT;
    }
    config.from = is_sender ? self : peer;
    config.to = is_sender ? peer : self;
    config.is_sender = is_sender;
    config.conn = host->config.conn;
    config.may_fail_over =
        config.may_fail_over && rdma_recovery(host->config.conn.policy)->fails_over;
    config.task_kind = HOST_TASK_FLOW;
    config.relay_buffers = relay_buffers(host);
    host_lanes(host, config.from, config.to, &config);
    host->peers[peer].route = (struct host_route){.host = host, .to = peer};
    config.user = &host->peers[peer].route;
    config.lane_failed = host_lane_failed;
    config.reroute = host_reroute;
    config.redials = config.may_fail_over;
    return blame(host, peer,
                 flow_open(host->rdma, &config, &host->task, out, &host->error));
}

static const uint8_t *handle_of(void *context, uint32_t member)
{
    const struct host *host = context;

    return member < host->config.n_members ? host->peers[member].handle : NULL;
}

static weft_status open_relay(struct host *host)
{
    struct relay_config config = host->config.relay;

    if (host->config.conn.policy != WEFT_POLICY_WEFT ||
        host_owner(host, host->config.rank) != host->config.rank) {
        return WEFT_OK;
    }
    config.conn = host->config.conn;
    config.task_kind = HOST_TASK_RELAY;
    config.handle_of = handle_of;
    config.context = host;
    return relay_open(host->rdma, &config, &host->task, &host->relay, &host->error);
}

/* Opens the flows, beginning with the next rank, so that not all ranks connect to rank 0 first. */
static weft_status open_flows(struct host *host, const bool *sends_to,
                              const bool *receives_from)
{
    struct host_private *private = host->private;
    uint32_t n = host->config.n_ranks;
    weft_status status = WEFT_OK;

    private->flows = weft_calloc((size_t)n + 1, sizeof(*private->flows));
    for (uint32_t i = 1; i < n && status == WEFT_OK; i++) {
        uint32_t rank = (host->config.rank + i) % n;
        struct host_peer *peer = &host->peers[rank];

        if (!sends_to[rank] && !receives_from[rank]) {
            continue;
        }
        private->flows[private->n_flows++] = rank;
        if (receives_from[rank] && host_inside_leaves(host, rank, false)) {
            status = open_flow(host, rank, false, &peer->receive);
        }
        if (status == WEFT_OK && sends_to[rank] && host_inside_leaves(host, rank, true)) {
            status = open_flow(host, rank, true, &peer->send);
        }
    }
    return status;
}

weft_status host_connect_all(struct host *host)
{
    uint32_t n = host->config.n_ranks;
    bool *peers;
    weft_status status = open_relay(host);

    if (status != WEFT_OK || host->config.rank >= n) {
        return status;
    }
    peers = weft_calloc(2 * (size_t)n, sizeof(*peers));
    status = host_jobs_peers(host, peers, peers + n);
    if (status == WEFT_OK) {
        status = open_flows(host, peers, peers + n);
    }
    free(peers);
    return status;
}

/* ---- accepting ---- */

static struct flow *flow_for(struct host *host, struct conn *conn)
{
    for (uint32_t i = 0; i < host->private->n_flows; i++) {
        struct flow *flow = host->peers[host->private->flows[i]].receive;

        if (flow != NULL && flow_accept(flow, conn)) {
            return flow;
        }
    }
    return NULL;
}

weft_status host_accept(struct host *host)
{
    weft_status status = WEFT_OK;

    conn_listener_progress(host->listener);
    /* Before CONNECT there are no flows; early connections wait in the listener. */
    while (host->state >= HOST_CONNECT && status == WEFT_OK) {
        struct weft_error why = {0};
        struct conn *conn = conn_accept(host->listener);

        if (conn == NULL) {
            break;
        }
        if (flow_for(host, conn) != NULL ||
            (host->relay != NULL && relay_accept(host->relay, conn))) {
            status = host_connection_progress(host, conn);
            continue;
        }
        weft_log(host->env->log, WEFT_LOG_WARN,
                 "%s: a connection from %s belongs to no flow of this rank",
                 host->env->name, conn->peer.host);
        weft_fail(&why, WEFT_ERR_PROTOCOL, WEFT_PHASE_PURPOSE, "it belongs to no flow");
        conn_refuse(conn, &why);
        conn_destroy(conn);
    }
    return status;
}

/* ---- going on ---- */

static void note_rail(struct host *host, const struct host_connection *of,
                      const struct conn *conn, uint32_t i)
{
    const struct conn_rail *rail = &conn->rails[i];
    struct host_connection *out = host_note(host, of);

    out->rail = of->rail + i;
    out->local_gid = rail->local_gid;
    out->remote_gid = rail->remote_gid;
    out->gid_type = rail->gid_type;
    out->path_mtu = rail->path_mtu;
    out->vanished_mtu = rail->vanished_mtu;
    out->n_qps = conn->n_qps / conn->n_rails + (i < conn->n_qps % conn->n_rails);
    out->setup_ns = conn->up_ns - conn->started_ns;
    out->rtt_ns = conn->probe_rtt_ns;
    weft_format(out->local_port, sizeof(out->local_port), "%s", rail->port->name);
    if (rail->remote_port < conn->peer.n_ports) {
        weft_format(out->remote_port, sizeof(out->remote_port), "%s",
                    conn->peer.ports[rail->remote_port].name);
    }
}

/* Notes the connections of a flow that came up, lane by lane. */
static void note_flow(struct host *host, uint32_t rank)
{
    const struct flow *flow = host->peers[rank].send;
    struct host_connection of = {.to = rank, .transport = WEFT_TRANSPORT_NET};

    host_inside_why(host, rank, of.why);
    for (uint32_t lane = 0; lane < flow_n_lanes(flow); lane++) {
        const struct conn *conn = flow_lane_conn(flow, lane);

        if (conn == NULL) {
            continue;
        }
        of.n_via = flow_lane_via(flow, lane, of.via, HOST_VIA_MAX);
        for (uint32_t i = 0; i < conn->n_rails; i++) {
            note_rail(host, &of, conn, i);
        }
        of.rail += conn->n_rails;
    }
}

static weft_status progress_flow(struct host *host, uint32_t rank, bool is_sender)
{
    struct host_peer *peer = &host->peers[rank];
    struct flow *flow = is_sender ? peer->send : peer->receive;
    bool *up = is_sender ? &peer->send_up : &peer->receive_up;
    weft_status status = flow_progress(flow);

    if (status < 0) {
        host->error = *flow_error(flow);
        return blame(host, rank, status);
    }
    if (!*up && flow_is_up(flow)) {
        *up = true;
        if (is_sender) {
            note_flow(host, rank);
        }
    }
    return WEFT_OK;
}

weft_status host_connection_progress(struct host *host, struct conn *conn)
{
    const struct flow *flow = flow_of(conn);

    if (flow != NULL) {
        return progress_flow(host, flow_peer(flow), flow_is_sender(flow));
    }
    if (host->relay != NULL && relay_owns(host->relay, conn)) {
        relay_conn_progress(host->relay, conn);
        return WEFT_OK;
    }
    /* The connection was accepted by the listener and not yet returned by conn_accept. */
    return host->listener == NULL ? WEFT_OK : host_accept(host);
}

static const struct weft_error *trouble_with(const struct host *host, uint32_t rank)
{
    const struct host_peer *peer = &host->peers[rank];
    const struct weft_error *why = peer->send != NULL ? flow_trouble(peer->send) : NULL;

    return why == NULL && peer->receive != NULL ? flow_trouble(peer->receive) : why;
}

uint32_t host_trouble(struct host *host, uint32_t first)
{
    const struct weft_error *why = NULL;
    uint32_t rank = first;

    if (first < host->config.n_ranks) {
        why = trouble_with(host, first);
    }
    for (uint32_t i = 0; why == NULL && i < host->private->n_flows; i++) {
        rank = host->private->flows[i];
        why = trouble_with(host, rank);
    }
    if (why == NULL) {
        return HOST_NO_MEMBER;
    }
    host->error = *why;
    return host_concerned(host, rank);
}

void host_relay_trouble(struct host *host)
{
    bool is_hearsay = host->error_is_hearsay || host->error.phase == WEFT_PHASE_RELAY;
    /* A member without a rank is in CLOSE while others still run their jobs. */
    bool is_closing = host->private->is_closing;
    const struct weft_error *why = NULL;
    uint32_t member = HOST_NO_MEMBER;

    if (host->relay != NULL && is_hearsay && !is_closing) {
        why = relay_trouble(host->relay, &member);
    }
    if (why != NULL) {
        host->error = *why;
        host->error_peer = member;
        host->error_is_hearsay = false;
    }
}

static void notify_flow(struct flow *flow, uint32_t device,
                        const struct io_async_event *event)
{
    if (flow != NULL) {
        flow_device_event(flow, device, event);
    }
}

void host_device_event(struct host *host, uint32_t device,
                       const struct io_async_event *event)
{
    bool is_lost = event->type == IBV_EVENT_DEVICE_FATAL;
    struct weft_error ignored = {0};

    if (host->rdma == NULL ||
        (!is_lost && event->type != IBV_EVENT_PORT_ERR &&
         event->type != IBV_EVENT_PORT_ACTIVE && event->type != IBV_EVENT_GID_CHANGE)) {
        return;
    }
    if (is_lost) {
        rdma_lose_device(host->rdma, device);
    } else {
        /* Routes are chosen by the known state of the ports, which can date from before the end of
         * discovery. A port that cannot be read now keeps its state. */
        (void)(rdma_refresh(host->rdma, &ignored) == WEFT_OK);
    }
    for (uint32_t i = 0; i < host->private->n_flows; i++) {
        struct host_peer *peer = &host->peers[host->private->flows[i]];

        notify_flow(peer->send, device, event);
        notify_flow(peer->receive, device, event);
    }
    if (host->relay != NULL) {
        relay_device_event(host->relay, device, event);
    }
}

bool host_connects_to(const struct host *host, uint32_t rank)
{
    const struct host_peer *peer = &host->peers[rank];

    return (peer->send != NULL && !peer->send_up) ||
           (peer->receive != NULL && !peer->receive_up);
}

bool host_all_connected(const struct host *host)
{
    for (uint32_t i = 0; i < host->private->n_flows; i++) {
        if (host_connects_to(host, host->private->flows[i])) {
            return false;
        }
    }
    return host_inside_is_up(host);
}

/* ---- ending ---- */

/* Adds to the connections of a flow how fast they were. A software device moves data only while its
 * thread is scheduled, so how fast it is says nothing about the cable. */
static void note_paces(struct host *host, const struct flow *flow)
{
    uint32_t first = 0;

    for (uint32_t lane = 0; lane < flow_n_lanes(flow); lane++) {
        const struct conn *conn = flow_lane_conn(flow, lane);

        for (uint32_t i = 0;
             conn != NULL && !conn_may_stall(conn) && i < host->n_connections; i++) {
            struct host_connection *of = &host->connections[i];

            if (of->transport == WEFT_TRANSPORT_NET && of->to == flow_peer(flow) &&
                of->rail >= first && of->rail - first < conn->n_rails) {
                const struct conn_rail *rail = &conn->rails[of->rail - first];

                if (memcmp(rail->local_gid.raw, of->local_gid.raw, 16) == 0) {
                    of->pace = flow_lane_pace(flow, lane, of->rail - first);
                }
            }
        }
        first += conn != NULL ? conn->n_rails : 0;
    }
}

void host_close_all(struct host *host)
{
    for (uint32_t i = 0; i < host->private->n_flows; i++) {
        struct host_peer *peer = &host->peers[host->private->flows[i]];

        if (peer->send != NULL) {
            note_paces(host, peer->send);
            flow_close(peer->send);
        }
        if (peer->receive != NULL) {
            flow_close(peer->receive);
        }
    }
    if (host->relay != NULL) {
        relay_close(host->relay);
    }
    if (host->inside != NULL) {
        inside_close(host->inside);
    }
}

static void count_flow(struct host *host, const struct flow *flow)
{
    struct flow_counters *sum = &host->flows;
    struct flow_counters one;

    flow_counters(flow, &one);
    sum->xfer.messages_sent += one.xfer.messages_sent;
    sum->xfer.bytes_sent += one.xfer.bytes_sent;
    sum->xfer.messages_received += one.xfer.messages_received;
    sum->xfer.bytes_received += one.xfer.bytes_received;
    sum->xfer.cts_sent += one.xfer.cts_sent;
    sum->epochs += one.epochs;
    sum->failovers += one.failovers;
    sum->returns += one.returns;
    sum->without_lane_ns += one.without_lane_ns;
}

static void note_left_out(struct host *host, const struct flow *flow)
{
    const struct weft_error *why = flow_left_out(flow);

    if (why != NULL) {
        host->left_out = weft_realloc(host->left_out, ((size_t)host->n_left_out + 1) *
                                                          sizeof(*host->left_out));
        host->left_out[host->n_left_out++] =
            (struct host_left_out){.why = *why, .peer = flow_peer(flow)};
    }
}

static void destroy_flow(struct host *host, struct flow **flow)
{
    if (*flow != NULL) {
        count_flow(host, *flow);
        note_left_out(host, *flow);
    }
    flow_destroy(*flow);
    *flow = NULL;
}

/* Destroys a flow once it is closed, or if closing failed, which is ignored because all data has
 * arrived. Returns true if the flow is destroyed. */
static bool is_gone(struct host *host, struct flow **flow)
{
    if (*flow != NULL && !flow_is_closed(*flow)) {
        weft_status status = flow_progress(*flow);

        if (status >= 0 && !flow_is_closed(*flow)) {
            return false;
        }
    }
    destroy_flow(host, flow);
    return true;
}

weft_status host_closing_progress(struct host *host)
{
    bool all = true;

    for (uint32_t i = 0; i < host->private->n_flows; i++) {
        struct host_peer *peer = &host->peers[host->private->flows[i]];
        bool send = is_gone(host, &peer->send);
        bool receive = is_gone(host, &peer->receive);

        all = all && send && receive;
    }
    if (host->relay != NULL && !relay_is_closed(host->relay)) {
        relay_progress(host->relay);
        all = all && relay_is_closed(host->relay);
    }
    if (host->inside != NULL && !inside_is_closed(host->inside)) {
        all = host_inside_progress(host, NULL) == WEFT_OK &&
              inside_is_closed(host->inside) && all;
    }
    return all ? WEFT_OK : WEFT_AGAIN;
}

/* Closes a flow, so that the peer does not take its end for a death, and destroys it. For a killed
 * process it closes nothing, because the queues that a close polls ended with the process. */
static void drop(struct host *host, struct flow **flow)
{
    if (*flow != NULL && host->state != HOST_DEAD && !flow_is_closed(*flow)) {
        flow_close(*flow);
    }
    destroy_flow(host, flow);
}

void host_drop_all(struct host *host)
{
    for (uint32_t i = 0; i < host->private->n_flows; i++) {
        struct host_peer *peer = &host->peers[host->private->flows[i]];

        drop(host, &peer->send);
        drop(host, &peer->receive);
    }
    if (host->relay != NULL) {
        relay_close(host->relay);
        relay_counters(host->relay, &host->relayed);
        relay_destroy(host->relay);
        host->relay = NULL;
    }
    conn_listener_close(host->listener);
    host->listener = NULL;
}

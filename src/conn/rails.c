/* Selects the ports and GIDs of a connection: exchanges both ends' facts, makes the connector's
 * proposal, and checks it at the acceptor. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/private.h"
#include "rdma/path_mtu.h"
#include "rdma/policy.h"

/* ---- facts ---- */

static bool is_chosen(const struct conn_config *config, const struct rdma_port *port)
{
    for (uint32_t i = 0; i < config->n_chosen; i++) {
        if (config->chosen[i].device == port->device_index &&
            config->chosen[i].port == port->port) {
            return true;
        }
    }
    return false;
}

/* Returns true if a known address of the peer is in the subnet of `ip`. */
static bool has_peer_in(const struct conn *conn, const struct io_ip *ip,
                        uint8_t prefix_len)
{
    const struct codec_handle *handle = &conn->private->dial.handle;

    for (uint32_t i = 0; conn->is_connector && i < handle->n_endpoints; i++) {
        if (!handle->endpoints[i].is_management &&
            io_ip_same_subnet(ip, &handle->endpoints[i].prefix.ip, prefix_len)) {
            return true;
        }
    }
    for (uint32_t p = 0; p < conn->peer.n_ports; p++) {
        for (uint32_t g = 0; g < conn->peer.ports[p].n_gids; g++) {
            struct io_ip other = rdma_gid_ip(&conn->peer.ports[p].gids[g].gid);

            if (io_ip_same_subnet(ip, &other, prefix_len)) {
                return true;
            }
        }
    }
    return false;
}

static bool faces_peer(const struct conn *conn, const struct rdma_port *port)
{
    for (uint32_t g = 0; g < port->n_gids; g++) {
        struct io_ip ip = rdma_gid_ip(&port->gids[g].gid);

        if (port->gids[g].prefix_len > 0 && !io_ip_is_link_local(&ip) &&
            has_peer_in(conn, &ip, port->gids[g].prefix_len)) {
            return true;
        }
    }
    return false;
}

/* Selects the ports to report, in device order. If they do not all fit, prefers those that share a
 * subnet with the peer. */
static void choose_reported(struct conn *conn)
{
    struct conn_private *private = conn->private;
    const struct rdma *rdma = conn->rdma;
    uint32_t n_facing = 0, n_others = 0;

    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        n_facing += faces_peer(conn, &rdma->ports[i]);
    }
    private->n_local = 0;
    for (uint32_t i = 0; i < rdma->n_ports && private->n_local < CODEC_PORTS_MAX; i++) {
        if (!conn_opens(rdma->env, conn->config.policy, &rdma->ports[i])) {
            continue;
        }
        if (rdma->n_ports > CODEC_PORTS_MAX && !faces_peer(conn, &rdma->ports[i]) &&
            n_facing + n_others++ >= CODEC_PORTS_MAX) {
            continue;
        }
        private->local_ports[private->n_local] = i;
        conn_port_facts(rdma, i, &private->local[private->n_local++]);
    }
}

const uint8_t *conn_peer_id(const struct conn *conn)
{
    return conn->is_connector ? conn->private->dial.handle.host_id : conn->peer.host_id;
}

/* Lowers the reported MTU to the path MTU that can reach this peer. Policy weft only, because other
 * programs do not measure it. */
static void lower_mtu(const struct conn *conn, const struct rdma_port *port,
                      struct rdma_port_facts *facts)
{
    if (conn->config.policy == WEFT_POLICY_WEFT) {
        facts->active_mtu =
            rdma_path_mtu(conn->rdma, port, conn_peer_id(conn), facts->active_mtu);
    }
}

void conn_facts_body(struct conn *conn, struct codec_facts *out)
{
    struct io_env *env = conn_env(conn);
    struct conn_private *private = conn->private;

    memset(out, 0, sizeof(*out));
    conn_settle_ports(conn);
    choose_reported(conn);
    for (uint32_t i = 0; i < private->n_local; i++) {
        const struct rdma_port *port = &conn->rdma->ports[private->local_ports[i]];

        if (conn_excludes(&conn->config, port->device_index, port->port)) {
            private->local[i].is_active = false;
        }
        lower_mtu(conn, port, &private->local[i]);
        private->local[i].is_chosen =
            private->local[i].is_active && is_chosen(&conn->config, port);
    }
    out->policy = conn->config.policy;
    if (conn->is_connector) {
        memcpy(out->peer.purpose, conn->config.purpose, sizeof(out->peer.purpose));
        out->peer.wants_answer = conn->config.wants_answer;
    }
    weft_format(out->peer.host, sizeof(out->peer.host), "%s", env->name);
    memcpy(out->peer.host_id, io_host_id(env), sizeof(out->peer.host_id));
    out->peer.n_ports = private->n_local;
    memcpy(out->peer.ports, private->local, sizeof(private->local));
}

weft_status conn_take_facts(struct conn *conn, const struct codec_facts *facts)
{
    const struct codec_handle *handle = &conn->private->dial.handle;

    if (facts->policy != conn->config.policy) {
        weft_fail(&conn->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_FACTS,
                  "the peer's policy is %s, ours %s", weft_policy_name(facts->policy),
                  weft_policy_name(conn->config.policy));
        weft_error_text(&conn->error, WEFT_VALUE_FIELD, "policy");
        return WEFT_ERR_PROTOCOL;
    }
    if (conn->is_connector && memcmp(facts->peer.host_id, handle->host_id, 16) != 0) {
        weft_fail(&conn->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_FACTS,
                  "the peer is not the host of the handle");
        weft_error_text(&conn->error, WEFT_VALUE_FIELD, "host_id");
        return WEFT_ERR_PROTOCOL;
    }
    conn->peer = facts->peer;
    return WEFT_OK;
}

/* Returns the prefix length of a GID of a port, or 0 for a saved GID that the port lacks. */
static uint8_t prefix_len_of(const struct rdma_port_facts *port, uint32_t gid)
{
    return gid < port->n_gids ? port->gids[gid].prefix_len : 0;
}

void conn_add_values(struct conn *conn, uint32_t rail_index)
{
    const struct conn_private *private = conn->private;
    const struct rdma_rail *chosen = &private->chosen[rail_index];
    const struct rdma_port_facts *local = &private->local[chosen->local_port];
    const struct rdma_port_facts *remote = &conn->peer.ports[chosen->remote_port];
    const struct conn_rail *rail = &conn->rails[rail_index];
    struct weft_error *error = &conn->error;
    char gid[IO_IP_TEXT_BYTES];

    if (rail_index < private->n_qps_made && conn->qps[rail_index].remote.qpn != 0) {
        weft_error_int(error, WEFT_VALUE_LOCAL_QPN, conn->qps[rail_index].qpn);
        weft_error_int(error, WEFT_VALUE_REMOTE_QPN, conn->qps[rail_index].remote.qpn);
    }
    weft_error_int(error, WEFT_VALUE_RAILS, conn->n_rails);
    weft_error_text(error, WEFT_VALUE_LOCAL_PORT, local->name);
    weft_error_text(error, WEFT_VALUE_LOCAL_GID,
                    rdma_gid_format(&rail->local_gid, gid, sizeof(gid)));
    weft_error_text(error, WEFT_VALUE_LOCAL_GID_TYPE, rdma_gid_type_name(rail->gid_type));
    weft_error_text(error, WEFT_VALUE_REMOTE_PORT, remote->name);
    weft_error_text(error, WEFT_VALUE_REMOTE_GID,
                    rdma_gid_format(&rail->remote_gid, gid, sizeof(gid)));
    weft_error_text(error, WEFT_VALUE_REMOTE_GID_TYPE,
                    rdma_gid_type_name(rail->remote_gid_type));
    weft_error_int(error, WEFT_VALUE_PATH_MTU, rail->path_mtu);
    weft_error_int(error, WEFT_VALUE_LOCAL_MTU, local->netdev_mtu);
    weft_error_int(error, WEFT_VALUE_LOCAL_ACTIVE_MTU, local->active_mtu);
    weft_error_int(error, WEFT_VALUE_REMOTE_MTU, remote->netdev_mtu);
    weft_error_int(error, WEFT_VALUE_REMOTE_ACTIVE_MTU, remote->active_mtu);
    weft_error_int(error, WEFT_VALUE_LOCAL_PREFIX_LEN,
                   prefix_len_of(local, chosen->local_gid));
    weft_error_int(error, WEFT_VALUE_REMOTE_PREFIX_LEN,
                   prefix_len_of(remote, chosen->remote_gid));
}

static weft_status choose(struct conn *conn, uint32_t *out_n)
{
    struct conn_private *private = conn->private;
    uint32_t rails_max = CONN_QPS_MAX / conn->config.qps_per_rail;
    struct rdma_choice_input input = conn_choice_input(conn);
    weft_status status;

    if (conn->config.kept != NULL) {
        return conn_choose_kept(conn, out_n);
    }
    status = rdma_choose(&input, private->chosen,
                         rails_max < CONN_RAILS_MAX ? rails_max : CONN_RAILS_MAX, out_n,
                         &conn->error);

    for (uint32_t i = 0; status == WEFT_OK && i < *out_n; i++) {
        const struct rdma_rail *rail = &private->chosen[i];
        const struct rdma_port_facts *local = &private->local[rail->local_port];
        const struct rdma_port_facts *remote = &conn->peer.ports[rail->remote_port];

        if (rail->local_gid >= local->n_gids || rail->remote_gid >= remote->n_gids) {
            status = weft_fail(&conn->error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
                               "port %s or the peer's %s has no such GID", local->name,
                               remote->name);
        }
    }
    if (status == WEFT_OK && *out_n == 0) {
        status = weft_fail(&conn->error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
                           "no rail to the peer");
    }
    return status;
}

static void set_rail(struct conn *conn, uint32_t i)
{
    struct conn_private *private = conn->private;
    const struct rdma_rail *chosen = &private->chosen[i];
    const struct rdma_port_facts *local = &private->local[chosen->local_port];
    const struct rdma_port_facts *remote = &conn->peer.ports[chosen->remote_port];
    struct conn_rail *rail = &conn->rails[i];

    rail->port = &conn->rdma->ports[private->local_ports[chosen->local_port]];
    rail->remote_port = chosen->remote_port;
    rail->path_mtu = chosen->path_mtu;
    rail->vanished_mtu = rdma_path_vanished(conn->rdma, rail->port, conn_peer_id(conn));
    if (conn->config.kept != NULL) {
        conn_set_kept(conn, i);
        return;
    }
    rail->local_gid = local->gids[chosen->local_gid].gid;
    rail->gid_type = (enum ibv_gid_type)local->gids[chosen->local_gid].type;
    rail->remote_gid = remote->gids[chosen->remote_gid].gid;
    rail->remote_gid_type = (enum ibv_gid_type)remote->gids[chosen->remote_gid].type;
}

/* ---- the acceptor's check of a proposal ---- */

static weft_status refuse(struct conn *conn, uint32_t rail, const char *field,
                          const char *why)
{
    weft_status status = weft_fail(&conn->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_META,
                                   "rail %u: %s %s", rail, field, why);

    weft_error_text(&conn->error, WEFT_VALUE_FIELD, field);
    weft_error_int(&conn->error, WEFT_VALUE_RAIL, rail);
    return status;
}

/* Finds the ports and GIDs of one rail of `theirs` in both ends' facts. The peer's remote port and
 * GID are the local ones here. GIDs must match by value and type. */
static weft_status match_rail(struct conn *conn, uint32_t i)
{
    struct conn_private *private = conn->private;
    const struct codec_rail *theirs = &private->theirs.rails[i];
    struct rdma_rail *out = &private->chosen[i];
    const struct rdma_port_facts *local, *remote;

    if (theirs->remote_port >= private->n_local) {
        return refuse(conn, i, "remote_port", "is no port of this host");
    }
    if (theirs->local_port >= conn->peer.n_ports) {
        return refuse(conn, i, "local_port", "is not among the peer's facts");
    }
    local = &private->local[theirs->remote_port];
    remote = &conn->peer.ports[theirs->local_port];
    out->local_port = theirs->remote_port;
    out->remote_port = theirs->local_port;
    out->local_gid = conn_find_gid(local, &theirs->remote_gid, theirs->remote_type);
    if (out->local_gid == UINT32_MAX) {
        return refuse(conn, i, "remote_gid", "is not a GID of that type on this port");
    }
    out->remote_gid = conn_find_gid(remote, &theirs->local_gid, theirs->local_type);
    if (out->remote_gid == UINT32_MAX) {
        return refuse(conn, i, "local_gid", "is not among the peer's facts");
    }
    if (theirs->local_type != theirs->remote_type) {
        return refuse(conn, i, "local_type", "differs from the other end's");
    }
    out->path_mtu =
        local->active_mtu < theirs->path_mtu ? local->active_mtu : theirs->path_mtu;
    return WEFT_OK;
}

/* Sets the peer's port and GID of a rail from its META. For policies other than weft, under which
 * each end chooses only its own port and GID. */
static weft_status take_blindly(struct conn *conn, uint32_t i)
{
    struct conn_private *private = conn->private;
    const struct codec_rail *theirs = &private->theirs.rails[i];
    uint32_t gid;

    if (conn->config.kept != NULL) {
        return WEFT_OK; /* known from the earlier connection */
    }
    if (theirs->local_port >= conn->peer.n_ports) {
        return refuse(conn, i, "local_port", "is not among the peer's facts");
    }
    gid = conn_find_gid(&conn->peer.ports[theirs->local_port], &theirs->local_gid,
                        theirs->local_type);
    if (gid == UINT32_MAX) {
        return refuse(conn, i, "local_gid", "is not among the peer's facts");
    }
    private->chosen[i].remote_port = theirs->local_port;
    private->chosen[i].remote_gid = gid;
    set_rail(conn, i);
    return WEFT_OK;
}

static weft_status answer(struct conn *conn)
{
    struct conn_private *private = conn->private;
    uint32_t n = 0;
    weft_status status = WEFT_OK;

    if (conn->config.policy != WEFT_POLICY_WEFT) {
        status = choose(conn, &n);
        if (status == WEFT_OK && n != private->theirs.n_rails) {
            status = refuse(conn, n, "n_rails", "differs from this end's choice");
        }
    }
    for (uint32_t i = 0; i < private->theirs.n_rails && status == WEFT_OK; i++) {
        if (conn->config.policy == WEFT_POLICY_WEFT) {
            status = match_rail(conn, i);
        } else {
            set_rail(conn, i);
            status = take_blindly(conn, i);
        }
        if (status == WEFT_OK) {
            set_rail(conn, i);
        }
    }
    conn->n_rails = private->theirs.n_rails;
    conn->n_qps = private->theirs.n_qps;
    return status;
}

weft_status conn_choose_rails(struct conn *conn)
{
    uint32_t n = 0;
    weft_status status;

    if (!conn->is_connector) {
        status = answer(conn);
        if (status != WEFT_OK) {
            conn->n_rails = 0; /* conn_fail must not add values of rails */
        }
        return status;
    }
    status = choose(conn, &n);
    if (status != WEFT_OK) {
        return status;
    }
    conn->n_rails = n;
    conn->n_qps = n * conn->config.qps_per_rail;
    for (uint32_t i = 0; i < n; i++) {
        set_rail(conn, i);
    }
    return WEFT_OK;
}

/* The answer must have the same numbers of rails and QPs. Under policy weft it must also repeat the
 * proposal, with equal or lower path MTUs. */
weft_status conn_check_answer(struct conn *conn)
{
    const struct codec_meta *mine = &conn->private->mine,
                            *theirs = &conn->private->theirs;

    memcpy(conn->answer, theirs->answer, sizeof(conn->answer));
    if (theirs->n_rails != mine->n_rails) {
        return refuse(conn, theirs->n_rails, "n_rails", "differs from the proposal");
    }
    if (theirs->n_qps != mine->n_qps) {
        return refuse(conn, 0, "n_qps", "differs from the proposal");
    }
    for (uint32_t i = 0; i < mine->n_rails; i++) {
        const struct codec_rail *a = &mine->rails[i], *b = &theirs->rails[i];

        if (conn->config.policy != WEFT_POLICY_WEFT) {
            weft_status status = take_blindly(conn, i);

            if (status != WEFT_OK) {
                return status;
            }
            continue;
        }
        if (a->local_port != b->remote_port || a->remote_port != b->local_port) {
            return refuse(conn, i, "local_port", "differs from the proposal");
        }
        if (memcmp(a->local_gid.raw, b->remote_gid.raw, 16) != 0 ||
            memcmp(a->remote_gid.raw, b->local_gid.raw, 16) != 0 ||
            a->local_type != b->remote_type || a->remote_type != b->local_type) {
            return refuse(conn, i, "local_gid", "differs from the proposal");
        }
        if (b->path_mtu > a->path_mtu) {
            return refuse(conn, i, "path_mtu", "exceeds the proposal");
        }
        conn->rails[i].path_mtu = b->path_mtu;
    }
    return WEFT_OK;
}

/* Determines which ports of this host a connection must not use, cannot use, or waits for. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "conn/private.h"
#include "rdma/policy.h"
#include "rdma/timers.h"

bool conn_excludes(const struct conn_config *config, uint32_t device, uint8_t port)
{
    for (uint32_t i = 0; i < config->n_excluded; i++) {
        if (config->excluded[i].device == device && config->excluded[i].port == port) {
            return true;
        }
    }
    return false;
}

/* Returns true if the port is inactive or excluded. */
static bool is_away(const struct conn *conn, const struct rdma_port *port)
{
    return !port->is_active ||
           conn_excludes(&conn->config, port->device_index, port->port);
}

bool conn_any_down(const struct conn *conn)
{
    const struct rdma *rdma = conn->rdma;

    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        const struct rdma_port *port = &rdma->ports[i];

        if (!port->is_active && !rdma->is_lost[port->device_index] &&
            !conn_excludes(&conn->config, port->device_index, port->port)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < conn->peer.n_ports; i++) {
        if (!conn->peer.ports[i].is_active) {
            return true;
        }
    }
    return false;
}

/* Returns true if any port of this host is inactive or excluded. Before rails are chosen it is
 * unknown which port caused a failure. */
static bool any_away(const struct conn *conn)
{
    for (uint32_t i = 0; i < conn->rdma->n_ports; i++) {
        if (is_away(conn, &conn->rdma->ports[i])) {
            return true;
        }
    }
    return false;
}

static bool has_address(const struct rdma_port_facts *port)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        struct io_ip ip = rdma_gid_ip(&port->gids[i].gid);

        if (port->gids[i].prefix_len > 0 && !io_ip_is_link_local(&ip)) {
            return true;
        }
    }
    return false;
}

bool conn_any_unaddressed(const struct rdma_port_facts *ports, uint32_t n_ports)
{
    for (uint32_t i = 0; i < n_ports; i++) {
        if (!has_address(&ports[i])) {
            return true;
        }
    }
    return false;
}

bool conn_any_bare(const struct rdma_port_facts *ports, uint32_t n_ports)
{
    for (uint32_t i = 0; i < n_ports; i++) {
        if (ports[i].is_active && !has_address(&ports[i])) {
            return true;
        }
    }
    return false;
}

/* Returns true if the port has a GID without a known address, or had a GID with an address and has
 * none any more. A port that never had one needs no check, because an event reports the first. */
static bool is_unsettled(const struct rdma_port *port)
{
    bool has_any = false;

    for (uint32_t g = 0; g < port->n_gids; g++) {
        struct io_ip ip = rdma_gid_ip(&port->gids[g].gid);
        bool is_link_local = io_ip_is_link_local(&ip);

        if (port->gids[g].prefix_len == 0 && !is_link_local) {
            return true;
        }
        has_any = has_any || !is_link_local;
    }
    return !has_any && port->gid_lost_ns != 0;
}

void conn_settle_ports(struct conn *conn)
{
    struct rdma *rdma = conn->rdma;
    struct weft_error ignored = {0};
    weft_ns now = io_now(conn_env(conn));
    bool is_due = conn->config.policy == WEFT_POLICY_WEFT &&
                  (rdma->settled_ns == 0 || now - rdma->settled_ns >= TIMER_LISTEN_NS);

    for (uint32_t i = 0; i < rdma->n_ports && is_due; i++) {
        if (rdma->ports[i].is_active && is_unsettled(&rdma->ports[i])) {
            rdma->settled_ns = now;
            (void)(rdma_refresh(rdma, &ignored) == WEFT_OK);
            return;
        }
    }
}

/* Returns true if an address of the port's netdev has no GID yet. The GID appears shortly after the
 * address. */
static bool is_gid_due(const struct rdma *rdma, const struct rdma_port *port)
{
    const struct io_hostinfo *info = rdma->env->ops->hostinfo(rdma->env);
    const struct io_netdev *netdev = io_hostinfo_netdev(info, port->ifindex);
    bool is_due = false;

    for (uint32_t a = 0; netdev != NULL && a < netdev->n_addresses && !is_due; a++) {
        is_due = !io_ip_is_link_local(&netdev->addresses[a].ip);
        for (uint32_t g = 0; g < port->n_gids && is_due; g++) {
            struct io_ip ip = rdma_gid_ip(&port->gids[g].gid);

            is_due = !io_ip_equal(&ip, &netdev->addresses[a].ip);
        }
    }
    return is_due;
}

/* Returns true if a port of this host lost a GID since the process started, has none, or had none
 * when this attempt reported it. Such a GID can appear later, or already has. */
static bool has_lost_gid(const struct conn *conn)
{
    const struct rdma *rdma = conn->rdma;

    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        struct rdma_port_facts now;

        conn_port_facts(rdma, i, &now);
        if (rdma->ports[i].gid_lost_ns != 0 || is_gid_due(rdma, &rdma->ports[i]) ||
            conn_any_bare(&now, 1)) {
            return true;
        }
    }
    return conn_any_bare(conn->private->local, conn->private->n_local);
}

static bool is_reported(const struct conn_peer *peer, const struct io_ip *ip)
{
    for (uint32_t p = 0; p < peer->n_ports; p++) {
        for (uint32_t g = 0; g < peer->ports[p].n_gids; g++) {
            struct io_ip reported = rdma_gid_ip(&peer->ports[p].gids[g].gid);

            if (io_ip_equal(&reported, ip)) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if a GID of this host is in the subnet of `ip`. */
static bool is_faced(const struct rdma *rdma, const struct io_ip *ip)
{
    for (uint32_t p = 0; p < rdma->n_ports; p++) {
        for (uint32_t g = 0; g < rdma->ports[p].n_gids; g++) {
            const struct rdma_gid *gid = &rdma->ports[p].gids[g];
            struct io_ip own = rdma_gid_ip(&gid->gid);

            if (gid->prefix_len > 0 && io_ip_same_subnet(&own, ip, gid->prefix_len)) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if the peer reported an active port without an address, or no GID for an address in
 * a subnet of this host on which it listens. */
static bool has_peer_lost_gid(const struct conn *conn)
{
    const struct codec_handle *handle = &conn->private->dial.handle;

    if (conn_any_bare(conn->peer.ports, conn->peer.n_ports)) {
        return true;
    }
    for (uint32_t i = 0; i < handle->n_endpoints && conn->peer.n_ports > 0; i++) {
        const struct codec_endpoint *to = &handle->endpoints[i];

        if (!to->is_management && !is_reported(&conn->peer, &to->prefix.ip) &&
            is_faced(conn->rdma, &to->prefix.ip)) {
            return true;
        }
    }
    return false;
}

/* Returns true if set-up failed because a GID is missing at either end and can come back. That is
 * likely if it existed before, or if its port has none; other missing addresses are configuration
 * errors. A GID that is missing at the step to RTR existed when its end reported it. */
static bool waits_for_gid(const struct conn *conn, const struct weft_error *why)
{
    enum weft_phase there = weft_error_peer_phase(why);
    const struct weft_value *peer_errno = weft_error_value(why, WEFT_VALUE_PEER_ERRNO);

    if (conn->config.policy != WEFT_POLICY_WEFT) {
        return false;
    }
    if (weft_error_first_phase(why) == WEFT_PHASE_RTR) {
        return there != WEFT_PHASE_NONE
                   ? peer_errno != NULL && peer_errno->number == ENODATA
                   : why->sys_errno == ENODATA;
    }
    return there == WEFT_PHASE_NONE && why->phase == WEFT_PHASE_ROUTE &&
           (has_lost_gid(conn) || (conn->is_connector && has_peer_lost_gid(conn)));
}

/* Returns true if the step to RTR failed because a neighbour did not answer. A verb that fails
 * sooner with the same errno has another cause. */
static bool was_not_resolved(const struct conn *conn, int64_t sys_errno)
{
    return sys_errno == ETIMEDOUT &&
           io_now(conn_env(conn)) - conn->started_ns >= TIMER_RESOLVE_NS;
}

/* Returns true if this end failed because nothing arrived: no answer of the neighbour at the step
 * to RTR, no response to a probe, or no segment of the stream. A reset also counts if the stream
 * was silent before. The peer can have given up without being able to report it; retransmitted
 * segments then reach a stream that no longer exists. */
static bool was_silent_here(const struct conn *conn, const struct weft_error *why)
{
    if (why->phase == WEFT_PHASE_RTR) {
        return was_not_resolved(conn, why->sys_errno);
    }
    return why->status == WEFT_ERR_TIMEOUT ||
           (why->phase == WEFT_PHASE_STREAM &&
            (why->sys_errno == ETIMEDOUT ||
             (why->sys_errno == ECONNRESET &&
              weft_error_value(why, WEFT_VALUE_SILENT_NS) != NULL))) ||
           (why->phase == WEFT_PHASE_PROBE && why->wc_status == IBV_WC_RETRY_EXC_ERR);
}

/* Returns true if the peer gave up in `phase` because nothing reached it. */
static bool was_silent_there(const struct conn *conn, enum weft_phase phase,
                             const struct weft_error *why)
{
    const struct weft_value *status = weft_error_value(why, WEFT_VALUE_PEER_STATUS);
    const struct weft_value *sys_errno = weft_error_value(why, WEFT_VALUE_PEER_ERRNO);
    const struct weft_value *wc_status = weft_error_value(why, WEFT_VALUE_PEER_WC_STATUS);

    if (phase == WEFT_PHASE_RTR) {
        return sys_errno != NULL && was_not_resolved(conn, sys_errno->number);
    }
    return (status != NULL &&
            strcmp(status->text, weft_status_name(WEFT_ERR_TIMEOUT)) == 0) ||
           (phase == WEFT_PHASE_PROBE && wc_status != NULL &&
            wc_status->number == IBV_WC_RETRY_EXC_ERR);
}

/* Returns true if set-up failed because nothing arrived at one end. That can be temporary, or
 * affect only one of several cables. */
static bool heard_nothing(const struct conn *conn, const struct weft_error *why)
{
    enum weft_phase there = weft_error_peer_phase(why);

    return conn->config.policy == WEFT_POLICY_WEFT &&
           (there == WEFT_PHASE_NONE ? was_silent_here(conn, why)
                                     : was_silent_there(conn, there, why));
}

bool conn_lacks_address(const struct weft_error *why)
{
    const struct weft_value *prefix_len =
        weft_error_value(why, WEFT_VALUE_LOCAL_PREFIX_LEN);

    return why->phase == WEFT_PHASE_ROUTE ||
           (why->phase == WEFT_PHASE_RTR && why->sys_errno == ENETUNREACH &&
            prefix_len != NULL && prefix_len->number == 0);
}

bool conn_is_refused(const struct weft_error *why)
{
    enum weft_phase phase = weft_error_first_phase(why);
    bool is_verb = phase == WEFT_PHASE_REGISTER || phase == WEFT_PHASE_CREATE ||
                   phase == WEFT_PHASE_INIT || phase == WEFT_PHASE_MEMORY;
    const struct weft_value *peer_errno = weft_error_value(why, WEFT_VALUE_PEER_ERRNO);
    int64_t error = weft_error_peer_phase(why) == WEFT_PHASE_NONE
                        ? why->sys_errno
                        : (peer_errno != NULL ? peer_errno->number : 0);

    return is_verb && error != 0 && error != EINTR && error != EAGAIN && error != EIO &&
           error != ETIMEDOUT;
}

bool conn_has_stale_mtu(const struct conn *conn, const struct weft_error *why)
{
    struct weft_error ignored = {0};

    if (conn->config.policy != WEFT_POLICY_WEFT || why->phase != WEFT_PHASE_RTR ||
        why->sys_errno != EINVAL || rdma_refresh(conn->rdma, &ignored) != WEFT_OK) {
        return false;
    }
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        if (conn->rails[i].path_mtu > conn->rails[i].port->active_mtu) {
            return true;
        }
    }
    return false;
}

bool conn_waits_for_port(const struct conn *conn, const struct weft_error *why)
{
    enum weft_phase there = weft_error_peer_phase(why);

    if (conn_has_stale_mtu(conn, why)) {
        return true; /* the next attempt agrees on a lower path MTU */
    }
    if (weft_error_first_phase(why) == WEFT_PHASE_PORT ||
        weft_error_value(why, WEFT_VALUE_LOCAL_INACTIVE) != NULL ||
        weft_error_value(why, WEFT_VALUE_REMOTE_INACTIVE) != NULL) {
        return true;
    }
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        const struct rdma_port *port = conn->rails[i].port;

        if (is_away(conn, port) ||
            (port->gid_lost_ns != 0 && port->gid_lost_ns >= conn->started_ns)) {
            return true;
        }
    }
    return waits_for_gid(conn, why) || heard_nothing(conn, why) ||
           (conn->n_rails == 0 && there == WEFT_PHASE_NONE && any_away(conn) &&
            (why->phase == WEFT_PHASE_TCP || why->phase == WEFT_PHASE_ROUTE));
}

static bool has_rail_by(const struct conn *conn, const struct rdma_port *port)
{
    for (uint32_t r = 0; r < conn->n_rails; r++) {
        if (conn->rails[r].port == port) {
            return true;
        }
    }
    return false;
}

/* Reduces `now` to what the peer does not know yet: all GIDs of a port that was sent as inactive;
 * of a port sent as active, the GIDs that were missing. GIDs that the peer knew gave no rail and
 * are not tried again. */
static void keep_news(const struct rdma_port_facts *told, struct rdma_port_facts *now)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < now->n_gids; i++) {
        if (!told->is_active ||
            conn_find_gid(told, &now->gids[i].gid, now->gids[i].type) == UINT32_MAX) {
            now->gids[n++] = now->gids[i];
        }
    }
    now->n_gids = n;
    now->is_active = now->is_active && n > 0;
}

static bool has_rail_to(const struct conn *conn, uint32_t remote)
{
    for (uint32_t r = 0; r < conn->n_rails; r++) {
        if (conn->rails[r].remote_port == remote) {
            return true;
        }
    }
    return false;
}

/* Writes one port of this host that has an address now, if the peer reported an active port without
 * one, and returns the number of ports. Addresses of both ends of a cable can be late, and only a
 * new attempt shows which address the peer's port has now. */
static uint32_t may_face(const struct conn *conn, const struct rdma_port_facts *local,
                         const struct rdma_port **out)
{
    const struct conn_private *private = conn->private;
    bool is_one_bare = false;

    for (uint32_t i = 0; i < conn->peer.n_ports; i++) {
        is_one_bare =
            is_one_bare || (conn->peer.ports[i].is_active && !has_rail_to(conn, i) &&
                            !has_address(&conn->peer.ports[i]));
    }
    for (uint32_t i = 0; is_one_bare && i < private->n_local; i++) {
        if (local[i].is_active && has_address(&local[i])) {
            *out = &conn->rdma->ports[private->local_ports[i]];
            return 1;
        }
    }
    return 0;
}

uint32_t conn_late_ports(const struct conn *conn,
                         const struct rdma_port *out[CONN_RAILS_MAX])
{
    const struct conn_private *private = conn->private;
    const struct rdma *rdma = conn->rdma;
    struct rdma_port_facts local[CODEC_PORTS_MAX];
    struct rdma_port_facts remote[WEFT_LENGTH(conn->peer.ports)];
    struct rdma_choice_input input = conn_choice_input(conn);
    struct rdma_rail rails[CONN_RAILS_MAX];
    uint32_t n = 0;
    struct weft_error none = {0};

    if (input.policy != WEFT_POLICY_WEFT || conn->n_rails >= CONN_RAILS_MAX) {
        return 0;
    }
    for (uint32_t i = 0; i < private->n_local; i++) {
        uint32_t at = private->local_ports[i];

        conn_port_facts(rdma, at, &local[i]);
        local[i].is_active = local[i].is_active && !has_rail_by(conn, &rdma->ports[at]);
        keep_news(&private->local[i], &local[i]);
    }
    for (uint32_t i = 0; i < conn->peer.n_ports; i++) {
        remote[i] = conn->peer.ports[i];
        remote[i].is_active = !has_rail_to(conn, i);
    }
    input.local = local;
    input.remote = remote;
    if (rdma_choose(&input, rails, CONN_RAILS_MAX - conn->n_rails, &n, &none) !=
            WEFT_OK ||
        n == 0) {
        return may_face(conn, local, out);
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = &rdma->ports[private->local_ports[rails[i].local_port]];
    }
    return n;
}

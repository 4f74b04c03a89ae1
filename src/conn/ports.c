/* Ports of this host that a connection is not to use, or cannot, or could not. */
#include <string.h>

#include "base/check.h"
#include "conn/private.h"

bool conn_excludes(const struct conn_config *config, uint32_t device, uint8_t port)
{
    for (uint32_t i = 0; i < config->n_excluded; i++) {
        if (config->excluded[i].device == device && config->excluded[i].port == port) {
            return true;
        }
    }
    return false;
}

static bool is_away(const struct conn *conn, const struct rdma_port *port)
{
    return !port->is_active ||
           conn_excludes(&conn->config, port->device_index, port->port);
}

/* Before rails are chosen nobody knows which port it was. */
static bool any_away(const struct conn *conn)
{
    for (uint32_t i = 0; i < conn->rdma->n_ports; i++) {
        if (is_away(conn, &conn->rdma->ports[i])) {
            return true;
        }
    }
    return false;
}

bool conn_waits_for_port(const struct conn *conn, const struct weft_error *why)
{
    const struct weft_value *phase = weft_error_value(why, "peer_phase");

    if (strcmp(phase != NULL ? phase->text : why->phase, "port") == 0 ||
        weft_error_value(why, "local_inactive") != NULL ||
        weft_error_value(why, "remote_inactive") != NULL) {
        return true;
    }
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        if (is_away(conn, conn->rails[i].port)) {
            return true;
        }
    }
    return conn->n_rails == 0 && phase == NULL && any_away(conn) &&
           (strcmp(why->phase, "tcp") == 0 || strcmp(why->phase, "route") == 0);
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

/* Of a port that was told as it is the GIDs that were not: what else it has was no way to the peer,
 * or not wanted. */
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

/* Both ends of a cable may have their addresses late. A port of the peer that was told without one
 * may have any by now: the peer has to be asked. */
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
    struct rdma_port_facts now[CODEC_PORTS_MAX], local[CODEC_PORTS_MAX];
    struct rdma_port_facts remote[WEFT_LENGTH(conn->peer.ports)];
    struct rdma_choice_input input = conn_choice_input(conn);
    struct rdma_rail rails[CONN_RAILS_MAX];
    uint32_t n_now = conn_local_facts(rdma, now, CODEC_PORTS_MAX), n = 0;
    struct weft_error none = {0};

    if (input.policy != RDMA_POLICY_WEFT || conn->n_rails >= CONN_RAILS_MAX) {
        return 0;
    }
    for (uint32_t i = 0; i < private->n_local; i++) {
        uint32_t at = private->local_ports[i];

        local[i] = at < n_now ? now[at] : private->local[i];
        local[i].is_active =
            at < n_now && now[at].is_active && !has_rail_by(conn, &rdma->ports[at]);
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

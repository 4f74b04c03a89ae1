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

static bool has_rail_to(const struct conn *conn, uint32_t remote)
{
    for (uint32_t r = 0; r < conn->n_rails; r++) {
        if (conn->rails[r].remote_port == remote) {
            return true;
        }
    }
    return false;
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
            at < n_now && now[at].is_active && !private->local[i].is_active;
    }
    for (uint32_t i = 0; i < conn->peer.n_ports; i++) {
        remote[i] = conn->peer.ports[i];
        remote[i].is_active = !has_rail_to(conn, i);
    }
    input.local = local;
    input.remote = remote;
    if (rdma_choose(&input, rails, CONN_RAILS_MAX - conn->n_rails, &n, &none) !=
        WEFT_OK) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = &rdma->ports[private->local_ports[rails[i].local_port]];
    }
    return n;
}

/* Ports of this host that a connection is not to use, or cannot. */
#include <string.h>

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

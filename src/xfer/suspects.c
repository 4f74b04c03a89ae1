#include "xfer/suspects.h"

#include <string.h>

#include "base/check.h"

/* ---- the list ---- */

void suspects_add(struct suspects *suspects, uint32_t device, uint8_t port, bool is_down)
{
    for (uint32_t i = 0; i < suspects->n; i++) {
        struct suspect *suspect = &suspects->list[i];

        if (suspect->device == device && suspect->port == port) {
            suspect->is_down = is_down || suspect->is_down;
            return;
        }
    }
    if (suspects->n < WEFT_LENGTH(suspects->list)) {
        suspects->list[suspects->n++] =
            (struct suspect){.device = device, .port = port, .is_down = is_down};
    }
}

void suspects_acquit(struct suspects *suspects, uint32_t i)
{
    suspects->n--;
    memmove(&suspects->list[i], &suspects->list[i + 1],
            (suspects->n - i) * sizeof(suspects->list[0]));
}

void suspects_acquit_unproved(struct suspects *suspects)
{
    for (uint32_t i = suspects->n; i-- > 0;) {
        if (!suspects->list[i].is_down) {
            suspects_acquit(suspects, i);
        }
    }
}

/* ---- excluded ports ---- */

void suspects_exclude(struct conn_config *config, uint32_t device, uint8_t port)
{
    if (!conn_excludes(config, device, port) && config->n_excluded < CONN_EXCLUDED_MAX) {
        config->excluded[config->n_excluded].device = device;
        config->excluded[config->n_excluded].port = port;
        config->n_excluded++;
    }
}

void suspects_exclude_all(const struct suspects *suspects, struct conn_config *config)
{
    for (uint32_t i = 0; i < suspects->n; i++) {
        suspects_exclude(config, suspects->list[i].device, suspects->list[i].port);
    }
}

void suspects_exclude_down(const struct suspects *suspects, struct conn_config *config)
{
    for (uint32_t i = 0; i < suspects->n; i++) {
        if (suspects->list[i].is_down) {
            suspects_exclude(config, suspects->list[i].device, suspects->list[i].port);
        }
    }
}

/* ---- the port that a failure names ---- */

const struct rdma_port *suspects_accused(const struct rdma *rdma,
                                         const struct weft_error *why)
{
    const struct weft_value *name = weft_error_value(why, WEFT_VALUE_LOCAL_PORT);
    bool by_queue_pair = why->phase == WEFT_PHASE_DATA ||
                         why->phase == WEFT_PHASE_PROBE || why->phase == WEFT_PHASE_RTR ||
                         why->phase == WEFT_PHASE_RTS;
    bool is_fault = why->status == WEFT_ERR_COMPLETION ||
                    why->status == WEFT_ERR_TIMEOUT || why->status == WEFT_ERR_SYSTEM;

    if (conn_path_is_judged(why)) {
        return NULL; /* another probe, or a smaller path MTU, can succeed on the same ports */
    }
    for (uint32_t i = 0; name != NULL && by_queue_pair && is_fault && i < rdma->n_ports;
         i++) {
        if (strcmp(rdma->ports[i].name, name->text) == 0) {
            return &rdma->ports[i];
        }
    }
    return NULL;
}

const struct rdma_port *suspects_blamed(const struct rdma *rdma, const struct conn *conn,
                                        const struct weft_error *why)
{
    const struct rdma_port *own = suspects_accused(rdma, why);

    if (own != NULL || conn->stuck_rail >= conn->n_rails || conn_path_is_judged(why)) {
        return own;
    }
    return conn->rails[conn->stuck_rail].port;
}

bool suspects_wait_for_port(const struct suspects *suspects, struct rdma *rdma,
                            const struct conn *conn, const struct weft_error *why)
{
    struct weft_error ignored = {0};
    bool has_flapped =
        suspects->flapped_ns != 0 && suspects->flapped_ns >= conn->started_ns;

    return rdma_refresh(rdma, &ignored) == WEFT_OK &&
           (has_flapped || conn_waits_for_port(conn, why));
}

/* ---- rails by port ---- */

const struct conn_rail *suspects_rail(const struct conn *conn, uint32_t device,
                                      uint8_t port)
{
    for (uint32_t r = 0; conn != NULL && r < conn->n_rails; r++) {
        if (conn->rails[r].port->device_index == device &&
            conn->rails[r].port->port == port) {
            return &conn->rails[r];
        }
    }
    return NULL;
}

void suspects_name_rail(struct weft_error *why, const struct conn *conn,
                        const struct conn_rail *rail)
{
    const struct rdma_port_facts *remote = &conn->peer.ports[rail->remote_port];
    char gid[IO_IP_TEXT_BYTES];
    uint32_t r = (uint32_t)(rail - conn->rails);

    weft_error_text(why, WEFT_VALUE_PEER, conn->peer.host);
    weft_error_text(why, WEFT_VALUE_LOCAL_PORT, rail->port->name);
    weft_error_text(why, WEFT_VALUE_LOCAL_GID,
                    rdma_gid_format(&rail->local_gid, gid, sizeof(gid)));
    weft_error_text(why, WEFT_VALUE_LOCAL_GID_TYPE, rdma_gid_type_name(rail->gid_type));
    if (r < conn->n_qps && conn->qps[r].remote.qpn != 0) {
        weft_error_text(why, WEFT_VALUE_REMOTE_GID_TYPE,
                        rdma_gid_type_name(conn->qps[r].remote.gid_type));
    }
    weft_error_int(why, WEFT_VALUE_PATH_MTU, rail->path_mtu);
    weft_error_text(why, WEFT_VALUE_REMOTE_PORT, remote->name);
    weft_error_text(why, WEFT_VALUE_REMOTE_GID,
                    rdma_gid_format(&rail->remote_gid, gid, sizeof(gid)));
}

bool suspects_is_active(const struct rdma *rdma, uint32_t device, uint8_t port)
{
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        if (rdma->ports[i].device_index == device && rdma->ports[i].port == port) {
            return rdma->ports[i].is_active;
        }
    }
    return false;
}

/* ---- ports that are up again ---- */

/* Returns true if a port of this host is active and has the GID. `gid` may be NULL. */
static bool is_local_up(struct rdma *rdma, const char *name, const char *gid)
{
    char text[IO_IP_TEXT_BYTES];
    struct weft_error ignored = {0};

    if (rdma_refresh(rdma, &ignored) != WEFT_OK) {
        return false;
    }
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        const struct rdma_port *port = &rdma->ports[i];

        if (!port->is_active || strcmp(port->name, name) != 0) {
            continue;
        }
        for (uint32_t g = 0; g < port->n_gids && gid != NULL; g++) {
            if (strcmp(rdma_gid_format(&port->gids[g].gid, text, sizeof(text)), gid) ==
                0) {
                return true;
            }
        }
        return gid == NULL;
    }
    return false;
}

/* Returns true if the peer reported to `conn` that its port `name` is active. */
static bool is_remote_up(const struct conn *conn, const char *name)
{
    for (uint32_t i = 0; conn != NULL && i < conn->peer.n_ports; i++) {
        if (conn->peer.ports[i].is_active &&
            strcmp(conn->peer.ports[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

bool suspects_is_back(struct rdma *rdma, const struct conn *conn,
                      const struct weft_error *why)
{
    const struct weft_value *local = weft_error_value(why, WEFT_VALUE_LOCAL_INACTIVE);
    const struct weft_value *remote = weft_error_value(why, WEFT_VALUE_REMOTE_INACTIVE);
    const struct weft_value *gid = NULL;

    if (why->phase == WEFT_PHASE_PORT) {
        local = weft_error_value(why, WEFT_VALUE_LOCAL_PORT);
        gid = weft_error_value(why, WEFT_VALUE_LOCAL_GID);
    }
    return (local != NULL || remote != NULL) &&
           (local == NULL ||
            is_local_up(rdma, local->text, gid != NULL ? gid->text : NULL)) &&
           (remote == NULL || is_remote_up(conn, remote->text));
}

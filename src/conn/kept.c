/* Reuses the rails of an earlier connection, like programs whose queue pairs outlive a failure.
 * Ports, GIDs and GID slots are those of the earlier connection, even if the ports have other GIDs
 * now. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/private.h"

static uint32_t slot_of(const struct rdma_port_facts *port, uint32_t gid)
{
    return gid < port->n_gids ? port->gids[gid].index : UINT32_MAX;
}

void conn_keep(const struct conn *conn, struct conn_kept *out)
{
    memset(out, 0, sizeof(*out));
    out->n_rails = conn->n_rails;
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        const struct conn_rail *rail = &conn->rails[i];
        const struct rdma_rail *chosen = &conn->private->chosen[i];
        const struct rdma_port_facts *remote = &conn->peer.ports[rail->remote_port];

        out->rails[i].port = rail->port;
        weft_format(out->rails[i].remote_name, sizeof(out->rails[i].remote_name), "%s",
                    remote->name);
        out->rails[i].local_gid = rail->local_gid;
        out->rails[i].remote_gid = rail->remote_gid;
        out->rails[i].local_type = rail->gid_type;
        out->rails[i].remote_type = rail->remote_gid_type;
        out->rails[i].local_index = conn->qps[i].sgid_index;
        out->rails[i].remote_index = slot_of(remote, chosen->remote_gid);
        out->rails[i].path_mtu = rail->path_mtu;
    }
}

static bool find_ports(const struct conn *conn, uint32_t kept, struct rdma_rail *out)
{
    const struct conn_private *private = conn->private;
    bool has_local = false, has_remote = false;

    for (uint32_t p = 0; p < private->n_local; p++) {
        if (&conn->rdma->ports[private->local_ports[p]] ==
            conn->config.kept->rails[kept].port) {
            has_local = private->local[p].is_active;
            out->local_port = p;
        }
    }
    for (uint32_t p = 0; p < conn->peer.n_ports; p++) {
        if (strcmp(conn->peer.ports[p].name,
                   conn->config.kept->rails[kept].remote_name) == 0) {
            has_remote = conn->peer.ports[p].is_active;
            out->remote_port = p;
        }
    }
    return has_local && has_remote;
}

weft_status conn_choose_kept(struct conn *conn, uint32_t *out_n)
{
    const struct conn_kept *kept = conn->config.kept;
    struct conn_private *private = conn->private;
    uint32_t n = 0;

    for (uint32_t k = 0; k < kept->n_rails; k++) {
        struct rdma_rail *out = &private->chosen[n];

        if (!find_ports(conn, k, out)) {
            continue;
        }
        /* A GID that a port lacks now has the index UINT32_MAX. */
        out->local_gid =
            conn_find_gid(&private->local[out->local_port], &kept->rails[k].local_gid,
                          (uint8_t)kept->rails[k].local_type);
        out->remote_gid =
            conn_find_gid(&conn->peer.ports[out->remote_port], &kept->rails[k].remote_gid,
                          (uint8_t)kept->rails[k].remote_type);
        out->path_mtu = kept->rails[k].path_mtu;
        private->kept_rails[n++] = k;
    }
    *out_n = n;
    return n > 0 ? WEFT_OK
                 : weft_fail(&conn->error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
                             "no rail of before has active ports at both ends");
}

void conn_set_kept(struct conn *conn, uint32_t i)
{
    uint32_t k = conn->private->kept_rails[i];

    conn->rails[i].local_gid = conn->config.kept->rails[k].local_gid;
    conn->rails[i].gid_type = conn->config.kept->rails[k].local_type;
    conn->rails[i].remote_gid = conn->config.kept->rails[k].remote_gid;
    conn->rails[i].remote_gid_type = conn->config.kept->rails[k].remote_type;
}

void conn_kept_describe(const struct conn *conn, uint32_t rail, struct weft_error *error)
{
    const struct conn_kept *kept = conn->config.kept;
    uint32_t k = conn->private->kept_rails[rail];
    char gid[IO_IP_TEXT_BYTES];

    weft_check(kept != NULL && rail < conn->n_rails);
    weft_error_text(error, WEFT_VALUE_PEER, conn->peer.host);
    weft_error_text(error, WEFT_VALUE_LOCAL_PORT, kept->rails[k].port->name);
    weft_error_text(error, WEFT_VALUE_LOCAL_GID,
                    rdma_gid_format(&kept->rails[k].local_gid, gid, sizeof(gid)));
    weft_error_text(error, WEFT_VALUE_LOCAL_GID_TYPE,
                    rdma_gid_type_name(kept->rails[k].local_type));
    weft_error_int(error, WEFT_VALUE_LOCAL_KEPT_INDEX, kept->rails[k].local_index);
    weft_error_text(error, WEFT_VALUE_REMOTE_PORT, kept->rails[k].remote_name);
    weft_error_text(error, WEFT_VALUE_REMOTE_GID,
                    rdma_gid_format(&kept->rails[k].remote_gid, gid, sizeof(gid)));
    weft_error_text(error, WEFT_VALUE_REMOTE_GID_TYPE,
                    rdma_gid_type_name(kept->rails[k].remote_type));
    weft_error_int(error, WEFT_VALUE_REMOTE_KEPT_INDEX, kept->rails[k].remote_index);
}

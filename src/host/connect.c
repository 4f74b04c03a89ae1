#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "host/private.h"

static struct host_peer *peer_of(struct host *host, const struct conn *conn)
{
    uint32_t rank = host_rank_of(host, conn);

    return rank == HOST_NOBODY ? NULL : &host->peers[rank];
}

uint32_t host_rank_of(const struct host *host, const struct conn *conn)
{
    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        const struct host_peer *peer = &host->peers[rank];

        if (peer->outgoing == conn || peer->incoming == conn) {
            return rank;
        }
    }
    return HOST_NOBODY;
}

weft_status host_connect_all(struct host *host)
{
    /* The next rank first: not everybody starts with rank 0. */
    for (uint32_t i = 1; i < host->config.n_ranks; i++) {
        uint32_t rank = (host->config.rank + i) % host->config.n_ranks;
        struct host_peer *peer = &host->peers[rank];
        weft_status status =
            conn_connect(host->rdma, &host->config.conn, peer->handle,
                         HOST_TASK_CONNECTING, &peer->outgoing, &host->error);

        if (status == WEFT_OK) {
            status = host_connection_progress(host, peer->outgoing);
        }
        if (status < 0) {
            host->error_peer = rank;
            return status;
        }
    }
    return WEFT_OK;
}

/* The rank whose host the acceptor's peer is, by what both told under authentication. */
static uint32_t identify(const struct host *host, const struct conn *conn)
{
    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        const struct host_peer *peer = &host->peers[rank];

        if (rank != host->config.rank && peer->incoming == NULL &&
            memcmp(peer->host_id, conn->peer.host_id, sizeof(peer->host_id)) == 0) {
            return rank;
        }
    }
    return HOST_NOBODY;
}

weft_status host_accept(struct host *host)
{
    conn_listener_progress(host->listener);
    while (host->has_peers) {
        struct conn *conn = conn_accept(host->listener);
        uint32_t rank;
        weft_status status;

        if (conn == NULL) {
            break;
        }
        rank = identify(host, conn);
        if (rank == HOST_NOBODY) {
            weft_log(host->env->log, WEFT_LOG_WARN,
                     "%s: a connection from %s belongs to no rank or is a second one",
                     host->env->name, conn->peer.host);
            conn_destroy(conn);
            continue;
        }
        host->peers[rank].incoming = conn;
        status = host_connection_progress(host, conn);
        if (status < 0) {
            return status;
        }
    }
    return WEFT_OK;
}

static void record(struct host *host, uint32_t rank, const struct conn *conn)
{
    size_t n = host->n_connections + (size_t)conn->n_rails;

    host->connections = weft_realloc(host->connections, n * sizeof(*host->connections));
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        const struct conn_rail *rail = &conn->rails[i];
        struct host_connection *out = &host->connections[host->n_connections++];

        *out = (struct host_connection){
            .to = rank,
            .rail = i,
            .local_gid = rail->local_gid,
            .remote_gid = rail->remote_gid,
            .gid_type = rail->gid_type,
            .path_mtu = rail->path_mtu,
            .n_qps = conn->n_qps / conn->n_rails + (i < conn->n_qps % conn->n_rails),
            .setup_ns = conn->up_ns - conn->started_ns,
        };
        weft_format(out->local_port, sizeof(out->local_port), "%s", rail->port->name);
        if (rail->remote_port < conn->peer.n_ports) {
            weft_format(out->remote_port, sizeof(out->remote_port), "%s",
                        conn->peer.ports[rail->remote_port].name);
        }
    }
}

static weft_status came_up(struct host *host, struct host_peer *peer, struct conn *conn)
{
    uint32_t rank = (uint32_t)(peer - host->peers);
    struct xfer **xfer = conn->is_connector ? &peer->send : &peer->receive;

    if (conn->is_connector) {
        peer->outgoing_up = true;
        record(host, rank, conn);
    } else {
        peer->incoming_up = true;
    }
    return xfer_open(conn, xfer, &host->error);
}

weft_status host_connection_progress(struct host *host, struct conn *conn)
{
    struct host_peer *peer = peer_of(host, conn);
    struct xfer *xfer;
    weft_status status;

    weft_check(peer != NULL);
    xfer = conn->is_connector ? peer->send : peer->receive;
    status = conn_progress(conn);
    if (status < 0) {
        host->error = conn->error;
    } else if (xfer != NULL) {
        status = xfer_progress(xfer);
        if (status < 0) {
            host->error = *xfer_error(xfer);
        }
    } else if (status == WEFT_OK && conn->state == CONN_UP) {
        status = came_up(host, peer, conn);
    }
    if (status < 0) {
        host->error_peer = (uint32_t)(peer - host->peers);
        host->error_is_hearsay = strcmp(host->error.phase, "peer") == 0;
    }
    return status;
}

bool host_all_connected(const struct host *host)
{
    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        const struct host_peer *peer = &host->peers[rank];

        if (rank != host->config.rank && !(peer->outgoing_up && peer->incoming_up)) {
            return false;
        }
    }
    return true;
}

static void close_transfers(struct host_peer *peer)
{
    xfer_close(peer->send);
    peer->send = NULL;
    xfer_close(peer->receive);
    peer->receive = NULL;
}

void host_close_all(struct host *host)
{
    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        struct host_peer *peer = &host->peers[rank];

        close_transfers(peer);
        if (peer->outgoing != NULL) {
            conn_close(peer->outgoing);
        }
        if (peer->incoming != NULL) {
            conn_close(peer->incoming);
        }
    }
}

static bool is_gone(struct conn **conn)
{
    if (*conn != NULL && conn_progress(*conn) == WEFT_AGAIN) {
        return false;
    }
    /* What a close could not do in order is given up: the data is safe already. */
    conn_destroy(*conn);
    *conn = NULL;
    return true;
}

weft_status host_closing_progress(struct host *host)
{
    bool all = true;

    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        bool outgoing = is_gone(&host->peers[rank].outgoing);
        bool incoming = is_gone(&host->peers[rank].incoming);

        all = all && outgoing && incoming;
    }
    return all ? WEFT_OK : WEFT_AGAIN;
}

/* Says goodbye, so that the peer does not take it for a death, and is gone. */
static void drop(struct conn **conn)
{
    if (*conn != NULL && (*conn)->state != CONN_CLOSED) {
        conn_close(*conn);
    }
    conn_destroy(*conn);
    *conn = NULL;
}

void host_drop_all(struct host *host)
{
    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        struct host_peer *peer = &host->peers[rank];

        close_transfers(peer);
        drop(&peer->outgoing);
        drop(&peer->incoming);
    }
    conn_listener_close(host->listener);
    host->listener = NULL;
}

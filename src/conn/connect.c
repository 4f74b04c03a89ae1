/* Dials and authenticates a listener: selects the addresses to dial and their order, retries, and
 * exchanges HELLO, CHALLENGE and AUTH. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/private.h"
#include "conn/prove.h"
#include "io/oob.h"
#include "mesh/mesh.h"
#include "rdma/timers.h"

/* ---- ways ---- */

struct local_address {
    struct io_ip ip;
    uint32_t ifindex;
};

/* Returns true if the netdev belongs to a port before the pth that is not excluded. */
static bool is_of_earlier_port(const struct rdma *rdma, const struct conn_config *config,
                               uint32_t p, const struct io_netdev *netdev)
{
    for (uint32_t q = 0; q < p; q++) {
        const struct rdma_port *before = &rdma->ports[q];

        if (rdma_port_has_netdev(before, netdev) &&
            !conn_excludes(config, before->device_index, before->port)) {
            return true;
        }
    }
    return false;
}

/* Writes the addresses of this host's RDMA netdevs and returns their number. A netdev of two ports
 * counts once, for the first of them that is not excluded. */
static uint32_t local_addresses(const struct rdma *rdma, const struct conn_config *config,
                                struct mesh_address *out, struct local_address *out_local,
                                uint32_t cap)
{
    struct io_env *env = rdma->env;
    const struct io_hostinfo *info = env->ops->hostinfo(env);
    uint32_t n = 0;

    for (uint32_t p = 0; p < rdma->n_ports; p++) {
        const struct rdma_port *port = &rdma->ports[p];
        bool is_excluded = conn_excludes(config, port->device_index, port->port);

        for (uint32_t i = 0; i < info->n_netdevs && !is_excluded; i++) {
            const struct io_netdev *netdev = &info->netdevs[i];
            bool is_wanted = !netdev->is_management &&
                             rdma_port_has_netdev(port, netdev) &&
                             !is_of_earlier_port(rdma, config, p, netdev);

            for (uint32_t a = 0; is_wanted && a < netdev->n_addresses && n < cap; a++) {
                out[n] = (struct mesh_address){.port = p, .prefix = netdev->addresses[a]};
                out_local[n] = (struct local_address){.ip = netdev->addresses[a].ip,
                                                      .ifindex = netdev->ifindex};
                n++;
            }
        }
    }
    return n;
}

static bool by_management(const struct conn_config *config)
{
    return config->over_management || config->policy != WEFT_POLICY_WEFT;
}

static void add_way(struct conn_dial *dial, const struct local_address *from,
                    const struct codec_endpoint *to)
{
    struct conn_way *way;

    if (dial->n_ways == CONN_WAYS_MAX) {
        return;
    }
    way = &dial->ways[dial->n_ways++];
    way->to = (struct io_endpoint){.ip = to->prefix.ip, .port = to->port};
    way->is_bound = from != NULL;
    if (from != NULL) {
        way->from = (struct io_endpoint){.ip = from->ip, .ifindex = from->ifindex};
    }
}

/* Adds all addresses of a listener of this host, because packets to them never leave it. */
static void find_ways_inside(struct conn *conn)
{
    struct conn_dial *dial = &conn->private->dial;

    for (uint32_t i = 0; i < dial->handle.n_endpoints; i++) {
        add_way(dial, NULL, &dial->handle.endpoints[i]);
    }
}

static void add_management_ways(struct conn_dial *dial)
{
    for (uint32_t i = 0; i < dial->handle.n_endpoints; i++) {
        if (dial->handle.endpoints[i].is_management) {
            add_way(dial, NULL, &dial->handle.endpoints[i]);
        }
    }
}

/* Writes the addresses of a handle that are on cables and returns their number. */
static size_t remote_addresses(const struct codec_handle *handle,
                               struct mesh_address out[CODEC_ENDPOINTS_MAX],
                               const struct codec_endpoint *out_of[CODEC_ENDPOINTS_MAX])
{
    size_t n = 0;

    for (uint32_t i = 0; i < handle->n_endpoints; i++) {
        const struct codec_endpoint *endpoint = &handle->endpoints[i];

        if (!endpoint->is_management) {
            out_of[n] = endpoint;
            out[n] =
                (struct mesh_address){.port = (uint32_t)n, .prefix = endpoint->prefix};
            n++;
        }
    }
    return n;
}

bool conn_find_facing(const struct rdma *rdma, const struct conn_config *config,
                      const uint8_t handle[CONN_HANDLE_BYTES], struct conn_facing *out)
{
    struct mesh_address local[64], remote[CODEC_ENDPOINTS_MAX];
    struct local_address sources[64];
    const struct codec_endpoint *endpoints[CODEC_ENDPOINTS_MAX];
    struct codec_handle decoded;
    struct mesh_facing facing;
    struct weft_error ignored = {0};

    if (codec_decode_handle(handle, &decoded, &ignored) != WEFT_OK ||
        mesh_find_facing(local, local_addresses(rdma, config, local, sources, 64), remote,
                         remote_addresses(&decoded, remote, endpoints), false, &facing,
                         1) == 0) {
        return false;
    }
    out->port = &rdma->ports[local[facing.local].port];
    out->local = sources[facing.local].ip;
    out->remote = endpoints[facing.remote]->prefix.ip;
    return true;
}

bool conn_faces(const struct rdma *rdma, const struct conn_config *config,
                const uint8_t handle[CONN_HANDLE_BYTES])
{
    struct io_env *env = rdma->env;
    struct codec_handle decoded;
    struct conn_facing facing;
    struct weft_error ignored = {0};

    if (codec_decode_handle(handle, &decoded, &ignored) == WEFT_OK &&
        memcmp(decoded.host_id, io_host_id(env), sizeof(decoded.host_id)) == 0) {
        return true;
    }
    return conn_find_facing(rdma, config, handle, &facing);
}

/* Adds the cables that both ends share, each dialed from its own address. Adds those whose local
 * ports are active, or those whose local ports are not. */
static void add_cable_ways(struct conn *conn, bool is_active)
{
    struct conn_dial *dial = &conn->private->dial;
    struct mesh_address local[64], remote[CODEC_ENDPOINTS_MAX];
    struct local_address sources[64];
    struct mesh_facing facing[CONN_WAYS_MAX];
    const struct codec_endpoint *endpoints[CODEC_ENDPOINTS_MAX];
    size_t n_local = local_addresses(conn->rdma, &conn->config, local, sources, 64);
    size_t n_remote = remote_addresses(&dial->handle, remote, endpoints), n_facing;

    n_facing =
        mesh_find_facing(local, n_local, remote, n_remote, false, facing, CONN_WAYS_MAX);
    for (size_t i = 0; i < n_facing && i < CONN_WAYS_MAX && !by_management(&conn->config);
         i++) {
        if (conn->rdma->ports[local[facing[i].local].port].is_active == is_active) {
            add_way(dial, &sources[facing[i].local], endpoints[facing[i].remote]);
        }
    }
}

/* Adds active cables and the management addresses, by default in this order. Adds cables whose
 * local port is inactive last, because a SYN sent there waits up to 3 s for its neighbour. If there
 * are such cables, the management addresses get a shorter timeout. A cable that comes up then does
 * not have to wait long for a management network that drops SYNs. */
static void find_ways(struct conn *conn)
{
    struct conn_dial *dial = &conn->private->dial;
    uint32_t n_first;

    if (conn->config.management_first) {
        add_management_ways(dial);
    }
    add_cable_ways(conn, true);
    if (!conn->config.management_first) {
        add_management_ways(dial);
    }
    n_first = dial->n_ways;
    add_cable_ways(conn, false);
    for (uint32_t i = 0; i < n_first && dial->n_ways > n_first; i++) {
        dial->ways[i].is_hurried = !dial->ways[i].is_bound;
    }
}

static void add_address_values(struct conn *conn)
{
    const struct conn_dial *dial = &conn->private->dial;
    struct mesh_address local[64];
    struct local_address sources[64];
    uint32_t n_local = local_addresses(conn->rdma, &conn->config, local, sources, 64);
    char text[IO_IP_TEXT_BYTES + 8], ip[IO_IP_TEXT_BYTES];

    for (uint32_t i = 0; i < n_local && i < WEFT_VALUE_ADDRESSES; i++) {
        weft_format(text, sizeof(text), "%s/%u",
                    io_ip_format(&local[i].prefix.ip, ip, sizeof(ip)),
                    local[i].prefix.prefix_len);
        weft_error_text(&conn->error, weft_value_local_address(i), text);
    }
    for (uint32_t i = 0; i < dial->handle.n_endpoints && i < WEFT_VALUE_ADDRESSES; i++) {
        const struct io_prefix *prefix = &dial->handle.endpoints[i].prefix;

        weft_format(text, sizeof(text), "%s/%u",
                    io_ip_format(&prefix->ip, ip, sizeof(ip)), prefix->prefix_len);
        weft_error_text(&conn->error, weft_value_remote_address(i), text);
    }
}

/* ---- TCP ---- */

/* Returns true if this end lacks a descriptor, a buffer or memory. */
static bool is_shortage(int error_number)
{
    return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS ||
           error_number == ENOMEM;
}

/* Returns true if a later attempt can succeed: the listener has not started yet, restarts or has no
 * free slot, or this end lacks a descriptor or memory. */
static bool may_pass(int error_number)
{
    return error_number == 0 || error_number == ECONNREFUSED ||
           error_number == ETIMEDOUT || error_number == EHOSTUNREACH ||
           error_number == ECONNRESET || error_number == EPIPE ||
           is_shortage(error_number);
}

/* Returns true if dialing must end. An end that lacks a descriptor or memory has only the time of a
 * set-up, because waiting for the listener does not help it. */
static bool is_out_of_patience(struct conn *conn, int error_number, weft_ns now)
{
    struct conn_dial *dial = &conn->private->dial;

    dial->short_ns = io_since(dial->short_ns, is_shortage(error_number), now);
    return now >= dial->patience_ns ||
           (dial->short_ns != 0 && now - dial->short_ns >= conn->config.total_ns);
}

/* Records whether an answer came on the current way, and since when its cable is silent. */
static void note_silence(const struct conn *conn, int error_number)
{
    struct conn_dial *dial = &conn->private->dial;
    const struct conn_way *way = &dial->ways[dial->way];
    bool is_silent = error_number == EHOSTUNREACH ||
                     (error_number == ETIMEDOUT && conn->state == CONN_TCP);

    dial->is_answered = dial->is_answered || !is_silent;
    if (!way->is_bound) {
        return;
    }
    if (is_silent && dial->silent_ns == 0) {
        dial->silent_ns = dial->way_start_ns;
        dial->silent_from = way->from.ip;
    } else if (!is_silent && io_ip_equal(&way->from.ip, &dial->silent_from)) {
        dial->silent_ns = 0;
    }
}

/* Handles the failure of the current way: goes on to the next one, and after the last pauses or
 * gives up. */
static weft_status next_way(struct conn *conn, int error_number, const char *what)
{
    struct io_env *env = conn_env(conn);
    struct conn_private *private = conn->private;
    struct conn_dial *dial = &private->dial;
    const struct conn_way *way = &dial->ways[dial->way];
    char ip[IO_IP_TEXT_BYTES];
    weft_ns now = io_now(env);
    bool is_over = is_out_of_patience(conn, error_number, now);

    note_silence(conn, error_number);
    if (error_number == ETIMEDOUT) {
        conn_note_still(conn);
    }
    frame_close(&private->link, true);
    private->is_cut_off = false;
    private->heard_ns = 0; /* the watch of the peer begins again with the next HELLO */
    weft_error_clear(&dial->why);
    weft_fail(&dial->why, error_number != 0 ? WEFT_ERR_SYSTEM : WEFT_ERR_CLOSED,
              WEFT_PHASE_TCP, "%s port %u: %s", io_ip_format(&way->to.ip, ip, sizeof(ip)),
              way->to.port, what);
    dial->why.sys_errno = error_number;
    dial->retry_round = dial->retry_round || may_pass(error_number);
    dial->way++;
    if (conn->state != CONN_TCP) {
        conn_enter(conn, CONN_TCP);
    }
    if (dial->way < dial->n_ways) {
        return WEFT_OK;
    }
    dial->is_unanswered = conn->config.is_known_to_run && !dial->is_answered;
    if (!dial->retry_round || is_over || dial->is_unanswered) {
        conn->error = dial->why;
        weft_error_int(&conn->error, WEFT_VALUE_WAYS, dial->n_ways);
        weft_error_int(&conn->error, WEFT_VALUE_ATTEMPTS, dial->attempt);
        add_address_values(conn);
        return conn->error.status;
    }
    dial->way = 0;
    dial->retry_round = false;
    dial->is_answered = false;
    dial->resume_ns = now + dial->backoff_ns;
    dial->backoff_ns = 2 * dial->backoff_ns < CONN_BACKOFF_MAX_NS ? 2 * dial->backoff_ns
                                                                  : CONN_BACKOFF_MAX_NS;
    return WEFT_AGAIN;
}

static weft_status start_dialling(struct conn *conn)
{
    struct io_env *env = conn_env(conn);
    struct conn_dial *dial = &conn->private->dial;

    if (memcmp(dial->handle.host_id, io_host_id(env), sizeof(dial->handle.host_id)) ==
        0) {
        find_ways_inside(conn);
    } else {
        find_ways(conn);
    }
    if (dial->n_ways == 0) {
        weft_fail(&conn->error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
                  "no address of the handle shares a subnet with this host");
        add_address_values(conn);
        return WEFT_ERR_ROUTE;
    }
    dial->patience_ns = io_now(env) + conn->config.patience_ns;
    dial->backoff_ns = CONN_BACKOFF_MIN_NS;
    conn_enter(conn, CONN_TCP);
    return WEFT_OK;
}

static weft_status start_way(struct conn *conn)
{
    struct io_env *env = conn_env(conn);
    struct conn_private *private = conn->private;
    struct conn_dial *dial = &private->dial;
    const struct conn_way *way = &dial->ways[dial->way];
    weft_ns hurried = timer_limit(TIMER_ADDRESS_NS, conn->config.patience);
    struct io_stream *stream = NULL;
    int result;

    dial->way_start_ns = io_now(env);
    result = env->oob->connect(env, way->is_bound ? &way->from : NULL, &way->to,
                               &conn->task, &stream);
    if (result != 0) {
        return next_way(conn, result, "no connection can be started");
    }
    frame_init(&private->link, env, stream, AUTH_CONNECTOR, private->rx,
               sizeof(private->rx), private->tx, sizeof(private->tx));
    dial->way_ns =
        io_now(env) + (way->is_hurried && conn->config.authenticate_ns > hurried
                           ? hurried
                           : conn->config.authenticate_ns);
    return WEFT_OK;
}

static weft_status send_hello(struct conn *conn)
{
    struct io_env *env = conn_env(conn);
    struct conn_private *private = conn->private;
    struct conn_dial *dial = &private->dial;
    struct codec_hello hello = {.id = conn->id, .epoch = dial->handle.epoch};

    hello.attempt = ++dial->attempt;
    memcpy(hello.host_id, io_host_id(env), sizeof(hello.host_id));
    prove_hello(&private->link, dial->key, &hello, dial->hello);
    if (private->deadline_ns == WEFT_NEVER) {
        private->deadline_ns = io_now(env) + conn->config.total_ns;
    }
    dial->way_ns = io_now(env) + conn->config.authenticate_ns;
    conn_watch_peer(conn);
    conn_enter(conn, CONN_HELLO);
    return WEFT_OK;
}

weft_status conn_step_tcp(struct conn *conn)
{
    struct io_env *env = conn_env(conn);
    struct conn_private *private = conn->private;
    struct conn_dial *dial = &private->dial;
    int result;

    if (conn->state == CONN_NEW) {
        return start_dialling(conn);
    }
    if (dial->resume_ns != 0) {
        if (io_now(env) < dial->resume_ns) {
            return WEFT_AGAIN;
        }
        dial->resume_ns = 0;
    }
    if (private->link.stream == NULL) {
        return start_way(conn);
    }
    result = env->oob->connected(private->link.stream);
    if (result == EAGAIN) {
        return io_now(env) < dial->way_ns
                   ? WEFT_AGAIN
                   : next_way(conn, ETIMEDOUT, "no answer to the connection attempt");
    }
    return result == 0
               ? send_hello(conn)
               : next_way(conn, result,
                          result == ECONNREFUSED ? "refused"
                                                 : "the connection attempt failed");
}

/* ---- authentication ---- */

weft_status conn_step_hello(struct conn *conn)
{
    struct conn_private *private = conn->private;
    struct weft_error why = {0};
    weft_status status = frame_flush(&private->link, &why);

    if (status == WEFT_OK) {
        conn_enter(conn, CONN_CHALLENGE);
        return WEFT_OK;
    }
    if (status == WEFT_AGAIN && io_now(conn_env(conn)) < private->dial.way_ns) {
        return WEFT_AGAIN;
    }
    return next_way(conn, why.sys_errno, "lost before authentication");
}

/* Sends this end's FACTS to the listener, which has authenticated itself. */
static weft_status send_facts(struct conn *conn)
{
    struct codec_facts facts;
    uint8_t body[CODEC_BODY_MAX];
    weft_status status;

    conn_facts_body(conn, &facts);
    status = conn_send(conn, CODEC_FACTS, body, codec_encode_facts(&facts, body));
    if (status == WEFT_OK) {
        conn_enter(conn, CONN_AUTH);
    }
    return status;
}

weft_status conn_step_challenge(struct conn *conn)
{
    struct conn_private *private = conn->private;
    struct conn_dial *dial = &private->dial;
    struct weft_error why = {0};
    weft_status status = prove_answer(&private->link, dial->key, dial->hello, &why);

    if (status == WEFT_OK) {
        return send_facts(conn);
    }
    if (status == WEFT_AGAIN && io_now(conn_env(conn)) < dial->way_ns) {
        return WEFT_AGAIN;
    }
    if (status == WEFT_AGAIN || why.phase == WEFT_PHASE_STREAM) {
        return next_way(conn, status == WEFT_AGAIN ? ETIMEDOUT : why.sys_errno,
                        "lost before authentication");
    }
    if (prove_may_ask_after(&why)) {
        return next_way(conn, 0, "the listener has no place left, or did not hear");
    }
    private->peer_gave_up = weft_error_value(&why, WEFT_VALUE_PEER_PHASE) != NULL;
    conn->error = why;
    return status;
}

weft_status conn_turned_away(struct conn *conn, int error_number)
{
    io_task_wake(&conn->task);
    return next_way(conn, error_number, "turned away before the listener sent its facts");
}

void conn_lost_address(struct conn *conn)
{
    const struct conn_dial *dial = &conn->private->dial;
    const struct conn_way *way = &dial->ways[dial->way];
    struct mesh_address local[64];
    struct local_address sources[64];
    uint32_t n_local;
    bool exists = false;

    if (!conn->is_connector || dial->way >= dial->n_ways || !way->is_bound) {
        return;
    }
    n_local = local_addresses(conn->rdma, &conn->config, local, sources, 64);
    for (uint32_t i = 0; i < n_local; i++) {
        exists = exists || io_ip_equal(&sources[i].ip, &way->from.ip);
    }
    conn->private->is_cut_off = !exists;
    io_task_wake(&conn->task);
}

/* Returns true if only one cable can lead to the peer: that of the only port, or without a
 * management network that of the only pair of addresses. */
static bool has_one_cable(const struct conn *conn)
{
    return conn->rdma->n_ports == 1 || conn->private->dial.n_ways == 1;
}

weft_ns conn_silent_since(const struct conn *conn, const struct weft_error *why)
{
    const struct conn_dial *dial = &conn->private->dial;
    enum weft_phase phase = weft_error_first_phase(why);
    bool is_of_cable = phase == WEFT_PHASE_CONNECT_QPS || phase == WEFT_PHASE_RTR ||
                       phase == WEFT_PHASE_READY || phase == WEFT_PHASE_PROBE;
    const struct weft_value *silent = weft_error_value(why, WEFT_VALUE_SILENT_NS);
    const struct conn_way *way = &dial->ways[dial->way];
    struct io_ip local;

    if (conn->is_connector && conn->n_rails == 0 && has_one_cable(conn) &&
        silent != NULL && dial->way < dial->n_ways && way->is_bound) {
        return io_now(conn_env(conn)) - silent->number; /* before the rails were chosen */
    }
    if (conn->is_connector && conn->n_rails == 0 && has_one_cable(conn) &&
        why->phase == WEFT_PHASE_TCP) {
        return dial->silent_ns; /* no other address answered either */
    }
    if (!conn->is_connector || conn->n_rails != 1) {
        return 0;
    }
    local = rdma_gid_ip(&conn->rails[0].local_gid);
    if (silent != NULL && dial->way < dial->n_ways && way->is_bound &&
        io_ip_equal(&local, &way->from.ip)) {
        return io_now(conn_env(conn)) - silent->number;
    }
    return is_of_cable && dial->silent_ns != 0 && io_ip_equal(&local, &dial->silent_from)
               ? dial->silent_ns
               : 0;
}

bool conn_is_unanswered(const struct conn *conn)
{
    return conn->is_connector && conn->private->dial.is_unanswered;
}

weft_ns conn_dial_deadline(const struct conn *conn)
{
    const struct conn_dial *dial = &conn->private->dial;

    return dial->resume_ns != 0 ? dial->resume_ns : dial->way_ns;
}

weft_status conn_connect(struct rdma *rdma, const struct conn_config *config,
                         const uint8_t handle[CONN_HANDLE_BYTES], int task_kind,
                         struct conn **out, struct weft_error *error)
{
    struct codec_handle decoded;
    weft_status status = codec_decode_handle(handle, &decoded, error);
    struct conn *conn;

    *out = NULL;
    if (status != WEFT_OK) {
        return status;
    }
    conn = conn_new(rdma, config, task_kind, true);
    conn->private->dial.handle = decoded;
    auth_connection_key(decoded.cookie, config->has_secret ? config->secret : NULL,
                        conn->private->dial.key);
    rdma->env->ops->random(rdma->env, &conn->id, sizeof(conn->id));
    io_task_wake(&conn->task);
    *out = conn;
    return WEFT_OK;
}

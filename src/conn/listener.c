/* Listens on the addresses of a host, writes the handle, and serves a limited number of clients at
 * the same time. An unauthenticated client occupies a slot for at most authenticate_ns.
 * client_place() selects the client that loses its slot when all are occupied. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/client.h"
#include "conn/private.h"
#include "io/oob.h"
#include "rdma/policy.h"

#define BACKLOG 128
#define LOG_EVERY_NS 1000000000 /* minimum time between two lines about refusals */
#define RECENT_MAX 256

/* A connection that was accepted, to recognise its later attempts. */
struct recent {
    uint8_t host_id[16];
    uint64_t id;
    uint32_t attempt; /* highest one; 0 if the slot is unused */
};

struct conn_listener_private {
    struct rdma *rdma; /* Not owned. */
    struct conn_config config;
    int conn_kind;
    struct client_identity identity;
    struct io_listener *sockets[CODEC_ENDPOINTS_MAX];
    uint32_t n_sockets;
    struct client *clients; /* Owned [config.pending_max] */
    /* Owned ring [config.pending_max] of connections that conn_accept has not returned; Owned */
    struct conn **accepted;
    uint32_t n_accepted, first_accepted;
    struct recent recent[RECENT_MAX];
    uint32_t next_recent;
    weft_ns resume_ns; /* end of the pause after a failed accept(), absolute; 0 if none */
    int short_errno; /* of the last accept() if it failed, which was logged; otherwise 0 */
    weft_ns next_log_ns;
    uint64_t unlogged; /* refusals since the last log line */
};

static struct io_env *env_of(const struct conn_listener *listener)
{
    return listener->private->rdma->env;
}

/* ---- addresses ---- */

/* Addresses to listen on, in the order of the handle. */
struct places {
    uint32_t n;
    struct {
        uint32_t ifindex; /* 0 if streams may arrive over any netdev */
        struct codec_endpoint endpoint;
    } at[CODEC_ENDPOINTS_MAX];
};

static void add_place(struct places *places, const struct io_netdev *netdev,
                      const struct io_prefix *prefix)
{
    if (places->n == CODEC_ENDPOINTS_MAX) {
        return;
    }
    /* Streams to the address of a cable must arrive over that cable. Processes of this host use the
     * loopback interface and the management address. */
    places->at[places->n].ifindex = netdev->is_management ? 0 : netdev->ifindex;
    places->at[places->n].endpoint = (struct codec_endpoint){
        .prefix = *prefix, .port = 1, .is_management = netdev->is_management};
    places->n++;
}

/* Adds the IPv4 or IPv6 addresses of the management or cable netdevs. Leaves out link-local
 * addresses, because they need a scope that the connector cannot know. */
static void add_places(const struct conn_listener *listener, bool management, bool v4,
                       struct places *places)
{
    struct io_env *env = env_of(listener);
    const struct rdma *rdma = listener->private->rdma;
    const struct io_hostinfo *info = env->ops->hostinfo(env);

    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        const struct io_netdev *netdev = &info->netdevs[i];
        bool wanted = management && netdev->is_management;

        for (uint32_t p = 0; p < rdma->n_ports && !management; p++) {
            const struct rdma_port *port = &rdma->ports[p];

            wanted =
                wanted || (!netdev->is_management && rdma_port_has_netdev(port, netdev) &&
                           !conn_excludes(&listener->private->config, port->device_index,
                                          port->port));
        }
        for (uint32_t a = 0; a < netdev->n_addresses && wanted; a++) {
            const struct io_prefix *prefix = &netdev->addresses[a];

            if (io_ip_is_v4(&prefix->ip) == v4 && !io_ip_is_link_local(&prefix->ip)) {
                add_place(places, netdev, prefix);
            }
        }
    }
}

/* Returns true if the places do not fit in the plain form of the handle. */
static bool needs_compact(struct codec_handle handle, const struct places *places)
{
    for (uint32_t i = 0; i < places->n; i++) {
        handle.endpoints[handle.n_endpoints++] = places->at[i].endpoint;
    }
    return codec_handle_bytes(&handle) > CONN_HANDLE_BYTES;
}

/* Opens a socket at one place. In a compact handle it has the TCP port of the endpoint before,
 * unless that is taken, because a port that repeats is omitted. */
static int open_socket(struct conn_listener *listener, const struct io_ip *ip,
                       uint32_t ifindex, const struct codec_handle *handle,
                       struct io_endpoint *out)
{
    struct conn_listener_private *private = listener->private;
    struct io_env *env = env_of(listener);
    struct io_listener **socket = &private->sockets[private->n_sockets];
    struct io_endpoint at = {.ip = *ip, .ifindex = ifindex};
    int result = EADDRINUSE;

    if (handle->is_compact && handle->n_endpoints > 0) {
        at.port = handle->endpoints[handle->n_endpoints - 1].port;
        result = env->oob->listen(env, &at, BACKLOG, &listener->task, socket, out);
        at.port = 0;
    }
    return result == EADDRINUSE
               ? env->oob->listen(env, &at, BACKLOG, &listener->task, socket, out)
               : result;
}

/* Listens at the places that fit in the handle. */
static void listen_at(struct conn_listener *listener, const struct places *places,
                      struct codec_handle *handle, int *out_errno)
{
    struct conn_listener_private *private = listener->private;
    struct io_env *env = env_of(listener);

    handle->is_compact = needs_compact(*handle, places);
    for (uint32_t i = 0; i < places->n; i++) {
        struct codec_endpoint endpoint = places->at[i].endpoint;
        struct io_endpoint real;
        int result = open_socket(listener, &endpoint.prefix.ip, places->at[i].ifindex,
                                 handle, &real);

        if (result != 0) {
            *out_errno = result;
            continue;
        }
        endpoint.port = real.port;
        handle->endpoints[handle->n_endpoints++] = endpoint;
        if (codec_handle_bytes(handle) > CONN_HANDLE_BYTES) {
            handle->n_endpoints--;
            env->oob->close_listener(private->sockets[private->n_sockets]);
            private->sockets[private->n_sockets] = NULL;
            return;
        }
        private->n_sockets++;
    }
}

static weft_status open_sockets(struct conn_listener *listener,
                                struct codec_handle *handle, struct weft_error *error)
{
    const struct conn_config *config = &listener->private->config;
    struct places places = {.n = 0};
    int failure = EADDRNOTAVAIL;

    add_places(listener, true, true, &places);
    add_places(listener, true, false, &places);
    if (!config->over_management && config->policy == WEFT_POLICY_WEFT) {
        add_places(listener, false, true, &places);
        add_places(listener, false, false, &places);
    }
    listen_at(listener, &places, handle, &failure);
    if (listener->private->n_sockets == 0) {
        return weft_fail_errno(error, failure, WEFT_PHASE_LISTEN,
                               "no address to listen on");
    }
    return WEFT_OK;
}

weft_status conn_listen(struct rdma *rdma, const struct conn_config *config,
                        int task_kind, int conn_kind,
                        uint8_t out_handle[CONN_HANDLE_BYTES], struct conn_listener **out,
                        struct weft_error *error)
{
    struct io_env *env = rdma->env;
    struct conn_listener *listener = weft_calloc(1, sizeof(*listener));
    struct conn_listener_private *private = weft_calloc(1, sizeof(*private));
    struct codec_handle handle = {.n_endpoints = 0};
    weft_status status;
    bool fits;

    *out = NULL;
    listener->private = private;
    io_task_init(&listener->task, env->loop, env->host, task_kind);
    private->rdma = rdma;
    private->config = *config;
    private->conn_kind = conn_kind;
    private->clients = weft_calloc(config->pending_max, sizeof(*private->clients));
    private->accepted = weft_calloc(config->pending_max, sizeof(struct conn *));
    memcpy(handle.host_id, io_host_id(env), sizeof(handle.host_id));
    env->ops->random(env, handle.cookie, sizeof(handle.cookie));
    env->ops->random(env, &handle.epoch, sizeof(handle.epoch));
    memcpy(private->identity.host_id, handle.host_id, sizeof(handle.host_id));
    private->identity.epoch = handle.epoch;
    auth_connection_key(handle.cookie, config->has_secret ? config->secret : NULL,
                        private->identity.key);
    status = open_sockets(listener, &handle, error);
    if (status != WEFT_OK) {
        conn_listener_close(listener);
        return status;
    }
    fits = codec_encode_handle(&handle, out_handle);
    weft_check(fits);
    *out = listener;
    return WEFT_OK;
}

/* ---- clients ---- */

static void word(const struct conn_listener *listener, const struct weft_error *why,
                 char *out, size_t out_bytes)
{
    const struct conn_config *config = &listener->private->config;

    (config->word != NULL ? config->word : weft_error_format)(why, out, out_bytes);
}

static void log_refusal(struct conn_listener *listener, const struct client *client,
                        const struct weft_error *error)
{
    struct conn_listener_private *private = listener->private;
    struct io_env *env = env_of(listener);
    weft_ns now = io_now(env);
    char ip[IO_IP_TEXT_BYTES], text[300], more[48] = "";

    if (now < private->next_log_ns) {
        private->unlogged++;
        return;
    }
    private->next_log_ns = now + LOG_EVERY_NS;
    word(listener, error, text, sizeof(text));
    if (private->unlogged > 0) {
        weft_format(more, sizeof(more), " (%llu more since the last line)",
                    (unsigned long long)private->unlogged);
    }
    weft_log(env->log, WEFT_LOG_WARN, "listener of %s: client %s port %u refused: %s%s",
             env->name, io_ip_format(&client->source.ip, ip, sizeof(ip)),
             client->source.port, text, more);
    private->unlogged = 0;
}

/* Sends `error` to the client and frees its slot. Logs it unless the client gave up by itself.
 * Relays do that whenever a lane ends while it is set up. */
static void refuse(struct conn_listener *listener, struct client *client,
                   const struct weft_error *error)
{
    struct io_env *env = env_of(listener);
    bool gave_up = weft_error_value(error, WEFT_VALUE_GAVE_UP) != NULL;

    if (!gave_up) {
        log_refusal(listener, client, error);
    }
    weft_trace_event(env->trace, io_now(env), env->name, "listener", "refuse",
                     "phase=%s status=%s", weft_phase_name(error->phase),
                     weft_status_name(error->status));
    client_refuse(client, error);
    listener->counters.pending--;
    listener->counters.rejected++;
    if (error->status == WEFT_ERR_TIMEOUT && !gave_up) {
        listener->counters.timed_out++;
    }
}

/* Returns true if the policy's program accepts no other client yet, because one has not sent all of
 * its HELLO. */
static bool is_deaf(const struct conn_listener_private *private)
{
    return rdma_hears_one_client(private->config.policy) &&
           client_find(private->clients, private->config.pending_max, CLIENT_HELLO) !=
               NULL;
}

/* Notes an attempt of a connection. Returns false if this or a later attempt was noted before. */
static bool is_first(struct conn_listener_private *private,
                     const struct codec_hello *hello)
{
    struct recent *slot = NULL;

    for (uint32_t i = 0; i < RECENT_MAX; i++) {
        struct recent *known = &private->recent[i];

        if (known->attempt != 0 && known->id == hello->id &&
            memcmp(known->host_id, hello->host_id, sizeof(known->host_id)) == 0) {
            if (known->attempt >= hello->attempt) {
                return false;
            }
            slot = known;
        }
    }
    if (slot == NULL) {
        slot = &private->recent[private->next_recent++ % RECENT_MAX];
    }
    memcpy(slot->host_id, hello->host_id, sizeof(slot->host_id));
    slot->id = hello->id;
    slot->attempt = hello->attempt;
    return true;
}

/* Makes a connection of an authenticated client. */
static void promote(struct conn_listener *listener, struct client *client)
{
    struct conn_listener_private *private = listener->private;
    struct weft_error error = {0};
    struct conn *conn;
    uint32_t at;

    if (!is_first(private, &client->hello)) {
        weft_fail(&error, WEFT_ERR_PROTOCOL, WEFT_PHASE_DUPLICATE,
                  "this connection was here before");
    } else if (private->n_accepted == private->config.pending_max) {
        weft_fail(&error, WEFT_ERR_LIMIT, PROVE_NO_PLACE,
                  "too many connections wait to be taken");
    }
    if (error.status != WEFT_OK) {
        refuse(listener, client, &error);
        return;
    }
    conn =
        conn_from_client(private->rdma, &private->config, private->conn_kind,
                         &client->link, &client->hello, &client->member->facts, &error);
    if (conn == NULL) {
        refuse(listener, client, &error);
        return;
    }
    client_fini(client, false);
    listener->counters.pending--;
    listener->counters.accepted++;
    at = (private->first_accepted + private->n_accepted++) % private->config.pending_max;
    private->accepted[at] = conn;
}

static void serve(struct conn_listener *listener, struct client *client)
{
    struct weft_error error = {0};
    weft_status status = WEFT_OK;

    while (status == WEFT_OK && client->state != CLIENT_DONE) {
        status = client_step(client, &listener->private->identity, &error);
    }
    if (status == WEFT_OK) {
        promote(listener, client);
        return;
    }
    if (status == WEFT_AGAIN && io_now(env_of(listener)) >= client->deadline_ns) {
        weft_fail(&error, WEFT_ERR_TIMEOUT, WEFT_PHASE_AUTHENTICATE,
                  "not authenticated in time");
        status = WEFT_ERR_TIMEOUT;
    }
    if (status < 0) {
        refuse(listener, client, &error);
    }
}

static void admit(struct conn_listener *listener, struct io_stream *stream)
{
    struct conn_listener_private *private = listener->private;
    struct io_env *env = env_of(listener);
    struct weft_error error = {0};
    struct io_endpoint source;
    struct client *client;

    listener->counters.clients++;
    env->oob->endpoints(stream, NULL, &source);
    client = client_place(private->clients, private->config.pending_max, env,
                          &private->identity, &source.ip);
    if (client == NULL) { /* all slots have authenticated clients */
        env->oob->close(stream, true);
        listener->counters.rejected++;
        return;
    }
    if (client->state != CLIENT_NONE) {
        weft_fail(&error, WEFT_ERR_LIMIT, PROVE_NO_PLACE, "too many clients wait");
        refuse(listener, client, &error);
    }
    client_start(client, env, stream,
                 rdma_hears_one_client(private->config.policy)
                     ? WEFT_NEVER
                     : io_now(env) + private->config.authenticate_ns);
    listener->counters.pending++;
    /* Serve it at once, because the next new client may take its slot. */
    serve(listener, client);
}

/* Stops accepting for CLIENT_PAUSE_NS. Clients wait in the backlog. Logs only the first of several
 * failures. */
static void hold_off(struct conn_listener *listener, int sys_errno)
{
    struct conn_listener_private *private = listener->private;
    struct weft_error why = {0};
    char text[300];

    private->resume_ns = io_now(env_of(listener)) + CLIENT_PAUSE_NS;
    if (private->short_errno != 0) {
        return;
    }
    private->short_errno = sys_errno;
    weft_fail_errno(&why, sys_errno, WEFT_PHASE_ACCEPT, "who comes has to wait");
    word(listener, &why, text, sizeof(text));
    weft_log(env_of(listener)->log, WEFT_LOG_WARN, "listener: %s", text);
}

static void accept_clients(struct conn_listener *listener)
{
    struct conn_listener_private *private = listener->private;
    struct io_env *env = env_of(listener);

    if (private->resume_ns != 0 && io_now(env) < private->resume_ns) {
        return;
    }
    private->resume_ns = 0;
    for (uint32_t i = 0; i < private->n_sockets; i++) {
        struct io_stream *stream = NULL;
        uint32_t n = 0;
        int result = 0;

        while (result == 0 && !is_deaf(private)) {
            result =
                client_accept(env, private->sockets[i], &listener->task, &n, &stream);
            if (result == 0) {
                private->short_errno = 0;
                admit(listener, stream);
            }
        }
        if (result != 0 && result != EAGAIN) {
            hold_off(listener, result);
            return;
        }
    }
    if (!is_deaf(private)) {
        private->short_errno = 0; /* EAGAIN shows that a descriptor is available */
    }
}

int conn_listener_errno(const struct conn_listener *listener)
{
    return listener->private->short_errno;
}

/* Progresses the connections that were not taken for the time after which a peer expects BUSY. One
 * that fails is returned by conn_accept like the others. Returns when to do so again. */
static weft_ns keep_waiting(const struct conn_listener_private *private, weft_ns now)
{
    weft_ns next = WEFT_NEVER;

    for (uint32_t i = 0; i < private->n_accepted; i++) {
        uint32_t at = (private->first_accepted + i) % private->config.pending_max;
        struct conn *conn = private->accepted[at];
        weft_ns again;

        if (now >= conn->private->busy_ns) {
            (void)(conn_progress(conn) < 0);
        }
        again =
            conn->private->busy_ns > now ? conn->private->busy_ns : now + TIMER_BUSY_NS;
        next = again < next ? again : next;
    }
    return next;
}

void conn_listener_progress(struct conn_listener *listener)
{
    struct conn_listener_private *private = listener->private;
    weft_ns next = WEFT_NEVER, again;
    bool was_deaf;

    accept_clients(listener);
    was_deaf = is_deaf(private);
    for (uint32_t i = 0; i < private->config.pending_max; i++) {
        struct client *client = &private->clients[i];

        if (client->state != CLIENT_NONE) {
            serve(listener, client);
        }
        if (client->state != CLIENT_NONE && client->deadline_ns < next) {
            next = client->deadline_ns;
        }
    }
    again = keep_waiting(private, io_now(env_of(listener)));
    next = again < next ? again : next;
    if (private->resume_ns != 0 && private->resume_ns < next) {
        next = private->resume_ns;
    }
    io_task_deadline(&listener->task, next);
    if (was_deaf && !is_deaf(private)) {
        io_task_wake(&listener->task); /* another may wait */
    }
    weft_check(listener->counters.accepted + listener->counters.rejected +
                   listener->counters.pending ==
               listener->counters.clients);
}

struct conn *conn_accept(struct conn_listener *listener)
{
    struct conn_listener_private *private = listener->private;
    struct conn *conn;

    if (private->n_accepted == 0) {
        return NULL;
    }
    conn = private->accepted[private->first_accepted];
    private->first_accepted = (private->first_accepted + 1) % private->config.pending_max;
    private->n_accepted--;
    io_task_wake(&conn->task);
    return conn;
}

void conn_listener_close(struct conn_listener *listener)
{
    struct conn_listener_private *private;
    struct conn *conn;

    if (listener == NULL) {
        return;
    }
    private = listener->private;
    while ((conn = conn_accept(listener)) != NULL) {
        conn_destroy(conn);
    }
    for (uint32_t i = 0; i < private->config.pending_max; i++) {
        if (private->clients[i].state != CLIENT_NONE) {
            client_fini(&private->clients[i], true);
        }
    }
    for (uint32_t i = 0; i < private->n_sockets; i++) {
        env_of(listener)->oob->close_listener(private->sockets[i]);
    }
    io_task_fini(&listener->task);
    auth_forget(&private->identity, sizeof(private->identity));
    auth_forget(private->config.secret, sizeof(private->config.secret));
    free(private->clients);
    free(private->accepted);
    free(private);
    free(listener);
}

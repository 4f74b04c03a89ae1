#include "sim/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/tcp_impl.h"

#define EPHEMERAL_FIRST 32768u /* ip_local_port_range */
#define EPHEMERAL_LAST 60999u

/* ---- the tables ---- */

struct sim_tcp *sim_tcp_create(struct sim_stack *stack, uint32_t chunk_bytes)
{
    struct sim_tcp *tcp = weft_calloc(1, sizeof *tcp);
    char name[96];
    tcp->stack = stack;
    tcp->chunk_bytes = chunk_bytes;
    tcp->next_port = EPHEMERAL_FIRST;
    weft_format(name, sizeof name, "tcp:%s", stack->host);
    weft_rng_init(&tcp->rng, sim_seed(stack->engine), name);
    return tcp;
}

void sim_tcp_destroy(struct sim_tcp *tcp)
{
    while (tcp->first != NULL) {
        tcp_stream_free(tcp->first);
    }
    while (tcp->listeners != NULL) {
        struct sim_listener *listener = tcp->listeners;
        tcp->listeners = listener->next;
        free(listener);
    }
    free(tcp);
}

void sim_tcp_reset_all(struct sim_tcp *tcp)
{
    for (struct sim_stream *stream = tcp->first; stream != NULL; stream = stream->next) {
        if (stream->state == TCP_OPEN && !stream->is_orphan) {
            tcp_trace(stream, "reset", 0);
            (void)tcp_send_control(stream, SIM_TCP_RST);
        }
    }
}

void sim_tcp_reset_of(struct sim_tcp *tcp,
                      bool (*is_its)(const void *waker, const void *who), const void *who)
{
    struct sim_stream *next;
    for (struct sim_listener *l = tcp->listeners; l != NULL; l = l->next) {
        if (is_its(l->waker.context, who)) {
            l->at.port = 0; /* no client finds it */
        }
    }
    for (struct sim_stream *stream = tcp->first; stream != NULL; stream = next) {
        next = stream->next;
        if (stream->is_orphan || stream->state == TCP_BROKEN ||
            !is_its(stream->waker.context, who)) {
            continue;
        }
        if (stream->state == TCP_OPEN) {
            tcp_trace(stream, "reset", 0);
            (void)tcp_send_control(stream, SIM_TCP_RST);
        }
        tcp_break(stream, ECONNRESET);
    }
}

void sim_tcp_stop(struct sim_tcp *tcp)
{
    tcp->is_stopped = true;
    for (struct sim_stream *stream = tcp->first; stream != NULL; stream = stream->next) {
        sim_cancel(tcp->stack->engine, &stream->timer);
    }
}

static unsigned bucket_of(const struct sim_endpoint *local,
                          const struct sim_endpoint *remote)
{
    uint32_t hash = 2166136261u;
    for (int i = 0; i < 16; i++) {
        hash = (hash ^ remote->ip.bytes[i]) * 16777619u;
    }
    hash = (hash ^ local->port) * 16777619u;
    hash = (hash ^ remote->port) * 16777619u;
    return (hash ^ hash >> 15) % TCP_BUCKETS;
}

static bool same_endpoint(const struct sim_endpoint *a, const struct sim_endpoint *b)
{
    return a->port == b->port && sim_ip_equal(&a->ip, &b->ip);
}

struct sim_stream *tcp_find(const struct sim_tcp *tcp, const struct sim_endpoint *local,
                            const struct sim_endpoint *remote)
{
    struct sim_stream *stream = tcp->buckets[bucket_of(local, remote)];
    for (; stream != NULL; stream = stream->bucket_next) {
        if (same_endpoint(&stream->local, local) &&
            same_endpoint(&stream->remote, remote)) {
            return stream;
        }
    }
    return NULL;
}

struct sim_stream *tcp_stream_new(struct sim_tcp *tcp, const struct sim_endpoint *local,
                                  const struct sim_endpoint *remote)
{
    struct sim_stream *stream = weft_calloc(1, sizeof *stream);
    unsigned bucket = bucket_of(local, remote);
    stream->tcp = tcp;
    stream->local = *local;
    stream->remote = *remote;
    stream->bucket_next = tcp->buckets[bucket];
    tcp->buckets[bucket] = stream;
    stream->previous = tcp->last;
    if (tcp->last == NULL) {
        tcp->first = stream;
    } else {
        tcp->last->next = stream;
    }
    tcp->last = stream;
    stream->iss = (uint32_t)weft_rng_next(&tcp->rng);
    stream->snd_una = stream->iss;
    stream->snd_nxt = stream->iss;
    stream->snd_max = stream->iss;
    stream->rto_ps = TCP_RTO_SYN_PS;
    stream->user_timeout_ps = TCP_USER_TIMEOUT_PS;
    stream->told_window = TCP_WINDOW_BYTES;
    sim_event_init(&stream->timer, tcp_on_timer);
    return stream;
}

void tcp_stream_free(struct sim_stream *stream)
{
    struct sim_tcp *tcp = stream->tcp;
    sim_cancel(tcp->stack->engine, &stream->timer);
    struct sim_stream **at = &tcp->buckets[bucket_of(&stream->local, &stream->remote)];
    while (*at != stream) {
        at = &(*at)->bucket_next;
    }
    *at = stream->bucket_next;
    if (stream->previous == NULL) {
        tcp->first = stream->next;
    } else {
        stream->previous->next = stream->next;
    }
    if (stream->next == NULL) {
        tcp->last = stream->previous;
    } else {
        stream->next->previous = stream->previous;
    }
    tcp_ring_fini(&stream->tx);
    tcp_ring_fini(&stream->rx);
    free(stream);
}

void tcp_wake(struct sim_stream *stream)
{
    if (!stream->is_orphan && !stream->tcp->is_stopped) {
        sim_wake(&stream->waker);
    }
}

void tcp_break(struct sim_stream *stream, int error)
{
    tcp_trace(stream, "broken", error);
    sim_cancel(stream->tcp->stack->engine, &stream->timer);
    if (stream->is_orphan) {
        tcp_stream_free(stream);
        return;
    }
    if (stream->state == TCP_SYN_RECEIVED) {
        stream->listener->n_pending--;
        tcp_stream_free(stream);
        return;
    }
    stream->state = TCP_BROKEN;
    stream->error = error;
    tcp_wake(stream);
}

static char *endpoint_text(const struct sim_endpoint *endpoint, char *out,
                           size_t out_bytes)
{
    char ip[SIM_IP_TEXT_BYTES];
    bool is_v4 = sim_ip_is_v4(&endpoint->ip);
    weft_format(out, out_bytes, is_v4 ? "%s:%u" : "[%s]:%u",
                sim_ip_format(&endpoint->ip, ip), endpoint->port);
    return out;
}

void tcp_trace(const struct sim_stream *stream, const char *event, int error)
{
    const struct sim_stack *stack = stream->tcp->stack;
    struct weft_trace *trace = sim_trace(stack->engine);
    if (!weft_trace_on(trace, WEFT_TRACE_STORY)) {
        return;
    }
    char text[SIM_IP_TEXT_BYTES + 8];
    weft_trace_begin(trace, sim_now_ns(stack->engine), stack->host, "tcp", event);
    weft_trace_text(trace, "local", endpoint_text(&stream->local, text, sizeof text));
    weft_trace_text(trace, "remote", endpoint_text(&stream->remote, text, sizeof text));
    if (error != 0) {
        weft_trace_int(trace, "errno", error);
    }
    weft_trace_end(trace);
}

/* ---- listening ---- */

static bool port_is_taken(const struct sim_tcp *tcp, const struct sim_endpoint *at)
{
    for (const struct sim_listener *l = tcp->listeners; l != NULL; l = l->next) {
        bool same_ip = sim_ip_is_zero(&l->at.ip) || sim_ip_is_zero(&at->ip) ||
                       sim_ip_equal(&l->at.ip, &at->ip);
        bool same_if =
            l->at.ifindex == 0 || at->ifindex == 0 || l->at.ifindex == at->ifindex;
        if (l->at.port == at->port && same_ip && same_if) {
            return true;
        }
    }
    return false;
}

static int pick_port(struct sim_tcp *tcp, struct sim_endpoint *local,
                     const struct sim_endpoint *remote)
{
    for (uint32_t i = EPHEMERAL_FIRST; i <= EPHEMERAL_LAST; i++) {
        local->port = tcp->next_port;
        tcp->next_port = tcp->next_port == EPHEMERAL_LAST
                             ? EPHEMERAL_FIRST
                             : (uint16_t)(tcp->next_port + 1);
        bool is_taken = port_is_taken(tcp, local) ||
                        (remote != NULL && tcp_find(tcp, local, remote) != NULL);
        if (!is_taken) {
            return 0;
        }
    }
    return EADDRINUSE;
}

/* Returns 0 if a source or listening address is unspecified, loopback or the host's own;
 * otherwise an errno. */
static int check_local(const struct sim_stack *stack, const struct sim_endpoint *at)
{
    if (at->ifindex != 0 && sim_stack_find(stack, at->ifindex) == NULL) {
        return ENODEV;
    }
    if (!sim_ip_is_zero(&at->ip) && !sim_ip_is_loopback(&at->ip) &&
        sim_stack_owner(stack, &at->ip) == NULL) {
        return EADDRNOTAVAIL;
    }
    return 0;
}

int sim_tcp_listen(struct sim_stack *stack, const struct sim_endpoint *at, int backlog,
                   struct sim_waker waker, struct sim_listener **out,
                   struct sim_endpoint *out_at)
{
    struct sim_tcp *tcp = stack->tcp;
    struct sim_endpoint real = *at;
    int error = check_local(stack, at);
    if (error == 0 && at->port == 0) {
        error = pick_port(tcp, &real, NULL);
    }
    if (error == 0 && port_is_taken(tcp, &real)) {
        error = EADDRINUSE;
    }
    if (error != 0) {
        return error;
    }
    struct sim_listener *listener = weft_calloc(1, sizeof *listener);
    listener->tcp = tcp;
    listener->waker = waker;
    listener->at = real;
    listener->backlog = backlog > 0 ? (uint32_t)backlog : 1;
    struct sim_listener **end = &tcp->listeners;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = listener;
    *out = listener;
    *out_at = real;
    return 0;
}

int sim_tcp_accept(struct sim_listener *listener, struct sim_waker waker,
                   struct sim_stream **out)
{
    struct sim_stream *stream = listener->accept_first;
    if (stream == NULL) {
        return EAGAIN;
    }
    listener->accept_first = stream->accept_next;
    if (listener->accept_first == NULL) {
        listener->accept_last = NULL;
    }
    listener->n_pending--;
    stream->listener = NULL;
    sim_tcp_set_waker(stream, waker);
    tcp_trace(stream, "accept", 0);
    *out = stream;
    return 0;
}

void sim_tcp_close_listener(struct sim_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    struct sim_tcp *tcp = listener->tcp;
    struct sim_stream *stream = tcp->first;
    while (stream != NULL) {
        struct sim_stream *next = stream->next;
        if (stream->listener == listener) {
            sim_tcp_close(stream, true);
        }
        stream = next;
    }
    struct sim_listener **at = &tcp->listeners;
    while (*at != listener) {
        at = &(*at)->next;
    }
    *at = listener->next;
    free(listener);
}

/* ---- streams ---- */

int sim_tcp_connect(struct sim_stack *stack, const struct sim_endpoint *from,
                    const struct sim_endpoint *to, struct sim_waker waker,
                    struct sim_stream **out)
{
    struct sim_tcp *tcp = stack->tcp;
    struct sim_endpoint local = {.ip = {{0}}};
    struct sim_endpoint remote = {.ip = to->ip, .port = to->port};
    if (from != NULL) {
        local = *from;
    }
    if (to->ifindex != 0) {
        local.ifindex = to->ifindex;
    }
    int error = check_local(stack, &local);
    if (error != 0) {
        return error;
    }
    struct sim_netdev *oif = sim_stack_find(stack, local.ifindex);
    struct sim_netdev *owner = sim_stack_owner(stack, &to->ip);
    bool is_self = sim_ip_is_loopback(&to->ip)
                       ? oif == NULL
                       : owner != NULL && (oif == NULL || oif == owner);
    struct sim_hop hop;
    if (!is_self) {
        error = sim_route_lookup(stack, &to->ip, oif, &hop);
    }
    if (error != 0) {
        return error;
    }
    if (sim_ip_is_zero(&local.ip)) {
        if (is_self) {
            local.ip = to->ip;
        } else if (!sim_netdev_select(hop.netdev, &hop.next, &local.ip)) {
            return EADDRNOTAVAIL;
        }
    }
    local.ifindex = 0;
    error = local.port == 0 ? pick_port(tcp, &local, &remote) : 0;
    if (error == 0 && tcp_find(tcp, &local, &remote) != NULL) {
        error = EADDRINUSE;
    }
    if (error != 0) {
        return error;
    }
    struct sim_stream *stream = tcp_stream_new(tcp, &local, &remote);
    stream->waker = waker;
    stream->oif = oif;
    stream->state = TCP_SYN_SENT;
    stream->mss_bytes = tcp_mss_of(stream);
    tcp_trace(stream, "connect", 0);
    (void)tcp_transmit(stream);
    *out = stream;
    return 0;
}

int sim_tcp_connected(struct sim_stream *stream)
{
    if (stream->state == TCP_BROKEN) {
        return stream->error;
    }
    return stream->state == TCP_OPEN ? 0 : EAGAIN;
}

int sim_tcp_send(struct sim_stream *stream, const void *bytes, size_t n_bytes,
                 size_t *out_n)
{
    uint32_t chunk = stream->tcp->chunk_bytes;
    *out_n = 0;
    if (stream->state == TCP_BROKEN) {
        return stream->error;
    }
    if (stream->state != TCP_OPEN) {
        return EAGAIN;
    }
    if (n_bytes > TCP_WINDOW_BYTES) {
        n_bytes = TCP_WINDOW_BYTES;
    }
    if (chunk != 0 && n_bytes > chunk) {
        n_bytes = chunk;
    }
    uint32_t n = tcp_ring_put(&stream->tx, bytes, (uint32_t)n_bytes);
    if (n == 0 && n_bytes > 0) {
        return EAGAIN;
    }
    *out_n = n;
    (void)tcp_transmit(stream);
    return 0;
}

int sim_tcp_recv(struct sim_stream *stream, void *out, size_t n_bytes, size_t *out_n)
{
    uint32_t chunk = stream->tcp->chunk_bytes;
    *out_n = 0;
    if (stream->rx.n == 0) {
        if (stream->peer_fin) {
            return 0;
        }
        return stream->state == TCP_BROKEN ? stream->error : EAGAIN;
    }
    if (n_bytes > stream->rx.n) {
        n_bytes = stream->rx.n;
    }
    if (chunk != 0 && n_bytes > chunk) {
        n_bytes = chunk;
    }
    tcp_ring_copy(&stream->rx, 0, out, (uint32_t)n_bytes);
    tcp_ring_drop(&stream->rx, (uint32_t)n_bytes);
    *out_n = n_bytes;
    /* Report free space to a peer that had no window left (RFC 9293, 3.8.6.2.2). */
    uint32_t space = TCP_WINDOW_BYTES - stream->rx.n;
    bool was_closed = stream->told_window < stream->mss_bytes;
    if (stream->state == TCP_OPEN && was_closed && space >= TCP_WINDOW_BYTES / 2) {
        (void)tcp_send_control(stream, SIM_TCP_ACK);
    }
    return 0;
}

int sim_tcp_unacked(const struct sim_stream *stream, size_t *out_n)
{
    *out_n = stream->tx.n;
    return stream->state == TCP_BROKEN ? stream->error : 0;
}

void sim_tcp_endure(struct sim_stream *stream, weft_ps limit)
{
    stream->user_timeout_ps = limit;
}

void sim_tcp_set_waker(struct sim_stream *stream, struct sim_waker waker)
{
    stream->waker = waker;
    if (stream->rx.n > 0 || stream->peer_fin || stream->state == TCP_BROKEN) {
        tcp_wake(stream);
    }
}

void sim_tcp_endpoints(const struct sim_stream *stream, struct sim_endpoint *out_local,
                       struct sim_endpoint *out_remote)
{
    if (out_local != NULL) {
        *out_local = stream->local;
    }
    if (out_remote != NULL) {
        *out_remote = stream->remote;
    }
}

void sim_tcp_count(const struct sim_stack *stack, uint32_t *out_streams,
                   uint32_t *out_listeners)
{
    const struct sim_tcp *tcp = stack->tcp;

    *out_streams = *out_listeners = 0;
    for (const struct sim_stream *at = tcp->first; at != NULL; at = at->next) {
        *out_streams += at->is_orphan || at->listener != NULL ? 0 : 1;
    }
    for (const struct sim_listener *at = tcp->listeners; at != NULL; at = at->next) {
        (*out_listeners)++;
    }
}

void sim_tcp_close(struct sim_stream *stream, bool reset)
{
    if (stream == NULL) {
        return;
    }
    if (stream->state != TCP_OPEN) {
        if (stream->state == TCP_SYN_RECEIVED) {
            (void)tcp_send_control(stream, SIM_TCP_RST);
        }
        tcp_stream_free(stream);
        return;
    }
    bool is_rude = reset || stream->rx.n > 0;
    tcp_trace(stream, is_rude ? "reset" : "close", 0);
    if (is_rude) {
        (void)tcp_send_control(stream, SIM_TCP_RST);
        tcp_stream_free(stream);
        return;
    }
    stream->is_orphan = true;
    stream->fin_queued = true;
    if (stream->tcp->is_stopped) {
        tcp_stream_free(stream);
        return;
    }
    (void)tcp_transmit(stream);
}

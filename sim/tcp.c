/* TCP of a simulated host: streams, sending, receiving (RFC 9293), and calls of its users. */
#include "sim/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/stack_impl.h"
#include "sim/tcp_ring.h"

#define EPHEMERAL_FIRST 32768u /* ip_local_port_range */
#define EPHEMERAL_LAST 60999u
#define SECOND_PS ((weft_ps)1000000000000)
#define RTO_MAX_PS (120 * SECOND_PS) /* TCP_RTO_MAX */
#define FIN_WAIT_PS (60 * SECOND_PS) /* tcp_fin_timeout */
#define HEADER_BYTES 20u
#define HOP_LIMIT 64
#define TCP_BUCKETS 256u
/* Time after which unacknowledged bytes fail a stream, unless its owner changes it (chosen). */
#define TCP_USER_TIMEOUT_PS ((weft_ps)20000000000000)
#define TCP_RTO_FIRST_PS ((weft_ps)200000000000)
#define TCP_RTO_SYN_PS ((weft_ps)1000000000000)

enum tcp_state { TCP_SYN_SENT, TCP_SYN_RECEIVED, TCP_OPEN, TCP_BROKEN };

struct sim_stream {
    struct sim_tcp *tcp;
    TAILQ_ENTRY(sim_stream) link;
    struct sim_stream *bucket_next;
    struct sim_listener *listener; /* until accepted; then NULL */
    struct sim_stream *accept_next;
    struct sim_waker waker;
    struct sim_endpoint local, remote;
    struct sim_netdev *oif; /* the netdev it is bound to; may be NULL */
    enum tcp_state state;
    int error;      /* errno if BROKEN */
    bool is_orphan; /* closed by its user; freed when finished */
    uint32_t iss, snd_una, snd_nxt, snd_max, snd_wnd, rcv_nxt;
    uint32_t sent_window; /* window that was last sent to the peer */
    uint32_t mss_bytes;
    bool fin_queued, fin_acked, peer_fin;
    unsigned n_duplicate_acks;
    struct tcp_ring tx; /* bytes from snd_una on (from iss + 1 while connecting) */
    struct tcp_ring rx;
    struct sim_event timer;
    weft_ps rto_ps;
    weft_ps stalled_since;   /* since when the oldest unacknowledged data waits */
    weft_ps user_timeout_ps; /* time after which that fails the stream with ETIMEDOUT */
};

struct sim_listener {
    struct sim_tcp *tcp;
    struct sim_listener *next;
    struct sim_waker waker;
    struct sim_endpoint at;
    uint32_t backlog;
    uint32_t n_pending; /* half open, or not accepted yet */
    struct sim_stream *accept_first, *accept_last;
};

struct sim_tcp {
    struct sim_stack *stack;
    uint32_t chunk_bytes;
    bool is_stopped;
    struct weft_rng rng;
    uint16_t next_port;
    struct sim_listener *listeners;              /* in the order of listening */
    TAILQ_HEAD(sim_streams, sim_stream) streams; /* Owned; in the order of creation */
    struct sim_stream *buckets[TCP_BUCKETS];     /* for lookups only */
};

/* Returns a - b. Sequence numbers wrap (RFC 9293, 3.4). */
static int32_t tcp_diff(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

/* ---- the tables ---- */

static void tcp_on_timer(struct sim_event *event);

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

static struct sim_stream *tcp_find(const struct sim_tcp *tcp,
                                   const struct sim_endpoint *local,
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

static struct sim_stream *tcp_stream_new(struct sim_tcp *tcp,
                                         const struct sim_endpoint *local,
                                         const struct sim_endpoint *remote)
{
    struct sim_stream *stream = weft_calloc(1, sizeof *stream);
    unsigned bucket = bucket_of(local, remote);
    stream->tcp = tcp;
    stream->local = *local;
    stream->remote = *remote;
    stream->bucket_next = tcp->buckets[bucket];
    tcp->buckets[bucket] = stream;
    TAILQ_INSERT_TAIL(&tcp->streams, stream, link);
    stream->iss = (uint32_t)weft_rng_next(&tcp->rng);
    stream->snd_una = stream->iss;
    stream->snd_nxt = stream->iss;
    stream->snd_max = stream->iss;
    stream->rto_ps = TCP_RTO_SYN_PS;
    stream->user_timeout_ps = TCP_USER_TIMEOUT_PS;
    stream->sent_window = TCP_WINDOW_BYTES;
    sim_event_init(&stream->timer, tcp_on_timer);
    return stream;
}

static void tcp_stream_free(struct sim_stream *stream)
{
    struct sim_tcp *tcp = stream->tcp;
    sim_cancel(tcp->stack->engine, &stream->timer);
    struct sim_stream **at = &tcp->buckets[bucket_of(&stream->local, &stream->remote)];
    while (*at != stream) {
        at = &(*at)->bucket_next;
    }
    *at = stream->bucket_next;
    TAILQ_REMOVE(&tcp->streams, stream, link);
    tcp_ring_fini(&stream->tx);
    tcp_ring_fini(&stream->rx);
    free(stream);
}

static void tcp_wake(struct sim_stream *stream)
{
    if (!stream->is_orphan && !stream->tcp->is_stopped) {
        sim_wake(&stream->waker);
    }
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

static void tcp_trace(const struct sim_stream *stream, const char *event, int error)
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

/* Ends the stream with `error`. Frees it if it is an orphan or half open; do not use it
 * afterwards. */
static void tcp_break(struct sim_stream *stream, int error)
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

/* ---- sending, and the timer of a stream ---- */

static uint32_t ip_header_bytes(const struct sim_ip *ip)
{
    return sim_ip_is_v4(ip) ? 20 : 40;
}

static struct sim_packet *new_packet(const struct sim_endpoint *from,
                                     const struct sim_endpoint *to, uint32_t n_bytes)
{
    struct sim_packet *packet = weft_calloc(1, sizeof *packet);
    struct sim_tcp_segment *segment = weft_calloc(1, sizeof *segment + n_bytes);
    segment->source = *from;
    segment->destination = *to;
    segment->hop_limit = HOP_LIMIT;
    segment->n_bytes = n_bytes;
    packet->kind = SIM_FRAME_TCP;
    packet->ip_bytes = ip_header_bytes(&to->ip) + HEADER_BYTES + n_bytes;
    packet->wire_bytes = sim_frame_bytes(packet->ip_bytes);
    packet->payload = segment;
    packet->n_payload = sizeof *segment + n_bytes;
    return packet;
}

static uint32_t tcp_mss_of(const struct sim_stream *stream)
{
    const struct sim_stack *stack = stream->tcp->stack;
    struct sim_hop hop;
    uint32_t mtu = 1500;
    if (sim_route_lookup(stack, &stream->remote.ip, stream->oif, &hop) == 0) {
        mtu = sim_port_mtu(hop.netdev->port);
    }
    uint32_t headers = ip_header_bytes(&stream->remote.ip) + HEADER_BYTES;
    return mtu > headers + 1 ? mtu - headers : 1;
}

static int send_segment(struct sim_stream *stream, uint32_t seq, unsigned flags,
                        uint32_t n_bytes)
{
    struct sim_packet *packet = new_packet(&stream->local, &stream->remote, n_bytes);
    struct sim_tcp_segment *segment = packet->payload;
    stream->sent_window = TCP_WINDOW_BYTES - stream->rx.n;
    segment->seq = seq;
    segment->ack = (flags & SIM_TCP_ACK) != 0 ? stream->rcv_nxt : 0;
    segment->flags = (uint8_t)flags;
    segment->window_bytes = stream->sent_window;
    segment->mss_bytes = (flags & SIM_TCP_SYN) != 0 ? (uint16_t)tcp_mss_of(stream) : 0;
    if (n_bytes > 0) {
        tcp_ring_copy(&stream->tx, seq - stream->snd_una, segment->bytes, n_bytes);
    }
    return sim_stack_output(stream->tcp->stack, stream->oif, packet);
}

static int tcp_send_control(struct sim_stream *stream, unsigned flags)
{
    return send_segment(stream, stream->snd_nxt, flags | SIM_TCP_ACK, 0);
}

static void tcp_send_reset(struct sim_tcp *tcp, struct sim_netdev *oif,
                           const struct sim_endpoint *from, const struct sim_endpoint *to,
                           uint32_t seq, uint32_t ack, unsigned flags)
{
    struct sim_packet *packet = new_packet(from, to, 0);
    struct sim_tcp_segment *segment = packet->payload;
    segment->seq = seq;
    segment->ack = ack;
    segment->flags = (uint8_t)(flags | SIM_TCP_RST);
    (void)sim_stack_output(tcp->stack, oif, packet);
}

static void set_timer(struct sim_stream *stream)
{
    struct sim_engine *engine = stream->tcp->stack->engine;
    weft_ps now = sim_now(engine);
    bool is_waiting = stream->snd_nxt != stream->snd_una || stream->tx.n > 0;
    if (is_waiting) {
        weft_ps limit = stream->stalled_since + stream->user_timeout_ps;
        weft_ps at = now + stream->rto_ps;
        if (at > limit) {
            at = limit > now ? limit : now;
        }
        if (!sim_is_scheduled(&stream->timer)) {
            sim_schedule(engine, &stream->timer, at);
        }
    } else if (stream->is_orphan) {
        sim_schedule(engine, &stream->timer, now + FIN_WAIT_PS);
    } else {
        sim_cancel(engine, &stream->timer);
    }
}

static void note_sent(struct sim_stream *stream, uint32_t n_sequence)
{
    if (stream->snd_nxt == stream->snd_una) {
        stream->stalled_since = stream->snd_una == stream->snd_max
                                    ? sim_now(stream->tcp->stack->engine)
                                    : stream->stalled_since;
    }
    stream->snd_nxt += n_sequence;
    if (tcp_diff(stream->snd_nxt, stream->snd_max) > 0) {
        stream->snd_max = stream->snd_nxt;
    }
}

static int send_data(struct sim_stream *stream)
{
    uint32_t mss = stream->mss_bytes;
    for (;;) {
        uint32_t in_flight = stream->snd_nxt - stream->snd_una;
        if (in_flight >= stream->tx.n || in_flight >= stream->snd_wnd) {
            return 0;
        }
        uint32_t n = stream->tx.n - in_flight;
        n = n < mss ? n : mss;
        n = n < stream->snd_wnd - in_flight ? n : stream->snd_wnd - in_flight;
        int error = send_segment(stream, stream->snd_nxt, SIM_TCP_ACK, n);
        note_sent(stream, n);
        if (error != 0) {
            return error;
        }
    }
}

/* Sends what the window permits, and sets the timer. Returns an errno only if there is no
 * route. */
static int tcp_transmit(struct sim_stream *stream)
{
    int error = 0;
    if (stream->tcp->is_stopped || stream->state == TCP_BROKEN) {
        return 0;
    }
    if (stream->state == TCP_OPEN) {
        error = send_data(stream);
        bool is_fin_due = stream->fin_queued && !stream->fin_acked &&
                          stream->snd_nxt - stream->snd_una == stream->tx.n;
        if (is_fin_due) {
            error = send_segment(stream, stream->snd_nxt, SIM_TCP_FIN | SIM_TCP_ACK, 0);
            note_sent(stream, 1);
        }
    } else if (stream->snd_nxt == stream->snd_una) {
        unsigned ack = stream->state == TCP_SYN_RECEIVED ? SIM_TCP_ACK : 0;
        error = send_segment(stream, stream->iss, SIM_TCP_SYN | ack, 0);
        note_sent(stream, 1);
    }
    set_timer(stream);
    return error;
}

static void tcp_go_back(struct sim_stream *stream)
{
    stream->snd_nxt = stream->snd_una;
    (void)tcp_transmit(stream);
}

static void tcp_on_timer(struct sim_event *event)
{
    struct sim_stream *stream = weft_container_of(event, struct sim_stream, timer);
    bool is_waiting = stream->snd_nxt != stream->snd_una || stream->tx.n > 0;
    weft_ps now = sim_now(stream->tcp->stack->engine);
    if (!is_waiting) {
        tcp_stream_free(
            stream); /* an orphan that has waited long enough for the peer's FIN */
        return;
    }
    if (now - stream->stalled_since >= stream->user_timeout_ps) {
        tcp_break(stream, ETIMEDOUT);
        return;
    }
    stream->rto_ps = stream->rto_ps * 2 < RTO_MAX_PS ? stream->rto_ps * 2 : RTO_MAX_PS;
    stream->n_duplicate_acks = 0;
    if (stream->state == TCP_OPEN && stream->snd_wnd == 0 && stream->tx.n > 0) {
        /* A byte beyond the window requests a window update, in case that was lost. */
        (void)send_segment(stream, stream->snd_una, SIM_TCP_ACK, 1);
        if (stream->snd_max == stream->snd_una) {
            stream->snd_max = stream->snd_una + 1;
        }
        set_timer(stream);
        return;
    }
    tcp_go_back(stream);
}

/* ---- receiving (RFC 9293, 3.10.7) ---- */

static bool has(const struct sim_tcp_segment *segment, unsigned flag)
{
    return (segment->flags & flag) != 0;
}

static uint32_t sequence_length(const struct sim_tcp_segment *segment)
{
    return segment->n_bytes + (has(segment, SIM_TCP_SYN) ? 1 : 0) +
           (has(segment, SIM_TCP_FIN) ? 1 : 0);
}

static void refuse(struct sim_tcp *tcp, struct sim_netdev *oif,
                   const struct sim_tcp_segment *segment)
{
    if (has(segment, SIM_TCP_RST)) {
        return;
    }
    /* Replies to link-local addresses leave through the netdev on which the segment
     * arrived. */
    struct sim_netdev *out = sim_ip_is_link_local_v6(&segment->source.ip) ? oif : NULL;
    if (has(segment, SIM_TCP_ACK)) {
        tcp_send_reset(tcp, out, &segment->destination, &segment->source, segment->ack, 0,
                       0);
    } else {
        tcp_send_reset(tcp, out, &segment->destination, &segment->source, 0,
                       segment->seq + sequence_length(segment), SIM_TCP_ACK);
    }
}

/* ---- new connections ---- */

static struct sim_listener *find_listener(const struct sim_tcp *tcp,
                                          const struct sim_netdev *netdev,
                                          const struct sim_endpoint *at)
{
    struct sim_listener *any = NULL;
    for (struct sim_listener *l = tcp->listeners; l != NULL; l = l->next) {
        bool same_if =
            l->at.ifindex == 0 || (netdev != NULL && netdev->ifindex == l->at.ifindex);
        if (l->at.port != at->port || !same_if) {
            continue;
        }
        if (sim_ip_equal(&l->at.ip, &at->ip)) {
            return l;
        }
        bool fits = sim_ip_is_zero(&l->at.ip) &&
                    (!sim_ip_is_v4(&l->at.ip) || sim_ip_is_v4(&at->ip));
        if (fits && any == NULL) {
            any = l;
        }
    }
    return any;
}

static uint32_t lesser_mss(const struct sim_stream *stream,
                           const struct sim_tcp_segment *segment)
{
    uint32_t own = tcp_mss_of(stream);
    return segment->mss_bytes != 0 && segment->mss_bytes < own ? segment->mss_bytes : own;
}

static void on_syn(struct sim_tcp *tcp, struct sim_netdev *netdev,
                   const struct sim_tcp_segment *segment)
{
    struct sim_listener *listener = find_listener(tcp, netdev, &segment->destination);
    if (listener == NULL) {
        refuse(tcp, netdev, segment);
        return;
    }
    if (listener->n_pending >= listener->backlog) {
        return; /* the client will retransmit its SYN */
    }
    struct sim_stream *stream =
        tcp_stream_new(tcp, &segment->destination, &segment->source);
    stream->listener = listener;
    listener->n_pending++;
    bool is_scoped =
        listener->at.ifindex != 0 || sim_ip_is_link_local_v6(&segment->source.ip);
    stream->oif = is_scoped ? netdev : NULL;
    stream->state = TCP_SYN_RECEIVED;
    stream->rcv_nxt = segment->seq + 1;
    stream->snd_wnd = segment->window_bytes;
    stream->mss_bytes = lesser_mss(stream, segment);
    (void)tcp_transmit(stream);
}

static void open_stream(struct sim_stream *stream, const struct sim_tcp_segment *segment)
{
    stream->state = TCP_OPEN;
    stream->snd_una = segment->ack;
    stream->snd_wnd = segment->window_bytes;
    stream->rto_ps = TCP_RTO_FIRST_PS;
    sim_cancel(stream->tcp->stack->engine, &stream->timer);
    struct sim_listener *listener = stream->listener;
    if (listener == NULL) {
        tcp_trace(stream, "open", 0);
        tcp_wake(stream);
        return;
    }
    if (listener->accept_last == NULL) {
        listener->accept_first = stream;
    } else {
        listener->accept_last->accept_next = stream;
    }
    listener->accept_last = stream;
    sim_wake(&listener->waker);
}

static void on_syn_sent(struct sim_stream *stream, const struct sim_tcp_segment *segment)
{
    bool is_acceptable = has(segment, SIM_TCP_ACK) && segment->ack == stream->iss + 1;
    if (!is_acceptable) {
        return;
    }
    if (has(segment, SIM_TCP_RST)) {
        tcp_break(stream, ECONNREFUSED);
        return;
    }
    if (has(segment, SIM_TCP_SYN)) {
        stream->rcv_nxt = segment->seq + 1;
        stream->mss_bytes = lesser_mss(stream, segment);
        open_stream(stream, segment);
        (void)tcp_send_control(stream, SIM_TCP_ACK);
    }
}

/* ---- open connections ---- */

static void on_ack(struct sim_stream *stream, const struct sim_tcp_segment *segment)
{
    int32_t n_acked = tcp_diff(segment->ack, stream->snd_una);
    bool is_new = n_acked > 0 && tcp_diff(segment->ack, stream->snd_max) <= 0;
    bool is_duplicate =
        n_acked == 0 && segment->n_bytes == 0 && stream->snd_nxt != stream->snd_una &&
        segment->window_bytes == stream->snd_wnd && !has(segment, SIM_TCP_FIN);
    stream->snd_wnd = segment->window_bytes;
    if (segment->window_bytes == 0) {
        /* the peer has no room, but is alive */
        stream->stalled_since = sim_now(stream->tcp->stack->engine);
    }
    if (is_duplicate && ++stream->n_duplicate_acks == 3) {
        tcp_go_back(stream);
    }
    if (!is_new) {
        return;
    }
    uint32_t n_data = (uint32_t)n_acked;
    if (n_data > stream->tx.n) {
        n_data = stream->tx.n;
        stream->fin_acked = true;
    }
    if (n_data > 0) {
        tcp_ring_drop(&stream->tx, n_data);
    }
    stream->snd_una = segment->ack;
    if (tcp_diff(stream->snd_nxt, stream->snd_una) < 0) {
        stream->snd_nxt = stream->snd_una;
    }
    stream->n_duplicate_acks = 0;
    stream->rto_ps = TCP_RTO_FIRST_PS;
    stream->stalled_since = sim_now(stream->tcp->stack->engine);
    sim_cancel(stream->tcp->stack->engine, &stream->timer);
    if (n_data > 0) {
        tcp_wake(stream);
    }
}

/* Takes bytes in order. Returns false if the stream was freed. */
static bool on_data(struct sim_stream *stream, const struct sim_tcp_segment *segment)
{
    int32_t n_old = tcp_diff(stream->rcv_nxt, segment->seq);
    bool is_due = n_old >= 0 && (uint32_t)n_old <= segment->n_bytes && !stream->peer_fin;
    if (is_due) {
        uint32_t n_new = segment->n_bytes - (uint32_t)n_old;
        if (stream->is_orphan && n_new > 0) {
            tcp_trace(stream, "reset", 0);
            (void)tcp_send_control(stream, SIM_TCP_RST);
            tcp_stream_free(stream);
            return false;
        }
        uint32_t n = tcp_ring_put(&stream->rx, segment->bytes + n_old, n_new);
        stream->rcv_nxt += n;
        if (n == n_new && has(segment, SIM_TCP_FIN)) {
            stream->rcv_nxt++;
            stream->peer_fin = true;
        }
        if (n > 0 || stream->peer_fin) {
            tcp_wake(stream);
        }
    }
    (void)tcp_send_control(stream, SIM_TCP_ACK);
    return true;
}

static void on_open(struct sim_stream *stream, const struct sim_tcp_segment *segment)
{
    if (has(segment, SIM_TCP_RST)) {
        uint32_t window = TCP_WINDOW_BYTES - stream->rx.n;
        if (segment->seq - stream->rcv_nxt <= window) {
            tcp_break(stream, ECONNRESET);
        }
        return;
    }
    if (has(segment, SIM_TCP_SYN)) {
        (void)tcp_send_control(stream, SIM_TCP_ACK); /* the ACK of it was lost */
        return;
    }
    on_ack(stream, segment);
    if (sequence_length(segment) > 0 && !on_data(stream, segment)) {
        return;
    }
    if (stream->is_orphan && stream->fin_acked && stream->peer_fin) {
        tcp_stream_free(stream);
        return;
    }
    (void)tcp_transmit(stream);
}

static void on_syn_received(struct sim_stream *stream,
                            const struct sim_tcp_segment *segment)
{
    if (has(segment, SIM_TCP_RST)) {
        tcp_break(stream, ECONNRESET);
    } else if (has(segment, SIM_TCP_SYN)) {
        tcp_go_back(stream);
    } else if (has(segment, SIM_TCP_ACK) && segment->ack == stream->iss + 1) {
        open_stream(stream, segment);
        on_open(stream, segment);
    }
}

static void confirm_neighbour(const struct sim_tcp *tcp, const struct sim_stream *stream)
{
    struct sim_hop hop;
    bool is_routed =
        sim_route_lookup(tcp->stack, &stream->remote.ip, stream->oif, &hop) == 0;
    if (is_routed) {
        sim_neigh_confirm(hop.netdev, &hop.next);
    }
}

void sim_tcp_input(struct sim_tcp *tcp, struct sim_netdev *netdev,
                   const struct sim_packet *packet)
{
    const struct sim_tcp_segment *segment = packet->payload;
    weft_check(packet->n_payload == sizeof *segment + segment->n_bytes);
    if (tcp->is_stopped) {
        return;
    }
    struct sim_stream *stream = tcp_find(tcp, &segment->destination, &segment->source);
    if (stream == NULL) {
        bool is_first = has(segment, SIM_TCP_SYN) && !has(segment, SIM_TCP_ACK) &&
                        !has(segment, SIM_TCP_RST);
        if (is_first) {
            on_syn(tcp, netdev, segment);
        } else {
            refuse(tcp, netdev, segment);
        }
        return;
    }
    /* An acknowledgement of sent data shows that the neighbour is reachable
     * (dst_confirm). */
    if (has(segment, SIM_TCP_ACK) && segment->ack != stream->snd_una) {
        confirm_neighbour(tcp, stream);
    }
    switch (stream->state) {
    case TCP_SYN_SENT:
        on_syn_sent(stream, segment);
        break;
    case TCP_SYN_RECEIVED:
        on_syn_received(stream, segment);
        break;
    case TCP_OPEN:
        on_open(stream, segment);
        break;
    case TCP_BROKEN:
        break;
    }
}

void sim_tcp_unreachable(struct sim_tcp *tcp, const struct sim_packet *packet, int error)
{
    const struct sim_tcp_segment *segment = packet->payload;
    struct sim_stream *stream = tcp_find(tcp, &segment->source, &segment->destination);
    if (stream != NULL && stream->state == TCP_SYN_SENT) {
        tcp_break(stream, error);
    }
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
    struct sim_stream *stream = TAILQ_FIRST(&tcp->streams);
    while (stream != NULL) {
        struct sim_stream *next = TAILQ_NEXT(stream, link);
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
    bool was_closed = stream->sent_window < stream->mss_bytes;
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

/* ---- the host ---- */

struct sim_tcp *sim_tcp_create(struct sim_stack *stack, uint32_t chunk_bytes)
{
    struct sim_tcp *tcp = weft_calloc(1, sizeof *tcp);
    char name[96];
    tcp->stack = stack;
    tcp->chunk_bytes = chunk_bytes;
    tcp->next_port = EPHEMERAL_FIRST;
    TAILQ_INIT(&tcp->streams);
    weft_format(name, sizeof name, "tcp:%s", stack->host);
    weft_rng_init(&tcp->rng, sim_seed(stack->engine), name);
    return tcp;
}

void sim_tcp_destroy(struct sim_tcp *tcp)
{
    while (!TAILQ_EMPTY(&tcp->streams)) {
        tcp_stream_free(TAILQ_FIRST(&tcp->streams));
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
    struct sim_stream *stream = TAILQ_FIRST(&tcp->streams);
    for (; stream != NULL; stream = TAILQ_NEXT(stream, link)) {
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
    for (struct sim_stream *stream = TAILQ_FIRST(&tcp->streams); stream != NULL;
         stream = next) {
        next = TAILQ_NEXT(stream, link);
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
    struct sim_stream *stream = TAILQ_FIRST(&tcp->streams);
    for (; stream != NULL; stream = TAILQ_NEXT(stream, link)) {
        sim_cancel(tcp->stack->engine, &stream->timer);
    }
}

void sim_tcp_count(const struct sim_stack *stack, uint32_t *out_streams,
                   uint32_t *out_listeners)
{
    const struct sim_tcp *tcp = stack->tcp;

    *out_streams = *out_listeners = 0;
    const struct sim_stream *stream = TAILQ_FIRST(&tcp->streams);
    for (; stream != NULL; stream = TAILQ_NEXT(stream, link)) {
        *out_streams += stream->is_orphan || stream->listener != NULL ? 0 : 1;
    }
    for (const struct sim_listener *at = tcp->listeners; at != NULL; at = at->next) {
        (*out_listeners)++;
    }
}

bool sim_tcp_listening(const struct sim_stack *stack, uint32_t index,
                       struct sim_endpoint *out)
{
    const struct sim_listener *listener = stack->tcp->listeners;
    for (uint32_t i = 0; listener != NULL && i < index; i++) {
        listener = listener->next;
    }
    if (listener == NULL) {
        return false;
    }
    *out = listener->at;
    return true;
}

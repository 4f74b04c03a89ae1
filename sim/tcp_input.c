/* Handles TCP segments that arrive (RFC 9293, 3.10.7). */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "sim/tcp_impl.h"

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

/* Sends TCP segments, and runs the timer of a stream. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/tcp_impl.h"

#define SECOND_PS ((weft_ps)1000000000000)
#define RTO_MAX_PS (120 * SECOND_PS) /* TCP_RTO_MAX */
#define FIN_WAIT_PS (60 * SECOND_PS) /* tcp_fin_timeout */
#define HEADER_BYTES 20u
#define HOP_LIMIT 64

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

uint32_t tcp_mss_of(const struct sim_stream *stream)
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
    stream->told_window = TCP_WINDOW_BYTES - stream->rx.n;
    segment->seq = seq;
    segment->ack = (flags & SIM_TCP_ACK) != 0 ? stream->rcv_nxt : 0;
    segment->flags = (uint8_t)flags;
    segment->window_bytes = stream->told_window;
    segment->mss_bytes = (flags & SIM_TCP_SYN) != 0 ? (uint16_t)tcp_mss_of(stream) : 0;
    if (n_bytes > 0) {
        tcp_ring_copy(&stream->tx, seq - stream->snd_una, segment->bytes, n_bytes);
    }
    return sim_stack_output(stream->tcp->stack, stream->oif, packet);
}

int tcp_send_control(struct sim_stream *stream, unsigned flags)
{
    return send_segment(stream, stream->snd_nxt, flags | SIM_TCP_ACK, 0);
}

void tcp_send_reset(struct sim_tcp *tcp, struct sim_netdev *oif,
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

int tcp_transmit(struct sim_stream *stream)
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

void tcp_go_back(struct sim_stream *stream)
{
    stream->snd_nxt = stream->snd_una;
    (void)tcp_transmit(stream);
}

void tcp_on_timer(struct sim_event *event)
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

/* Internal to TCP: tcp.c, and tcp_ring.c (byte queues). */
#ifndef WEFT_SIM_TCP_IMPL_H
#define WEFT_SIM_TCP_IMPL_H

#include <sys/queue.h>

#include "sim/stack_impl.h"

#define TCP_WINDOW_BYTES 65536u
#define TCP_BUCKETS 256u

/* A byte queue that grows up to TCP_WINDOW_BYTES. */
struct tcp_ring {
    uint8_t *bytes; /* Owned [cap] */
    uint32_t cap;   /* a power of two */
    uint32_t head;
    uint32_t n;
};

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

uint32_t tcp_ring_put(struct tcp_ring *ring, const uint8_t *bytes, uint32_t n_bytes);
/* Copies bytes without removing them; `from` < ring->n. */
void tcp_ring_copy(const struct tcp_ring *ring, uint32_t from, uint8_t *out,
                   uint32_t n_bytes);
void tcp_ring_drop(struct tcp_ring *ring, uint32_t n_bytes);
void tcp_ring_fini(struct tcp_ring *ring);

/* Returns a - b. Sequence numbers wrap (RFC 9293, 3.4). */
static inline int32_t tcp_diff(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

void tcp_send_reset(struct sim_tcp *tcp, struct sim_netdev *oif,
                    const struct sim_endpoint *from, const struct sim_endpoint *to,
                    uint32_t seq, uint32_t ack, unsigned flags);

/* Time after which unacknowledged bytes fail a stream, unless its owner changes it (chosen). */
#define TCP_USER_TIMEOUT_PS ((weft_ps)20000000000000)
#define TCP_RTO_FIRST_PS ((weft_ps)200000000000)
#define TCP_RTO_SYN_PS ((weft_ps)1000000000000)

#endif

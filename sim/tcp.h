/* TCP as far as connection set-up needs it. Segments travel as frames over ports, so that
 * loss, delay, rate and unplugged cables affect them. Models partial reads and writes,
 * refusal, reset, half-open connections, backlogs and timeouts.
 *
 * RFC 9293 with Linux's numbers where a peer can see them: SYN retransmitted after 1, 2,
 * 4 ... s, RTO from 200 ms doubling, fast retransmit after three duplicate ACKs, a window
 * of 64 KiB. Simplified: every segment is acknowledged at once, no congestion control, no
 * selective acknowledgement or reassembly (go back N), no TIME_WAIT, a user timeout of
 * 20 s unless a stream sets another. */
#ifndef WEFT_SIM_TCP_H
#define WEFT_SIM_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/engine.h"
#include "sim/ip.h"
#include "sim/port.h"

#define SIM_TCP_SYN 2u
#define SIM_TCP_FIN 1u
#define SIM_TCP_RST 4u
#define SIM_TCP_ACK 16u

/* Payload of SIM_FRAME_TCP. The ifindex of both endpoints is 0, because it is not on the
 * wire. */
struct sim_tcp_segment {
    struct sim_endpoint source, destination;
    uint32_t seq, ack;
    uint32_t window_bytes;
    uint16_t mss_bytes; /* SYN only */
    uint8_t flags;
    uint8_t hop_limit;
    uint32_t n_bytes;
    uint8_t bytes[];
};

struct sim_stack;
struct sim_netdev;
struct sim_tcp;
struct sim_listener;
struct sim_stream;

/* Errors are a positive errno, as of the system calls of the same names. A listener's
 * `waker` is called when a client is waiting; a stream's when it opens, fails, or becomes
 * readable or writable. */
int sim_tcp_listen(struct sim_stack *stack, const struct sim_endpoint *at, int backlog,
                   struct sim_waker waker, struct sim_listener **out,
                   struct sim_endpoint *out_at);
/* Stores the address of the `index`th listener, in the order of listening. Returns false
 * if there are no more. */
bool sim_tcp_listening(const struct sim_stack *stack, uint32_t index,
                       struct sim_endpoint *out);
int sim_tcp_accept(struct sim_listener *listener, struct sim_waker waker,
                   struct sim_stream **out);
void sim_tcp_close_listener(struct sim_listener *listener);
int sim_tcp_connect(struct sim_stack *stack, const struct sim_endpoint *from,
                    const struct sim_endpoint *to, struct sim_waker waker,
                    struct sim_stream **out);
int sim_tcp_connected(struct sim_stream *stream);
int sim_tcp_send(struct sim_stream *stream, const void *bytes, size_t n_bytes,
                 size_t *out_n);
int sim_tcp_recv(struct sim_stream *stream, void *out, size_t n_bytes, size_t *out_n);
/* Stores the number of bytes sent and not yet acknowledged, as SIOCOUTQ does. */
int sim_tcp_unacked(const struct sim_stream *stream, size_t *out_n);
/* Sets the time after which unacknowledged bytes of an open stream fail it (TCP_USER_TIMEOUT;
 * default 20 s). */
void sim_tcp_endure(struct sim_stream *stream, weft_ps limit);
void sim_tcp_set_waker(struct sim_stream *stream, struct sim_waker waker);
void sim_tcp_endpoints(const struct sim_stream *stream, struct sim_endpoint *out_local,
                       struct sim_endpoint *out_remote);
void sim_tcp_close(struct sim_stream *stream, bool reset);
/* Counts the streams that users have not closed, and the listeners. */
void sim_tcp_count(const struct sim_stack *stack, uint32_t *out_streams,
                   uint32_t *out_listeners);

/* For the stack. */
struct sim_tcp *sim_tcp_create(struct sim_stack *stack, uint32_t chunk_bytes);
void sim_tcp_destroy(struct sim_tcp *tcp);
/* Resets every open stream, as the kernel does when the process dies. The streams exist
 * until sim_tcp_stop(). */
void sim_tcp_reset_all(struct sim_tcp *tcp);
/* Does so for one process of the host: resets the streams and closes the listeners for
 * whose waker `is_its` returns true. They exist, unconnected, until they are closed. */
void sim_tcp_reset_of(struct sim_tcp *tcp,
                      bool (*is_its)(const void *waker, const void *who),
                      const void *who);
/* Stops all timers and wakes, because the host died. */
void sim_tcp_stop(struct sim_tcp *tcp);
/* Handles a packet for this host; `netdev` is NULL for one from the host itself. The
 * caller keeps the packet. */
void sim_tcp_input(struct sim_tcp *tcp, struct sim_netdev *netdev,
                   const struct sim_packet *packet);
/* Reports that no neighbour was found for a packet of this host. A connection attempt
 * fails with `error`. */
void sim_tcp_unreachable(struct sim_tcp *tcp, const struct sim_packet *packet, int error);

#endif

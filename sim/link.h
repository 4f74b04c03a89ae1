/* One direction of a cable, and the port that sends into it. Private to the simulator.
 *
 * A direction keeps its frames in flight in a ring in order of arrival, with only the head
 * pending in the engine. The port's transmitter pulls one frame at a time from its NIC and
 * from the host stack's queue, alternating while both have some. */
#ifndef WEFT_SIM_LINK_H
#define WEFT_SIM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/text.h"
#include "sim/engine.h"
#include "sim/frame.h"
#include "sim/nic.h"
#include "sim/port.h"
#include "sim/root.h"
#include "sim/switch.h"

enum { SIM_PREAMBLE_AND_GAP_BYTES = 20, SIM_TRAIN_QPS_MAX = 8 };

/* A RoCE packet that the host's stack forwards: the payload of a struct sim_packet of kind ROCE,
 * whose MACs and VLAN are those of its way out. */
struct sim_forwarded {
    struct sim_frame frame; /* its payload and path are below, ... */
    struct sim_path path;
    uint8_t payload[]; /* ... unless it is phantom memory */
};

struct sim_rate {
    uint64_t bps;
    uint64_t ps_per_byte; /* 0 if that is not a whole number */
};

/* `bps` > 0. */
struct sim_rate sim_rate_of(uint64_t bps);
/* The same where a byte takes no whole number of picoseconds. */
weft_ps sim_rate_time_divided(const struct sim_rate *rate, uint32_t wire_bytes);

/* Rounded up, so that nothing is ever faster than its rate. */
static inline weft_ps sim_rate_time(const struct sim_rate *rate, uint32_t wire_bytes)
{
    return rate->ps_per_byte != 0 ? (weft_ps)(wire_bytes * rate->ps_per_byte)
                                  : sim_rate_time_divided(rate, wire_bytes);
}

/* Host-stack packets, oldest first. */
struct sim_queued_packet {
    weft_ps at; /* of arrival, once in flight */
    struct sim_packet *packet;
};

struct sim_packet_queue {
    uint32_t n, head, cap;
    /* Owned array of [cap], a power of two; packets too. */
    struct sim_queued_packet *ring;
    uint64_t bytes;
};

struct sim_link {
    weft_ps jitter_ps;
    uint64_t cable_bps; /* 0: no cable */
    uint64_t queue_bytes;
    uint32_t path_limit_bytes;
    uint32_t n_unasked; /* of `n_trains`, whose receiver has not agreed yet */
    bool pauses;        /* instead of dropping */
    bool is_taken_down;
    bool drop_was_told; /* the story has the first of the drops while down */
    bool is_impaired;   /* some share of `impairment` is not 0 */

    /* What every arrival uses, in one cache line: from the middle of the event to half of the
     * rate. */
    struct sim_event arrival;
    struct sim_port *to;    /* of a cable; NULL without one and on a network */
    struct sim_frame *ring; /* RoCE frames in flight; Owned [cap], a power of two */
    uint32_t head, n, cap;
    uint32_t n_trains;    /* of those in flight, stand for more packets (sim/train.h) */
    struct sim_rate rate; /* the least of cable and PCIe roots */
    /* What every sent frame uses, in the next. */
    weft_ps transit_ps; /* delay and overhead */
    weft_ps last_at;    /* arrival of the last frame that was not held back */
    weft_ps clear_at;   /* what arrives from then on comes behind all that was put */
    struct sim_port *from;
    struct sim_direction_stats stats;

    weft_ps delay_ps;       /* of the medium */
    weft_ps rx_overhead_ps; /* of the NIC at `to` */
    struct sim_impairment impairment;
    struct weft_rng rng;

    /* Host-stack packets in flight. */
    struct sim_packet_queue flight;
    weft_ps flight_last_at;
    struct sim_event flight_arrival;
};

/* What a port is sending as one (sim/train.h): packets of some QPs in turn. */
struct sim_train {
    uint32_t n; /* packets */
    uint32_t n_qps;
    struct sim_qp *qps[SIM_TRAIN_QPS_MAX]; /* in the order of their first packets */
    bool turns[SIM_TRAIN_QPS_MAX];         /* their `reply_turn` before */
    weft_ps start, spacing;
};

struct sim_match_state {
    struct sim_match match;
    uint32_t seen; /* transmissions of that PSN so far */
    bool is_done;
};

struct sim_port {
    struct sim_root *root;     /* Not owned; NULL: shared with nobody */
    struct sim_switch *bridge; /* whose port this is; or NULL */
    sim_tap tap;
    uint64_t mac;
    uint32_t mtu_bytes;
    uint32_t n_matches;

    /* What every packet uses, in one cache line: from the middle of the event to the number of
     * packets that wait. */
    struct sim_event transmit;
    struct sim_engine *engine;
    struct sim_nic *nic;
    weft_ps free_at; /* when the last bit of the current frame has left */
    /* Frames of up to so many bytes on the wire are sent and received as they are: nothing
     * asks to see them (sim_port_review). 0: there is more to it. */
    uint32_t plain_bytes;
    bool host_turn; /* the host stack goes first if both have something */
    bool was_up;    /* the carrier that was last announced */
    bool in_train;  /* `train` is what it is sending */
    struct sim_packet_queue waiting;

    _Alignas(WEFT_LINE_BYTES) struct sim_link out;
    struct sim_train train;
    struct sim_network *network; /* or NULL */
    bool has_loop_rate;          /* else `loop` is as fast as `out` */
    bool is_paused;              /* by the other end */
    bool is_paused_by_fault;
    struct sim_port_drops dropped;
    _Alignas(WEFT_LINE_BYTES) struct sim_link loop; /* to itself, inside the NIC */
    char *host, *name;                              /* Owned. */
    struct sim_stack *stack;
    weft_ps rx_overhead_ps;        /* of its NIC */
    uint64_t root_bps;             /* the port's own limit and its root's; 0: none */
    uint32_t bridge_index;         /* among its ports */
    bool inwards_down;             /* on a network, which has no link towards one port */
    bool is_waiting;               /* for its turn at the root */
    struct sim_port *next_waiting; /* of the root's list */
    struct sim_match_state *matches; /* Owned array of [n_matches]. */
    struct sim_path *paths;          /* Owned list. */
    void *tap_context;
    sim_packet_encoder encode;
    struct sim_outside outside; /* frame NULL: not on one */
};

_Static_assert(offsetof(struct sim_link, arrival.at) % WEFT_LINE_BYTES == 0 &&
                   offsetof(struct sim_link, rate.ps_per_byte) % WEFT_LINE_BYTES == 0 &&
                   offsetof(struct sim_port, transmit.at) % WEFT_LINE_BYTES == 0 &&
                   offsetof(struct sim_port, out) % WEFT_LINE_BYTES == 0,
               "packets find what they use in few cache lines");

static inline bool sim_port_has_outside(const struct sim_port *port)
{
    return port->outside.frame != NULL;
}

/* Directions (sim/link.c). */
void sim_link_init(struct sim_link *link, struct sim_port *from);
void sim_link_fini(struct sim_link *link);
/* Works out rate_bps from cable and roots; `to` may be NULL. */
void sim_link_set_rate(struct sim_link *link, uint64_t cable_bps,
                       const struct sim_port *to);
/* Takes over what `config` says of one direction, but the stream of random numbers. */
void sim_link_configure(struct sim_link *link, const struct sim_cable_config *config,
                        struct sim_port *to);
void sim_link_set_impairment(struct sim_link *link,
                             const struct sim_impairment *impairment);
/* The delay of the medium and the overhead of the NIC at its end. */
static inline void sim_link_set_transit(struct sim_link *link, weft_ps delay_ps,
                                        weft_ps rx_overhead_ps)
{
    link->delay_ps = delay_ps;
    link->rx_overhead_ps = rx_overhead_ps;
    link->transit_ps = delay_ps + rx_overhead_ps;
}

/* Zeros for a ring of `cap` frames. */
struct sim_frame *sim_link_make_ring(struct sim_link *link, uint32_t cap);
/* What the ring is from now on, with its first frame first; NULL, 0: none. */
void sim_link_set_ring(struct sim_link *link, struct sim_frame *ring, uint32_t cap);
/* Makes room in the ring. */
void sim_link_grow(struct sim_link *link);
/* Everything in flight is lost. Returns how many frames and packets that were. */
uint32_t sim_link_lose_all(struct sim_link *link);
/* Where the next frame can be built in place: valid until anything is put. */
static inline struct sim_frame *sim_link_slot(struct sim_link *link)
{
    if (link->n == link->cap) {
        sim_link_grow(link);
    }
    if (link->n == 0) {
        link->head = 0; /* an idle direction uses one slot only, and keeps it warm */
    }
    return &link->ring[(link->head + link->n) & (link->cap - 1)];
}

/* Frame or packet whose last bit leaves at `sent_at`; takes its payload over. `extra` is how
 * long a frame is held back: others may pass it then. */
void sim_link_put_frame(struct sim_link *link, const struct sim_frame *frame,
                        weft_ps sent_at, weft_ps extra);
void sim_link_put_packet(struct sim_link *link, struct sim_packet *packet,
                         weft_ps sent_at);
/* sim_link_put_frame of a frame in its slot, on a cable without jitter. */
static inline void sim_link_put_plain(struct sim_link *link, struct sim_frame *frame,
                                      weft_ps sent_at)
{
    weft_ps at = sent_at + link->transit_ps;
    if (at < link->clear_at) { /* some were held back, or the delay has become less */
        sim_link_put_frame(link, frame, sent_at, 0);
        return;
    }
    link->last_at = at;
    link->clear_at = at;
    frame->at = at;
    link->n++;
    if (link->n == 1) {
        sim_schedule(link->from->engine, &link->arrival, at);
    }
}

void sim_queue_push(struct sim_packet_queue *queue, weft_ps at,
                    struct sim_packet *packet);
struct sim_packet *sim_queue_pop(struct sim_packet_queue *queue);
void sim_queue_fini(struct sim_packet_queue *queue);

/* Gives back the payload of a frame that is done with. */
static inline void sim_frame_release(struct sim_engine *engine, struct sim_frame *frame)
{
    if ((frame->flags & SIM_FRAME_OWNED) != 0) {
        sim_pool_put(sim_engine_pool(engine), frame->payload);
    }
}

/* Copies the payload into a block of its own, if it still refers to somebody's memory. */
void sim_frame_own(struct sim_engine *engine, struct sim_frame *frame);

/* What a direction does to a frame that is about to leave (sim/impair.c). */
struct sim_fate {
    const char *why; /* it is dropped; NULL: it goes on */
    weft_ps extra;   /* it is held back for so long */
    bool is_duplicate;
    bool is_corrupt; /* one bit flips */
    bool is_unseen;  /* ... in the payload, and the ICRC is made to fit */
    bool is_marked;  /* ECN: congestion experienced */
};
/* By impairments, matches and path limits; `frame` itself stays as it is. */
struct sim_fate sim_link_fate(struct sim_link *link, const struct sim_frame *frame);
const char *sim_link_impair_packet(struct sim_link *link, const struct sim_packet *packet,
                                   bool *duplicate);

/* The port. */
void sim_port_init_transmitter(struct sim_port *port);
/* The NIC has, or may have, something to send. */
void sim_port_kick(struct sim_port *port);
/* Sends one frame or packet, if there is one, and sees to the next. */
void sim_port_transmit(struct sim_port *port);
/* What arrives at the end of a direction (sim/port_receive.c); the packet is taken over. */
void sim_port_receive_frame(struct sim_port *port, struct sim_frame *frame);
void sim_port_receive_packet(struct sim_link *link, struct sim_packet *packet);
/* ... and is through the PCIe root. */
void sim_port_deliver_frame(struct sim_port *port, struct sim_frame *frame);
void sim_port_deliver_packet(struct sim_port *port, struct sim_packet *packet);
struct sim_packet *sim_packet_copy(const struct sim_packet *packet);
/* A pause frame to the other end of the cable, ahead of everything that waits. */
void sim_port_tell_pause(struct sim_port *port, bool is_pause);
/* Returns true if both address alike; ignores what belongs to the owner of a path. */
bool sim_path_is_same(const struct sim_path *a, const struct sim_path *b);
/* The interned equal of `path`. */
const struct sim_path *sim_port_path(struct sim_port *port, const struct sim_path *path);
/* Frames of `source_qpn` in flight no longer refer to memory of that QP's owner. */
void sim_port_own_qp(struct sim_port *port, uint32_t source_qpn);
/* Frames in flight no longer refer to [addr, addr + length). */
void sim_port_own_range(struct sim_port *port, const void *addr, size_t length);
/* Something changed that decides whether frames of `port` are plain. */
void sim_port_review(struct sim_port *port);
/* Announces a change of carrier, if there is one. */
void sim_port_check_carrier(struct sim_port *port);
/* Story line about a frame that goes no further. */
void sim_port_trace_drop(struct sim_port *port, const struct sim_frame *frame,
                         const char *why);
/* Story line about a frame that is sent, for stories with packets in them. */
void sim_port_trace_frame(struct sim_port *port, const struct sim_frame *frame);
static inline void sim_port_trace_sent(struct sim_port *port,
                                       const struct sim_frame *frame)
{
    if (weft_trace_on(sim_trace(port->engine), WEFT_TRACE_PACKET)) {
        sim_port_trace_frame(port, frame);
    }
}

/* Sends a frame in its slot where there is nothing to ask for (sim_port_review): what most
 * frames are. */
static inline void sim_port_send_plain(struct sim_port *port, struct sim_frame *frame)
{
    struct sim_link *link = &port->out;
    weft_ps time = sim_rate_time(&link->rate, frame->wire_bytes);
    port->free_at = sim_now(port->engine) + time;
    link->stats.packets++;
    link->stats.bytes += frame->wire_bytes;
    link->stats.busy_ps += time;
    sim_port_trace_sent(port, frame);
    sim_link_put_plain(link, frame, port->free_at);
}

/* For an event that is running, and does nothing after: true if a frame that the NIC has now
 * is sent now, as plain as it is, by the event that comes next. */
static inline bool sim_port_sends_next(const struct sim_port *port, uint32_t wire_bytes)
{
    return wire_bytes <= port->plain_bytes && port->waiting.n == 0 && !port->in_train &&
           port->free_at <= sim_now(port->engine) && !sim_is_scheduled(&port->transmit) &&
           sim_would_be_next(port->engine, port->transmit.rank);
}

/* Gives `frame` to the tap, if there is one. `comment` may be NULL. */
void sim_port_tap_frame(struct sim_port *port, bool is_outgoing,
                        const struct sim_frame *frame, const char *comment);
void sim_port_tap_packet(struct sim_port *port, bool is_outgoing,
                         const struct sim_packet *packet, const char *comment);

/* Networks (sim/network.c). */
struct sim_port *sim_network_find(const struct sim_network *network, uint64_t mac);
size_t sim_network_size(const struct sim_network *network);
struct sim_port *sim_network_port(const struct sim_network *network, size_t index);
/* A port goes; the last one takes the network with it. */
void sim_network_leave(struct sim_network *network, struct sim_port *port);

/* What a NIC offers its ports (sim/nic_tx.c). */
/* Builds the next frame of `port` in the slot of `port->out`; NULL if there is none. `has_more`:
 * sim_nic_has_frames after that. */
struct sim_frame *sim_nic_pull(struct sim_nic *nic, struct sim_port *port,
                               bool *has_more);
bool sim_nic_has_frames(struct sim_nic *nic, const struct sim_port *port);
weft_ps sim_nic_rx_overhead(const struct sim_nic *nic);
/* Which QP of `port` (from 1, by creation) sent `frame`, or is to receive it, and its PSN
 * relative to the first of that direction; 0 for acknowledgements. */
uint32_t sim_nic_ordinal(const struct sim_nic *nic, const struct sim_frame *frame,
                         bool is_inward, uint32_t *relative_psn);

#endif

/* One direction of a cable, and the port that sends into it. Private to the simulator.
 *
 * A direction keeps its frames in flight in a ring in order of arrival; only the head is
 * pending in the engine. The port's transmitter takes one frame at a time from its NIC
 * and from the host stack's queue, alternating while both have some. */
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

enum { SIM_PREAMBLE_AND_GAP_BYTES = 20, SIM_TRAIN_QPS_MAX = 8 };

/* A RoCE packet that the host stack forwards: the payload of a struct sim_packet of kind
 * ROCE, whose MACs and VLAN are those of the outgoing netdev. */
struct sim_forwarded {
    struct sim_frame frame; /* its path and payload are replaced by those below */
    struct sim_path path;
    uint8_t payload[]; /* empty if the payload is phantom memory */
};

struct sim_rate {
    uint64_t bps;
    uint64_t ps_per_byte; /* 0 if not a whole number */
};

/* Returns the rate. `bps` > 0. */
struct sim_rate sim_rate_of(uint64_t bps);
/* Implements sim_rate_time() for rates at which a byte takes no whole number of
 * picoseconds. */
weft_ps sim_rate_time_divided(const struct sim_rate *rate, uint32_t wire_bytes);

/* Returns the time of a frame on the wire, rounded up, so that nothing exceeds its
 * rate. */
static inline weft_ps sim_rate_time(const struct sim_rate *rate, uint32_t wire_bytes)
{
    return rate->ps_per_byte != 0 ? (weft_ps)(wire_bytes * rate->ps_per_byte)
                                  : sim_rate_time_divided(rate, wire_bytes);
}

/* A packet of the host stack in a queue, oldest first. */
struct sim_queued_packet {
    weft_ps at; /* time of arrival if in flight; otherwise 0 */
    struct sim_packet *packet;
};

struct sim_packet_queue {
    uint32_t n, head, cap;
    /* Owned array of [cap], a power of two, and the packets. */
    struct sim_queued_packet *ring;
    uint64_t bytes;
};

struct sim_link {
    weft_ps jitter_ps;
    uint64_t cable_bps; /* 0 if no cable */
    uint64_t queue_bytes;
    uint32_t path_limit_bytes;
    uint32_t n_unasked; /* number of `n_trains` whose receiver has not been asked yet */
    bool pauses;        /* pauses the sender instead of dropping */
    bool is_taken_down;
    bool drop_was_logged; /* the event log has the first frame dropped while down */
    bool is_impaired;     /* true if a probability of `impairment` is not 0 */

    /* Fields that every arrival uses, in one cache line: from the middle of the event to
     * half of the rate. */
    struct sim_event arrival;
    /* the port at the other end of a cable; NULL on a network or without a cable */
    struct sim_port *to;
    struct sim_frame *ring; /* RoCE frames in flight; Owned [cap], a power of two */
    uint32_t head, n, cap;
    uint32_t n_trains;    /* frames in flight that stand for more packets (sim/train.h) */
    struct sim_rate rate; /* the lowest rate of cable and PCIe roots */
    /* Fields that every sent frame uses, in the next cache line. */
    weft_ps transit_ps; /* delay and rx overhead */
    weft_ps last_at;    /* arrival of the last frame that was not delayed */
    weft_ps clear_at;   /* from this arrival time on, a frame is behind all in flight */
    struct sim_port *from;
    struct sim_direction_stats stats;

    weft_ps delay_ps;       /* of the medium */
    weft_ps rx_overhead_ps; /* of the NIC at `to` */
    struct sim_impairment impairment;
    struct weft_rng rng;

    /* Packets of the host stack in flight. */
    struct sim_packet_queue flight;
    weft_ps flight_last_at;
    struct sim_event flight_arrival;
};

/* The packets that a port sends as a train (sim/train.h), of some QPs in turn. */
struct sim_train {
    uint32_t n; /* number of packets */
    uint32_t n_qps;
    struct sim_qp *qps[SIM_TRAIN_QPS_MAX]; /* in the order of their first packets */
    bool turns[SIM_TRAIN_QPS_MAX];         /* their `reply_turn` before the train */
    weft_ps start, spacing;
};

struct sim_match_state {
    struct sim_match match;
    uint32_t seen; /* number of transmissions of that PSN so far */
    bool is_done;
};

struct sim_qp;
struct sim_switch;

/* Calls of a port to its NIC, which is above it (sim/nic.c); held by the engine. */
struct sim_nic_ops {
    bool (*has_frames)(struct sim_nic *nic, const struct sim_port *port);
    /* Builds the next frame of `port` in the slot of `port->out`. Returns NULL if there
     * is none. `*has_more` is set to what has_frames() returns then. */
    struct sim_frame *(*pull)(struct sim_nic *nic, struct sim_port *port, bool *has_more);
    /* Handles a RoCE frame that is in the receive FIFO. */
    void (*input)(struct sim_nic *nic, struct sim_port *port, struct sim_frame *frame);
    void (*carrier)(struct sim_nic *nic, struct sim_port *port, bool is_up);
    /* For trains: as the functions of the same names (sim/rc_impl.h, sim/train.h). */
    bool (*build_request)(struct sim_qp *qp, struct sim_frame *out);
    uint32_t (*train_limit)(const struct sim_qp *qp, uint32_t n_built);
    void (*train_extend)(struct sim_qp *qp, struct sim_frame *frame, uint32_t n);
    void (*train_take_back)(struct sim_qp *qp, uint32_t n);
    bool (*train_fits)(const struct sim_nic *nic, const struct sim_port *port,
                       const struct sim_frame *frame);
    void (*train_execute)(struct sim_nic *nic, const struct sim_frame *frame, uint32_t n);
};

/* Calls of a port to the host stack above it (sim/stack.c). */
struct sim_stack_ops {
    /* Handles a packet of kind NEIGH, TCP or UDP that arrived at `port`; takes it
     * over. */
    void (*input)(struct sim_stack *stack, struct sim_port *port,
                  struct sim_packet *packet);
    void (*carrier)(struct sim_stack *stack, struct sim_port *port, bool is_up);
};

extern const struct sim_stack_ops sim_stack_ops;

/* Calls of a port to the switch to which it belongs (sim/switch.c). */
struct sim_switch_ops {
    bool (*has_frames)(const struct sim_switch *bridge, const struct sim_port *port);
    /* Removes what `port` sends next: `*out_packet`, or, if that is NULL, `*out_frame`.
     * Returns false if there is nothing. */
    bool (*pull)(struct sim_switch *bridge, const struct sim_port *port,
                 struct sim_frame *out_frame, struct sim_packet **out_packet);
    /* Forward what arrived at `port`. Take over the packet; of the frame they take over
     * the payload if they need it beyond the call. */
    void (*frame)(struct sim_switch *bridge, struct sim_port *port,
                  struct sim_frame *frame);
    void (*packet)(struct sim_switch *bridge, struct sim_port *port,
                   struct sim_packet *packet);
    /* Drops what waits for `port`, which lost its carrier, and forgets the addresses
     * learnt there. */
    void (*carrier_lost)(struct sim_switch *bridge, const struct sim_port *port);
};

struct sim_port {
    struct sim_root *root;     /* Not owned; NULL if not shared */
    struct sim_switch *bridge; /* the switch whose port this is; or NULL */
    sim_tap tap;
    uint64_t mac;
    uint32_t mtu_bytes;
    uint32_t n_matches;

    /* Fields that every packet uses, in one cache line: from the middle of the event to
     * the number of waiting packets. */
    struct sim_event transmit;
    struct sim_engine *engine;
    struct sim_nic *nic;
    weft_ps free_at; /* when the last bit of the current frame has left */
    /* Frames of at most this size on the wire are sent and received without further
     * checks (sim_port_review). 0 if every frame needs them. */
    uint32_t plain_bytes;
    bool host_turn; /* the host stack goes first if both have something to send */
    bool was_up;    /* the carrier state that was last announced */
    bool in_train;  /* `train` is being sent */
    struct sim_packet_queue waiting;

    _Alignas(WEFT_LINE_BYTES) struct sim_link out;
    struct sim_train train;
    struct sim_network *network; /* NULL if none */
    bool has_loop_rate;          /* false: `loop` is as fast as `out` */
    bool is_paused;              /* by pause frames of the other end */
    bool is_paused_by_fault;
    bool was_held;      /* by either */
    weft_ps held_since; /* valid if `was_held` */
    struct sim_port_drops dropped;
    /* to the port itself, inside the NIC */
    _Alignas(WEFT_LINE_BYTES) struct sim_link loop;
    char *host, *name; /* Owned. */
    struct sim_stack *stack;
    const struct sim_stack_ops *stack_ops;   /* valid if there is a `stack` */
    const struct sim_switch_ops *bridge_ops; /* valid if there is a `bridge` */
    weft_ps rx_overhead_ps;                  /* of its NIC */
    /* lower of the port's own limit and its root's; 0 if none */
    uint64_t root_bps;
    uint32_t bridge_index; /* index among the ports of `bridge` */
    /* on a network, which has no link towards a single port */
    bool inwards_down;
    bool is_waiting;                 /* waits for its turn at the root */
    struct sim_port *next_waiting;   /* in the root's list */
    struct sim_match_state *matches; /* Owned array of [n_matches]. */
    struct sim_path *paths;          /* Owned list. */
    void *tap_context;
    sim_packet_encoder encode;
    struct sim_outside outside; /* frame is NULL if the port is on no outside wire */
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

/* Directions (sim/link.c). The two functions are called when the head of a ring is due. */
void sim_link_init(struct sim_link *link, struct sim_port *from,
                   void (*frame_arrives)(struct sim_event *event),
                   void (*packet_arrives)(struct sim_event *event));
void sim_link_fini(struct sim_link *link);
/* Sets the rate to the lowest of the cable and both PCIe roots; `to` may be NULL. */
void sim_link_set_rate(struct sim_link *link, uint64_t cable_bps,
                       const struct sim_port *to);
/* Copies one direction's settings from `config`, all but the stream of random numbers. */
void sim_link_configure(struct sim_link *link, const struct sim_cable_config *config,
                        struct sim_port *to);
void sim_link_set_impairment(struct sim_link *link,
                             const struct sim_impairment *impairment);
/* Sets the delay of the medium and the overhead of the receiving NIC. */
static inline void sim_link_set_transit(struct sim_link *link, weft_ps delay_ps,
                                        weft_ps rx_overhead_ps)
{
    link->delay_ps = delay_ps;
    link->rx_overhead_ps = rx_overhead_ps;
    link->transit_ps = delay_ps + rx_overhead_ps;
}

/* Returns a zeroed ring of `cap` frames. */
struct sim_frame *sim_link_make_ring(struct sim_link *link, uint32_t cap);
/* Replaces the ring, whose first frame must be its head; NULL and 0 for none. Frees the
 * old one. */
void sim_link_set_ring(struct sim_link *link, struct sim_frame *ring, uint32_t cap);
/* Makes room in the ring. */
void sim_link_grow(struct sim_link *link);
/* Drops all in flight, which must not be trains. Returns how many frames and packets that were. */
uint32_t sim_link_lose_all(struct sim_link *link);
/* Returns the slot in which to build the next frame; valid until anything is put. */
static inline struct sim_frame *sim_link_slot(struct sim_link *link)
{
    if (link->n == link->cap) {
        sim_link_grow(link);
    }
    if (link->n == 0) {
        link->head = 0; /* An idle direction reuses one slot, which stays in the cache. */
    }
    return &link->ring[(link->head + link->n) & (link->cap - 1)];
}

/* Put a frame or packet in flight whose last bit leaves at `sent_at`, and take its
 * payload over. `extra` is how long the frame is delayed; others may overtake it. */
void sim_link_put_frame(struct sim_link *link, const struct sim_frame *frame,
                        weft_ps sent_at, weft_ps extra);
void sim_link_put_packet(struct sim_link *link, struct sim_packet *packet,
                         weft_ps sent_at);
/* Does the work of sim_link_put_frame() for a frame in its slot, on a cable without
 * jitter. */
static inline void sim_link_put_plain(struct sim_link *link, struct sim_frame *frame,
                                      weft_ps sent_at)
{
    weft_ps at = sent_at + link->transit_ps;
    /* Some frames were delayed, or the cable's delay was reduced. */
    if (at < link->clear_at) {
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

/* Releases the payload of a frame that is no longer used. */
static inline void sim_frame_release(struct sim_engine *engine, struct sim_frame *frame)
{
    if ((frame->flags & SIM_FRAME_OWNED) != 0) {
        sim_pool_put(sim_engine_pool(engine), frame->payload);
    }
}

/* Copies the payload into a block of its own, unless it is one or is phantom memory. */
void sim_frame_own(struct sim_engine *engine, struct sim_frame *frame);

/* The effect of a direction's faults on a frame that is about to leave (sim/impair.c). */
struct sim_fate {
    const char *why; /* why the frame is dropped; NULL if it is not */
    weft_ps extra;   /* how long it is delayed */
    bool is_duplicate;
    bool is_corrupt; /* one bit flips */
    bool is_unseen;  /* that bit is in the payload, and the ICRC is recomputed */
    bool is_marked;  /* ECN: congestion experienced */
};
/* Determines the fate of `frame` by impairments, matches and path limits. Does not change
 * it. */
struct sim_fate sim_link_fate(struct sim_link *link, const struct sim_frame *frame);
const char *sim_link_impair_packet(struct sim_link *link, const struct sim_packet *packet,
                                   bool *duplicate);

/* The port. */
void sim_port_init_transmitter(struct sim_port *port);
/* Makes the port check whether it can send, because the NIC may have something to
 * send. */
void sim_port_kick(struct sim_port *port);
/* Keeps account of how long pauses hold the port. Must be called after each change. */
void sim_port_note_hold(struct sim_port *port);
/* Sends one frame or packet, if there is one, and schedules the next. */
void sim_port_transmit(struct sim_port *port);
/* Takes a frame that arrives at the end of a direction (sim/port_receive.c). */
void sim_port_receive_frame(struct sim_port *port, struct sim_frame *frame);
/* Take the first frame or packet out of the ring of a direction, to whose end it has
 * come. */
void sim_port_frame_arrives(struct sim_event *event);
void sim_port_packet_arrives(struct sim_event *event);
/* Take what arrived at a port once it has passed the PCIe root, if there is one. */
void sim_port_deliver_frame(struct sim_port *port, struct sim_frame *frame);
void sim_port_deliver_packet(struct sim_port *port, struct sim_packet *packet);
struct sim_packet *sim_packet_copy(const struct sim_packet *packet);
/* Sends a pause or resume frame to the other end of the cable, ahead of all waiting
 * frames. */
void sim_port_send_pause(struct sim_port *port, bool is_pause);
/* Returns true if both paths have the same addresses; ignores the fields of their
 * owners. */
bool sim_path_is_same(const struct sim_path *a, const struct sim_path *b);
/* Returns the interned path that equals `path`. */
const struct sim_path *sim_port_path(struct sim_port *port, const struct sim_path *path);
/* Copies payloads in flight of `source_qpn` that still refer to memory of that QP's
 * owner. */
void sim_port_own_qp(struct sim_port *port, uint32_t source_qpn);
/* Copies payloads in flight that refer to [addr, addr + length). */
void sim_port_own_range(struct sim_port *port, const void *addr, size_t length);
/* Determines `plain_bytes` again, after a change of what it depends on. */
void sim_port_review(struct sim_port *port);
/* Announces a change of carrier, if there is one. */
void sim_port_check_carrier(struct sim_port *port);
/* Logs a frame that is dropped. */
void sim_port_trace_drop(struct sim_port *port, const struct sim_frame *frame,
                         const char *why);
/* Logs a frame that is sent; for event logs with packets. */
void sim_port_trace_frame(struct sim_port *port, const struct sim_frame *frame);
static inline void sim_port_trace_sent(struct sim_port *port,
                                       const struct sim_frame *frame)
{
    if (weft_trace_on(sim_trace(port->engine), WEFT_TRACE_PACKET)) {
        sim_port_trace_frame(port, frame);
    }
}

/* Sends a frame in its slot that needs no further checks (sim_port_review), as most do
 * not. */
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

/* Returns true if the next event sends a frame that the NIC has now, without further
 * checks. Only for the event that is running, which must do nothing afterwards. */
static inline bool sim_port_sends_next(const struct sim_port *port, uint32_t wire_bytes)
{
    return wire_bytes <= port->plain_bytes && port->waiting.n == 0 && !port->in_train &&
           port->free_at <= sim_now(port->engine) && !sim_is_scheduled(&port->transmit) &&
           sim_would_be_next(port->engine, port->transmit.rank);
}

/* Passes `frame` to the tap, if there is one. `comment` may be NULL. */
void sim_port_tap_frame(struct sim_port *port, bool is_outgoing,
                        const struct sim_frame *frame, const char *comment);
void sim_port_tap_packet(struct sim_port *port, bool is_outgoing,
                         const struct sim_packet *packet, const char *comment);

/* Networks (sim/network.c). Copies the list. */
struct sim_network *sim_network_create(struct sim_port *const *ports, size_t n_ports);
struct sim_port *sim_network_find(const struct sim_network *network, uint64_t mac);
size_t sim_network_size(const struct sim_network *network);
struct sim_port *sim_network_port(const struct sim_network *network, size_t index);
/* Removes a port from the network; frees the network with its last port. */
void sim_network_leave(struct sim_network *network, struct sim_port *port);

/* Sets what is above the port: the NIC, whose receive overhead is `rx_overhead_ps`, and
 * the host stack; each may be NULL. */
void sim_port_set_users(struct sim_port *port, struct sim_nic *nic,
                        weft_ps rx_overhead_ps, struct sim_stack *stack,
                        const struct sim_stack_ops *stack_ops);

/* Returns the ordinal (from 1, by creation) of the QP of `port` that sent `frame`, or is
 * to receive it if `is_inward`. Returns 0 for acknowledgements and CNPs, and for unknown
 * QPs. Sets the PSN relative to the first of that direction. */
uint32_t sim_nic_ordinal(const struct sim_nic *nic, const struct sim_frame *frame,
                         bool is_inward, uint32_t *relative_psn);

#endif

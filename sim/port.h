/* Ports, cables and frames: layer 2 of the simulated fabric.
 *
 * A port is one Ethernet interface of a host: a RoCE port (with a sim_nic) or the
 * management interface. A cable joins two ports; the management network joins many.
 * Frames are serialised at the lower rate of cable and PCIe roots, wait in the
 * direction's FIFO for the one-way delay, and are passed to the receiving port's NIC
 * (RoCE) or host stack (all others). */
#ifndef WEFT_SIM_PORT_H
#define WEFT_SIM_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/engine.h"

enum sim_frame_kind {
    /* sent by a NIC; as a packet of the host stack: one that it forwards */
    SIM_FRAME_ROCE,
    SIM_FRAME_NEIGH, /* ARP or neighbour discovery; payload: struct sim_neigh_packet */
    SIM_FRAME_TCP,   /* payload: header and bytes, see sim/tcp.h */
    SIM_FRAME_UDP,   /* payload: header and bytes, see sim/udp.h */
    SIM_FRAME_PAUSE  /* from port to port; not passed to the host stack */
};

/* Returns "neighbour", "tcp", "udp", "pause" or "roce". */
const char *sim_frame_kind_name(enum sim_frame_kind kind);

/* A packet that the host stack sends or receives. The holder of the packet owns the
 * payload. */
struct sim_packet {
    enum sim_frame_kind kind;
    uint64_t source_mac;      /* 48 bits, host order */
    uint64_t destination_mac; /* a group address (sim_mac_is_group) for all stations */
    /* size of the Ethernet frame with FCS, without preamble and gap */
    uint32_t wire_bytes;
    uint16_t vlan_id;  /* of its 802.1Q tag; 0 if none */
    uint32_t ip_bytes; /* length of the IP packet, for MTU and path limits; 0 if none */
    bool is_pause;     /* PAUSE: stop sending; if false, resume */
    void *payload;     /* Owned by the packet: malloc'ed, freed by sim_packet_free */
    size_t n_payload;
};
#define SIM_MAC_BROADCAST 0xffffffffffffull

/* Returns true for broadcast and multicast addresses (IEEE 802: first bit on the wire),
 * which networks flood. */
static inline bool sim_mac_is_group(uint64_t mac)
{
    return (mac >> 40 & 1) != 0;
}

void sim_packet_free(struct sim_packet *packet);

struct sim_port;
struct sim_nic;
struct sim_stack; /* sim/stack.h: a host's netdevs, addresses, neighbours, TCP */

struct sim_port_config {
    const char *host; /* for the event log; must outlive the port */
    const char *name; /* "p0" */
    uint64_t mac;
    uint32_t mtu_bytes; /* largest IP packet */
    /* the port's own limit, or its PCIe root's if that is lower; 0 if none */
    uint64_t rate_bps;
    /* rate of frames that the NIC loops back to the port; 0 for the cable's rate */
    uint64_t loop_bps;
    struct sim_root *root; /* Not owned, must outlive the port; NULL if not shared */
};

struct sim_impairment {
    uint32_t loss_ppb, corrupt_ppb, duplicate_ppb, reorder_ppb, ecn_ppb;
    bool corrupts_unseen; /* corrupts payloads, and recomputes the ICRC */
};

struct sim_cable_config {
    const char *name; /* stable name for rng streams: "titanic:p0-iceberg:p1" */
    uint64_t rate_bps;
    weft_ps delay_ps;
    uint32_t path_limit_bytes; /* larger IP packets are dropped silently; 0 if no limit */
    /* Size of the queue of a host stack or switch in each direction; 0 if no limit.
     * Packets beyond it are dropped. With `pause` a host queues them, and a switch pauses
     * the sender of a frame that arrives over this cable. */
    uint64_t queue_bytes;
    bool pause;
    bool up;
    struct sim_impairment impairment;
};

struct sim_direction_stats {
    uint64_t packets, bytes;
    weft_ps busy_ps;
    uint64_t drops;
    uint64_t packet_drops;     /* part of `drops`: packets of the host stack */
    uint64_t frame_duplicates; /* RoCE frames that an impairment duplicated */
};

struct sim_port *sim_port_create(struct sim_engine *engine,
                                 const struct sim_port_config *config);
/* The NIC that used the port must have been destroyed before. */
void sim_port_destroy(struct sim_port *port);
/* Joins two ports. The cable exists until either port is destroyed. */
void sim_cable_connect(struct sim_engine *engine, const struct sim_cable_config *config,
                       struct sim_port *a, struct sim_port *b);
/* Joins many ports through an ideal switch (the management network): each port sends at
 * the rate of `config`, arriving packets do not queue, and broadcasts reach all other
 * ports. A port that is taken down loses only its own carrier. */
void sim_network_connect(struct sim_engine *engine, const struct sim_cable_config *config,
                         struct sim_port *const *ports, size_t n_ports);
/* Sets the receivers of what arrives. Both may be NULL; it is then dropped. */
void sim_port_attach(struct sim_port *port, struct sim_nic *nic, struct sim_stack *stack);

/* A wire outside the simulation that a port is on instead of a cable. Sending takes no
 * simulated time. Frames from the wire arrive through sim/port_bytes.h and
 * sim_port_receive_outside(). */
struct sim_frame;
struct sim_outside {
    /* Sends a RoCE frame. The frame and its payload belong to the caller again on
     * return. */
    void (*frame)(void *context, const struct sim_frame *frame);
    /* Sends a packet of the host stack; takes it over. */
    void (*packet)(void *context, struct sim_packet *packet);
    void *context;     /* Not owned */
    uint64_t rate_bps; /* rate that the netdev reports */
    bool takes_own;    /* the wire also carries what the port sends to itself */
    bool is_up;
};
/* Puts the port on an outside wire instead of a cable; copies `outside`. */
void sim_port_set_outside(struct sim_port *port, const struct sim_outside *outside);
void sim_port_set_outside_carrier(struct sim_port *port, bool is_up);
/* Encodes the packet's Ethernet frame without FCS with the port's encoder. Returns its
 * size; 0 if there is no encoder or no room. */
size_t sim_port_packet_bytes(const struct sim_port *port, const struct sim_packet *packet,
                             uint8_t *out, size_t out_bytes);
/* Takes a packet for the host stack from the outside wire, and takes it over. */
void sim_port_receive_outside(struct sim_port *port, struct sim_packet *packet);

/* Queues a packet of the host stack behind what the port is sending. Takes it over, even
 * if it drops it (no carrier, queue full, larger than the MTU). */
void sim_port_send(struct sim_port *port, struct sim_packet *packet);

const char *sim_port_name(const struct sim_port *port);
const char *sim_port_host(const struct sim_port *port);
uint64_t sim_port_mac(const struct sim_port *port);
uint32_t sim_port_mtu(const struct sim_port *port);
/* Returns the rate of the netdev: the cable's, or 0 without a cable. */
uint64_t sim_port_rate(const struct sim_port *port);
/* Returns the carrier: cabled, up in both directions and not taken down. */
bool sim_port_is_up(const struct sim_port *port);
struct sim_direction_stats sim_port_sent(struct sim_port *port);
/* Drop and pause counters of the port, as its netdev's statistics report them. */
struct sim_port_drops {
    uint64_t rx_oversize, tx_queue_full, rx_pauses;
    uint64_t rx_oversize_frames; /* part of `rx_oversize`: RoCE frames */
    weft_ps rx_pause_ps;         /* time that the other end kept the port from sending */
};
struct sim_port_drops sim_port_dropped(const struct sim_port *port);
/* Return the number of RoCE frames that the port has sent to itself, and of those in
 * flight from it. */
uint64_t sim_port_looped(struct sim_port *port);
uint64_t sim_port_in_flight(struct sim_port *port);

/* Faults. Directions are relative to `port`. Frames in flight still arrive, unless the
 * cable goes down, which drops them. A change of carrier raises PORT_ERR or PORT_ACTIVE
 * on both ports' NICs, and is reported to both stacks. */
void sim_port_set_down(struct sim_port *port, bool outwards, bool inwards, bool down);
void sim_port_set_mtu(struct sim_port *port, uint32_t mtu_bytes);
void sim_port_set_impairment(struct sim_port *port, bool outwards, bool inwards,
                             const struct sim_impairment *impairment);
void sim_port_set_delay(struct sim_port *port, bool outwards, bool inwards,
                        weft_ps delay_ps, weft_ps jitter_ps);
/* Holds what is sent, as if the other end kept sending pause frames. */
void sim_port_set_paused(struct sim_port *port, bool outwards, bool inwards, bool paused);
void sim_port_set_rate(struct sim_port *port, uint64_t rate_bps);
void sim_port_set_path_limit(struct sim_port *port, uint32_t path_limit_bytes);

/* Faults of single RoCE frames that leave `port` or (is_inward) are sent to it. A frame
 * is selected by the ordinal of its QP on that port (by creation, from 1), by its PSN
 * relative to the first of that direction, and by the number of earlier transmissions. */
enum sim_match_action {
    SIM_MATCH_DROP,
    SIM_MATCH_CORRUPT,
    SIM_MATCH_DUPLICATE,
    SIM_MATCH_REORDER, /* delayed by the time that four full-size frames take */
    SIM_MATCH_MARK,    /* ECN: congestion experienced */
    SIM_MATCH_DELAY
};
struct sim_match {
    enum sim_match_action action;
    bool is_inward;
    bool is_unseen; /* CORRUPT: in the payload, and the ICRC is recomputed */
    uint32_t qp, psn, iteration;
    weft_ps delay_ps;
};
/* Does nothing for inward frames of a port without a cable. */
void sim_port_add_match(struct sim_port *port, const struct sim_match *match);

/* Encodes the Ethernet frame of a host stack's packet without FCS, for taps. Writes at
 * most `out_bytes` and returns the number written. Without an encoder taps show RoCE
 * frames only. */
typedef size_t (*sim_packet_encoder)(const struct sim_packet *packet, uint8_t *out,
                                     size_t out_bytes);
void sim_port_set_encoder(struct sim_port *port, sim_packet_encoder encode);

/* Receives the bytes of every frame that leaves or enters the port; see world_ops.tap.
 * NULL stops that. */
typedef void (*sim_tap)(void *context, weft_ns at, const struct sim_port *port,
                        bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                        const char *comment);
void sim_port_tap(struct sim_port *port, sim_tap tap, void *context);

#endif

/* Ports, cables and frames: layer 2 of the simulated fabric.
 *
 * A port is one Ethernet interface of a host: a RoCE port (with a sim_nic on top) or
 * the management interface. A cable joins two ports; the management network joins
 * many. Frames are serialised at the lesser of cable and PCIe-root rate, wait in the
 * direction's FIFO for the one-way delay, and are handed to the receiving port's NIC
 * (RoCE) or host stack (the rest). */
#ifndef WEFT_SIM_PORT_H
#define WEFT_SIM_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/engine.h"

enum sim_frame_kind {
    SIM_FRAME_ROCE,  /* the NIC's; as a packet of the host stack: one that it forwards */
    SIM_FRAME_NEIGH, /* ARP or neighbour discovery; payload: struct sim_neigh_packet */
    SIM_FRAME_TCP,   /* payload: header and bytes, see sim/tcp.h */
    SIM_FRAME_UDP,   /* payload: header and bytes, see sim/udp.h */
    SIM_FRAME_PAUSE  /* from port to port; never seen by the host stack */
};

/* "neighbour", "tcp", "udp", "pause" */
const char *sim_frame_kind_name(enum sim_frame_kind kind);

/* What the host stack sends and receives. The payload belongs to whoever holds the
 * frame. */
struct sim_packet {
    enum sim_frame_kind kind;
    uint64_t source_mac;      /* 48 bits, host order */
    uint64_t destination_mac; /* a group address (sim_mac_is_group): everybody */
    /* the whole Ethernet frame with FCS, preamble and gap excluded */
    uint32_t wire_bytes;
    uint16_t vlan_id;  /* of its 802.1Q tag; 0: none */
    uint32_t ip_bytes; /* the IP packet's length, against MTU and path limits; 0: none */
    bool is_pause;     /* PAUSE: stop sending; false: go on */
    void *payload;     /* Owned by the packet: malloc'ed, freed by sim_packet_free */
    size_t n_payload;
};
#define SIM_MAC_BROADCAST 0xffffffffffffull

/* Broadcast or multicast (IEEE 802: the first bit on the wire): networks flood it. */
static inline bool sim_mac_is_group(uint64_t mac)
{
    return (mac >> 40 & 1) != 0;
}

void sim_packet_free(struct sim_packet *packet);

struct sim_port;
struct sim_nic;
struct sim_stack; /* sim/stack.h: a host's netdevs, addresses, neighbours, TCP */

struct sim_port_config {
    const char *host; /* for the story; outlives the port */
    const char *name; /* "p0" */
    uint64_t mac;
    uint32_t mtu_bytes;    /* of IP packets */
    uint64_t rate_bps;     /* the port's own limit, or its PCIe root's if less; 0: none */
    uint64_t loop_bps;     /* of what the NIC loops back to the port; 0: as its cable */
    struct sim_root *root; /* Not owned, outlives the port; NULL: shared with nobody */
};

struct sim_impairment {
    uint32_t loss_ppb, corrupt_ppb, duplicate_ppb, reorder_ppb, ecn_ppb;
    bool corrupts_unseen; /* payloads, and the ICRC is made to fit */
};

struct sim_cable_config {
    const char *name; /* stable, for rng streams: "titanic:p0-iceberg:p1" */
    uint64_t rate_bps;
    weft_ps delay_ps;
    uint32_t path_limit_bytes; /* larger IP packets vanish; 0: none */
    /* What a host's stack, or a switch, lets wait for each direction; 0: no limit. Beyond
     * it is dropped; with `pause` a host holds it, and a switch pauses who sends to it
     * over this cable. */
    uint64_t queue_bytes;
    bool pause;
    bool up;
    struct sim_impairment impairment;
};

struct sim_direction_stats {
    uint64_t packets, bytes;
    weft_ps busy_ps;
    uint64_t drops;
    uint64_t packet_drops;     /* part of `drops`: packets of the host's stack */
    uint64_t frame_duplicates; /* RoCE frames that an impairment doubled */
};

struct sim_port *sim_port_create(struct sim_engine *engine,
                                 const struct sim_port_config *config);
void sim_port_destroy(struct sim_port *port);
/* Joins two ports; the cable lives until either port is destroyed with the fabric. */
void sim_cable_connect(struct sim_engine *engine, const struct sim_cable_config *config,
                       struct sim_port *a, struct sim_port *b);
/* Joins many ports through an ideal switch (the management network): each port sends
 * at the config's rate, what arrives does not queue, broadcasts reach everybody else.
 * A port that is taken down loses its own carrier only. */
void sim_network_connect(struct sim_engine *engine, const struct sim_cable_config *config,
                         struct sim_port *const *ports, size_t n_ports);
/* Who gets what arrives. Both may be NULL (dropped). */
void sim_port_attach(struct sim_port *port, struct sim_nic *nic, struct sim_stack *stack);

/* What a port is on, in place of a cable: a wire outside of the simulation. Sending takes no
 * simulated time: the wire takes its own. What comes in goes through sim/port_bytes.h and
 * sim_port_receive_outside. */
struct sim_frame;
struct sim_outside {
    /* A RoCE frame leaves; it and its payload are the caller's again on return. */
    void (*frame)(void *context, const struct sim_frame *frame);
    /* A packet of the host's stack leaves; taken over. */
    void (*packet)(void *context, struct sim_packet *packet);
    void *context;     /* Not owned */
    uint64_t rate_bps; /* what the netdev says */
    bool takes_own;    /* it also brings back what the port sends to itself */
    bool is_up;
};
/* Instead of sim_cable_connect; `outside` is copied. */
void sim_port_set_outside(struct sim_port *port, const struct sim_outside *outside);
void sim_port_set_outside_carrier(struct sim_port *port, bool is_up);
/* The bytes of a packet's Ethernet frame without FCS, as the port's encoder writes them (0:
 * none, or no room). */
size_t sim_port_packet_bytes(const struct sim_port *port, const struct sim_packet *packet,
                             uint8_t *out, size_t out_bytes);
/* A packet for the host's stack came in; taken over. */
void sim_port_receive_outside(struct sim_port *port, struct sim_packet *packet);

/* Queues a host-stack packet behind what the port is sending; takes it over, also when
 * it is dropped (no cable, link down, queue full, larger than the MTU). */
void sim_port_send(struct sim_port *port, struct sim_packet *packet);

const char *sim_port_name(const struct sim_port *port);
const char *sim_port_host(const struct sim_port *port);
uint64_t sim_port_mac(const struct sim_port *port);
uint32_t sim_port_mtu(const struct sim_port *port);
/* Rate of the netdev: the cable's, or 0 without one. */
uint64_t sim_port_rate(const struct sim_port *port);
/* Carrier: cabled, cable up in both directions, not taken down. */
bool sim_port_is_up(const struct sim_port *port);
struct sim_direction_stats sim_port_sent(struct sim_port *port);
/* What its netdev's statistics would say. */
struct sim_port_drops {
    uint64_t rx_oversize, tx_queue_full, rx_pauses;
    uint64_t rx_oversize_frames; /* part of `rx_oversize`: RoCE frames */
};
struct sim_port_drops sim_port_dropped(const struct sim_port *port);
/* RoCE frames that the port sent to itself, and those on their way out of the port. */
uint64_t sim_port_looped(struct sim_port *port);
uint64_t sim_port_in_flight(struct sim_port *port);

/* Faults. The directions are seen from `port`; what is already on the wire still
 * arrives unless the cable goes down (then it is lost). Carrier changes raise
 * PORT_ERR/PORT_ACTIVE on both ports' NICs and tell both stacks. */
void sim_port_set_down(struct sim_port *port, bool outwards, bool inwards, bool down);
void sim_port_set_mtu(struct sim_port *port, uint32_t mtu_bytes);
void sim_port_set_impairment(struct sim_port *port, bool outwards, bool inwards,
                             const struct sim_impairment *impairment);
void sim_port_set_delay(struct sim_port *port, bool outwards, bool inwards,
                        weft_ps delay_ps, weft_ps jitter_ps);
/* Holds what is sent, as if the other end sent pause frames without end. */
void sim_port_set_paused(struct sim_port *port, bool outwards, bool inwards, bool paused);
void sim_port_set_rate(struct sim_port *port, uint64_t rate_bps);
void sim_port_set_path_limit(struct sim_port *port, uint32_t path_limit_bytes);

/* One-packet faults on RoCE frames leaving `port`, or (is_inward) on their way to it: by order
 * of QP creation on that port (from 1), PSN relative to the first of that direction, and
 * transmission (0: first). */
enum sim_match_action {
    SIM_MATCH_DROP,
    SIM_MATCH_CORRUPT,
    SIM_MATCH_DUPLICATE,
    SIM_MATCH_REORDER, /* held back for as long as four full frames take */
    SIM_MATCH_MARK,    /* ECN: congestion experienced */
    SIM_MATCH_DELAY
};
struct sim_match {
    enum sim_match_action action;
    bool is_inward;
    bool is_unseen; /* of CORRUPT: the payload, and the ICRC is made to fit */
    uint32_t qp, psn, iteration;
    weft_ps delay_ps;
};
/* No-op for inward packets of a port without a cable. */
void sim_port_add_match(struct sim_port *port, const struct sim_match *match);

/* How a tap turns a host-stack packet into the bytes of its Ethernet frame without
 * FCS: writes at most `out_bytes` and returns how many. Without one, taps show RoCE
 * frames only. */
typedef size_t (*sim_packet_encoder)(const struct sim_packet *packet, uint8_t *out,
                                     size_t out_bytes);
void sim_port_set_encoder(struct sim_port *port, sim_packet_encoder encode);

/* Bytes of every frame that leaves or enters the port; see world_ops.tap. NULL: stop. */
typedef void (*sim_tap)(void *context, weft_ns at, const struct sim_port *port,
                        bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                        const char *comment);
void sim_port_tap(struct sim_port *port, sim_tap tap, void *context);

#endif

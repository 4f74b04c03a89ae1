/* RoCE packets as exact bytes (IBA vol. 1 ch. 9, annexes A16 and A17), both ways: for taps,
 * for tests, and for whoever speaks RoCE on a real wire. */
#ifndef WEFT_SIM_PACKET_H
#define WEFT_SIM_PACKET_H

#include <stddef.h>

#include "sim/frame.h"

#define SIM_PACKET_BYTES_MAX                                                             \
    4400 /* Ethernet, 802.1Q, GRH, BTH, the largest headers, 4096 B, ICRC */

#define SIM_PACKET_PAYLOAD_MAX 4096 /* the largest path MTU */

/* What is between Ethernet and BTH. */
enum sim_roce_layer {
    SIM_ROCE_IPV4, /* RoCE v2 */
    SIM_ROCE_IPV6, /* RoCE v2 */
    SIM_ROCE_V1    /* a GRH and no UDP */
};

/* Everything that a RoCE packet says, but what follows from the rest: lengths, the IPv4
 * header checksum and the ICRC. Numbers in host order. */
struct sim_roce {
    uint64_t destination_mac;
    uint64_t source_mac;
    bool has_vlan;
    uint16_t vlan_tci; /* priority 3, drop eligible 1, VLAN 12 */

    enum sim_roce_layer layer;
    union ibv_gid source_gid; /* IPv4: ::ffff:a.b.c.d */
    union ibv_gid destination_gid;
    uint32_t flow_label; /* not IPv4 */
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint16_t ipv4_id;
    bool dont_fragment;    /* IPv4 */
    uint16_t sport;        /* not v1 */
    uint16_t udp_checksum; /* as on the wire; 0: none. Not v1 */

    uint8_t opcode;
    bool solicited, mig_req, ack_req, fecn, becn;
    uint8_t reserved6, reserved7; /* BTH bits of no meaning: 6 and 7 of them */
    uint16_t pkey;
    uint32_t dest_qpn;
    uint32_t psn;

    /* Of the extension headers, those that the opcode has; the others are 0. */
    uint64_t va; /* RETH, AtomicETH; AtomicAckETH: the original value */
    uint32_t rkey;
    uint32_t dma_bytes; /* RETH */
    uint64_t swap_add;
    uint64_t compare;
    uint32_t msn; /* AETH */
    uint8_t syndrome;
    uint32_t imm;            /* ImmDt */
    uint32_t invalidate_key; /* IETH */
    uint32_t flush;          /* FETH */

    const uint8_t *payload; /* Not owned; decoded: inside the packet */
    uint32_t n_payload;
    uint8_t pad[3]; /* the first -n_payload & 3 of them, 0 by custom */
    uint32_t icrc;  /* decoded: as received. Encoding works it out anew */
};

/* Why a packet is not taken. The first that applies, in this order of looking. */
enum sim_packet_reject {
    SIM_PACKET_OK,
    SIM_PACKET_RUNT,         /* ends inside its headers */
    SIM_PACKET_NOT_ROCE,     /* another EtherType, next header or UDP port */
    SIM_PACKET_IP_VERSION,   /* not what the EtherType says */
    SIM_PACKET_IP_OPTIONS,   /* IPv4 header of more than 20 B */
    SIM_PACKET_IP_CHECKSUM,  /* of the IPv4 header */
    SIM_PACKET_FRAGMENT,     /* of an IPv4 packet, or its reserved flag is set */
    SIM_PACKET_LENGTH,       /* lengths of frame, IP, UDP, opcode and pad do not agree */
    SIM_PACKET_UDP_CHECKSUM, /* neither 0 nor right */
    SIM_PACKET_TVER,         /* transport version other than 0 */
    SIM_PACKET_OPCODE,       /* not of RC, and not CNP */
    SIM_PACKET_ICRC,
    /* Those of a receiver, not of the decoder. */
    SIM_PACKET_MAC,  /* for another station */
    SIM_PACKET_VLAN, /* of a VLAN that the station is not in */
    SIM_PACKET_PKEY, /* of another partition */
    SIM_PACKET_N_REJECTS
};

/* "icrc" */
const char *sim_packet_reject_name(enum sim_packet_reject reject);

/* Reads the Ethernet frame `bytes` (without FCS; what follows the IP packet, as the padding
 * of short frames, is ignored). Never looks past `n_bytes`. On SIM_PACKET_OK, and on
 * SIM_PACKET_ICRC, `out` is filled; its payload points into `bytes`. `*used` (or NULL) is
 * then the length without what was ignored: encoding `out` gives those bytes. */
enum sim_packet_reject sim_roce_decode(const uint8_t *bytes, size_t n_bytes,
                                       struct sim_roce *out, size_t *used);

/* Writes the Ethernet frame of `roce`, from the destination MAC to a right ICRC, without
 * FCS, and returns its length; 0 if it would not fit. */
size_t sim_roce_encode(const struct sim_roce *roce, uint8_t *out, size_t out_bytes);

/* Between packets and the simulator's records. `path` gets the addresses of `roce`, and
 * `frame` the rest; frame->path and the payload's owner are the caller's affair. */
void sim_roce_of_frame(const struct sim_frame *frame, struct sim_roce *out);
void sim_frame_of_roce(const struct sim_roce *roce, struct sim_path *path,
                       struct sim_frame *frame);

/* sim_roce_encode of `frame`; a corrupt frame's last bit before the ICRC is flipped. */
size_t sim_packet_encode(const struct sim_frame *frame, uint8_t *out, size_t out_bytes);

/* True if two P_Keys let their owners talk: one partition, one full member at least (IBA
 * 10.9.3). */
bool sim_pkeys_match(uint16_t a, uint16_t b);
#define SIM_PKEY_DEFAULT 0xffff

/* UDP source port of RoCE v2: from the flow label, or if that is 0 from the product of
 * both QPNs (Linux ib_verbs.h, rdma_flow_label_to_udp_sport and rdma_calc_flow_label). */
uint16_t sim_udp_sport(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn);
/* A hash of the sender's own QPN: rxe's until modify_qp gives the QP its address vector
 * (rxe_qp.c, hash_32). For devices that do not follow the rule above. */
uint16_t sim_udp_sport_rxe(uint32_t own_qpn);

#endif

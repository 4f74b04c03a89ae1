/* Encodes and decodes RoCE packets as exact bytes (IBA vol. 1 ch. 9, annexes A16 and
 * A17), for taps, for tests, and for devices on a real wire. */
#ifndef WEFT_SIM_PACKET_H
#define WEFT_SIM_PACKET_H

#include <stddef.h>

#include "sim/frame.h"

#define SIM_PACKET_BYTES_MAX                                                             \
    4400 /* Ethernet, 802.1Q, GRH, BTH, the largest headers, 4096 B, ICRC */

#define SIM_PACKET_PAYLOAD_MAX 4096 /* largest path MTU */

/* Headers between Ethernet and BTH. */
enum sim_roce_layer {
    SIM_ROCE_IPV4, /* RoCE v2 */
    SIM_ROCE_IPV6, /* RoCE v2 */
    SIM_ROCE_V1    /* RoCE v1: a GRH, no UDP */
};

/* All fields of a RoCE packet except those that follow from others: lengths, the IPv4
 * header checksum and the ICRC. Numbers are in host order. */
struct sim_roce {
    uint64_t destination_mac;
    uint64_t source_mac;
    bool has_vlan;
    uint16_t vlan_tci; /* 3 bits priority, 1 bit drop eligible, 12 bits VLAN ID */

    enum sim_roce_layer layer;
    union ibv_gid source_gid; /* IPv4: ::ffff:a.b.c.d */
    union ibv_gid destination_gid;
    uint32_t flow_label; /* unused with IPv4 */
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint16_t ipv4_id;
    bool dont_fragment;    /* IPv4 */
    uint16_t sport;        /* unused with v1 */
    uint16_t udp_checksum; /* as on the wire; 0 if none; unused with v1 */

    uint8_t opcode;
    bool solicited, mig_req, ack_req, fecn, becn;
    uint8_t reserved6, reserved7; /* 6 and 7 reserved bits of the BTH */
    uint16_t pkey;
    uint32_t dest_qpn;
    uint32_t psn;

    /* Fields of the extension headers that the opcode has; the others are 0. */
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

    const uint8_t *payload; /* Not owned; if decoded, inside the packet */
    uint32_t n_payload;
    uint8_t pad[3]; /* the first -n_payload & 3 bytes are used, normally 0 */
    uint32_t icrc;  /* decoded: as received; ignored by the encoder, which computes it */
};

/* Why a packet is rejected. If several apply, the decoder reports the first that it
 * meets. */
enum sim_packet_reject {
    SIM_PACKET_OK,
    SIM_PACKET_RUNT,         /* ends inside its headers */
    SIM_PACKET_NOT_ROCE,     /* other EtherType, next header or UDP port */
    SIM_PACKET_IP_VERSION,   /* differs from the EtherType */
    SIM_PACKET_IP_OPTIONS,   /* IPv4 header of more than 20 B */
    SIM_PACKET_IP_CHECKSUM,  /* of the IPv4 header */
    SIM_PACKET_FRAGMENT,     /* of an IPv4 packet, or its reserved flag is set */
    SIM_PACKET_LENGTH,       /* lengths of frame, IP, UDP, opcode and pad disagree */
    SIM_PACKET_UDP_CHECKSUM, /* neither 0 nor correct */
    SIM_PACKET_TVER,         /* transport version other than 0 */
    SIM_PACKET_OPCODE,       /* neither of RC nor CNP */
    SIM_PACKET_ICRC,
    /* Reported by receivers, not by the decoder. */
    SIM_PACKET_MAC,  /* another station's MAC */
    SIM_PACKET_VLAN, /* a VLAN that the station has no netdev of */
    SIM_PACKET_PKEY, /* another partition */
    SIM_PACKET_N_REJECTS
};

/* "icrc" */
const char *sim_packet_reject_name(enum sim_packet_reject reject);

/* Decodes the Ethernet frame `bytes` (without FCS). Bytes after the IP packet, such as
 * the padding of short frames, are ignored. Never reads beyond `n_bytes`. Fills `out` on
 * SIM_PACKET_OK and SIM_PACKET_ICRC; its payload points into `bytes`. `*used`, unless
 * NULL, is then the length without the ignored bytes, and encoding `out` gives those
 * bytes (with a correct ICRC). */
enum sim_packet_reject sim_roce_decode(const uint8_t *bytes, size_t n_bytes,
                                       struct sim_roce *out, size_t *used);

/* Encodes `roce` as an Ethernet frame without FCS, with a correct ICRC. Returns its
 * length; 0 if it does not fit. */
size_t sim_roce_encode(const struct sim_roce *roce, uint8_t *out, size_t out_bytes);

/* Convert between packets and the simulator's records. sim_frame_of_roce() writes
 * addresses to `path` and the other fields to `frame`, whose path is `path` and whose
 * payload is not owned. */
void sim_roce_of_frame(const struct sim_frame *frame, struct sim_roce *out);
void sim_frame_of_roce(const struct sim_roce *roce, struct sim_path *path,
                       struct sim_frame *frame);

/* Encodes `frame`. In a corrupt frame the last bit before the ICRC is flipped. */
size_t sim_packet_encode(const struct sim_frame *frame, uint8_t *out, size_t out_bytes);

/* Returns true if two P_Keys may communicate: same partition, and at least one full
 * member (IBA 10.9.3). */
bool sim_pkeys_match(uint16_t a, uint16_t b);
#define SIM_PKEY_DEFAULT 0xffff

/* Returns the UDP source port of RoCE v2: from the flow label, or if that is 0, from the
 * product of both QPNs (Linux ib_verbs.h, rdma_flow_label_to_udp_sport and
 * rdma_calc_flow_label). */
uint16_t sim_udp_sport(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn);
/* Returns a hash of the sender's own QPN, as rxe uses until modify_qp gives the QP its
 * address vector (rxe_qp.c, hash_32). For devices that do not use sim_udp_sport(). */
uint16_t sim_udp_sport_rxe(uint32_t own_qpn);

/* Returns the one's complement sum of 16-bit words (RFC 1071), continuing from `sum`. An
 * odd last byte is the upper half of a word. At most 64 KiB. */
uint16_t sim_ones_sum(uint32_t sum, const uint8_t *bytes, size_t n_bytes);

#endif

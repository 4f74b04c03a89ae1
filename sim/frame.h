/* RoCE frames as compact records: the fields of a packet, not its bytes. sim/packet.h
 * encodes the bytes when a tap needs them. */
#ifndef WEFT_SIM_FRAME_H
#define WEFT_SIM_FRAME_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* BTH opcodes of the reliable connection (IBA vol. 1, 9.2.1) and the CNP of RoCE v2
 * (annex A17). */
enum rc_opcode {
    RC_SEND_FIRST = 0x00,
    RC_SEND_MIDDLE = 0x01,
    RC_SEND_LAST = 0x02,
    RC_SEND_LAST_IMM = 0x03,
    RC_SEND_ONLY = 0x04,
    RC_SEND_ONLY_IMM = 0x05,
    RC_WRITE_FIRST = 0x06,
    RC_WRITE_MIDDLE = 0x07,
    RC_WRITE_LAST = 0x08,
    RC_WRITE_LAST_IMM = 0x09,
    RC_WRITE_ONLY = 0x0a,
    RC_WRITE_ONLY_IMM = 0x0b,
    RC_READ_REQUEST = 0x0c,
    RC_READ_FIRST = 0x0d,
    RC_READ_MIDDLE = 0x0e,
    RC_READ_LAST = 0x0f,
    RC_READ_ONLY = 0x10,
    RC_ACK = 0x11,
    RC_ATOMIC_ACK = 0x12,
    RC_COMPARE_SWAP = 0x13,
    RC_FETCH_ADD = 0x14,
    RC_SEND_LAST_INVALIDATE = 0x16,
    RC_SEND_ONLY_INVALIDATE = 0x17,
    RC_FLUSH = 0x1c,
    RC_ATOMIC_WRITE = 0x1d,
    RC_N_OPCODES = 0x1e, /* all but CNP */
    RC_CNP = 0x81
};

/* Properties of an opcode. */
enum {
    RC_IS_REQUEST = 1 << 0,
    RC_IS_RESPONSE = 1 << 1,
    RC_IS_FIRST = 1 << 2, /* starts a message */
    RC_IS_LAST = 1 << 3,  /* ends one; ONLY packets are both */
    RC_IS_SEND = 1 << 4,
    RC_IS_WRITE = 1 << 5,
    RC_IS_READ = 1 << 6, /* request or response */
    RC_IS_ATOMIC = 1 << 7,
    RC_HAS_IMM = 1 << 8,
    RC_HAS_RETH = 1 << 9,
    RC_HAS_AETH = 1 << 10,
    RC_HAS_ATOMIC = 1 << 11,
    RC_HAS_PAYLOAD = 1 << 12,
    RC_HAS_IETH = 1 << 13,
    RC_HAS_FETH = 1 << 14,
    /* Opcodes with neither flag are decoded, but this engine does not execute them. */
    RC_IS_SPOKEN = RC_IS_REQUEST | RC_IS_RESPONSE
};

struct rc_opcode_info {
    uint16_t flags;    /* RC_IS_*, RC_HAS_*; 0 if not an opcode of RC */
    uint8_t ext_bytes; /* size of the headers between BTH and payload */
    const char *name;  /* "WRITE_MIDDLE" */
};

/* Indexed by opcode. Unknown opcodes have flags 0 and the name "?". */
extern const struct rc_opcode_info rc_opcode_infos[RC_N_OPCODES];
extern const struct rc_opcode_info rc_opcode_unknown;

static inline const struct rc_opcode_info *rc_opcode_info(unsigned opcode)
{
    return opcode < RC_N_OPCODES ? &rc_opcode_infos[opcode] : &rc_opcode_unknown;
}

/* AETH syndromes (IBA 9.7.5.2.1). */
enum {
    RC_SYNDROME_ACK = 0x1f, /* no credit information, as rxe and mlx5 send */
    RC_SYNDROME_RNR = 0x20, /* | timer code */
    RC_SYNDROME_SEQUENCE = 0x60,
    RC_SYNDROME_INVALID = 0x61,
    RC_SYNDROME_ACCESS = 0x62,
    RC_SYNDROME_OPERATIONAL = 0x63
};

#define RC_PSN_MASK 0xffffffu

/* Returns a - b modulo 2^24, as a signed number: negative if `a` is before `b`. */
static inline int32_t rc_psn_diff(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << 8) >> 8;
}

/* Addresses of a connection's packets. Paths of sent packets are interned by their port:
 * equal contents have equal pointers, and an entry lives as long as the port. A path
 * received from outside is not interned (sim/port_bytes.h). */
struct sim_path {
    union ibv_gid source_gid;
    union ibv_gid destination_gid;
    uint64_t source_mac;
    uint64_t destination_mac;
    uint32_t flow_label;   /* IPv6, 20 bits */
    uint8_t traffic_class; /* IPv4 TOS or IPv6 traffic class, ECN bits included */
    uint8_t hop_limit;
    bool is_v1;           /* RoCE v1: GRH instead of IP and UDP */
    bool is_ipv4;         /* both GIDs are ::ffff:a.b.c.d, and not v1 */
    uint8_t header_bytes; /* Ethernet payload before the BTH: 28, 48, or 40 (v1) */
    uint8_t tag_bytes;    /* 4 with an 802.1Q tag, else 0 */
    /* of the tag: 3 bits priority, 1 bit drop eligible, 12 bits VLAN ID */
    uint16_t vlan_tci;
    bool is_passing;       /* not interned; valid until sim_port_put_bytes returns */
    struct sim_path *next; /* in the port's list */
};

enum {
    SIM_FRAME_ACK_REQ = 1 << 0,
    SIM_FRAME_SOLICITED = 1 << 1,
    SIM_FRAME_CORRUPT = 1 << 2, /* a bit was flipped in transit, so the ICRC is wrong */
    SIM_FRAME_OWNED = 1 << 3,   /* `payload` is a block of the pool */
    SIM_FRAME_ECN_CE = 1 << 4,
    SIM_FRAME_MIG_REQ = 1 << 5,
    SIM_FRAME_RETRANSMIT = 1 << 6,
    SIM_FRAME_HASHED = 1 << 7 /* `hash` holds the hash of the payload when it was sent */
};

/* The fields common to all packets come first, in 64 bytes. The fields behind them are
 * valid only if the opcode has them. */
struct sim_frame {
    weft_ps at;             /* when the receiver executes it */
    const uint8_t *payload; /* the sender's memory, or a pool block if OWNED */
    const struct sim_path *path;
    uint32_t psn; /* 24 bits */
    uint32_t dest_qpn;
    /* not on the wire; for the UDP source port, matches and the event log */
    uint32_t source_qpn;
    uint32_t n_payload;
    uint32_t msn; /* AETH */
    uint16_t sport;
    uint16_t ipv4_id;
    uint16_t wire_bytes; /* with preamble and gap */
    uint8_t syndrome;    /* AETH */
    uint8_t opcode;
    uint8_t flags; /* SIM_FRAME_* */
    bool is_loop;  /* sent to the port's own MAC */
    /* Fields of a frame that stands for a train (sim/train.h): `n_before` more packets of
     * its QP, which are every `stride`th packet on the wire. `is_agreed` if the receiver
     * is known to execute them all. */
    bool is_agreed;
    uint8_t stride;
    uint16_t n_before;
    uint32_t hash;

    uint32_t imm;       /* host order */
    uint32_t rkey;      /* RETH, AtomicETH */
    uint64_t va;        /* RETH, AtomicETH; AtomicAckETH: the original value */
    uint32_t dma_bytes; /* RETH */
    uint64_t swap_add;
    uint64_t compare;
};

enum { SIM_FRAME_COMMON_BYTES = offsetof(struct sim_frame, imm) };

_Static_assert(SIM_FRAME_COMMON_BYTES == 64 && sizeof(struct sim_frame) <= 128,
               "frame records stay compact");

/* Returns a hash of the payload, which must not be phantom memory (sim/frame.c). */
uint32_t sim_frame_hash(const struct sim_frame *frame);

/* Returns the VLAN ID; 0 if none. */
static inline uint16_t sim_path_vlan(const struct sim_path *path)
{
    return path->vlan_tci & 0xfff;
}

/* Returns the length of the IP packet (RoCE v1: of everything from the GRH on). */
static inline uint32_t sim_frame_ip_bytes(const struct sim_path *path, unsigned ext_bytes,
                                          uint32_t n_payload)
{
    return path->header_bytes + 12u + ext_bytes + ((n_payload + 3u) & ~3u) + 4u;
}

#endif

/* Encodes and decodes clear-to-send entries, immediates, and the purposes, answers and final states
 * of flows (docs/wire.md, "Messages" and "Flows"). Also divides messages into parts. All functions
 * are pure. */
#ifndef WEFT_XFER_WIRE_H
#define WEFT_XFER_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "conn/conn.h"

#define XFER_CTS_BYTES 64
#define XFER_CTS_MAGIC UINT32_C(0x57435453) /* "WCTS" */

/* The part of a message that a posted buffer is for. Set by flows (docs/wire.md, "Flows"), and zero
 * without one. */
struct xfer_hint {
    uint32_t message;  /* number of the message in its flow, modulo 2^20 */
    uint32_t fragment; /* offset in the message, in FLOW_FRAGMENT_BYTES; 14 bits */
    uint32_t whole;    /* bytes of the whole message's buffer, up to 2^30 */
    /* Index of the message in its grouped receive, and number of messages of that less one. */
    uint8_t index, n;
};
#define XFER_MESSAGE_BITS 20
#define XFER_MESSAGE_MASK UINT32_C(0xfffff)
#define XFER_FRAGMENT_BITS 14

/* One posted buffer, as the receiver describes it to the sender. Comments begin with the offset on
 * the wire. */
struct xfer_cts {
    uint64_t address;               /*  0 */
    uint64_t size;                  /*  8 */
    uint32_t rkeys[CONN_RAILS_MAX]; /* 16: one for each rail */
    uint32_t tag;                   /* 32 */
    uint32_t group;                 /* 36: number of the group, from 0, modulo 2^32 */
    uint8_t slot;                   /* 40: group modulo 32 */
    uint8_t index;                  /* 41: index of the buffer in its group */
    uint8_t n;                      /* 42: number of buffers of the group, 1 to 8 */
    struct xfer_hint hint;          /* 43: message 20 bits, fragment 14, index 3, n 3;
                                     * 56: whole */
};                                  /* 48..55: zero; 60: magic */

void xfer_cts_encode(const struct xfer_cts *cts, uint8_t out[XFER_CTS_BYTES]);
/* Returns false if the magic, the zero bytes or the range of a field is wrong. */
bool xfer_cts_decode(const uint8_t bytes[XFER_CTS_BYTES], struct xfer_cts *out);

/* Kinds of immediates. These are in host order here and in network order in the packet, and have
 * their kind in bits 31..30. */
enum xfer_imm_kind {
    XFER_IMM_NONE = 0, /* a value that is not an immediate of Weft, such as 0 */
    XFER_IMM_DATA = 1,
    XFER_IMM_CTS = 2,
    XFER_IMM_NOTICE = 3,
    XFER_IMM_RAIL,    /* bits 31..30 are 0, bits 29..28 are 1 */
    XFER_IMM_HANDOVER /* bits 31..30 are 0, bits 29..28 are 2, all others are 0 */
};

#define XFER_IMM_NOTICE_MASK UINT32_C(0x3fffffff) /* 30 bits */
#define XFER_IMM_GROUP_MASK UINT32_C(0x3fffff)    /* 22 bits */
#define XFER_IMM_SEQUENCE_MASK UINT32_C(0x3ff)    /* 10 bits */
#define XFER_IMM_PIECES_MAX 255u

struct xfer_imm {
    enum xfer_imm_kind kind;
    uint32_t slot; /* bits 29..25 */
    /* CTS: */
    uint32_t n;     /* bits 24..22: number of buffers of the group, less one */
    uint32_t group; /* bits 21..0: group number modulo 2^22 */
    /* DATA: */
    uint32_t index;   /* bits 24..22: index of the buffer in its group */
    uint32_t n_parts; /* bits 21..18: number of parts of this message, less one */
    /* Bits 17..10: number of WRITEs of max_msg_bytes before this one, in this part. */
    uint32_t n_full;
    uint32_t number; /* NOTICE: bits 29..0 */
    /* RAIL: bits 27..24, a queue pair that the sender of the immediate has stopped. */
    uint32_t qp;
    /* Bits 9..0, modulo 2^10. DATA: number of data immediates on this QP before this one. RAIL:
     * from the receiver, number of data immediates taken on `qp`; from the sender, number of
     * clear-to-sends taken in total. */
    uint32_t sequence;
};

uint32_t xfer_imm_encode(const struct xfer_imm *imm);
/* Converts from host to network order or back, for ibv_send_wr.imm_data and ibv_wc.imm_data. */
uint32_t xfer_network_order(uint32_t bits);
/* Returns kind XFER_IMM_NONE for a value that is not an immediate. */
struct xfer_imm xfer_imm_decode(uint32_t bits);

#define FLOW_HOPS_MAX 12
/* Maximum number of relays of a lane: the acceptor and the hops behind it. */
#define FLOW_VIA_MAX (FLOW_HOPS_MAX + 1)
#define FLOW_SHARE_WHOLE 65536u

enum flow_purpose_kind {
    FLOW_DELIVER = 1, /* the acceptor is the receiver */
    FLOW_FORWARD = 2, /* the acceptor forwards to hops[0], or to `to` without hops */
    FLOW_TRIAL = 3,   /* to the receiver, without messages; shows whether rails work */
    FLOW_REPLACE = 4  /* to the receiver; replaces a connection that goes on until then */
};

/* The purpose of a flow's connection, which its connector sends. */
struct flow_purpose {
    enum flow_purpose_kind kind;
    uint8_t lane;
    uint32_t from, to; /* ranks; a rank is the member of the same number */
    uint32_t epoch;    /* epoch of the lane, from 1; a higher one replaces a lower one */
    uint32_t share;    /* share of the flow's data, in 1/65536 */
    uint32_t fragment_bytes;
    uint16_t relay_buffers; /* buffers of fragment_bytes that each relay reserves */
    uint8_t n_hops;
    uint16_t hops[FLOW_HOPS_MAX]; /* members that relay behind the acceptor, in order */
};

void flow_purpose_encode(const struct flow_purpose *purpose,
                         uint8_t out[CONN_PURPOSE_BYTES]);
/* Returns false if the bytes are not the purpose of a flow's connection. */
bool flow_purpose_decode(const uint8_t bytes[CONN_PURPOSE_BYTES],
                         struct flow_purpose *out);

/* The receiver's answer to a purpose. */
struct flow_answer {
    uint32_t epoch; /* epoch of the purpose */
    uint32_t base;  /* all messages before this number are complete; modulo 2^20 */
};
void flow_answer_encode(const struct flow_answer *answer,
                        uint8_t out[CONN_PURPOSE_BYTES]);
bool flow_answer_decode(const uint8_t bytes[CONN_PURPOSE_BYTES], struct flow_answer *out);

/* The final state of one end of a flow, which its connections carry with CLOSE. The receiver's
 * lists the messages that it has. The sender's requests for these are done, even if no
 * acknowledgement has arrived. */
#define FLOW_FINAL_MESSAGES 256u
struct flow_final {
    bool is_sender;
    /* All messages before this number are complete; modulo 2^20; 0 from a sender. */
    uint32_t base;
    /* Bit i % 8 of byte i / 8: message base + i is complete; 0 from a sender. */
    uint8_t complete[FLOW_FINAL_MESSAGES / 8];
};
void flow_final_encode(const struct flow_final *final, uint8_t out[CONN_PURPOSE_BYTES]);
/* Returns false if the bytes are not the final state of an end of a flow. */
bool flow_final_decode(const uint8_t bytes[CONN_PURPOSE_BYTES], struct flow_final *out);

/* A message of up to XFER_STRIPE_BYTES is one part, on one QP. A longer one has a part on each QP,
 * whose size is proportional to the rate of the QP's rail and rounded up to XFER_PART_ALIGN. Only
 * the sender computes this. The receiver accepts the parts as they arrive. */
#define XFER_STRIPE_BYTES (32u * 1024)
#define XFER_PART_ALIGN 128u

uint32_t xfer_n_parts(uint64_t n_bytes, uint32_t n_qps);
/* Computes the range [begin, end) of a part if all QPs are equally fast. */
void xfer_part(uint64_t n_bytes, uint32_t n_qps, uint32_t part, uint64_t *out_begin,
               uint64_t *out_end);
/* Computes the range of a part whose size is proportional to the weight of its QP. `weights`
 * [n_qps] holds the rate of each QP's rail in Mbit/s, at least 1. Part 0 is on QP first_qp. A part
 * can be empty. */
void xfer_weighted_part(uint64_t n_bytes, const uint32_t *weights, uint32_t n_qps,
                        uint32_t first_qp, uint32_t part, uint64_t *out_begin,
                        uint64_t *out_end);
/* Returns the size of the longest message whose pieces n_full can count, with any number of QPs. */
uint64_t xfer_n_bytes_max(uint32_t max_msg_bytes);
/* Returns the number of WRITEs of a part of `n_bytes`, at least one, which carries the
 * immediate. */
uint32_t xfer_n_pieces(uint64_t n_bytes, uint32_t max_msg_bytes);

#endif

/* What travels between both ends of a connection besides the data: clear-to-send entries and
 * 32-bit immediates. Pure functions; docs/wire.md, "Messages". */
#ifndef WEFT_XFER_WIRE_H
#define WEFT_XFER_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "conn/conn.h"

#define XFER_CTS_BYTES 64
#define XFER_CTS_MAGIC UINT32_C(0x57435453) /* "WCTS" */

/* What a buffer's owner says of it besides: which part of which message it is for. Zero with
 * plain xfer; flows fill it (docs/wire.md, "Flows"). */
struct xfer_hint {
    uint32_t message;  /* number of the message in its flow, modulo 2^20 */
    uint32_t fragment; /* where in the message, in FLOW_FRAGMENT_BYTES: 14 bits */
    uint32_t whole;    /* size of the message's buffer, up to 2^30 */
    uint8_t index, n;  /* the message in its grouped receive; n 0..7 stands for 1..8 */
};
#define XFER_MESSAGE_BITS 20
#define XFER_MESSAGE_MASK UINT32_C(0xfffff)
#define XFER_FRAGMENT_BITS 14

/* One posted buffer, as its owner tells the sender. Offsets on the wire in comments. */
struct xfer_cts {
    uint64_t address;               /*  0 */
    uint64_t size;                  /*  8 */
    uint32_t rkeys[CONN_RAILS_MAX]; /* 16: by rail */
    uint32_t tag;                   /* 32 */
    uint32_t group;                 /* 36: number of the group, from 0, modulo 2^32 */
    uint8_t slot;                   /* 40: group mod 32 */
    uint8_t index;                  /* 41: of this buffer in its group */
    uint8_t n;                      /* 42: buffers in the group, 1..8 */
    struct xfer_hint hint;          /* 43: message 20 bits, fragment 14, index 3, n 3;
                                     * 56: whole */
};                                  /* 48..55: zero; 60: magic */

void xfer_cts_encode(const struct xfer_cts *cts, uint8_t out[XFER_CTS_BYTES]);
/* False: not a clear-to-send entry (magic, zeroes, ranges of the small fields). */
bool xfer_cts_decode(const uint8_t bytes[XFER_CTS_BYTES], struct xfer_cts *out);

/* Immediates, in host order here and in network order in the packet. Bits 31..30: kind. */
enum xfer_imm_kind {
    XFER_IMM_NONE = 0, /* a value without a meaning, 0 among them */
    XFER_IMM_DATA = 1,
    XFER_IMM_CTS = 2,
    XFER_IMM_NOTICE = 3,
    XFER_IMM_RAIL,    /* kind bits 0, bits 29..28: 1 */
    XFER_IMM_HANDOVER /* kind bits 0, bits 29..28: 2, the rest 0 */
};

#define XFER_IMM_NOTICE_MASK UINT32_C(0x3fffffff) /* 30 bits */
#define XFER_IMM_GROUP_MASK UINT32_C(0x3fffff)    /* 22 bits */
#define XFER_IMM_SEQUENCE_MASK UINT32_C(0x3ff)    /* 10 bits */
#define XFER_IMM_PIECES_MAX 255u

struct xfer_imm {
    enum xfer_imm_kind kind;
    uint32_t slot; /* bits 29..25 */
    /* CTS: */
    uint32_t n;     /* bits 24..22, less one */
    uint32_t group; /* bits 21..0: group number modulo 2^22 */
    /* DATA: */
    uint32_t index;   /* bits 24..22: the buffer in its group */
    uint32_t n_parts; /* bits 21..18, less one: QPs that carry a part of this message */
    /* bits 17..10: WRITEs of max_msg_bytes before this one, in this part */
    uint32_t n_full;
    uint32_t number; /* NOTICE: bits 29..0 */
    /* RAIL: bits 27..24, a queue pair that this end has stopped. `sequence` counts what it took
     * on it: the receiver data immediates, the sender clear-to-sends. */
    uint32_t qp;
    uint32_t sequence; /* bits 9..0: data immediates of this QP so far, modulo 2^10 */
};

uint32_t xfer_imm_encode(const struct xfer_imm *imm);
/* Host to network order or back, for ibv_send_wr.imm_data and ibv_wc.imm_data. */
uint32_t xfer_network_order(uint32_t bits);
/* kind NONE for the kind that does not exist. */
struct xfer_imm xfer_imm_decode(uint32_t bits);

/* What a connection of a flow is for: the purpose that its connector tells. */
#define FLOW_HOPS_MAX 12
#define FLOW_VIA_MAX                                                                     \
    (FLOW_HOPS_MAX + 1) /* relays of a lane: the acceptor, then the hops */
#define FLOW_SHARE_WHOLE 65536u

enum flow_purpose_kind {
    FLOW_DELIVER = 1, /* the acceptor is the receiver */
    FLOW_FORWARD = 2, /* the acceptor relays: to hops[0] or, without, to the receiver */
    FLOW_TRIAL = 3,   /* as 1, but for no message: it shows whether a way works */
    FLOW_REPLACE =
        4 /* as 1; the lane's present connection goes on until this one is up */
};

struct flow_purpose {
    enum flow_purpose_kind kind;
    uint8_t lane;
    uint32_t from, to; /* ranks; a rank is the member of the same number */
    uint32_t epoch; /* of the lane, from 1; a higher one takes the place of a lower one */
    uint32_t share; /* of the flow's data, in 1/65536 */
    uint32_t fragment_bytes;
    uint16_t relay_buffers; /* that each relay reserves, of fragment_bytes */
    uint8_t n_hops;
    uint16_t hops[FLOW_HOPS_MAX]; /* members that relay after the acceptor */
};

void flow_purpose_encode(const struct flow_purpose *purpose,
                         uint8_t out[CONN_PURPOSE_BYTES]);
/* False: it is of no flow. */
bool flow_purpose_decode(const uint8_t bytes[CONN_PURPOSE_BYTES],
                         struct flow_purpose *out);

/* What the receiver answers. */
struct flow_answer {
    uint32_t epoch; /* of the purpose that it answers */
    uint32_t base;  /* all messages before it are complete; modulo 2^20 */
};
void flow_answer_encode(const struct flow_answer *answer,
                        uint8_t out[CONN_PURPOSE_BYTES]);
bool flow_answer_decode(const uint8_t bytes[CONN_PURPOSE_BYTES], struct flow_answer *out);

/* The final state of a flow's end, which its connections carry with CLOSE. The receiver's says
 * which messages it has: the sender's requests for these are done, whatever was acknowledged. */
#define FLOW_FINAL_MESSAGES 256u
struct flow_final {
    bool is_sender;
    uint32_t base; /* all messages before it are complete; modulo 2^20; 0 from a sender */
    /* Bit i % 8 of byte i / 8: message base + i is complete; zero from a sender. */
    uint8_t complete[FLOW_FINAL_MESSAGES / 8];
};
void flow_final_encode(const struct flow_final *final, uint8_t out[CONN_PURPOSE_BYTES]);
/* False: it is not the final state of a flow's end. */
bool flow_final_decode(const uint8_t bytes[CONN_PURPOSE_BYTES], struct flow_final *out);

/* How a message is spread: part i is [begin, end) on the i'th of n_parts QPs. Messages up to
 * XFER_STRIPE_BYTES go on one QP; else parts are as their QPs' rails are fast, rounded up to
 * 128 B. Only the sender knows: the receiver takes parts as they come. */
#define XFER_STRIPE_BYTES (32u * 1024)
#define XFER_PART_ALIGN 128u

uint32_t xfer_n_parts(uint64_t n_bytes, uint32_t n_qps);
/* Parts of one size. */
void xfer_part(uint64_t n_bytes, uint32_t n_qps, uint32_t part, uint64_t *out_begin,
               uint64_t *out_end);
/* Parts by `weights` [n_qps] (Mb/s of each QP's rail, at least 1), which begin with QP
 * first_qp. A part may be empty. */
void xfer_weighted_part(uint64_t n_bytes, const uint32_t *weights, uint32_t n_qps,
                        uint32_t first_qp, uint32_t part, uint64_t *out_begin,
                        uint64_t *out_end);
/* The longest message whose parts' pieces can be counted, whatever the number of QPs. */
uint64_t xfer_n_bytes_max(uint32_t max_msg_bytes);
/* WRITEs that a part of `n_bytes` takes; at least one, which carries the immediate. */
uint32_t xfer_n_pieces(uint64_t n_bytes, uint32_t max_msg_bytes);

#endif

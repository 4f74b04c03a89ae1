/* What travels between both ends of a connection besides the data: clear-to-send entries and
 * 32-bit immediates. Pure functions; docs/wire.md, "Messages". */
#ifndef WEFT_XFER_WIRE_H
#define WEFT_XFER_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "conn/conn.h"

#define XFER_CTS_BYTES 64
#define XFER_CTS_MAGIC UINT32_C(0x57435453) /* "WCTS" */

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
};                                  /* 43..59: zero; 60: magic */

void xfer_cts_encode(const struct xfer_cts *cts, uint8_t out[XFER_CTS_BYTES]);
/* False: not a clear-to-send entry (magic, zeroes, ranges of the small fields). */
bool xfer_cts_decode(const uint8_t bytes[XFER_CTS_BYTES], struct xfer_cts *out);

/* Immediates, in host order here and in network order in the packet. Bits 31..30: kind. */
enum xfer_imm_kind { XFER_IMM_NONE = 0, XFER_IMM_DATA = 1, XFER_IMM_CTS = 2 };

#define XFER_IMM_GROUP_MASK UINT32_C(0x3fffff) /* 22 bits */
#define XFER_IMM_SEQUENCE_MASK UINT32_C(0x3ff) /* 10 bits */
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
    uint32_t sequence; /* bits 9..0: data immediates of this QP so far, modulo 2^10 */
};

uint32_t xfer_imm_encode(const struct xfer_imm *imm);
/* Host to network order or back, for ibv_send_wr.imm_data and ibv_wc.imm_data. */
uint32_t xfer_network_order(uint32_t bits);
/* kind NONE for the two kinds that do not exist. */
struct xfer_imm xfer_imm_decode(uint32_t bits);

/* How a message is spread: part i is [begin, end) on the i'th of n_parts QPs. Messages up to
 * XFER_STRIPE_BYTES go on one QP; else parts are equal, rounded up to 128 B. */
#define XFER_STRIPE_BYTES (32u * 1024)
#define XFER_PART_ALIGN 128u

uint32_t xfer_n_parts(uint64_t n_bytes, uint32_t n_qps);
void xfer_part(uint64_t n_bytes, uint32_t n_qps, uint32_t part, uint64_t *out_begin,
               uint64_t *out_end);
/* The longest message whose parts' pieces can be counted, whatever the number of QPs. */
uint64_t xfer_n_bytes_max(uint32_t max_msg_bytes);
/* WRITEs that a part of `n_bytes` takes; at least one, which carries the immediate. */
uint32_t xfer_n_pieces(uint64_t n_bytes, uint32_t max_msg_bytes);

#endif

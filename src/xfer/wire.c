#include "xfer/wire.h"

#include <string.h>

#include "base/check.h"
#include "base/wire.h"
#include "xfer/xfer.h"

_Static_assert(XFER_SLOTS == 32, "immediates have five bits for a slot");
_Static_assert(XFER_MULTI_MAX == 8, "immediates have three bits for a buffer");
_Static_assert(CONN_QPS_MAX <= 16, "immediates have four bits for the parts");
_Static_assert(CONN_RAILS_MAX == 4, "entries have room for four keys");

/* Five bytes: message 20 bits, fragment 14, index 3, n 3. */
static void put_hint(struct wire_writer *writer, const struct xfer_hint *hint)
{
    uint64_t bits = (uint64_t)(hint->message & XFER_MESSAGE_MASK) << 20 |
                    (uint64_t)hint->fragment << 6 | (uint64_t)hint->index << 3 | hint->n;

    weft_check(hint->fragment >> XFER_FRAGMENT_BITS == 0);
    weft_check(hint->index < XFER_MULTI_MAX && hint->n < XFER_MULTI_MAX);
    wire_put_u8(writer, (uint8_t)(bits >> 32));
    wire_put_u32(writer, (uint32_t)bits);
}

static void get_hint(struct wire_reader *reader, struct xfer_hint *out)
{
    uint64_t bits = (uint64_t)wire_get_u8(reader) << 32;

    bits |= wire_get_u32(reader);
    out->message = (uint32_t)(bits >> 20) & XFER_MESSAGE_MASK;
    out->fragment = (uint32_t)(bits >> 6) & ((1u << XFER_FRAGMENT_BITS) - 1);
    out->index = (uint8_t)(bits >> 3 & 7);
    out->n = (uint8_t)(bits & 7);
}

void xfer_cts_encode(const struct xfer_cts *cts, uint8_t out[XFER_CTS_BYTES])
{
    struct wire_writer writer = wire_writer_init(out, XFER_CTS_BYTES);

    wire_put_u64(&writer, cts->address);
    wire_put_u64(&writer, cts->size);
    for (int i = 0; i < CONN_RAILS_MAX; i++) {
        wire_put_u32(&writer, cts->rkeys[i]);
    }
    wire_put_u32(&writer, cts->tag);
    wire_put_u32(&writer, cts->group);
    wire_put_u8(&writer, cts->slot);
    wire_put_u8(&writer, cts->index);
    wire_put_u8(&writer, cts->n);
    put_hint(&writer, &cts->hint);
    wire_put_u64(&writer, 0);
    wire_put_u32(&writer, cts->hint.whole);
    wire_put_u32(&writer, XFER_CTS_MAGIC);
    weft_check(!writer.bad);
    weft_check(wire_written(&writer, out) == XFER_CTS_BYTES);
}

bool xfer_cts_decode(const uint8_t bytes[XFER_CTS_BYTES], struct xfer_cts *out)
{
    struct wire_reader reader = wire_reader_init(bytes, XFER_CTS_BYTES);
    uint64_t zero;

    out->address = wire_get_u64(&reader);
    out->size = wire_get_u64(&reader);
    for (int i = 0; i < CONN_RAILS_MAX; i++) {
        out->rkeys[i] = wire_get_u32(&reader);
    }
    out->tag = wire_get_u32(&reader);
    out->group = wire_get_u32(&reader);
    out->slot = wire_get_u8(&reader);
    out->index = wire_get_u8(&reader);
    out->n = wire_get_u8(&reader);
    get_hint(&reader, &out->hint);
    zero = wire_get_u64(&reader);
    out->hint.whole = wire_get_u32(&reader);
    return wire_get_u32(&reader) == XFER_CTS_MAGIC && zero == 0 &&
           out->slot < XFER_SLOTS && out->n >= 1 && out->n <= XFER_MULTI_MAX &&
           out->index < out->n && out->size <= XFER_SIZE_MAX &&
           out->hint.whole <= XFER_SIZE_MAX && out->hint.index <= out->hint.n;
}

/* Bits 31..28 of the immediates whose kind bits are 0. */
#define RAIL_BITS 1u
#define HANDOVER_BITS 2u

uint32_t xfer_imm_encode(const struct xfer_imm *imm)
{
    uint32_t bits = (uint32_t)imm->kind << 30 | imm->slot << 25;

    if (imm->kind == XFER_IMM_NOTICE) {
        return (uint32_t)imm->kind << 30 | (imm->number & XFER_IMM_NOTICE_MASK);
    }
    if (imm->kind == XFER_IMM_RAIL) {
        weft_check(imm->qp < CONN_QPS_MAX);
        return RAIL_BITS << 28 | imm->qp << 24 | (imm->sequence & XFER_IMM_SEQUENCE_MASK);
    }
    if (imm->kind == XFER_IMM_HANDOVER) {
        return HANDOVER_BITS << 28;
    }
    weft_check(imm->slot < XFER_SLOTS);
    if (imm->kind == XFER_IMM_CTS) {
        weft_check(imm->n >= 1 && imm->n <= XFER_MULTI_MAX);
        return bits | (imm->n - 1) << 22 | (imm->group & XFER_IMM_GROUP_MASK);
    }
    weft_check(imm->kind == XFER_IMM_DATA);
    weft_check(imm->index < XFER_MULTI_MAX);
    weft_check(imm->n_parts >= 1 && imm->n_parts <= CONN_QPS_MAX);
    weft_check(imm->n_full <= XFER_IMM_PIECES_MAX);
    return bits | imm->index << 22 | (imm->n_parts - 1) << 18 | imm->n_full << 10 |
           (imm->sequence & XFER_IMM_SEQUENCE_MASK);
}

uint32_t xfer_network_order(uint32_t bits)
{
    const uint8_t bytes[4] = {(uint8_t)(bits >> 24), (uint8_t)(bits >> 16),
                              (uint8_t)(bits >> 8), (uint8_t)bits};
    uint32_t ordered;

    memcpy(&ordered, bytes, sizeof(ordered));
    return ordered;
}

struct xfer_imm xfer_imm_decode(uint32_t bits)
{
    struct xfer_imm imm = {.kind = XFER_IMM_NONE, .slot = bits >> 25 & 31};

    if (bits >> 30 == XFER_IMM_CTS) {
        imm.kind = XFER_IMM_CTS;
        imm.n = (bits >> 22 & 7) + 1;
        imm.group = bits & XFER_IMM_GROUP_MASK;
    } else if (bits >> 30 == XFER_IMM_DATA) {
        imm.kind = XFER_IMM_DATA;
        imm.index = bits >> 22 & 7;
        imm.n_parts = (bits >> 18 & 15) + 1;
        imm.n_full = bits >> 10 & 255;
        imm.sequence = bits & XFER_IMM_SEQUENCE_MASK;
    } else if (bits >> 30 == XFER_IMM_NOTICE) {
        imm.kind = XFER_IMM_NOTICE;
        imm.slot = 0;
        imm.number = bits & XFER_IMM_NOTICE_MASK;
    } else if (bits >> 28 == RAIL_BITS && (bits >> 10 & 0x3fff) == 0) {
        imm.kind = XFER_IMM_RAIL;
        imm.slot = 0;
        imm.qp = bits >> 24 & 15;
        imm.sequence = bits & XFER_IMM_SEQUENCE_MASK;
    } else if (bits == HANDOVER_BITS << 28) {
        imm.kind = XFER_IMM_HANDOVER;
        imm.slot = 0;
    }
    return imm;
}

/* Returns the size of every part but the last. */
static uint64_t part_bytes(uint64_t n_bytes, uint32_t n_qps)
{
    uint64_t each =
        n_bytes <= XFER_STRIPE_BYTES ? n_bytes : (n_bytes + n_qps - 1) / n_qps;

    return (each + XFER_PART_ALIGN - 1) / XFER_PART_ALIGN * XFER_PART_ALIGN;
}

uint32_t xfer_n_parts(uint64_t n_bytes, uint32_t n_qps)
{
    uint64_t each = part_bytes(n_bytes, n_qps);

    return n_bytes == 0 ? 1 : (uint32_t)((n_bytes + each - 1) / each);
}

/* Returns the offset at which `share` of `total` ends: a multiple of XFER_PART_ALIGN, or
 * n_bytes. */
static uint64_t weighted_end(uint64_t n_bytes, uint64_t share, uint64_t total)
{
    uint64_t at;

    weft_check(total > 0);
    at = n_bytes * share / total;
    at = (at + XFER_PART_ALIGN - 1) / XFER_PART_ALIGN * XFER_PART_ALIGN;
    return share == total || at > n_bytes ? n_bytes : at;
}

void xfer_part(uint64_t n_bytes, uint32_t n_qps, uint32_t part, uint64_t *out_begin,
               uint64_t *out_end)
{
    uint64_t each = part_bytes(n_bytes, n_qps);
    uint64_t begin = each * part, end = begin + each;

    *out_begin = begin < n_bytes ? begin : n_bytes;
    *out_end = end < n_bytes ? end : n_bytes;
}

void xfer_weighted_part(uint64_t n_bytes, const uint32_t *weights, uint32_t n_qps,
                        uint32_t first_qp, uint32_t part, uint64_t *out_begin,
                        uint64_t *out_end)
{
    uint64_t before = 0, through = 0, total = 0;

    for (uint32_t i = 0; i < n_qps; i++) {
        uint32_t weight = weights[(first_qp + i) % n_qps];

        before += i < part ? weight : 0;
        through += i <= part ? weight : 0;
        total += weight;
    }
    *out_begin = weighted_end(n_bytes, before, total);
    *out_end = weighted_end(n_bytes, through, total);
}

uint64_t xfer_n_bytes_max(uint32_t max_msg_bytes)
{
    return (uint64_t)max_msg_bytes * (XFER_IMM_PIECES_MAX + 1);
}

uint32_t xfer_n_pieces(uint64_t n_bytes, uint32_t max_msg_bytes)
{
    return n_bytes == 0 ? 1 : (uint32_t)((n_bytes + max_msg_bytes - 1) / max_msg_bytes);
}

/* Encodes and decodes the purposes, answers and final states of the connections of flows.
 * docs/wire.md, "Flows". */
#include <string.h>

#include "base/check.h"
#include "base/wire.h"
#include "xfer/wire.h"
#include "xfer/xfer.h"

#define PURPOSE_MAGIC UINT32_C(0x57464c4f) /* "WFLO" */
#define ANSWER_MAGIC UINT32_C(0x57464c41)  /* "WFLA" */
#define FINAL_MAGIC UINT32_C(0x57464c46)   /* "WFLF" */
#define VERSION 2
#define FRAGMENT_BYTES_MAX (UINT32_C(1) << 20)

void flow_purpose_encode(const struct flow_purpose *purpose,
                         uint8_t out[CONN_PURPOSE_BYTES])
{
    struct wire_writer writer = wire_writer_init(out, CONN_PURPOSE_BYTES);

    memset(out, 0, CONN_PURPOSE_BYTES);
    weft_check(purpose->n_hops <= FLOW_HOPS_MAX);
    wire_put_u32(&writer, PURPOSE_MAGIC);
    wire_put_u8(&writer, VERSION);
    wire_put_u8(&writer, (uint8_t)purpose->kind);
    wire_put_u8(&writer, purpose->lane);
    wire_put_u8(&writer, purpose->n_hops);
    wire_put_u32(&writer, purpose->from);
    wire_put_u32(&writer, purpose->to);
    wire_put_u32(&writer, purpose->epoch);
    wire_put_u32(&writer, purpose->share);
    wire_put_u32(&writer, purpose->fragment_bytes);
    wire_put_u16(&writer, purpose->relay_buffers);
    for (uint32_t i = 0; i < purpose->n_hops; i++) {
        wire_put_u16(&writer, purpose->hops[i]);
    }
    weft_check(!writer.bad);
}

/* Returns true if all remaining bytes are zero, so that each purpose has only one encoding. */
static bool is_padding(struct wire_reader *reader)
{
    bool zero = !reader->bad;

    while (wire_left(reader) > 0) {
        zero = wire_get_u8(reader) == 0 && zero;
    }
    return zero;
}

bool flow_purpose_decode(const uint8_t bytes[CONN_PURPOSE_BYTES],
                         struct flow_purpose *out)
{
    struct wire_reader reader = wire_reader_init(bytes, CONN_PURPOSE_BYTES);
    uint32_t magic = wire_get_u32(&reader);
    uint32_t version = wire_get_u8(&reader);
    uint32_t kind = wire_get_u8(&reader);

    memset(out, 0, sizeof(*out));
    out->kind = kind == FLOW_FORWARD   ? FLOW_FORWARD
                : kind == FLOW_TRIAL   ? FLOW_TRIAL
                : kind == FLOW_REPLACE ? FLOW_REPLACE
                                       : FLOW_DELIVER;
    out->lane = wire_get_u8(&reader);
    out->n_hops = wire_get_u8(&reader);
    out->from = wire_get_u32(&reader);
    out->to = wire_get_u32(&reader);
    out->epoch = wire_get_u32(&reader);
    out->share = wire_get_u32(&reader);
    out->fragment_bytes = wire_get_u32(&reader);
    out->relay_buffers = wire_get_u16(&reader);
    for (uint32_t i = 0; i < out->n_hops && i < FLOW_HOPS_MAX; i++) {
        out->hops[i] = wire_get_u16(&reader);
    }
    return magic == PURPOSE_MAGIC && version == VERSION && kind == (uint32_t)out->kind &&
           out->n_hops <= FLOW_HOPS_MAX && (kind == FLOW_FORWARD || out->n_hops == 0) &&
           out->from != out->to && out->epoch != 0 && out->share <= FLOW_SHARE_WHOLE &&
           out->fragment_bytes >= 1 && out->fragment_bytes <= FRAGMENT_BYTES_MAX &&
           out->relay_buffers >= 1 && is_padding(&reader);
}

void flow_answer_encode(const struct flow_answer *answer, uint8_t out[CONN_PURPOSE_BYTES])
{
    struct wire_writer writer = wire_writer_init(out, CONN_PURPOSE_BYTES);

    memset(out, 0, CONN_PURPOSE_BYTES);
    wire_put_u32(&writer, ANSWER_MAGIC);
    wire_put_u32(&writer, answer->epoch);
    wire_put_u32(&writer, answer->base & XFER_MESSAGE_MASK);
}

bool flow_answer_decode(const uint8_t bytes[CONN_PURPOSE_BYTES], struct flow_answer *out)
{
    struct wire_reader reader = wire_reader_init(bytes, CONN_PURPOSE_BYTES);
    uint32_t magic = wire_get_u32(&reader);

    out->epoch = wire_get_u32(&reader);
    out->base = wire_get_u32(&reader);
    return magic == ANSWER_MAGIC && out->base <= XFER_MESSAGE_MASK && is_padding(&reader);
}

void flow_final_encode(const struct flow_final *final, uint8_t out[CONN_PURPOSE_BYTES])
{
    struct wire_writer writer = wire_writer_init(out, CONN_PURPOSE_BYTES);

    memset(out, 0, CONN_PURPOSE_BYTES);
    wire_put_u32(&writer, FINAL_MAGIC);
    wire_put_u32(&writer, final->is_sender ? 1 : 0);
    wire_put_u32(&writer, final->base & XFER_MESSAGE_MASK);
    for (uint32_t i = 0; i < sizeof(final->complete); i++) {
        wire_put_u8(&writer, final->complete[i]);
    }
}

bool flow_final_decode(const uint8_t bytes[CONN_PURPOSE_BYTES], struct flow_final *out)
{
    struct wire_reader reader = wire_reader_init(bytes, CONN_PURPOSE_BYTES);
    uint32_t magic = wire_get_u32(&reader);
    uint32_t end = wire_get_u32(&reader);
    bool any = false;

    out->is_sender = end == 1;
    out->base = wire_get_u32(&reader);
    for (uint32_t i = 0; i < sizeof(out->complete); i++) {
        out->complete[i] = wire_get_u8(&reader);
        any = any || out->complete[i] != 0;
    }
    return magic == FINAL_MAGIC && end <= 1 && out->base <= XFER_MESSAGE_MASK &&
           !(out->is_sender && (any || out->base != 0)) && is_padding(&reader);
}

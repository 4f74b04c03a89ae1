#include "boot/message.h"

#include <string.h>

#include "base/check.h"
#include "boot/boot.h"

size_t message_encode_join(const struct message_join *join, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_BODY_MAX);

    wire_put_u32(&writer, join->rank);
    wire_put_u32(&writer, join->n_ranks);
    return wire_written(&writer, out);
}

weft_status message_decode_join(const uint8_t *body, size_t n_bytes, uint32_t n_ranks,
                                struct message_join *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);
    weft_status status;

    out->rank = wire_get_u32(&reader);
    out->n_ranks = wire_get_u32(&reader);
    status = codec_check_end(&reader, WEFT_PHASE_JOIN, n_bytes, error);
    if (status == WEFT_OK && out->n_ranks != n_ranks) {
        status = codec_bad_field(error, WEFT_PHASE_JOIN, "n_ranks", out->n_ranks,
                                 "other than the rendezvous expects");
    }
    if (status == WEFT_OK && (out->rank == 0 || out->rank >= n_ranks)) {
        status = codec_bad_field(error, WEFT_PHASE_JOIN, "rank", out->rank,
                                 "1 to n_ranks - 1");
    }
    return status;
}

size_t message_encode_blob(const struct message_blob *blob, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_BODY_MAX - CODEC_MAC_BYTES);

    wire_put_u32(&writer, blob->round);
    wire_put_u32(&writer, blob->each);
    wire_put_u32(&writer, blob->offset);
    wire_put_u32(&writer, blob->n_bytes);
    wire_put_bytes(&writer, blob->bytes, blob->n_bytes);
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

weft_status message_decode_blob(const uint8_t *body, size_t n_bytes, uint32_t whole,
                                struct message_blob *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);

    out->round = wire_get_u32(&reader);
    out->each = wire_get_u32(&reader);
    out->offset = wire_get_u32(&reader);
    out->n_bytes = wire_get_u32(&reader);
    out->bytes = reader.at;
    if (reader.bad || wire_left(&reader) != out->n_bytes) {
        return codec_bad_field(error, WEFT_PHASE_BLOB, "length", (int64_t)n_bytes,
                               "other than what it announces");
    }
    if (out->each > BOOT_BLOB_MAX) {
        return codec_bad_field(error, WEFT_PHASE_BLOB, "each", out->each,
                               "at most 65536");
    }
    if ((uint64_t)out->offset + out->n_bytes > (uint64_t)out->each * whole) {
        return codec_bad_field(error, WEFT_PHASE_BLOB, "offset", out->offset,
                               "beyond the blob");
    }
    if (out->n_bytes == 0 && out->each != 0) {
        return codec_bad_field(error, WEFT_PHASE_BLOB, "n_bytes", 0, "an empty piece");
    }
    return WEFT_OK;
}

size_t message_encode_give_up(const struct message_give_up *give_up, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_BODY_MAX);
    size_t n_bytes = strnlen(give_up->reason, sizeof(give_up->reason) - 1);

    wire_put_u32(&writer, give_up->rank);
    wire_put_u8(&writer, (uint8_t)n_bytes);
    for (size_t i = 0; i < n_bytes; i++) {
        char c = give_up->reason[i];

        wire_put_u8(&writer, (uint8_t)(c < ' ' || c > '~' ? '?' : c));
    }
    return wire_written(&writer, out);
}

weft_status message_decode_give_up(const uint8_t *body, size_t n_bytes, uint32_t n_ranks,
                                   struct message_give_up *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);
    size_t reason_bytes;
    weft_status status;

    memset(out, 0, sizeof(*out));
    out->rank = wire_get_u32(&reader);
    reason_bytes = wire_get_u8(&reader);
    if (reason_bytes >= sizeof(out->reason)) {
        return codec_bad_field(error, WEFT_PHASE_GIVE_UP, "reason", (int64_t)reason_bytes,
                               "at most 95 characters");
    }
    wire_get_bytes(&reader, out->reason, reason_bytes);
    status = codec_check_end(&reader, WEFT_PHASE_GIVE_UP, n_bytes, error);
    for (size_t i = 0; i < reason_bytes && status == WEFT_OK; i++) {
        if (out->reason[i] < ' ' || out->reason[i] > '~') {
            status = codec_bad_field(error, WEFT_PHASE_GIVE_UP, "reason", out->reason[i],
                                     "not printable");
        }
    }
    if (status == WEFT_OK && out->rank >= n_ranks) {
        status = codec_bad_field(error, WEFT_PHASE_GIVE_UP, "rank", out->rank,
                                 "below n_ranks");
    }
    return status;
}

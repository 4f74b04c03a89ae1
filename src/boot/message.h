/* The messages of the rendezvous, which follow authentication and are all sealed
 * (docs/wire.md). Pure and bounded, as conn/codec.h. */
#ifndef WEFT_BOOT_MESSAGE_H
#define WEFT_BOOT_MESSAGE_H

#include "conn/codec.h"

#define MESSAGE_CHUNK_MAX (CODEC_BODY_MAX - CODEC_MAC_BYTES - 16)
#define MESSAGE_REASON_BYTES 96

/* The first word of a rank. */
struct message_join {
    uint32_t rank, n_ranks;
};

/* A piece of a rank's blob, or of the result. */
struct message_blob {
    uint32_t round;  /* from 1 */
    uint32_t each;   /* bytes of one rank's blob */
    uint32_t offset; /* of this piece, in the blob or in the result */
    uint32_t n_bytes;
    const uint8_t *bytes; /* Not owned: inside the body */
};

struct message_give_up {
    uint32_t rank; /* at fault */
    char reason[MESSAGE_REASON_BYTES];
};

/* Each returns the bytes of the body in `out`, which holds CODEC_BODY_MAX. */
size_t message_encode_join(const struct message_join *join, uint8_t *out);
size_t message_encode_blob(const struct message_blob *blob, uint8_t *out);
/* What is not printable in the reason becomes '?'. */
size_t message_encode_give_up(const struct message_give_up *give_up, uint8_t *out);

weft_status message_decode_join(const uint8_t *body, size_t n_bytes, uint32_t n_ranks,
                                struct message_join *out,
                                struct weft_error *error) WEFT_MUST_CHECK;
/* `whole` is how many bytes the pieces make up for one unit of `each`: 1 for a blob, n_ranks
 * for a result. */
weft_status message_decode_blob(const uint8_t *body, size_t n_bytes, uint32_t whole,
                                struct message_blob *out,
                                struct weft_error *error) WEFT_MUST_CHECK;
weft_status message_decode_give_up(const uint8_t *body, size_t n_bytes, uint32_t n_ranks,
                                   struct message_give_up *out,
                                   struct weft_error *error) WEFT_MUST_CHECK;

#endif

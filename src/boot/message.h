/* Encodes and decodes the messages of the rendezvous, which follow authentication and are all
 * sealed (docs/wire.md). Pure functions with bounded access, as conn/codec.h. */
#ifndef WEFT_BOOT_MESSAGE_H
#define WEFT_BOOT_MESSAGE_H

#include "conn/codec.h"

#define MESSAGE_CHUNK_MAX (CODEC_BODY_MAX - CODEC_MAC_BYTES - 16)
#define MESSAGE_REASON_BYTES 96

/* The first message of a rank. */
struct message_join {
    uint32_t rank, n_ranks;
};

/* A piece of a rank's blob or of the result. */
struct message_blob {
    uint32_t round;  /* from 1 */
    uint32_t each;   /* bytes of one rank's blob */
    uint32_t offset; /* offset of this piece in the blob or result */
    uint32_t n_bytes;
    const uint8_t *bytes; /* Not owned: inside the body */
};

struct message_give_up {
    uint32_t rank; /* at fault */
    char reason[MESSAGE_REASON_BYTES];
};

/* Write a body to `out`, which holds CODEC_BODY_MAX, and return its length. */
size_t message_encode_join(const struct message_join *join, uint8_t *out);
size_t message_encode_blob(const struct message_blob *blob, uint8_t *out);
/* Replaces characters that are not printable in the reason by '?'. */
size_t message_encode_give_up(const struct message_give_up *give_up, uint8_t *out);

weft_status message_decode_join(const uint8_t *body, size_t n_bytes, uint32_t n_ranks,
                                struct message_join *out,
                                struct weft_error *error) WEFT_MUST_CHECK;
/* Decodes a piece; out->bytes points into `body`. `whole` is the number of blobs of `each` bytes
 * that the pieces make up: 1 for a blob, n_ranks for a result. */
weft_status message_decode_blob(const uint8_t *body, size_t n_bytes, uint32_t whole,
                                struct message_blob *out,
                                struct weft_error *error) WEFT_MUST_CHECK;
weft_status message_decode_give_up(const uint8_t *body, size_t n_bytes, uint32_t n_ranks,
                                   struct message_give_up *out,
                                   struct weft_error *error) WEFT_MUST_CHECK;

#endif

/* Fuzzes the decoders of conn/codec.h. A message that decodes must encode to the same bytes. The
 * first byte of the input selects the decoder. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "conn/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const uint8_t *in, size_t n_in, const uint8_t *out, size_t n_out)
{
    weft_check(n_in == n_out);
    weft_check(memcmp(in, out, n_in) == 0);
}

#define RECODE(name)                                                                     \
    do {                                                                                 \
        struct codec_##name message;                                                     \
        if (codec_decode_##name(body, n, &message, &error) == WEFT_OK) {                 \
            check_same(body, n, out, codec_encode_##name(&message, out));                \
        }                                                                                \
    } while (0)

static void handle(const uint8_t *body, size_t n, struct weft_error *error)
{
    uint8_t whole[CONN_HANDLE_BYTES] = {0}, out[CONN_HANDLE_BYTES];
    struct codec_handle decoded;

    memcpy(whole, body, n < sizeof(whole) ? n : sizeof(whole));
    if (codec_decode_handle(whole, &decoded, error) == WEFT_OK) {
        weft_check(codec_encode_handle(&decoded, out));
        check_same(whole, sizeof(whole), out, sizeof(out));
    }
}

static void header(const uint8_t *body, size_t n, struct weft_error *error)
{
    struct codec_header decoded;
    uint8_t out[CODEC_HEADER_BYTES];

    n = n < CODEC_HEADER_BYTES ? n : CODEC_HEADER_BYTES;
    if (codec_decode_header(body, n, CODEC_BODY_MAX, &decoded, error) == WEFT_OK) {
        codec_encode_header(&decoded, out);
        check_same(body, n, out, sizeof(out));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t out[CODEC_BODY_MAX];
    struct weft_error error = {0};
    /* A heap copy of the message, so that a sanitizer detects reads beyond it. The allocation is
     * one byte larger than the message. */
    uint8_t *body = malloc(size > 0 ? size : 1);
    size_t n = size > 0 ? size - 1 : 0;

    if (size == 0 || body == NULL || n > CODEC_BODY_MAX - CODEC_MAC_BYTES) {
        free(body);
        return 0;
    }
    memcpy(body, data + 1, n);
    switch (data[0] % 8) {
    case 0:
        RECODE(hello);
        break;
    case 1:
        RECODE(challenge);
        break;
    case 2:
        RECODE(auth);
        break;
    case 3:
        RECODE(facts);
        break;
    case 4:
        RECODE(meta);
        break;
    case 5:
        RECODE(abort);
        break;
    case 6:
        handle(body, n, &error);
        break;
    default:
        header(body, n, &error);
        break;
    }
    weft_check(error.status == WEFT_OK || error.status == WEFT_ERR_PROTOCOL ||
               error.status == WEFT_ERR_UNSUPPORTED);
    free(body);
    return 0;
}

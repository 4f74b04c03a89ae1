/* Fuzzes the decoders of the rendezvous; the first byte selects one. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "boot/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const uint8_t *in, size_t n_in, const uint8_t *out, size_t n_out)
{
    weft_check(n_in == n_out);
    weft_check(memcmp(in, out, n_in) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t out[CODEC_BODY_MAX];
    struct message_join join;
    struct message_blob blob;
    struct message_give_up give_up;
    size_t n = size > 0 ? size - 1 : 0;
    uint8_t *body = malloc(n + 1);

    if (size == 0 || body == NULL || n > CODEC_BODY_MAX - CODEC_MAC_BYTES) {
        free(body);
        return 0;
    }
    memcpy(body, data + 1, n);
    if (data[0] % 3 == 0 && message_decode_join(body, n, 8, &join, NULL) == WEFT_OK) {
        check_same(body, n, out, message_encode_join(&join, out));
    }
    if (data[0] % 3 == 1 && message_decode_blob(body, n, 8, &blob, NULL) == WEFT_OK) {
        check_same(body, n, out, message_encode_blob(&blob, out));
    }
    if (data[0] % 3 == 2 &&
        message_decode_give_up(body, n, 8, &give_up, NULL) == WEFT_OK &&
        strlen(give_up.reason) == n - 5) {
        check_same(body, n, out, message_encode_give_up(&give_up, out));
    }
    free(body);
    return 0;
}

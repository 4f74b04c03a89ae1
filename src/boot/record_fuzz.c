/* Fuzzes the decoders of announcements and records; the first byte selects one. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "boot/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMBERS 8

static void check_same(const uint8_t *in, size_t n_in, const uint8_t *out, size_t n_out)
{
    weft_check(n_in == n_out);
    weft_check(memcmp(in, out, n_in) == 0);
}

static void decode(uint8_t which, const uint8_t *body, size_t n)
{
    static const uint8_t key[AUTH_KEY_BYTES] = {0};
    uint8_t out[CODEC_BODY_MAX];
    struct record_announcement announcement;
    struct record_greeting greeting;
    struct record_links links;
    struct record_piece piece;
    struct record_alive alive;

    if (which == 0 &&
        record_decode_announcement(body, n, &announcement, NULL) == WEFT_OK) {
        record_encode_announcement(&announcement, key, out);
        check_same(body, n - AUTH_MAC_BYTES, out, n - AUTH_MAC_BYTES);
        weft_check(record_announcement_is_ours(out, key));
    }
    if (which == 1 && record_decode_greeting(body, n, &greeting, NULL) == WEFT_OK) {
        check_same(body, n, out, record_encode_greeting(&greeting, out));
    }
    if (which == 2 && record_decode_links(body, n, MEMBERS, &links, NULL) == WEFT_OK) {
        check_same(body, n, out, record_encode_links(&links, out));
    }
    if (which == 3 && record_decode_piece(body, n, MEMBERS, &piece, NULL) == WEFT_OK) {
        check_same(body, n, out, record_encode_piece(&piece, out));
    }
    if (which == 4 && record_decode_alive(body, n, &alive, NULL) == WEFT_OK) {
        check_same(body, n, out, record_encode_alive(&alive, out));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = size > 0 ? size - 1 : 0;
    uint8_t *body = malloc(n + 1);

    if (size > 0 && body != NULL && n <= CODEC_BODY_MAX - CODEC_MAC_BYTES) {
        memcpy(body, data + 1, n);
        decode(data[0] % 5, body, n);
    }
    free(body);
    return 0;
}

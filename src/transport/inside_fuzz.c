/* Fuzzes the decoders of messages between processes of a host with arbitrary bytes. The first
 * byte selects the decoder. Whatever decodes must encode to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "transport/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const uint8_t *in, size_t n_in, const uint8_t *out, size_t n_out)
{
    weft_check(n_in == n_out);
    weft_check(memcmp(in, out, n_in) == 0);
}

static void call(const uint8_t *body, size_t n)
{
    uint8_t out[PROXY_CALL_MAX];
    struct proxy_call decoded;

    if (proxy_decode_call(body, n, &decoded, NULL) == WEFT_OK) {
        check_same(body, n, out, proxy_encode_call(&decoded, out));
    }
}

static void answer(const uint8_t *body, size_t n)
{
    uint8_t out[PROXY_ANSWER_BYTES];
    struct proxy_answer decoded;

    if (proxy_decode_answer(body, n, &decoded, NULL) == WEFT_OK) {
        check_same(body, n, out, proxy_encode_answer(&decoded, out));
    }
}

/* Facts have a fixed size; missing bytes are zero. */
static void facts(const uint8_t *body, size_t n)
{
    uint8_t in[INSIDE_FACTS_BYTES] = {0}, out[INSIDE_FACTS_BYTES];
    struct inside_facts decoded;

    memcpy(in, body, n < sizeof(in) ? n : sizeof(in));
    if (inside_decode_facts(in, &decoded, NULL) == WEFT_OK) {
        inside_encode_facts(&decoded, out);
        check_same(in, sizeof(in), out, sizeof(out));
    }
}

static void blob(const uint8_t *body, size_t n)
{
    uint8_t in[INSIDE_BLOB_BYTES] = {0}, out[INSIDE_BLOB_BYTES];
    struct inside_blob decoded;

    memcpy(in, body, n < sizeof(in) ? n : sizeof(in));
    if (inside_decode_blob(in, &decoded, NULL) == WEFT_OK) {
        inside_encode_blob(&decoded, out);
        check_same(in, sizeof(in), out, sizeof(out));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const decoders[])(const uint8_t *, size_t) = {call, answer, facts,
                                                                blob};
    /* An exact copy, so that a read past the end is detected. */
    size_t n = size > 0 ? size - 1 : 0;
    uint8_t *body = malloc(n + (n == 0));

    if (size > 0 && body != NULL) {
        memcpy(body, data + 1, n);
        decoders[data[0] % WEFT_LENGTH(decoders)](body, n);
    }
    free(body);
    return 0;
}

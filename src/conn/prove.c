#include "conn/prove.h"

#include <string.h>

#include "base/check.h"

weft_ns prove_dial_ns(uint32_t n_timeouts)
{
    uint32_t n_doublings = n_timeouts / 4 < 7 ? n_timeouts / 4 : 7;

    return INT64_C(30000000) << n_doublings;
}

enum { VOUCHER_BYTES = CODEC_NONCE_BYTES / 2 };

/* Returns the voucher in `hello`, the second half of its nonce. */
static uint8_t *voucher_of(struct codec_hello *hello)
{
    return hello->nonce + CODEC_NONCE_BYTES - VOUCHER_BYTES;
}

/* Computes the voucher that `hello` must contain. Ignores the one that it contains. */
static void make_voucher(const struct codec_hello *hello,
                         const uint8_t key[AUTH_KEY_BYTES], uint8_t out[AUTH_MAC_BYTES])
{
    struct codec_hello blank = *hello;
    uint8_t body[CODEC_HELLO_BYTES];
    size_t n;

    memset(voucher_of(&blank), 0, VOUCHER_BYTES);
    n = codec_encode_hello(&blank, body);
    auth_prove(key, AUTH_VOUCHER, body, n, NULL, 0, out);
}

bool prove_is_vouched(const struct codec_hello *hello, const uint8_t key[AUTH_KEY_BYTES])
{
    struct codec_hello copy = *hello;
    uint8_t voucher[AUTH_MAC_BYTES];
    uint8_t found[AUTH_MAC_BYTES];

    make_voucher(hello, key, voucher);
    memcpy(found, voucher, sizeof(found));
    memcpy(found, voucher_of(&copy), VOUCHER_BYTES);
    return auth_equal(found, voucher);
}

void prove_hello(struct frame_link *link, const uint8_t key[AUTH_KEY_BYTES],
                 struct codec_hello *hello, uint8_t out_frame[PROVE_HELLO_BYTES])
{
    uint8_t voucher[AUTH_MAC_BYTES];
    uint8_t body[CODEC_HELLO_BYTES];
    bool queued;

    link->env->ops->random(link->env, hello->nonce, sizeof(hello->nonce));
    make_voucher(hello, key, voucher);
    memcpy(voucher_of(hello), voucher, VOUCHER_BYTES);
    queued = frame_send(link, CODEC_HELLO, body, codec_encode_hello(hello, body));
    weft_check(queued);
    memcpy(out_frame, frame_last_sent(link, PROVE_HELLO_BYTES), PROVE_HELLO_BYTES);
}

static bool may_ask_after(enum weft_phase phase)
{
    return phase == PROVE_NO_PLACE || phase == PROVE_TOO_LATE;
}

bool prove_may_ask_again(const struct frame *frame)
{
    struct weft_error ignored = {0};
    struct codec_abort abort;

    return frame->type == CODEC_ABORT &&
           codec_decode_abort(frame->body, frame->n_bytes, &abort, &ignored) == WEFT_OK &&
           may_ask_after(weft_phase_find(abort.phase));
}

bool prove_may_ask_after(const struct weft_error *error)
{
    return may_ask_after(weft_error_peer_phase(error));
}

/* Fails with the contents of the listener's unsealed ABORT. */
static weft_status refused(const struct frame *frame, struct weft_error *error)
{
    struct codec_abort abort;
    weft_status status = codec_decode_abort(frame->body, frame->n_bytes, &abort, error);

    if (status == WEFT_OK) {
        status = weft_fail(error, abort.status, WEFT_PHASE_AUTH,
                           "the listener refused: %s in %s",
                           weft_status_name(abort.status), abort.phase);
        weft_error_text(error, WEFT_VALUE_PEER_PHASE, abort.phase);
        weft_error_text(error, WEFT_VALUE_PEER_STATUS, weft_status_name(abort.status));
    }
    return status;
}

static weft_status answer(struct frame_link *link, const uint8_t key[AUTH_KEY_BYTES],
                          const uint8_t hello[PROVE_HELLO_BYTES],
                          const struct frame *frame, struct weft_error *error)
{
    struct codec_challenge challenge;
    struct codec_auth auth;
    uint8_t proof[AUTH_MAC_BYTES], session[AUTH_KEY_BYTES], body[CODEC_AUTH_BYTES];
    weft_status status =
        codec_decode_challenge(frame->body, frame->n_bytes, &challenge, error);
    bool queued;

    if (status != WEFT_OK) {
        return status;
    }
    auth_prove(key, AUTH_LISTENER, hello, PROVE_HELLO_BYTES, challenge.nonce,
               sizeof(challenge.nonce), proof);
    if (!auth_equal(proof, challenge.proof)) {
        return weft_fail(
            error, WEFT_ERR_AUTH, WEFT_PHASE_AUTH,
            "the listener does not know the key: another job, another secret "
            "or a stale handle");
    }
    auth_prove(key, AUTH_CONNECTOR, hello, PROVE_HELLO_BYTES, frame->bytes,
               frame->whole_bytes, auth.proof);
    auth_prove(key, AUTH_SESSION, hello, PROVE_HELLO_BYTES, frame->bytes,
               frame->whole_bytes, session);
    queued = frame_send(link, CODEC_AUTH, body, codec_encode_auth(&auth, body));
    weft_check(queued);
    frame_seal(link, session);
    auth_forget(session, sizeof(session));
    return WEFT_OK;
}

weft_status prove_answer(struct frame_link *link, const uint8_t key[AUTH_KEY_BYTES],
                         const uint8_t hello[PROVE_HELLO_BYTES], struct weft_error *error)
{
    struct frame frame;
    weft_status status = frame_receive(link, &frame, error);

    if (status != WEFT_OK) {
        return status;
    }
    if (frame.type == CODEC_CHALLENGE) {
        return answer(link, key, hello, &frame, error);
    }
    if (frame.type == CODEC_ABORT) {
        return refused(&frame, error);
    }
    status =
        weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_AUTH,
                  "a %s message instead of a challenge", codec_type_name(frame.type));
    weft_error_text(error, WEFT_VALUE_FIELD, "type");
    return status;
}

#include "conn/prove.h"

#include <string.h>

#include "base/check.h"

void prove_hello(struct frame_link *link, struct codec_hello *hello,
                 uint8_t out_frame[PROVE_HELLO_BYTES])
{
    uint8_t body[CODEC_HELLO_BYTES];
    bool queued;

    link->env->ops->random(link->env, hello->nonce, sizeof(hello->nonce));
    queued = frame_send(link, CODEC_HELLO, body, codec_encode_hello(hello, body));
    weft_check(queued);
    memcpy(out_frame, frame_last_sent(link, PROVE_HELLO_BYTES), PROVE_HELLO_BYTES);
}

static bool may_ask_after(const char *phase)
{
    return strcmp(phase, PROVE_NO_PLACE) == 0 || strcmp(phase, PROVE_TOO_LATE) == 0;
}

bool prove_may_ask_again(const struct frame *frame)
{
    struct weft_error ignored = {0};
    struct codec_abort abort;

    return frame->type == CODEC_ABORT &&
           codec_decode_abort(frame->body, frame->n_bytes, &abort, &ignored) == WEFT_OK &&
           may_ask_after(abort.phase);
}

bool prove_may_ask_after(const struct weft_error *error)
{
    const struct weft_value *phase = weft_error_value(error, "peer_phase");

    return phase != NULL && may_ask_after(phase->text);
}

/* The listener refused, and said why before anyone was authenticated. */
static weft_status refused(const struct frame *frame, struct weft_error *error)
{
    struct codec_abort abort;
    weft_status status = codec_decode_abort(frame->body, frame->n_bytes, &abort, error);

    if (status == WEFT_OK) {
        status = weft_fail(error, abort.status, "auth", "the listener refused: %s in %s",
                           weft_status_name(abort.status), abort.phase);
        weft_error_text(error, "peer_phase", abort.phase);
        weft_error_text(error, "peer_status", weft_status_name(abort.status));
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
            error, WEFT_ERR_AUTH, "auth",
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
        weft_fail(error, WEFT_ERR_PROTOCOL, "auth", "a %s message instead of a challenge",
                  codec_type_name(frame.type));
    weft_error_text(error, "field", "type");
    return status;
}

/* The connector's half of the authentication, for conn/ and boot/. */
#ifndef WEFT_CONN_PROVE_H
#define WEFT_CONN_PROVE_H

#include "conn/codec.h"
#include "conn/frame.h"

#define PROVE_HELLO_BYTES (CODEC_HEADER_BYTES + CODEC_HELLO_BYTES)

/* Phases of an ABORT after which the client may retry. */
#define PROVE_NO_PLACE WEFT_PHASE_LIMIT
#define PROVE_TOO_LATE WEFT_PHASE_AUTHENTICATE /* the deadline to authenticate passed */

/* Queues HELLO with a fresh nonce on a new link and copies the frame for the proofs. The second
 * half of the nonce is a voucher, which shows at once that the connector knows `key`. */
void prove_hello(struct frame_link *link, const uint8_t key[AUTH_KEY_BYTES],
                 struct codec_hello *hello, uint8_t out_frame[PROVE_HELLO_BYTES]);
/* Returns true if the voucher of `hello` was made with `key`. It does not authenticate the client,
 * because the HELLO can be a copy of an older one. It decides which clients keep their slots while
 * there are too many. */
bool prove_is_vouched(const struct codec_hello *hello, const uint8_t key[AUTH_KEY_BYTES]);
/* Returns the timeout of an attempt to open a stream after `n_timeouts` attempts that timed out:
 * 30 ms for the first four attempts, 60 ms for the next four, and so on up to 3.84 s. A host under
 * a flood drops the SYN, which the kernel retransmits only after 1, 3 and 7 s, so a new attempt can
 * succeed sooner. The timeout grows so that a slow network gets enough time, too. */
weft_ns prove_dial_ns(uint32_t n_timeouts);
/* Receives CHALLENGE, checks that the listener knows `key`, queues AUTH and seals the link. Returns
 * WEFT_AGAIN until CHALLENGE is complete. Fails with WEFT_ERR_CLOSED (the stream ended first),
 * WEFT_ERR_AUTH, WEFT_ERR_PROTOCOL, WEFT_ERR_UNSUPPORTED (another version), or the status of the
 * listener's ABORT (value "peer_phase"). */
weft_status prove_answer(struct frame_link *link, const uint8_t key[AUTH_KEY_BYTES],
                         const uint8_t hello[PROVE_HELLO_BYTES],
                         struct weft_error *error) WEFT_MUST_CHECK;
/* Returns true if `frame` is an ABORT after which this client may retry. It is unsealed if the
 * listener had not authenticated the client yet; a forged one only makes the client dial again. */
bool prove_may_ask_again(const struct frame *frame);
/* Returns true if prove_answer() failed with `error` because of such an ABORT. */
bool prove_may_ask_after(const struct weft_error *error);

#endif

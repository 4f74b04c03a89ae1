/* The connector's half of the authentication, for conn/ and boot/. */
#ifndef WEFT_CONN_PROVE_H
#define WEFT_CONN_PROVE_H

#include "conn/codec.h"
#include "conn/frame.h"

#define PROVE_HELLO_BYTES (CODEC_HEADER_BYTES + CODEC_HELLO_BYTES)

/* Phases in which a listener refuses who may ask again. */
#define PROVE_NO_PLACE "limit"
#define PROVE_TOO_LATE "authenticate" /* it did not hear what it waited for */

/* Queues HELLO with a fresh nonce on a new link; keeps its bytes for the proofs. The second half of
 * the nonce is a voucher, by which the listener knows at once that the connector knows `key`. */
void prove_hello(struct frame_link *link, const uint8_t key[AUTH_KEY_BYTES],
                 struct codec_hello *hello, uint8_t out_frame[PROVE_HELLO_BYTES]);
/* Returns true if the voucher of `hello` was made with `key`. It can be a copy of an older HELLO,
 * so it authenticates nobody; it decides who waits while there are too many clients. */
bool prove_is_vouched(const struct codec_hello *hello, const uint8_t key[AUTH_KEY_BYTES]);
/* Returns how long an attempt to open a stream may take after `n_timeouts` that took too long. A
 * host under a flood drops the segment that opens a stream, and the kernel repeats it only after 1,
 * 3 and 7 s; another attempt has its chance sooner. A slow network gets its time in the end: four
 * attempts of 30 ms, four of 60 ms, and so on up to 3.84 s. */
weft_ns prove_dial_ns(uint32_t n_timeouts);
/* Waits for CHALLENGE, checks that the listener knows `key`, queues AUTH and seals the link.
 * WEFT_ERR_CLOSED: the stream ended first. WEFT_ERR_AUTH, WEFT_ERR_PROTOCOL, or the status
 * with which the listener refused (value "peer_phase"). */
weft_status prove_answer(struct frame_link *link, const uint8_t key[AUTH_KEY_BYTES],
                         const uint8_t hello[PROVE_HELLO_BYTES],
                         struct weft_error *error) WEFT_MUST_CHECK;
/* Whether `frame` is a listener's refusal of one who may ask again; it has no seal if the listener
 * did not know yet who this end is. Whoever forges that only makes this end dial again. */
bool prove_may_ask_again(const struct frame *frame);
/* Likewise, of a refusal that prove_answer told. */
bool prove_may_ask_after(const struct weft_error *error);

#endif

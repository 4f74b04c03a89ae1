/* Derives the keys of the handshake and computes its proofs and seals, all with HMAC-SHA256
 * (docs/wire.md). */
#ifndef WEFT_CONN_AUTH_H
#define WEFT_CONN_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTH_KEY_BYTES 32
#define AUTH_MAC_BYTES 32

/* Computes HKDF-SHA256 with one block of output. The salt may be empty (RFC 5869). */
void auth_hkdf(const void *salt, size_t salt_bytes, const void *secret,
               size_t secret_bytes, const void *info, size_t info_bytes,
               uint8_t out[AUTH_KEY_BYTES]);

/* Derives a listener's key from the cookie of its handle and, unless NULL, the job secret
 * (32 bytes). */
void auth_connection_key(const uint8_t cookie[16], const uint8_t *job_secret,
                         uint8_t out[AUTH_KEY_BYTES]);
/* Derives the key of the rendezvous. */
void auth_boot_key(const uint8_t job_key[32], uint8_t out[AUTH_KEY_BYTES]);
/* Derives the job key of the meeting after a job. Processes that still run the job treat messages
 * of the meeting as those of another job. */
void auth_meeting_key(const uint8_t job_key[32], uint8_t out[32]);

/* Purpose of a proof. It is part of the proof, so that a proof is valid for one purpose only. */
enum auth_label {
    AUTH_LISTENER = 'L',    /* listener's proof, over HELLO and the listener's nonce */
    AUTH_CONNECTOR = 'C',   /* connector's proof, over HELLO and CHALLENGE */
    AUTH_SESSION = 'S',     /* key of the sealed messages, over HELLO and CHALLENGE */
    AUTH_VOUCHER = 'H',     /* voucher, over the body of HELLO with a voucher of zeros */
    AUTH_ANNOUNCEMENT = 'A' /* announcement of boot/, over its fields instead of HELLO */
};

/* Computes the proof for purpose `label` over `hello` followed by `rest`. */
void auth_prove(const uint8_t key[AUTH_KEY_BYTES], enum auth_label label,
                const void *hello, size_t hello_bytes, const void *rest,
                size_t rest_bytes, uint8_t out[AUTH_MAC_BYTES]);

/* Computes the seal of the `sequence`th message (from 0) that `from` sends in a session. Because
 * the seal covers both, a receiver detects a message that was left out, repeated, moved to another
 * session or sent back to its author. */
void auth_seal(const uint8_t session[AUTH_KEY_BYTES], enum auth_label from,
               uint32_t sequence, const void *bytes, size_t n_bytes,
               uint8_t out[AUTH_MAC_BYTES]);

/* Returns a keyed hash of `bytes`, which cannot be predicted without the key (SipHash-2-4, Aumasson
 * and Bernstein, 2012). */
uint64_t auth_bucket(const uint8_t key[AUTH_KEY_BYTES], const void *bytes,
                     size_t n_bytes);

/* Compares two MACs in constant time. */
bool auth_equal(const uint8_t a[AUTH_MAC_BYTES], const uint8_t b[AUTH_MAC_BYTES]);

/* Overwrites keys that are no longer needed. The compiler cannot optimise the writes away. */
void auth_forget(void *bytes, size_t n_bytes);

#endif

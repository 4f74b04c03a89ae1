/* Keys and proofs of the handshake: HMAC-SHA256 throughout (docs/wire.md says why each). */
#ifndef WEFT_CONN_AUTH_H
#define WEFT_CONN_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTH_KEY_BYTES 32
#define AUTH_MAC_BYTES 32

/* HKDF-SHA256 with one block of output. Source: RFC 5869; salt may be empty. */
void auth_hkdf(const void *salt, size_t salt_bytes, const void *secret,
               size_t secret_bytes, const void *info, size_t info_bytes,
               uint8_t out[AUTH_KEY_BYTES]);

/* A listener's key, from its handle's cookie and, unless NULL, the job secret (32 bytes). */
void auth_connection_key(const uint8_t cookie[16], const uint8_t *job_secret,
                         uint8_t out[AUTH_KEY_BYTES]);
/* The rendezvous' key. */
void auth_boot_key(const uint8_t job_key[32], uint8_t out[AUTH_KEY_BYTES]);
/* The job key of the meeting after a job, which its processes that still run take for another
 * job. */
void auth_meeting_key(const uint8_t job_key[32], uint8_t out[32]);

/* What a proof is for: it never stands for another. */
enum auth_label {
    AUTH_LISTENER = 'L',    /* over HELLO and the listener's nonce */
    AUTH_CONNECTOR = 'C',   /* over HELLO and CHALLENGE */
    AUTH_SESSION = 'S',     /* the key of the messages that follow, over both */
    AUTH_VOUCHER = 'H',     /* over HELLO with a voucher of zeros */
    AUTH_ANNOUNCEMENT = 'A' /* of boot/: over its fields, in the place of HELLO */
};

void auth_prove(const uint8_t key[AUTH_KEY_BYTES], enum auth_label label,
                const void *hello, size_t hello_bytes, const void *rest,
                size_t rest_bytes, uint8_t out[AUTH_MAC_BYTES]);

/* The seal of the `sequence`th message that `from` sent in a session: no message can be left
 * out, repeated, moved to another session or sent back to its author. */
void auth_seal(const uint8_t session[AUTH_KEY_BYTES], enum auth_label from,
               uint32_t sequence, const void *bytes, size_t n_bytes,
               uint8_t out[AUTH_MAC_BYTES]);

/* Returns a number that depends on `bytes` as only those can foresee who know the key (SipHash-2-4,
 * Aumasson and Bernstein, 2012). */
uint64_t auth_bucket(const uint8_t key[AUTH_KEY_BYTES], const void *bytes,
                     size_t n_bytes);

/* In constant time. */
bool auth_equal(const uint8_t a[AUTH_MAC_BYTES], const uint8_t b[AUTH_MAC_BYTES]);

/* Overwrites keys that are no longer needed; not optimised away. */
void auth_forget(void *bytes, size_t n_bytes);

#endif

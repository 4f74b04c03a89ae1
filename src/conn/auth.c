#include "conn/auth.h"

#include <sodium.h>
#include <string.h>

#include "base/check.h"
#include "base/wire.h"

static void hmac(const void *key, size_t key_bytes, const void *a, size_t a_bytes,
                 const void *b, size_t b_bytes, const void *c, size_t c_bytes,
                 uint8_t out[AUTH_MAC_BYTES])
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, key, key_bytes);
    crypto_auth_hmacsha256_update(&state, a, a_bytes);
    crypto_auth_hmacsha256_update(&state, b, b_bytes);
    crypto_auth_hmacsha256_update(&state, c, c_bytes);
    crypto_auth_hmacsha256_final(&state, out);
    auth_forget(&state, sizeof(state));
}

void auth_hkdf(const void *salt, size_t salt_bytes, const void *secret,
               size_t secret_bytes, const void *info, size_t info_bytes,
               uint8_t out[AUTH_KEY_BYTES])
{
    static const uint8_t first_block = 1;
    static const uint8_t nothing = 0;
    uint8_t extracted[AUTH_KEY_BYTES];

    hmac(salt_bytes == 0 ? &nothing : salt, salt_bytes, secret, secret_bytes, &nothing, 0,
         &nothing, 0, extracted);
    hmac(extracted, sizeof(extracted), info, info_bytes, &first_block, 1, &nothing, 0,
         out);
    auth_forget(extracted, sizeof(extracted));
}

void auth_connection_key(const uint8_t cookie[16], const uint8_t *job_secret,
                         uint8_t out[AUTH_KEY_BYTES])
{
    static const char name[] = "weft-v1";
    uint8_t info[sizeof(name) - 1 + AUTH_KEY_BYTES];
    size_t n_bytes = sizeof(name) - 1;

    memcpy(info, name, n_bytes);
    if (job_secret != NULL) {
        memcpy(info + n_bytes, job_secret, AUTH_KEY_BYTES);
        n_bytes += AUTH_KEY_BYTES;
    }
    auth_hkdf(NULL, 0, cookie, 16, info, n_bytes, out);
    auth_forget(info, sizeof(info));
}

void auth_boot_key(const uint8_t job_key[32], uint8_t out[AUTH_KEY_BYTES])
{
    static const char name[] = "weft-v1 boot";

    auth_hkdf(NULL, 0, job_key, 32, name, sizeof(name) - 1, out);
}

void auth_meeting_key(const uint8_t job_key[32], uint8_t out[32])
{
    static const char name[] = "weft-v1 after";

    auth_hkdf(NULL, 0, job_key, 32, name, sizeof(name) - 1, out);
}

void auth_prove(const uint8_t key[AUTH_KEY_BYTES], enum auth_label label,
                const void *hello, size_t hello_bytes, const void *rest,
                size_t rest_bytes, uint8_t out[AUTH_MAC_BYTES])
{
    uint8_t tag = (uint8_t)label;

    hmac(key, AUTH_KEY_BYTES, &tag, 1, hello, hello_bytes, rest, rest_bytes, out);
}

uint64_t auth_bucket(const uint8_t key[AUTH_KEY_BYTES], const void *bytes, size_t n_bytes)
{
    uint64_t bucket;

    _Static_assert(sizeof(bucket) == crypto_shorthash_BYTES &&
                       crypto_shorthash_KEYBYTES <= AUTH_KEY_BYTES,
                   "a bucket is a whole hash");
    crypto_shorthash((uint8_t *)&bucket, bytes, n_bytes, key);
    return bucket;
}

void auth_seal(const uint8_t session[AUTH_KEY_BYTES], enum auth_label from,
               uint32_t sequence, const void *bytes, size_t n_bytes,
               uint8_t out[AUTH_MAC_BYTES])
{
    uint8_t prefix[5];
    struct wire_writer writer = wire_writer_init(prefix, sizeof(prefix));

    wire_put_u8(&writer, (uint8_t)from);
    wire_put_u32(&writer, sequence);
    weft_check(!writer.bad);
    hmac(session, AUTH_KEY_BYTES, prefix, sizeof(prefix), bytes, n_bytes, prefix, 0, out);
}

bool auth_equal(const uint8_t a[AUTH_MAC_BYTES], const uint8_t b[AUTH_MAC_BYTES])
{
    return sodium_memcmp(a, b, AUTH_MAC_BYTES) == 0;
}

void auth_forget(void *bytes, size_t n_bytes)
{
    sodium_memzero(bytes, n_bytes);
}

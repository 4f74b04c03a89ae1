/* Tests HKDF against published vectors, and that a key, proof or seal changes with each of its
 * inputs. */
#include "conn/auth.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"

static void from_hex(const char *hex, uint8_t *out)
{
    for (size_t i = 0; hex[2 * i] != '\0'; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};

        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
}

/* RFC 5869, test cases 1 and 3; the first 32 bytes of OKM. */
START_TEST(hkdf_gives_the_published_keys)
{
    uint8_t secret[22], salt[13], info[10], out[32], expected[32];

    memset(secret, 0x0b, sizeof(secret));
    from_hex("000102030405060708090a0b0c", salt);
    from_hex("f0f1f2f3f4f5f6f7f8f9", info);
    from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf",
             expected);
    auth_hkdf(salt, sizeof(salt), secret, sizeof(secret), info, sizeof(info), out);
    ck_assert_mem_eq(out, expected, 32);

    from_hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d",
             expected);
    auth_hkdf(NULL, 0, secret, sizeof(secret), "", 0, out);
    ck_assert_mem_eq(out, expected, 32);
}
END_TEST

START_TEST(keys_differ_by_cookie_secret_and_use)
{
    uint8_t keys[5][32], cookie[16] = {1}, other[16] = {2}, secret[32] = {3};

    auth_connection_key(cookie, NULL, keys[0]);
    auth_connection_key(other, NULL, keys[1]);
    auth_connection_key(cookie, secret, keys[2]);
    secret[31] ^= 1;
    auth_connection_key(cookie, secret, keys[3]);
    auth_boot_key(secret, keys[4]);
    for (size_t i = 0; i < WEFT_LENGTH(keys); i++) {
        for (size_t k = 0; k < i; k++) {
            ck_assert(!auth_equal(keys[i], keys[k]));
        }
    }
}
END_TEST

/* A proof is one HMAC-SHA256 over label, HELLO and the rest. It does not depend on where HELLO ends
 * and the rest begins. */
START_TEST(a_proof_is_one_hmac)
{
    static const char text[] = "what do ya want for nothing?";
    uint8_t key[32] = {0}, split_a[32], split_b[32], other[32];

    auth_prove(key, AUTH_LISTENER, text, 10, text + 10, sizeof(text) - 11, split_a);
    auth_prove(key, AUTH_LISTENER, text, 20, text + 20, sizeof(text) - 21, split_b);
    ck_assert(auth_equal(split_a, split_b));
    auth_prove(key, AUTH_CONNECTOR, text, 10, text + 10, sizeof(text) - 11, other);
    ck_assert(!auth_equal(split_a, other));
    auth_prove(key, AUTH_SESSION, text, 10, text + 10, sizeof(text) - 11, split_b);
    ck_assert(!auth_equal(split_a, split_b));
    ck_assert(!auth_equal(split_b, other));
    key[0] = 1;
    auth_prove(key, AUTH_LISTENER, text, 10, text + 10, sizeof(text) - 11, other);
    ck_assert(!auth_equal(split_a, other));
}
END_TEST

START_TEST(a_seal_is_of_its_author_place_session_and_bytes)
{
    uint8_t session[32] = {1}, bytes[20] = {2}, seal[32], other[32];

    auth_seal(session, AUTH_LISTENER, 5, bytes, sizeof(bytes), seal);
    auth_seal(session, AUTH_LISTENER, 5, bytes, sizeof(bytes), other);
    ck_assert(auth_equal(seal, other));
    auth_seal(session, AUTH_CONNECTOR, 5, bytes, sizeof(bytes), other);
    ck_assert(!auth_equal(seal, other));
    auth_seal(session, AUTH_LISTENER, 6, bytes, sizeof(bytes), other);
    ck_assert(!auth_equal(seal, other));
    bytes[19] ^= 1;
    auth_seal(session, AUTH_LISTENER, 5, bytes, sizeof(bytes), other);
    ck_assert(!auth_equal(seal, other));
    bytes[19] ^= 1;
    session[31] ^= 1;
    auth_seal(session, AUTH_LISTENER, 5, bytes, sizeof(bytes), other);
    ck_assert(!auth_equal(seal, other));
}
END_TEST

START_TEST(one_bit_makes_a_difference)
{
    uint8_t a[32] = {0}, b[32] = {0};

    for (size_t i = 0; i < 256; i++) {
        b[i / 8] ^= (uint8_t)(1u << (i % 8));
        ck_assert(!auth_equal(a, b));
        b[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
    ck_assert(auth_equal(a, b));
    a[3] = 9;
    auth_forget(a, sizeof(a));
    ck_assert(auth_equal(a, b));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("auth");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, hkdf_gives_the_published_keys);
    tcase_add_test(tcase, keys_differ_by_cookie_secret_and_use);
    tcase_add_test(tcase, a_proof_is_one_hmac);
    tcase_add_test(tcase, a_seal_is_of_its_author_place_session_and_bytes);
    tcase_add_test(tcase, one_bit_makes_a_difference);
    return suite_run(suite);
}

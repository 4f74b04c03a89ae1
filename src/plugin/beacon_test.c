/* Tests beacons as bytes: an encoded beacon decodes to the same one, and nothing else decodes. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "conn/codec.h"
#include "plugin/beacon.h"

static uint8_t key[AUTH_KEY_BYTES];

static struct beacon example(uint32_t n_neighbours)
{
    struct codec_handle handle = {.host_id = {1, 2, 3}, .cookie = {9}, .epoch = 7};
    struct beacon beacon = {.sender = 5,
                            .process = UINT64_C(0x1122334455667788),
                            .started_ns = 99,
                            .sequence = 3,
                            .flags = BEACON_MAY_RELAY,
                            .name = "titanic",
                            .n_neighbours = n_neighbours};

    handle.n_endpoints = 1;
    handle.endpoints[0] = (struct codec_endpoint){
        .prefix = {.ip = io_ip_v4(192, 168, 1, 2), .prefix_len = 24}, .port = 4000};
    ck_assert(codec_encode_handle(&handle, beacon.handle));
    memcpy(beacon.host_id, handle.host_id, sizeof(beacon.host_id));
    for (uint32_t i = 0; i < n_neighbours; i++) {
        beacon.neighbours[i] = i * UINT64_C(77); /* the first entry is free */
    }
    return beacon;
}

START_TEST(what_is_told_is_heard)
{
    static const uint32_t counts[] = {0, 1, BEACON_NEIGHBOURS_MAX};
    struct beacon told = example(counts[_i]), heard;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX];
    size_t n_bytes;

    beacon_key(NULL, key);
    n_bytes = beacon_encode(&told, key, bytes);
    ck_assert_uint_eq(n_bytes, 228 + 8 * (size_t)counts[_i]);
    ck_assert_int_eq(beacon_decode(bytes, n_bytes, key, &heard), WEFT_OK);
    ck_assert_int_eq(memcmp(&told, &heard, sizeof(told)), 0);
}
END_TEST

START_TEST(another_secret_is_another_job)
{
    const uint8_t secret[32] = {1};
    struct beacon told = example(2), heard;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX], other[AUTH_KEY_BYTES];
    size_t n_bytes;

    beacon_key(NULL, key);
    beacon_key(secret, other);
    n_bytes = beacon_encode(&told, key, bytes);
    ck_assert_int_eq(beacon_decode(bytes, n_bytes, other, &heard), WEFT_ERR_AUTH);
}
END_TEST

START_TEST(another_version_is_told)
{
    struct beacon told = example(0), heard;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX];
    size_t n_bytes;

    beacon_key(NULL, key);
    n_bytes = beacon_encode(&told, key, bytes);
    bytes[4] = BEACON_VERSION + 1;
    ck_assert_int_eq(beacon_decode(bytes, n_bytes, key, &heard), WEFT_ERR_UNSUPPORTED);
}
END_TEST

/* A beacon with any one bit flipped, or of any other length, is rejected. */
START_TEST(no_byte_may_be_wrong)
{
    struct beacon told = example(3), heard;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX];
    size_t n_bytes;

    beacon_key(NULL, key);
    n_bytes = beacon_encode(&told, key, bytes);
    for (size_t n = 0; n < n_bytes; n++) {
        ck_assert_int_lt(beacon_decode(bytes, n, key, &heard), 0);
    }
    for (size_t bit = 0; bit < 8 * n_bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_int_lt(beacon_decode(bytes, n_bytes, key, &heard), 0);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ck_assert_int_lt(beacon_decode(bytes, n_bytes + 1, key, &heard), 0);
}
END_TEST

/* Invalid fields from a sender that knows the key. */
START_TEST(nonsense_is_refused_even_if_sealed)
{
    struct beacon wrong[5], heard;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX];

    for (size_t i = 0; i < 5; i++) {
        wrong[i] = example(1);
    }
    wrong[0].process = 0;
    wrong[1].sender = 0;
    wrong[2].sequence = 0;
    wrong[3].name[2] = '\n';
    memset(wrong[4].handle, 0xff, sizeof(wrong[4].handle));
    beacon_key(NULL, key);
    for (size_t i = 0; i < 5; i++) {
        size_t n_bytes = beacon_encode(&wrong[i], key, bytes);

        ck_assert_int_eq(beacon_decode(bytes, n_bytes, key, &heard), WEFT_ERR_PROTOCOL);
    }
}
END_TEST

/* Half of the noise begins like a beacon of this version. */
START_TEST(noise_is_nothing)
{
    static const uint8_t start[] = {'W', 'B', 'C', 'N', BEACON_VERSION};
    struct weft_rng rng;
    struct beacon heard;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX];
    weft_status status;

    beacon_key(NULL, key);
    weft_rng_init(&rng, 1, "noise");
    for (int i = 0; i < 2000; i++) {
        size_t n_bytes = (size_t)weft_rng_below(&rng, sizeof(bytes) + 1);

        weft_rng_bytes(&rng, bytes, n_bytes);
        if (n_bytes >= sizeof(start) && i % 2 == 0) {
            memcpy(bytes, start, sizeof(start));
        }
        status = beacon_decode(bytes, n_bytes, key, &heard);
        ck_assert_int_lt(status, 0);
        ck_assert(status != WEFT_ERR_UNSUPPORTED);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("plugin/beacon");

    tcase_add_loop_test(tcase, what_is_told_is_heard, 0, 3);
    tcase_add_test(tcase, another_secret_is_another_job);
    tcase_add_test(tcase, another_version_is_told);
    tcase_add_test(tcase, no_byte_may_be_wrong);
    tcase_add_test(tcase, nonsense_is_refused_even_if_sealed);
    tcase_add_test(tcase, noise_is_nothing);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

#include "sim/icrc.h"

#include <check.h>

#include "base/rng.h"
#include "base/suite_testing.h"

/* Computes the CRC bit by bit from the polynomial. */
static uint32_t divide(uint32_t crc, const uint8_t *bytes, size_t n_bytes)
{
    crc = ~crc;
    for (size_t i = 0; i < n_bytes; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
        }
    }
    return ~crc;
}

START_TEST(the_check_value_is_that_of_the_standard)
{
    ck_assert_uint_eq(sim_crc32(0, (const uint8_t *)"123456789", 9), 0xcbf43926u);
}
END_TEST

START_TEST(every_length_place_and_start_is_division)
{
    static uint8_t bytes[4400];
    struct weft_rng rng;
    weft_rng_init(&rng, 1, "crc");
    weft_rng_bytes(&rng, bytes, sizeof(bytes));
    for (size_t n = 0; n < 700; n++) {
        uint32_t start = (uint32_t)weft_rng_below(&rng, 1ull << 32);
        size_t at = n % 19;
        ck_assert_uint_eq(sim_crc32(start, bytes + at, n), divide(start, bytes + at, n));
    }
    for (size_t n = 4000; n < sizeof(bytes); n += 13) {
        ck_assert_uint_eq(sim_crc32(0, bytes, n), divide(0, bytes, n));
    }
    /* Computing it in pieces gives the same result. */
    uint32_t first = sim_crc32(0, bytes, 1001);
    ck_assert_uint_eq(sim_crc32(first, bytes + 1001, 3000), divide(0, bytes, 4001));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("icrc");
    TCase *tcase = tcase_create("crc32");
    tcase_add_test(tcase, the_check_value_is_that_of_the_standard);
    tcase_add_test(tcase, every_length_place_and_start_is_division);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

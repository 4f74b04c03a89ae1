#include "base/rng.h"

#include <check.h>
#include <string.h>

#include "base/suite_testing.h"

START_TEST(the_generator_is_xoshiro256_star_star)
{
    /* From the state {1, 2, 3, 4}; checked by hand for the first: rotl(2 * 5, 7) * 9. */
    static const uint64_t expected[] = {UINT64_C(11520), UINT64_C(0),
                                        UINT64_C(1509978240),
                                        UINT64_C(1215971899390074240)};
    struct weft_rng rng = {{1, 2, 3, 4}};

    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        ck_assert_uint_eq(weft_rng_next(&rng), expected[i]);
    }
}
END_TEST

START_TEST(streams_depend_on_seed_and_name_only)
{
    struct weft_rng a, b, other_name, other_seed;

    weft_rng_init(&a, 7, "loss:titanic:p0");
    weft_rng_init(&b, 7, "loss:titanic:p0");
    weft_rng_init(&other_name, 7, "loss:titanic:p1");
    weft_rng_init(&other_seed, 8, "loss:titanic:p0");
    for (int i = 0; i < 100; i++) {
        uint64_t value = weft_rng_next(&a);

        ck_assert_uint_eq(value, weft_rng_next(&b));
        ck_assert_uint_ne(value, weft_rng_next(&other_name));
        ck_assert_uint_ne(value, weft_rng_next(&other_seed));
    }
}
END_TEST

START_TEST(below_is_bounded_and_even)
{
    unsigned counts[10] = {0};
    struct weft_rng rng;

    weft_rng_init(&rng, 1, "below");
    for (int i = 0; i < 100000; i++) {
        counts[weft_rng_below(&rng, 10)]++;
    }
    for (int i = 0; i < 10; i++) {
        ck_assert_uint_ge(counts[i], 9500);
        ck_assert_uint_le(counts[i], 10500);
    }
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(weft_rng_below(&rng, 1), 0);
        ck_assert_uint_lt(weft_rng_below(&rng, UINT64_MAX), UINT64_MAX);
    }
}
END_TEST

START_TEST(certain_answers_draw_nothing)
{
    struct weft_rng rng, before;
    unsigned n_true = 0;

    weft_rng_init(&rng, 1, "chance");
    before = rng;
    ck_assert(!weft_rng_chance(&rng, 0));
    ck_assert(weft_rng_chance(&rng, 1000000000));
    ck_assert_mem_eq(&rng, &before, sizeof(rng));
    for (int i = 0; i < 100000; i++) {
        n_true += weft_rng_chance(&rng, 10000000); /* 1 % */
    }
    ck_assert_uint_ge(n_true, 850);
    ck_assert_uint_le(n_true, 1150);
}
END_TEST

START_TEST(bytes_come_little_end_first_whatever_the_machine)
{
    struct weft_rng rng, same;
    uint8_t bytes[11] = {0};
    uint64_t words[2];

    weft_rng_init(&rng, 3, "bytes");
    same = rng;
    weft_rng_bytes(&rng, bytes, 10);
    words[0] = weft_rng_next(&same);
    words[1] = weft_rng_next(&same);
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_uint_eq(bytes[i], words[i / 8] >> (8 * (i % 8)) & 0xff);
    }
    ck_assert_uint_eq(bytes[10], 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/rng");
    TCase *tcase = tcase_create("rng");

    tcase_add_test(tcase, the_generator_is_xoshiro256_star_star);
    tcase_add_test(tcase, streams_depend_on_seed_and_name_only);
    tcase_add_test(tcase, below_is_bounded_and_even);
    tcase_add_test(tcase, certain_answers_draw_nothing);
    tcase_add_test(tcase, bytes_come_little_end_first_whatever_the_machine);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* Tests of samples of sweeps: every case is in one sample, and each sample has cases of every
 * kind. */
#include <stdio.h>
#include <stdlib.h>

#include "base/suite_testing.h"

#define N_CASES 960

static void sample_set(uint32_t sample)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", sample);
    ck_assert_int_eq(setenv("WEFT_SAMPLE", text, 1), 0);
}

START_TEST(every_case_is_in_one_part)
{
    for (uint32_t i = 0; i < N_CASES; i++) {
        uint32_t n = 0;

        for (uint32_t sample = 0; sample < SUITE_PARTS; sample++) {
            sample_set(sample);
            n += suite_takes(i);
            sample_set(sample + SUITE_PARTS);
            n += suite_takes(i);
        }
        ck_assert_uint_eq(n, 2);
    }
}
END_TEST

START_TEST(a_part_has_cases_of_every_kind)
{
    for (uint32_t sample = 0; sample < SUITE_PARTS; sample++) {
        uint32_t n_taken = 0;

        sample_set(sample);
        for (uint32_t period = 2; period <= 8; period++) {
            for (uint32_t kind = 0; kind < period; kind++) {
                uint32_t n = 0;

                for (uint32_t i = kind; i < N_CASES; i += period) {
                    n += suite_takes(i);
                }
                ck_assert_uint_ge(n, N_CASES / period / (2 * SUITE_PARTS));
                ck_assert_uint_le(n, 2 * N_CASES / period / SUITE_PARTS);
                n_taken += n;
            }
        }
        ck_assert_uint_gt(n_taken / 7, N_CASES / SUITE_PARTS - 5);
        ck_assert_uint_lt(n_taken / 7, N_CASES / SUITE_PARTS + 5);
    }
}
END_TEST

START_TEST(without_a_sample_all_are_taken)
{
    unsetenv("WEFT_SAMPLE");
    for (uint32_t i = 0; i < N_CASES; i++) {
        ck_assert(suite_takes(i));
    }
    ck_assert_int_eq(setenv("WEFT_SAMPLE", "", 1), 0);
    ck_assert(suite_takes(3));
}
END_TEST

static int n_run;

START_TEST(a_case)
{
    n_run += 1 + 100 * _i;
}
END_TEST

START_TEST(only_the_named_case_of_a_sweep_is_added)
{
    static const struct {
        const char *name;
        int n_run;
    } cases[] = {
        {"a_case[7]", 701}, {"a_case[70]", 0}, {"a_case", 0}, {"case[7]", 0}, {"", 4510}};

    /* The inner runner must not write the log of the outer one, which has opened it. */
    unsetenv("CK_XML_LOG_FILE_NAME");
    unsetenv("CK_TAP_LOG_FILE_NAME");
    sample_set(3);
    ck_assert_int_eq(setenv("WEFT_CASE", cases[_i].name, 1), 0);
    if (cases[_i].name[0] == '\0') {
        unsetenv("WEFT_SAMPLE");
    }
    TCase *tcase = tcase_create("sweep");
    Suite *suite = suite_create("sweep");
    suite_add_sweep(tcase, a_case, 0, 10);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    n_run = 0;
    srunner_run_all(runner, CK_SILENT);
    srunner_free(runner);
    unsetenv("WEFT_CASE");
    ck_assert_int_eq(n_run, cases[_i].n_run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/suite");
    TCase *tcase = tcase_create("samples");

    tcase_add_test(tcase, every_case_is_in_one_part);
    tcase_add_test(tcase, a_part_has_cases_of_every_kind);
    tcase_add_test(tcase, without_a_sample_all_are_taken);
    tcase_add_loop_test(tcase, only_the_named_case_of_a_sweep_is_added, 0, 5);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

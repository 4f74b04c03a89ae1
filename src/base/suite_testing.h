/* Helpers for all test programs: sizes and samples of sweeps, and running a suite. */
#ifndef WEFT_BASE_SUITE_TESTING_H
#define WEFT_BASE_SUITE_TESTING_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

/* Number of cases to run of a sweep of `n` that looks for rare bugs: n, or a quarter (rounded up)
 * under a sanitizer, where each case takes eight times as long. Not for cases that every build must
 * run. */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SUITE_SANITIZED 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__ /* gcc's macro */
#define SUITE_SANITIZED 1
#endif
#ifdef SUITE_SANITIZED
#define SWEEP(n) (((n) + 3) / 4)
#else
#define SWEEP(n) (n)
#endif

/* Number of different samples of a sweep; WEFT_SAMPLE selects one of them. */
#ifdef SUITE_SANITIZED
#define SUITE_PARTS 8
#else
#define SUITE_PARTS 4
#endif

/* Returns true if this run includes case i of a sweep. All cases are included unless WEFT_SAMPLE is
 * set in the environment; its number then selects a sample (ci/sampling.py). Under the same number,
 * builds with and without sanitizers run disjoint samples. */
bool suite_takes(uint32_t i);

/* Adds a loop test for each of the cases begin to end - 1 that suite_takes() includes. If WEFT_CASE
 * is set (NAME[I]), adds only that case of all sweeps. */
void suite_add_sweep(TCase *tcase, const TTest *test, int begin, int end);

/* Runs and frees `suite`. Returns the exit status for main(). */
int suite_run(Suite *suite);

#endif

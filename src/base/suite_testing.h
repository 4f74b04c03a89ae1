/* What the programs of tests share. */
#ifndef WEFT_BASE_SUITE_TESTING_H
#define WEFT_BASE_SUITE_TESTING_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

/* Of `n` cases of a sweep that looks for rare ones: all, but a fourth where sanitizers make each
 * eight times as slow. What every build must see is no sweep. */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SUITE_SANITIZED 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__ /* gcc's name for it */
#define SUITE_SANITIZED 1
#endif
#ifdef SUITE_SANITIZED
#define SWEEP(n) (((n) + 3) / 4)
#else
#define SWEEP(n) (n)
#endif

/* Returns true if this run takes case i of a sweep. It takes all, or with WEFT_SAMPLE in the
 * environment the quarter that this number chooses: ci/sampling.py. Builds with sanitizers take
 * another quarter than those without. */
bool suite_takes(uint32_t i);

/* Adds a loop test for those of the cases begin to end - 1 that suite_takes. */
void suite_add_sweep(TCase *tcase, const TTest *test, int begin, int end);

/* Runs all of it and frees it: the exit status of main. */
int suite_run(Suite *suite);

#endif

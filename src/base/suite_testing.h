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

/* Says which part of a sweep a sample takes: one of so many. */
#ifdef SUITE_SANITIZED
#define SUITE_PARTS 8
#else
#define SUITE_PARTS 4
#endif

/* Returns true if this run takes case i of a sweep. It takes all, or with WEFT_SAMPLE in the
 * environment the part that this number chooses: ci/sampling.py. What builds with sanitizers take,
 * those without do not take under the same number. */
bool suite_takes(uint32_t i);

/* Adds a loop test for those of the cases begin to end - 1 that suite_takes. */
void suite_add_sweep(TCase *tcase, const TTest *test, int begin, int end);

/* Runs all of it and frees it: the exit status of main. */
int suite_run(Suite *suite);

#endif

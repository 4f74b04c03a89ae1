#include "base/suite_testing.h"

#include <stdint.h>
#include <stdlib.h>

/* The linker puts the first of these in the place of Check's (--wrap). */
void __wrap__mark_point(const char *file, int line);
void __real__mark_point(const char *file, int line);

/* Of an assertion that held: Check tells its parent the place, in case that the test crashes
 * afterwards, and the parent moves all that it has yet to read with each. In a loop that is most of
 * a test's time. A place is told once, and again if another of its slot came between. */
void __wrap__mark_point(const char *file, int line)
{
    static _Atomic uint64_t told[256]; /* tests assert in threads, too */
    uint64_t place = (uint64_t)(uintptr_t)file << 16 ^ (uint64_t)line;
    unsigned slot = (unsigned)line % 256;

    if (told[slot] != place) {
        told[slot] = place;
        __real__mark_point(file, line);
    }
}

/* Multiples of the golden ratio, modulo 1, fill every eighth evenly, whatever the period of a
 * sweep: a part of cases that alternate has both kinds. Builds with sanitizers take an eighth of
 * another quarter than the one that the others take. */
bool suite_takes(uint32_t i)
{
    const char *sample = getenv("WEFT_SAMPLE");
    uint32_t eighth = (i * UINT32_C(2654435769)) >> 29;
    unsigned long number;

    if (sample == NULL || *sample == '\0') {
        return true;
    }
    number = strtoul(sample, NULL, 10);
#ifdef SUITE_SANITIZED
    return eighth == ((number + 2) % 4 * 2 + number / 4 % 2);
#else
    return eighth / 2 == number % 4;
#endif
}

void suite_add_sweep(TCase *tcase, const TTest *test, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        if (suite_takes((uint32_t)i)) {
            tcase_add_loop_test(tcase, test, i, i + 1);
        }
    }
}

int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int n_failed;

    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

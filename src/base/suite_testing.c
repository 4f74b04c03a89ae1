#include "base/suite_testing.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The linker replaces Check's function with the first of these (--wrap). */
void __wrap__mark_point(const char *file, int line);
void __real__mark_point(const char *file, int line);

/* Check reports the source line of every assertion that passes to its parent process, so that the
 * parent can name the last one if the test crashes. Each report makes the parent move its whole
 * unread buffer, which dominates the time of assertions in a loop. This wrapper skips a line that
 * was the last one reported in its slot. */
void __wrap__mark_point(const char *file, int line)
{
    static _Atomic uint64_t told[256]; /* tests can assert in threads */
    uint64_t place = (uint64_t)(uintptr_t)file << 16 ^ (uint64_t)line;
    unsigned slot = (unsigned)line % 256;

    if (told[slot] != place) {
        told[slot] = place;
        __real__mark_point(file, line);
    }
}

/* Multiples of the golden ratio, modulo 1, fill every eighth evenly, so that a sample has cases of
 * every kind even if kinds alternate. A build with sanitizers takes an eighth out of a quarter that
 * the other builds do not take. */
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

static bool sweep_takes(const TTest *test, int i)
{
    const char *only = getenv("WEFT_CASE");
    char name[128];

    if (only == NULL || *only == '\0') {
        return suite_takes((uint32_t)i);
    }
    snprintf(name, sizeof name, "%s[%d]", test->name, i);
    return strcmp(only, name) == 0;
}

void suite_add_sweep(TCase *tcase, const TTest *test, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        if (sweep_takes(test, i)) {
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

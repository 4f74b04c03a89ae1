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

int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int n_failed;

    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Errors without a launcher or its library. ci/test_scale_out.py tests real launchers. */
#include "backends/pmix/pmix.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"

START_TEST(without_a_launcher_there_is_no_job)
{
    struct weft_error error = {0};
    struct pmix_job job;

    unsetenv("PMIX_NAMESPACE");
    ck_assert_int_eq(pmix_join(NULL, "a:1", "b:1", &job, &error), WEFT_ERR_ENVIRONMENT);
    ck_assert_str_eq(error.message, "no launcher");
}
END_TEST

START_TEST(a_library_that_is_missing_or_another_is_no_crash)
{
    static const char *const names[] = {"no-such-library.so", "libm.so.6"};
    static const char *const messages[] = {"no-such-library.so", "has no PMIx_Init"};
    struct weft_error error = {0};
    struct pmix_job job;

    setenv("PMIX_NAMESPACE", "job", 1);
    ck_assert_int_eq(pmix_join(names[_i], "a:1", "b:1", &job, &error),
                     WEFT_ERR_ENVIRONMENT);
    ck_assert_ptr_nonnull(strstr(error.message, messages[_i]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pmix");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, without_a_launcher_there_is_no_job);
    tcase_add_loop_test(tcase, a_library_that_is_missing_or_another_is_no_crash, 0, 2);
    return suite_run(suite);
}

#include "backends/registry.h"

#include <check.h>
#include <stdlib.h>

#include "backends/sim/backend.h"

START_TEST(backends_are_found_by_name)
{
    ck_assert_ptr_eq(backend_find("sim"), &backend_sim);
    ck_assert_ptr_null(backend_find("verbs"));
    ck_assert(backend_is_known("verbs"));
    ck_assert(!backend_is_known("simm"));
    ck_assert_ptr_null(backend_find("simm"));
    unsigned n = 0;
    while (backend_at(n) != NULL) {
        ck_assert_ptr_nonnull(backend_at(n)->description);
        ck_assert_ptr_eq(backend_find(backend_at(n)->name), backend_at(n)->ops);
        n++;
    }
    ck_assert_uint_eq(n, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/registry");
    TCase *tcase = tcase_create("registry");
    tcase_add_test(tcase, backends_are_found_by_name);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#include "backends/registry.h"

#include <check.h>

#include "backends/sim/backend.h"
#include "base/suite_testing.h"

START_TEST(backends_are_found_by_name)
{
    ck_assert_ptr_eq(backend_find("sim"), &backend_sim);
    ck_assert(backend_find("verbs")->is_elsewhere && !backend_sim.is_elsewhere);
    ck_assert_ptr_null(backend_find("simm"));
    unsigned n = 0;
    while (backend_at(n) != NULL) {
        ck_assert_ptr_nonnull(backend_at(n)->description);
        ck_assert_ptr_nonnull(backend_at(n)->ops);
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
    return suite_run(suite);
}

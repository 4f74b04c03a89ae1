#include "base/wait.h"

#include <check.h>
#include <string.h>

#include "base/suite_testing.h"

START_TEST(each_wait_is_found_by_its_name)
{
    enum weft_wait_for found;

    for (int i = 0; i < WEFT_N_WAITS; i++) {
        ck_assert(weft_wait_find(weft_wait_name((enum weft_wait_for)i), &found));
        ck_assert_int_eq(found, i);
        ck_assert_uint_gt(strlen(weft_wait_text((enum weft_wait_for)i)), 0);
    }
    ck_assert(!weft_wait_find("", &found));
    ck_assert(!weft_wait_find("rounds", &found));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/wait");
    TCase *tcase = tcase_create("wait");

    tcase_add_test(tcase, each_wait_is_found_by_its_name);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

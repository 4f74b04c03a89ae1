/* libibverbs if it is absent, incomplete or installed. */
#include "backends/verbs/library.h"

#include <check.h>
#include <string.h>

#include "base/suite_testing.h"

START_TEST(an_absent_library_is_a_fact_of_the_environment)
{
    struct verbs_library library;
    struct weft_error error = {.status = WEFT_OK};
    ck_assert_int_eq(verbs_library_open("libweft-nowhere.so.1", &library, &error),
                     WEFT_ERR_ENVIRONMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "libweft-nowhere.so.1"));
    ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_LIBRARY)->text,
                     "libweft-nowhere.so.1");
    ck_assert_ptr_null(library.handle);
    verbs_library_close(&library); /* a second close is harmless */
}
END_TEST

START_TEST(a_library_of_something_else_is_named_with_what_it_lacks)
{
    struct verbs_library library;
    struct weft_error error = {.status = WEFT_OK};
    ck_assert_int_eq(verbs_library_open("libc.so.6", &library, &error),
                     WEFT_ERR_ENVIRONMENT);
    ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_SYMBOL)->text,
                     "ibv_get_device_list");
    ck_assert_str_eq(error.message, "libc.so.6 has no ibv_get_device_list");
    ck_assert_ptr_null(library.handle);
}
END_TEST

START_TEST(the_systems_library_has_everything)
{
    struct verbs_library library;
    struct weft_error error = {.status = WEFT_OK};
    weft_status status = verbs_library_open(NULL, &library, &error);
    ck_assert_msg(status == WEFT_OK, "%s", error.message); /* part of libibverbs-dev */
    ck_assert(library.get_device_list != NULL && library.create_qp != NULL);
    ck_assert(library.query_gid_ex != NULL);
    verbs_library_close(&library);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verbs library");
    TCase *tcase = tcase_create("library");
    tcase_add_test(tcase, an_absent_library_is_a_fact_of_the_environment);
    tcase_add_test(tcase, a_library_of_something_else_is_named_with_what_it_lacks);
    tcase_add_test(tcase, the_systems_library_has_everything);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

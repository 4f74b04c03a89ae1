#include "base/value.h"

#include <check.h>

#include "base/error.h"
#include "base/suite_testing.h"

START_TEST(each_value_is_found_by_its_name)
{
    for (int v = WEFT_VALUE_UNKNOWN + 1; v < WEFT_VALUE_N; v++) {
        const char *name = weft_value_name((enum weft_value_name)v);

        ck_assert_msg(weft_value_find(name) == (enum weft_value_name)v, "%s", name);
    }
    ck_assert_int_eq(weft_value_find("local_prot"), WEFT_VALUE_UNKNOWN);
    ck_assert_int_eq(weft_value_find(""), WEFT_VALUE_UNKNOWN);
}
END_TEST

static const struct {
    const char *name;
    const char *turned;
} turns[] = {
    {"local_port", "remote_port"},
    {"remote_port", "local_port"},
    {"local_gid_type", "remote_gid_type"},
    {"remote_address_5", "local_address_5"},
    {"peer", "peer"}, /* the first that is no pair */
    {"rank", "rank"},
};

START_TEST(a_turned_value_is_of_the_other_end)
{
    enum weft_value_name turned = weft_value_turned(weft_value_find(turns[_i].name));

    ck_assert_str_eq(weft_value_name(turned), turns[_i].turned);
}
END_TEST

START_TEST(addresses_have_numbers)
{
    ck_assert_str_eq(weft_value_name(weft_value_local_address(0)), "local_address_0");
    ck_assert_str_eq(weft_value_name(weft_value_remote_address(5)), "remote_address_5");
}
END_TEST

START_TEST(a_name_that_is_unknown_adds_no_value)
{
    struct weft_error error = {0};

    weft_error_int(&error, weft_value_find("nonsense"), 7);
    weft_error_text(&error, weft_value_find("nonsense"), "7");
    ck_assert_uint_eq(error.n_values, 0);
}
END_TEST

/* A file can hold a text where a number belongs. */
START_TEST(a_value_of_the_wrong_kind_is_not_added)
{
    struct weft_error error = {0};

    weft_error_text(&error, WEFT_VALUE_RANK, "one");
    weft_error_int(&error, WEFT_VALUE_PEER, 1);
    ck_assert_uint_eq(error.n_values, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/value");
    TCase *tcase = tcase_create("value");

    tcase_add_test(tcase, each_value_is_found_by_its_name);
    tcase_add_loop_test(tcase, a_turned_value_is_of_the_other_end, 0,
                        (int)(sizeof(turns) / sizeof(turns[0])));
    tcase_add_test(tcase, addresses_have_numbers);
    tcase_add_test(tcase, a_name_that_is_unknown_adds_no_value);
    tcase_add_test(tcase, a_value_of_the_wrong_kind_is_not_added);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

#include "base/error.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"

static weft_status lose_a_race(struct weft_error *error)
{
    weft_status status =
        weft_fail_errno(error, ETIMEDOUT, WEFT_PHASE_RTR, "qp %d did not move", 17);

    /* Every caller on the way up can set the object; only the first has an effect. */
    weft_error_object(error, "%s:p%d", "titanic", 0);
    weft_error_object(error, "somebody else");
    weft_error_int(error, WEFT_VALUE_PATH_MTU, 4096);
    weft_error_int(error, WEFT_VALUE_PATH_MTU, 1024);
    weft_error_text(error, WEFT_VALUE_LOCAL_GID, "::ffff:10.0.0.1");
    weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_HELLO, "later and less close");
    return status;
}

START_TEST(the_first_place_that_knows_wins)
{
    struct weft_error error = {0};
    char text[256];

    ck_assert_int_eq(lose_a_race(&error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.status, WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, ETIMEDOUT);
    ck_assert_str_eq(weft_phase_name(error.phase), "rtr");
    ck_assert_str_eq(error.object, "titanic:p0");
    ck_assert_str_eq(error.message, "qp 17 did not move");
    ck_assert_uint_eq(error.n_values, 2);
    ck_assert_int_eq(weft_error_value(&error, WEFT_VALUE_PATH_MTU)->number, 4096);
    ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_LOCAL_GID)->text,
                     "::ffff:10.0.0.1");
    ck_assert_ptr_null(weft_error_value(&error, WEFT_VALUE_REMOTE_GID));

    weft_error_format(&error, text, sizeof(text));
    ck_assert_str_eq(text, "rtr: qp 17 did not move (errno 110 Connection timed out)");
    weft_error_clear(&error);
    ck_assert_int_eq(error.status, WEFT_OK);
    weft_error_format(&error, text, sizeof(text));
    ck_assert_str_eq(text, "ok");
}
END_TEST

START_TEST(a_long_text_ends_with_a_whole_character)
{
    struct weft_error error = {0};

    weft_fail(&error, WEFT_ERR_INPUT, WEFT_PHASE_DISCOVER, "%0158d\xe2\x82\xac", 1);
    weft_error_object(&error, "%046d\xc3\xa4", 1);
    weft_error_text(&error, WEFT_VALUE_HOST,
                    "00000000000000000000000000000000000000000000000000000000000000"
                    "00000000000000000000000000000000\xc3\xa4");
    ck_assert_uint_eq(strlen(error.message), 158);
    ck_assert_uint_eq(strlen(error.object), 46);
    ck_assert_uint_eq(strlen(weft_error_value(&error, WEFT_VALUE_HOST)->text), 94);
}
END_TEST

START_TEST(nobody_to_tell_is_fine)
{
    char text[8];

    ck_assert_int_eq(lose_a_race(NULL), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(weft_fail(NULL, WEFT_ERR_AUTH, WEFT_PHASE_AUTH, "no"),
                     WEFT_ERR_AUTH);
    ck_assert_int_eq(weft_fail_completion(NULL, 12, WEFT_PHASE_DATA, "no"),
                     WEFT_ERR_COMPLETION);
    ck_assert_ptr_null(weft_error_value(NULL, WEFT_VALUE_HOST));
    weft_error_clear(NULL);
    weft_error_format(NULL, text, sizeof(text));
    ck_assert_str_eq(text, "ok");
}
END_TEST

START_TEST(completions_are_named_as_in_verbs_h)
{
    static const struct {
        int wc_status;
        const char *text;
    } cases[] = {
        {1, "data: x (wc_status 1 LOC_LEN_ERR)"},
        {5, "data: x (wc_status 5 WR_FLUSH_ERR)"},
        {10, "data: x (wc_status 10 REM_ACCESS_ERR)"},
        {12, "data: x (wc_status 12 RETRY_EXC_ERR)"},
        {13, "data: x (wc_status 13 RNR_RETRY_EXC_ERR)"},
        {21, "data: x (wc_status 21 GENERAL_ERR)"},
        {99, "data: x (wc_status 99 unknown)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct weft_error error = {0};
        char text[128];

        weft_fail_completion(&error, cases[i].wc_status, WEFT_PHASE_DATA, "x");
        weft_error_format(&error, text, sizeof(text));
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

START_TEST(long_texts_and_many_values_are_cut)
{
    struct weft_error error = {0};
    char longer[400];

    for (size_t i = 0; i < sizeof(longer); i++) {
        longer[i] = i + 1 < sizeof(longer) ? 'y' : '\0';
    }
    weft_fail(&error, WEFT_ERR_INPUT, WEFT_PHASE_DATA, "%s", longer);
    weft_error_object(&error, "%s", longer);
    weft_error_text(&error, WEFT_VALUE_HOST, longer);
    ck_assert_uint_eq(strlen(error.message), sizeof(error.message) - 1);
    ck_assert_uint_eq(strlen(error.object), sizeof(error.object) - 1);
    ck_assert_uint_eq(strlen(error.values[0].text), sizeof(error.values[0].text) - 1);

    for (int v = WEFT_VALUE_UNKNOWN; v < WEFT_VALUE_N; v++) {
        weft_error_int(&error, (enum weft_value_name)v, v);
    }
    ck_assert_uint_eq(error.n_values, WEFT_ERROR_VALUES_MAX);
    ck_assert_int_eq(error.values[1].name, WEFT_VALUE_LOCAL_PREFIX_LEN);
    ck_assert_int_eq(error.values[1].number, WEFT_VALUE_LOCAL_PREFIX_LEN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/error");
    TCase *tcase = tcase_create("error");

    tcase_add_test(tcase, the_first_place_that_knows_wins);
    tcase_add_test(tcase, a_long_text_ends_with_a_whole_character);
    tcase_add_test(tcase, nobody_to_tell_is_fine);
    tcase_add_test(tcase, completions_are_named_as_in_verbs_h);
    tcase_add_test(tcase, long_texts_and_many_values_are_cut);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

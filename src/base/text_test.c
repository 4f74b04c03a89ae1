#include "base/text.h"

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/status.h"
#include "base/suite_testing.h"

START_TEST(text_grows_and_stays_terminated)
{
    struct weft_text text = {0};

    weft_text_add_bytes(&text, "", 0);
    ck_assert_str_eq(text.bytes, "");
    for (int i = 0; i < 1000; i++) {
        weft_text_add(&text, "%03d,", i);
    }
    weft_text_add_bytes(&text, "end\0x", 3);
    ck_assert_uint_eq(text.n, 4003);
    ck_assert_int_eq(strncmp(text.bytes, "000,001,002,", 12), 0);
    ck_assert_str_eq(text.bytes + 3992, "998,999,end");
    weft_text_fini(&text);
    ck_assert_ptr_null(text.bytes);
    ck_assert_uint_eq(text.n + text.cap, 0);
}
END_TEST

START_TEST(a_file_is_read_whole_or_cut_after_what_is_too_much)
{
    static const char path[] = "/proc/self/cmdline"; /* stat(2) reports size 0 */
    struct weft_text text = {0}, large = {0};
    size_t n_bytes;

    ck_assert_int_eq(weft_text_add_file(&text, path, SIZE_MAX / 8), 0);
    n_bytes = text.n;
    ck_assert_uint_gt(n_bytes, strlen("text_test"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "text_test"));
    ck_assert_int_eq(weft_text_add_file(&text, "/proc/self/cmdline/x", 1000), ENOTDIR);
    ck_assert_int_eq(weft_text_add_file(&text, "/proc/self", 1000), EISDIR);
    ck_assert_int_eq(weft_text_add_file(&text, "/dev/null", SIZE_MAX / 8), 0);
    ck_assert_uint_eq(text.n, n_bytes);
    ck_assert_int_eq(weft_text_add_file(&large, "/dev/zero", 10000), 0);
    ck_assert_uint_gt(large.n, 10000);
    ck_assert_uint_le(large.n, 20000);
    weft_text_fini(&text);
    weft_text_fini(&large);
    ck_assert_int_eq(weft_text_add_file(&text, "/dev/null", 0), 0);
    ck_assert_str_eq(text.bytes, "");
    weft_text_fini(&text);
}
END_TEST

START_TEST(format_cuts_and_terminates)
{
    char out[6] = "?????";

    weft_format(out, sizeof(out), "%s %d", "abc", 12345);
    ck_assert_str_eq(out, "abc 1");
    weft_format(out, 1, "xyz");
    ck_assert_str_eq(out, "");
    out[0] = '!';
    weft_format(out, 0, "xyz");
    ck_assert_int_eq(out[0], '!');
}
END_TEST

START_TEST(a_cut_leaves_whole_characters)
{
    static const char text[] =
        "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"; /* 1 2 3 4 1 bytes */
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};

    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        ck_assert_uint_eq(weft_text_cut(text, sizeof(text) - 1, i), whole[i]);
    }
    ck_assert_uint_eq(weft_text_cut(text, sizeof(text) - 1, SIZE_MAX), sizeof(text) - 1);
    /* All of the text, although it ends within a character. */
    ck_assert_uint_eq(weft_text_cut(text, 2, 9), 2);
    ck_assert_uint_eq(weft_text_cut("\x80\x80\x80", 3, 2), 0);
    ck_assert_uint_eq(weft_text_cut(NULL, 0, 7), 0);
}
END_TEST

START_TEST(memory_is_never_null)
{
    uint8_t *zeroed = weft_calloc(3, 5);
    char *copy = weft_strdup("triangle");
    void *empty[] = {weft_alloc(0), weft_calloc(0, 8), weft_realloc(NULL, 0)};

    for (int i = 0; i < 15; i++) {
        ck_assert_uint_eq(zeroed[i], 0);
    }
    copy = weft_realloc(copy, 4096);
    ck_assert_str_eq(copy, "triangle");
    for (size_t i = 0; i < WEFT_LENGTH(empty); i++) {
        ck_assert_ptr_nonnull(empty[i]);
        free(empty[i]);
    }
    free(copy);
    free(zeroed);
}
END_TEST

static void expect_at_most_info(void *context, enum weft_log_level level,
                                const char *line)
{
    struct weft_text *seen = context;

    weft_text_add(seen, "%d:%s;", (int)level, line);
}

START_TEST(log_drops_what_is_above_its_level)
{
    struct weft_text seen = {0};
    struct weft_log log = {WEFT_LOG_INFO, expect_at_most_info, &seen};
    struct weft_log deaf = {WEFT_LOG_DEBUG, NULL, NULL};
    char longer[2000];

    weft_log(&log, WEFT_LOG_ERROR, "%s is %d", "mtu", 1500);
    weft_log(&log, WEFT_LOG_DEBUG, "unseen");
    weft_log(&log, WEFT_LOG_INFO, "seen");
    weft_log(&deaf, WEFT_LOG_ERROR, "nowhere to go");
    weft_log(NULL, WEFT_LOG_ERROR, "nowhere to go");
    ck_assert_str_eq(seen.bytes, "0:mtu is 1500;2:seen;");

    seen.n = 0;
    for (size_t i = 0; i < sizeof(longer); i++) {
        longer[i] = i + 1 < sizeof(longer) ? 'x' : '\0';
    }
    weft_log(&log, WEFT_LOG_WARN, "%s", longer);
    ck_assert_uint_eq(seen.n, 2 + 1023 + 1);
    weft_text_fini(&seen);
}
END_TEST

START_TEST(every_status_has_a_name_of_its_own)
{
    ck_assert_str_eq(weft_status_name(WEFT_OK), "ok");
    ck_assert_str_eq(weft_status_name(WEFT_AGAIN), "again");
    ck_assert_str_eq(weft_status_name((weft_status)-99), "unknown");
    for (int a = WEFT_ERR_ENVIRONMENT; a <= WEFT_AGAIN; a++) {
        ck_assert_str_ne(weft_status_name((weft_status)a), "unknown");
        for (int b = WEFT_ERR_ENVIRONMENT; b < a; b++) {
            ck_assert_str_ne(weft_status_name((weft_status)a),
                             weft_status_name((weft_status)b));
        }
    }
}
END_TEST

START_TEST(failed_check_aborts)
{
    weft_check(1 + 1 == 3);
}
END_TEST

START_TEST(a_name_is_listed_whole)
{
    static const struct {
        const char *list, *name;
        bool is_listed;
    } cases[] = {
        {"p0,p1", "p0", true},   {"p0,p1", "p1", true}, {"p0,p1", "p", false},
        {"p0,p1", "p01", false}, {",,p1,", "p1", true}, {"p0,p1", "0,p1", false},
        {"", "p0", false},       {NULL, "p0", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(weft_is_listed(cases[i].list, cases[i].name) == cases[i].is_listed,
                      "row %zu", i);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/text");
    TCase *tcase = tcase_create("text, log, status, check");

    tcase_add_test(tcase, text_grows_and_stays_terminated);
    tcase_add_test(tcase, a_file_is_read_whole_or_cut_after_what_is_too_much);
    tcase_add_test(tcase, format_cuts_and_terminates);
    tcase_add_test(tcase, a_cut_leaves_whole_characters);
    tcase_add_test(tcase, memory_is_never_null);
    tcase_add_test(tcase, log_drops_what_is_above_its_level);
    tcase_add_test(tcase, every_status_has_a_name_of_its_own);
    tcase_add_test(tcase, a_name_is_listed_whole);
    tcase_add_test_raise_signal(tcase, failed_check_aborts, 6);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

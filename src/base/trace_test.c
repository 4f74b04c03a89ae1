#include "base/trace.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "base/text.h"

static void collect(void *context, const char *line, size_t n_bytes)
{
    weft_text_add_bytes(context, line, n_bytes);
}

START_TEST(a_story_is_lines_of_integers_and_words)
{
    struct weft_text story = {0};
    struct weft_trace trace;

    weft_trace_init(&trace, WEFT_TRACE_STORY, collect, &story);
    ck_assert(weft_trace_on(&trace, WEFT_TRACE_STORY));
    ck_assert(!weft_trace_on(&trace, WEFT_TRACE_PACKET));
    weft_trace_begin(&trace, 1500, "titanic", "p0.qp17", "send");
    weft_trace_int(&trace, "psn", 0);
    weft_trace_int(&trace, "left", INT64_MIN);
    weft_trace_text(&trace, "why", "no route\tto host\n");
    weft_trace_text(&trace, "empty", "");
    weft_trace_end(&trace);
    weft_trace_event(&trace, -1, "iceberg", "-", "fault", "kind=%s share=%d", "loss", 10);
    weft_trace_event(&trace, 0, "iceberg", "-", "up", NULL);
    ck_assert_str_eq(story.bytes,
                     "1500 titanic p0.qp17 send psn=0 left=-9223372036854775808 "
                     "why=no_route_to_host_ empty=\n"
                     "-1 iceberg - fault kind=loss share=10\n"
                     "0 iceberg - up\n");
    weft_text_fini(&story);
}
END_TEST

START_TEST(nothing_is_written_when_off)
{
    struct weft_text story = {0};
    struct weft_trace off, deaf;
    struct weft_trace *traces[] = {&off, &deaf, NULL};

    weft_trace_init(&off, WEFT_TRACE_OFF, collect, &story);
    weft_trace_init(&deaf, WEFT_TRACE_PACKET, NULL, NULL);
    for (size_t i = 0; i < 3; i++) {
        ck_assert(!weft_trace_on(traces[i], WEFT_TRACE_STORY));
        weft_trace_begin(traces[i], 1, "h", "o", "e");
        weft_trace_int(traces[i], "k", 1);
        weft_trace_text(traces[i], "k", "v");
        weft_trace_end(traces[i]);
        weft_trace_event(traces[i], 1, "h", "o", "e", "k=%d", 1);
    }
    ck_assert_ptr_null(story.bytes);
}
END_TEST

START_TEST(integers_are_printed_as_printf_does)
{
    struct weft_text story = {0}, expected = {0};
    struct weft_trace trace;
    struct weft_rng rng;

    weft_trace_init(&trace, WEFT_TRACE_STORY, collect, &story);
    weft_rng_init(&rng, 1, "integers");
    for (int i = 0; i < 20000; i++) {
        /* Shift a full word by 0 to 63, so that all lengths are equally frequent. */
        int64_t number = (int64_t)(weft_rng_next(&rng) >> (i % 64));

        number = i % 3 == 0 ? -number : number;
        weft_trace_begin(&trace, number, "h", "o", "e");
        weft_trace_int(&trace, "k", number / 2 * 2);
        weft_trace_end(&trace);
        weft_text_add(&expected, "%" PRId64 " h o e k=%" PRId64 "\n", number,
                      number / 2 * 2);
    }
    for (int64_t power = 1, i = 0; i < 19; i++, power *= i < 19 ? 10 : 1) {
        for (int64_t number = power - 1; number <= power + 1; number++) {
            weft_trace_event(&trace, number, "h", "o", "e", NULL);
            weft_text_add(&expected, "%" PRId64 " h o e\n", number);
        }
    }
    ck_assert_uint_eq(story.n, expected.n);
    ck_assert(memcmp(story.bytes, expected.bytes, story.n) == 0);
    weft_text_fini(&story);
    weft_text_fini(&expected);
}
END_TEST

START_TEST(long_lines_are_cut_but_stay_lines)
{
    char word[600];

    memset(word, 'x', sizeof(word));
    word[sizeof(word) - 1] = '\0';
    for (size_t n = 440; n < 530; n++) {
        struct weft_text story = {0};
        struct weft_trace trace;

        weft_trace_init(&trace, WEFT_TRACE_STORY, collect, &story);
        weft_trace_begin(&trace, 1, "h", "o", word + sizeof(word) - 1 - n);
        weft_trace_int(&trace, "key", 123456789);
        weft_trace_text(&trace, "text", "word");
        weft_trace_end(&trace);
        weft_trace_event(&trace, 2, "h", "o", "e", "%s", word + sizeof(word) - 1 - n);
        ck_assert_ptr_nonnull(strchr(story.bytes, '\n'));
        ck_assert_uint_le((size_t)(strchr(story.bytes, '\n') - story.bytes), 511);
        ck_assert_int_eq(story.bytes[story.n - 1], '\n');
        /* The number is complete or absent. */
        if (strstr(story.bytes, "key=1") != NULL) {
            ck_assert_ptr_nonnull(strstr(story.bytes, "key=123456789"));
        }
        weft_text_fini(&story);
    }
}
END_TEST

/* A number of a line that is cut is complete or has no digit left, wherever the cut is. Loop: the
 * number. */
START_TEST(events_have_no_part_of_a_number)
{
    static const char *const numbers[] = {"7", "123456789", "-9223372036854775808"};
    char word[600];

    memset(word, 'x', sizeof(word));
    word[sizeof(word) - 1] = '\0';
    for (size_t n = 440; n < 530; n++) {
        struct weft_text story = {0};
        struct weft_trace trace;
        const char *number;
        size_t n_cut;

        weft_trace_init(&trace, WEFT_TRACE_STORY, collect, &story);
        weft_trace_event(&trace, 2, "h", "o", "e", "%s key=%s left=%s",
                         word + sizeof(word) - 1 - n, numbers[_i], numbers[_i]);
        ck_assert_uint_le(story.n, 512);
        ck_assert_int_eq(story.bytes[story.n - 1], '\n');
        number = strrchr(story.bytes, '=');
        if (number != NULL) {
            n_cut = strcspn(++number, " \n");
            ck_assert(strcspn(number, "0123456789") > n_cut ||
                      (n_cut == strlen(numbers[_i]) &&
                       strncmp(number, numbers[_i], n_cut) == 0));
        }
        weft_text_fini(&story);
    }
}
END_TEST

START_TEST(a_line_within_a_line_is_our_bug)
{
    struct weft_text story = {0};
    struct weft_trace trace;

    weft_trace_init(&trace, WEFT_TRACE_STORY, collect, &story);
    weft_trace_begin(&trace, 1, "h", "o", "e");
    weft_trace_begin(&trace, 1, "h", "o", "e");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/trace");
    TCase *tcase = tcase_create("trace");

    tcase_add_test(tcase, a_story_is_lines_of_integers_and_words);
    tcase_add_test(tcase, nothing_is_written_when_off);
    tcase_add_test(tcase, integers_are_printed_as_printf_does);
    tcase_add_test(tcase, long_lines_are_cut_but_stay_lines);
    tcase_add_loop_test(tcase, events_have_no_part_of_a_number, 0, 3);
    tcase_add_test_raise_signal(tcase, a_line_within_a_line_is_our_bug, 6);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

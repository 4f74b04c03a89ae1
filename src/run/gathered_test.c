/* Merging of event logs: ordered by time, complete lines only. */
#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "base/text.h"
#include "run/private.h"

static void take_line(void *context, const char *line, size_t n_bytes)
{
    weft_text_add_bytes(context, line, n_bytes);
}

static void add(struct run_story *story, uint32_t process, const char *lines)
{
    run_story_add(story, process, 0, lines, strlen(lines));
}

START_TEST(parts_are_told_in_the_order_of_time)
{
    struct weft_text told = {NULL, 0, 0};
    const struct run_options options = {
        .trace_level = WEFT_TRACE_STORY, .events = take_line, .events_context = &told};
    struct run_story story = {0};

    run_story_init(&story, &options);
    run_story_gather(&story);
    weft_trace_event(&story.trace, 1500, "a", "p0", "fault", "kind=%s", "down");
    add(&story, 2,
        "1400 b rank1 state from=new to=discover\n"
        "1500 b rank1 x\n"
        "1500 b rank1 y\n"
        "900 b rank1 early\n");
    add(&story, 1,
        "1500 a rank0 z\n"
        "no time\n"
        "2000nor here\n"
        "2000 a rank0 end\n"
        "2100 a rank0 was kil");
    run_story_add(&story, 3, 0, NULL, 0); /* a process without events */
    ck_assert_uint_eq(told.n, 0);         /* nothing is written before all have ended */
    run_story_end_gather(&story, 1000);
    ck_assert_str_eq(told.bytes, "-100 b rank1 early\n"
                                 "400 b rank1 state from=new to=discover\n"
                                 "500 a p0 fault kind=down\n"
                                 "500 a rank0 z\n"
                                 "500 b rank1 x\n"
                                 "500 b rank1 y\n"
                                 "1000 a rank0 end\n");
    weft_text_fini(&told);
}
END_TEST

START_TEST(without_a_listener_nothing_is_kept)
{
    const struct run_options options = {.trace_level = WEFT_TRACE_STORY};
    struct run_story story = {0};

    run_story_init(&story, &options);
    run_story_gather(&story);
    ck_assert_ptr_null(story.parts);
    add(&story, 1, "1 a b c\n");
    run_story_end_gather(&story, 0);
    ck_assert_ptr_null(story.parts);
}
END_TEST

/* More lines than fit at first, and none. */
START_TEST(any_number_of_lines_is_told)
{
    static const int counts[] = {0, 1, 1024, 5000};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct weft_text told = {NULL, 0, 0};
        struct weft_text expected = {NULL, 0, 0};
        const struct run_options options = {.trace_level = WEFT_TRACE_STORY,
                                            .events = take_line,
                                            .events_context = &told};
        struct run_story story = {0};

        run_story_init(&story, &options);
        run_story_gather(&story);
        for (int k = counts[i]; k > 0; k--) {
            char line[64];

            weft_format(line, sizeof(line), "%d a b c=%d\n", k, k);
            add(&story, 1, line);
        }
        for (int k = 1; k <= counts[i]; k++) {
            weft_text_add(&expected, "%d a b c=%d\n", k, k);
        }
        run_story_end_gather(&story, 0);
        ck_assert_uint_eq(told.n, expected.n);
        ck_assert(told.n == 0 || memcmp(told.bytes, expected.bytes, told.n) == 0);
        weft_text_fini(&told);
        weft_text_fini(&expected);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run/gathered");
    TCase *tcase = tcase_create("gathered");

    tcase_add_test(tcase, parts_are_told_in_the_order_of_time);
    tcase_add_test(tcase, without_a_listener_nothing_is_kept);
    tcase_add_test(tcase, any_number_of_lines_is_told);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

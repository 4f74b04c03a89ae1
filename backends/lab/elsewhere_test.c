/* Processes on other machines, as seen from here: the command line that starts one, and its
 * output. Shells stand in for the machines. */
#define _GNU_SOURCE
#include "backends/lab/elsewhere.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "backends/lab/process.h"
#include "base/check.h"
#include "base/suite_testing.h"

static struct lab_process *process;
static sigset_t mask;

static void set_up(void)
{
    sigemptyset(&mask);
    process = lab_processes_create(1);
}

static void tear_down(void)
{
    lab_processes_destroy(process, 1);
}

static void wait_for(struct world_ending *out)
{
    while (!lab_processes_reap(process, 1)) {
        lab_processes_wait(process, 1, (const int[]){-1, -1}, WEFT_NEVER);
    }
    lab_process_ending(process, out);
    ck_assert(out->is_over);
}

static bool is_text(const char *bytes, size_t n, const char *text)
{
    return n == strlen(text) && (n == 0 || memcmp(bytes, text, n) == 0);
}

START_TEST(a_line_has_the_host_and_the_command_as_one_word)
{
    char *const argv[] = {"weft", "node", NULL};
    struct weft_text line = {NULL, 0, 0};

    lab_elsewhere_line("ssh me@{host} nice {command} # {host} {hos", "titanic", 2, argv,
                       &line);
    ck_assert_str_eq(line.bytes,
                     "exec ssh me@titanic nice 'WEFT_NOTICES=0 WEFT_PROCESS=2 "
                     "exec '\\''weft'\\'' '\\''node'\\''' # titanic {hos");
    weft_text_fini(&line);
}
END_TEST

/* Every byte of an argument arrives through two shells, as with ssh. */
START_TEST(arguments_arrive_as_they_are)
{
    static char nasty[] = "a 'b' \"c\" $HOME `d` \\ * \t;|&<>{host}{command}\n e";
    char *const argv[] = {"printf", "%s|%s", nasty, "", NULL};
    struct weft_text line = {NULL, 0, 0}, expected = {NULL, 0, 0};
    struct world_ending ending;

    lab_elsewhere_line("sh -c {command}", "x", 0, argv, &line);
    ck_assert_int_eq(lab_process_start_elsewhere(process, line.bytes, "", 0, &mask), 0);
    wait_for(&ending);
    weft_text_add(&expected, "%s|", nasty);
    ck_assert_int_eq(ending.exit_code, 0);
    ck_assert_msg(is_text(ending.story, ending.n_story, expected.bytes), "%.*s",
                  (int)ending.n_story, ending.story);
    weft_text_fini(&line);
    weft_text_fini(&expected);
}
END_TEST

START_TEST(one_stream_has_the_story_and_then_the_record)
{
    static const struct {
        const char *line, *story, *result;
    } cases[] = {
        {"printf '1 a b\\n2 c {d}\\n{\"rank\":0}'", "1 a b\n2 c {d}\n", "{\"rank\":0}"},
        {"printf '{\"rank\":0}\\n'", "", "{\"rank\":0}\n"},
        {"printf '1 a b\\n2 half'", "1 a b\n2 half", ""},
        {"true", "", ""},
        {"printf '{1}\\n2 a\\n{3}\\n'", "{1}\n2 a\n", "{3}\n"},
    };
    struct world_ending ending;

    ck_assert_int_eq(lab_process_start_elsewhere(process, cases[_i].line, "", 0, &mask),
                     0);
    wait_for(&ending);
    ck_assert_int_eq(ending.exit_code, 0);
    ck_assert(is_text(ending.story, ending.n_story, cases[_i].story));
    ck_assert(is_text(ending.result, ending.n_bytes, cases[_i].result));
}
END_TEST

/* The input is the scenario, a line that ends it, and notices. */
START_TEST(standard_input_has_the_scenario_and_then_notices)
{
    static const char reads[] =
        "for i in 1 2 3 4; do read -r line; echo \"<$line>\"; done";
    struct world_ending ending;

    ck_assert_int_eq(lab_process_start_elsewhere(process, reads, "name: x\n", 8, &mask),
                     0);
    lab_process_report_ended(process, 7);
    lab_process_report_ended(process, 12);
    wait_for(&ending);
    ck_assert(is_text(ending.story, ending.n_story, "<name: x>\n<...>\n<7>\n<12>\n"));
}
END_TEST

START_TEST(a_large_scenario_does_not_wait_for_its_reader)
{
    size_t n = 900000;
    char *input = weft_alloc(n);
    struct world_ending ending;

    memset(input, 'x', n);
    input[n - 1] = '\n';
    ck_assert_int_eq(
        lab_process_start_elsewhere(process, "head -n 1 | wc -c", input, n, &mask), 0);
    wait_for(&ending);
    ck_assert(is_text(ending.story, ending.n_story, "900000\n"));
    free(input);
}
END_TEST

START_TEST(who_was_never_reached_says_so_by_its_exit_code)
{
    struct world_ending ending;

    ck_assert_int_eq(lab_process_start_elsewhere(process, "exec /nowhere/ssh 2>/dev/null",
                                                 "", 0, &mask),
                     0);
    wait_for(&ending);
    ck_assert_int_eq(ending.exit_code, 127);
    ck_assert_uint_eq(ending.n_bytes, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lab, elsewhere");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_line_has_the_host_and_the_command_as_one_word);
    tcase_add_test(tcase, arguments_arrive_as_they_are);
    tcase_add_loop_test(tcase, one_stream_has_the_story_and_then_the_record, 0, 5);
    tcase_add_test(tcase, standard_input_has_the_scenario_and_then_notices);
    tcase_add_test(tcase, a_large_scenario_does_not_wait_for_its_reader);
    tcase_add_test(tcase, who_was_never_reached_says_so_by_its_exit_code);
    return suite_run(suite);
}

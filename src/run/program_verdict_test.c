#include "run/program_verdict.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"

#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)
#define PROGRAMS_MAX 3
#define RULES_MAX 3
#define ANY_HOST SCENARIO_OTHERS

/* Recorded end of a program, and expectations. */
enum seen { NOT_BEGUN, EXITED, SIGNALLED, KILLED, LATE, NO_END };

struct seen_program {
    enum seen seen;
    int code;
    weft_ns took_ns; /* since the start of its job */
    const char *output;
    uint32_t host;
};

struct ask {
    struct scenario_end_status statuses[RULES_MAX];
    uint32_t n_statuses;
    struct scenario_output outputs[RULES_MAX];
    uint32_t n_outputs;
    weft_ns within_ns; /* 0 if not expected */
};

#define STATUS(h, s)                                                                     \
    {                                                                                    \
        .host = (h), .kind = SCENARIO_END_STATUS, .status = (s)                          \
    }
#define ENDS(h, k)                                                                       \
    {                                                                                    \
        .host = (h), .kind = SCENARIO_END_##k                                            \
    }
#define OUTPUT(h, p)                                                                     \
    {                                                                                    \
        .host = (h), .pattern = (p)                                                      \
    }

static const char *const names[] = {"a", "b", "c"};

static struct program_facts facts_of(const struct seen_program *seen, weft_ns began_ns)
{
    static const enum world_program_end ends[] = {
        [NOT_BEGUN] = WORLD_PROGRAM_LATE,   [EXITED] = WORLD_PROGRAM_EXITED,
        [SIGNALLED] = WORLD_PROGRAM_SIGNAL, [KILLED] = WORLD_PROGRAM_KILLED,
        [LATE] = WORLD_PROGRAM_LATE,        [NO_END] = WORLD_PROGRAM_EXITED,
    };
    struct program_facts facts = {.host = seen->host, .host_name = names[seen->host]};

    facts.has_begun = seen->seen != NOT_BEGUN;
    facts.has_ended = seen->seen != NO_END;
    facts.began_ns = facts.has_begun ? began_ns + MS : 0;
    facts.ended_ns = facts.has_ended ? began_ns + seen->took_ns : 0;
    facts.end = ends[seen->seen];
    facts.code = seen->code;
    weft_text_add(&facts.output, "%s", seen->output != NULL ? seen->output : "");
    return facts;
}

/* Appends verdicts as "a+ status 0 > status 0; *- within 1s > not over: a", where + means as
 * expected. */
static void judge(const struct ask *ask, const struct seen_program *seen, uint32_t n,
                  struct weft_text *out)
{
    const weft_ns began_ns = 7 * SECOND; /* duration of earlier jobs */
    struct program_facts facts[PROGRAMS_MAX] = {{.has_begun = false}};
    struct program_verdicts verdicts;
    struct scenario_exec exec = {.n_statuses = ask->n_statuses,
                                 .n_outputs = ask->n_outputs,
                                 .has_within = ask->within_ns != 0,
                                 .within_ns = ask->within_ns};

    exec.statuses = (struct scenario_end_status *)(uintptr_t)ask->statuses;
    exec.outputs = (struct scenario_output *)(uintptr_t)ask->outputs;
    for (uint32_t i = 0; i < n; i++) {
        facts[i] = facts_of(&seen[i], began_ns);
    }
    program_verdicts_make(&exec, facts, n, began_ns, &verdicts);
    for (uint32_t i = 0; i < verdicts.n; i++) {
        const struct program_verdict *verdict = &verdicts.items[i];
        bool is_of_all = verdict->program == PROGRAM_ALL;

        weft_text_add(out, "%s%s%s %s > %s", i > 0 ? "; " : "",
                      is_of_all ? "*" : facts[verdict->program].host_name,
                      verdict->ok ? "+" : "-", verdict->expected.bytes,
                      verdict->got.bytes);
    }
    program_verdicts_fini(&verdicts);
    for (uint32_t i = 0; i < n; i++) {
        weft_text_fini(&facts[i].output);
    }
}

/* ---- one program: each end against each expectation ---- */

static const struct {
    struct seen_program seen;
    enum program_how how;
    const char *got; /* if as expected; otherwise its last line follows */
    const char *ok;  /* '+' or '-' for each of `wants` */
} ends[] = {
    {{.seen = NOT_BEGUN, .took_ns = SECOND},
     PROGRAM_NOT_BEGUN,
     "it was not started",
     "-------"},
    {{.seen = EXITED, .code = 0}, PROGRAM_EXITED, "status 0", "++-+---"},
    {{.seen = EXITED, .code = 3}, PROGRAM_EXITED, "status 3", "--++---"},
    {{.seen = EXITED, .code = 126}, PROGRAM_NOT_RUN, "status 126", "---+---"},
    {{.seen = EXITED, .code = 127}, PROGRAM_NOT_RUN, "status 127", "---+---"},
    {{.seen = EXITED, .code = 128}, PROGRAM_EXITED, "status 128", "---+---"},
    {{.seen = EXITED, .code = 137}, PROGRAM_EXITED, "status 137", "---+--+"},
    {{.seen = SIGNALLED, .code = 9}, PROGRAM_SIGNALLED, "signal 9", "---+--+"},
    {{.seen = SIGNALLED, .code = 11}, PROGRAM_SIGNALLED, "signal 11", "---+---"},
    {{.seen = KILLED, .code = 9, .took_ns = 3 * MS},
     PROGRAM_KILLED,
     "killed by a fault after 2ms",
     "+--++-+"},
    /* The status after the program was ended does not count. */
    {{.seen = LATE, .code = 0, .took_ns = 2 * SECOND + MS},
     PROGRAM_HANGS,
     "hangs: it still ran after 2s, and was ended",
     "---+-+-"},
    {{.seen = LATE, .code = 3, .took_ns = 2 * SECOND + MS},
     PROGRAM_HANGS,
     "hangs: it still ran after 2s, and was ended",
     "---+-+-"},
    {{.seen = NO_END}, PROGRAM_HANGS, "it did not end", "---+-+-"},
};

static const struct {
    const char *words;
    struct ask ask;
} wants[] = {
    {"status 0", {.n_statuses = 0}},
    {"status 0", {.statuses = {STATUS(ANY_HOST, 0)}, .n_statuses = 1}},
    {"status 3", {.statuses = {STATUS(ANY_HOST, 3)}, .n_statuses = 1}},
    {"any end", {.statuses = {ENDS(ANY_HOST, ANY)}, .n_statuses = 1}},
    {"killed by a fault", {.statuses = {ENDS(ANY_HOST, KILLED)}, .n_statuses = 1}},
    {"hangs", {.statuses = {ENDS(ANY_HOST, HANGS)}, .n_statuses = 1}},
    {"status 137", {.statuses = {STATUS(ANY_HOST, 137)}, .n_statuses = 1}},
};

START_TEST(each_end_is_judged_by_each_expectation)
{
    for (size_t want = 0; want < WEFT_LENGTH(wants); want++) {
        struct seen_program seen = ends[_i].seen;
        bool ok = ends[_i].ok[want] == '+';
        bool is_any = ok && strcmp(wants[want].words, "any end") == 0;
        bool has_line = !ok && seen.seen != NOT_BEGUN;
        struct weft_text got = {NULL, 0, 0};
        char expected[200];
        struct program_facts facts;

        seen.output = "one\ntwo\n";
        facts = facts_of(&seen, 0);
        ck_assert_int_eq(program_how(&facts), ends[_i].how);
        weft_text_fini(&facts.output);
        judge(&wants[want].ask, &seen, 1, &got);
        weft_format(expected, sizeof(expected), "a%c %s > %s%s%s", ends[_i].ok[want],
                    wants[want].words, is_any ? "any end: " : "", ends[_i].got,
                    has_line ? ", its last line is 'two'" : "");
        ck_assert_str_eq(got.bytes, expected);
        weft_text_fini(&got);
    }
    ck_assert_uint_eq(strlen(ends[_i].ok), WEFT_LENGTH(wants));
}
END_TEST

/* ---- expectations about hosts, output and time ---- */

#define OK_OF(h)                                                                         \
    {                                                                                    \
        .seen = EXITED, .took_ns = 5 * MS, .host = (h)                                   \
    }
#define FAILS_ON(h)                                                                      \
    {                                                                                    \
        .seen = EXITED, .code = 1, .took_ns = 5 * MS, .host = (h)                        \
    }
#define LATE_ON(h)                                                                       \
    {                                                                                    \
        .seen = LATE, .took_ns = 4 * SECOND, .host = (h)                                 \
    }

static const struct {
    struct ask ask;
    struct seen_program seen[PROGRAMS_MAX];
    uint32_t n;
    const char *verdicts;
} jobs[] = {
    /* An expectation of a host takes precedence over one of all hosts, in either order. */
    {{.statuses = {STATUS(ANY_HOST, 1), STATUS(1, 0)}, .n_statuses = 2},
     {FAILS_ON(0), OK_OF(1)},
     2,
     "a+ status 1 > status 1; b+ status 0 > status 0"},
    {{.statuses = {STATUS(1, 0), STATUS(ANY_HOST, 1)}, .n_statuses = 2},
     {FAILS_ON(0), OK_OF(1)},
     2,
     "a+ status 1 > status 1; b+ status 0 > status 0"},
    /* Commands may be in any order of hosts, and an end counts for its own host. */
    {{.statuses = {STATUS(0, 0), STATUS(1, 1)}, .n_statuses = 2},
     {FAILS_ON(1), OK_OF(0)},
     2,
     "b+ status 1 > status 1; a+ status 0 > status 0"},
    {{.statuses = {STATUS(0, 0), STATUS(1, 1)}, .n_statuses = 2},
     {OK_OF(1), FAILS_ON(0)},
     2,
     "b- status 1 > status 0, it wrote nothing; a- status 0 > status 1, it wrote "
     "nothing"},
    /* A host without an expectation must end well, or be killed by a fault. */
    {{.statuses = {STATUS(0, 1)}, .n_statuses = 1},
     {FAILS_ON(0), {.seen = KILLED, .code = 9, .took_ns = 2 * MS, .host = 1}},
     2,
     "a+ status 1 > status 1; b+ status 0 > killed by a fault after 1ms"},
    /* Output: any line of the host's own output. */
    {{.outputs = {OUTPUT(ANY_HOST, "^(one|two)$")}, .n_outputs = 1},
     {{.seen = EXITED, .output = "one\nx\n"},
      {.seen = EXITED, .output = "two", .host = 1}},
     2,
     "a+ status 0 > status 0; a+ output ^(one|two)$ > output ^(one|two)$; b+ status 0 > "
     "status 0; b+ output ^(one|two)$ > output ^(one|two)$"},
    {{.outputs = {OUTPUT(1, "^x$"), OUTPUT(0, "^y$")}, .n_outputs = 2},
     {{.seen = EXITED, .output = "x\n"}, {.seen = EXITED, .output = "x\n", .host = 1}},
     2,
     "a+ status 0 > status 0; a- output ^y$ > no such line, its last line is 'x'; b+ "
     "status 0 > status 0; b+ output ^x$ > output ^x$"},
    {{.outputs = {OUTPUT(ANY_HOST, "x$"), OUTPUT(ANY_HOST, ".")}, .n_outputs = 2},
     {{.seen = EXITED}},
     1,
     "a+ status 0 > status 0; a- output x$ > no such line, it wrote nothing; a- output . "
     "> no such line, it wrote nothing"},
    /* The output counts whatever the end of the program. */
    {{.outputs = {OUTPUT(ANY_HOST, "^x$")}, .n_outputs = 1},
     {{.seen = EXITED, .code = 2, .output = "x\ny\n\n"}},
     1,
     "a- status 0 > status 2, its last line is ''; a+ output ^x$ > output ^x$"},
    /* Time: that of the slowest program, from the start of the job. */
    {{.within_ns = 3 * SECOND},
     {OK_OF(0), {.seen = EXITED, .took_ns = 2 * SECOND, .host = 1}, OK_OF(2)},
     3,
     "a+ status 0 > status 0; b+ status 0 > status 0; c+ status 0 > status 0; *+ within "
     "3s > within 3s: 2s"},
    {{.within_ns = 3 * SECOND},
     {LATE_ON(1), OK_OF(0), {.seen = NOT_BEGUN, .took_ns = 3 * SECOND, .host = 2}},
     3,
     "b- status 0 > hangs: it still ran after 3.999s, and was ended, it wrote nothing; "
     "a+ "
     "status 0 > status 0; c- status 0 > it was not started; *- within 3s > not over: b, "
     "c"},
    /* Programs expected to hang are not waited for. If they end, that is judged. */
    {{.statuses = {ENDS(0, HANGS)}, .n_statuses = 1, .within_ns = 3 * SECOND},
     {LATE_ON(0), OK_OF(1)},
     2,
     "a+ hangs > hangs: it still ran after 3.999s, and was ended; b+ status 0 > status "
     "0; "
     "*+ within 3s > within 3s: 5ms"},
    {{.statuses = {ENDS(ANY_HOST, HANGS)}, .n_statuses = 1, .within_ns = 3 * SECOND},
     {LATE_ON(0), LATE_ON(1)},
     2,
     "a+ hangs > hangs: it still ran after 3.999s, and was ended; b+ hangs > hangs: it "
     "still ran after 3.999s, and was ended; *+ within 3s > within 3s: all are to hang"},
    {{.statuses = {ENDS(ANY_HOST, HANGS)}, .n_statuses = 1, .within_ns = 3 * SECOND},
     {OK_OF(0), {.seen = NOT_BEGUN, .took_ns = 3 * SECOND, .host = 1}},
     2,
     "a- hangs > status 0, it wrote nothing; b- hangs > it was not started; *+ within 3s "
     "> within 3s: 5ms"},
    /* `any` allows every end, but the time limit applies. */
    {{.statuses = {ENDS(ANY_HOST, ANY)}, .n_statuses = 1, .within_ns = 3 * SECOND},
     {LATE_ON(0)},
     1,
     "a+ any end > any end: hangs: it still ran after 3.999s, and was ended; *- within "
     "3s "
     "> not over: a"},
    {{.within_ns = 3 * SECOND},
     {{.seen = KILLED, .code = 9, .took_ns = 2 * SECOND}, OK_OF(1)},
     2,
     "a+ status 0 > killed by a fault after 1.999s; b+ status 0 > status 0; *+ within 3s "
     "> within 3s: 2s"},
    {{.n_statuses = 0}, {{.seen = NOT_BEGUN}}, 0, ""},
};

START_TEST(a_job_is_judged_program_by_program_then_by_its_time)
{
    struct weft_text got = {NULL, 0, 0};

    weft_text_add(&got, "%s", "");
    judge(&jobs[_i].ask, jobs[_i].seen, jobs[_i].n, &got);
    ck_assert_str_eq(got.bytes, jobs[_i].verdicts);
    weft_text_fini(&got);
}
END_TEST

/* ---- the last line ---- */

#define TEN(c) c c c c c c c c c c

START_TEST(a_long_last_line_is_cut_between_characters)
{
    static const char *const lines[][2] = {
        {TEN(TEN("x")) TEN("y") TEN("z"), TEN(TEN("x")) TEN("y") TEN("z")},
        {TEN(TEN("x")) TEN("y") TEN("z") "tail", TEN(TEN("x")) TEN("y") TEN("z")},
        {TEN(TEN("x")) TEN("y") "zzzzzzzzz\xc3\xa4", TEN(TEN("x")) TEN("y") "zzzzzzzzz"},
        {TEN(TEN("x")) TEN("y") "zzzzzzzz\xe2\x82\xac",
         TEN(TEN("x")) TEN("y") "zzzzzzzz"},
        {TEN(TEN("x")) TEN("y") "zzzzzzzz\xc3\xa4 ",
         TEN(TEN("x")) TEN("y") "zzzzzzzz\xc3\xa4"},
    };
    const struct ask ask = {.n_statuses = 0};

    for (size_t i = 0; i < WEFT_LENGTH(lines); i++) {
        struct weft_text output = {NULL, 0, 0};
        struct weft_text got = {NULL, 0, 0};
        char expected[400];

        weft_text_add(&output, "before\n%s\n", lines[i][0]);
        judge(&ask,
              &(struct seen_program){.seen = EXITED, .code = 1, .output = output.bytes},
              1, &got);
        weft_format(expected, sizeof(expected),
                    "a- status 0 > status 1, its last line is '%s'", lines[i][1]);
        ck_assert_str_eq(got.bytes, expected);
        weft_text_fini(&got);
        weft_text_fini(&output);
    }
}
END_TEST

/* ---- faults that stop programs ---- */

/* Three programs of host 1: running, ended and not begun; and one of host 0. */
START_TEST(a_fault_stops_what_runs_on_its_host)
{
    static const struct seen_program seen[] = {{.seen = NO_END, .host = 1},
                                               {.seen = EXITED, .host = 1},
                                               {.seen = NOT_BEGUN, .host = 1},
                                               {.seen = NO_END, .host = 0}};
    struct program_facts facts[WEFT_LENGTH(seen)];
    uint32_t n = WEFT_LENGTH(seen);

    for (uint32_t i = 0; i < n; i++) {
        facts[i] = facts_of(&seen[i], 0);
    }
    facts[2].has_ended = false;
    program_stop(facts, n, 1, false, 5);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_int_eq(facts[i].is_stopped, i == 0);
    }
    ck_assert_int_eq(facts[0].stopped_ns, 5);
    facts[2].has_begun = true; /* after the stop */
    program_stop(facts, n, 1, true, 7);
    program_stop(facts, n, 0, true, 7);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert(!facts[i].is_stopped);
        weft_text_fini(&facts[i].output);
    }
}
END_TEST

/* ---- kept output ---- */

START_TEST(beginning_and_end_of_the_output_are_kept)
{
    static const struct {
        const char *output;
        size_t n;
        const char *kept;
    } cases[] = {
        {"", 4, ""},
        {"a1\nb2\n", 10, "a1\nb2\n"},
        {"a1\nb2\nc3\nd4\ne5\n", 1, "a1\nb2\nc3\nd4\ne5\n"},
        {"a1\nb2\nc3\nd4\ne5\n", 3, "a1\nb2\nc3\n"},
        {"a1\nb2\nc3\nd4\ne5\n", 99, "a1\nb2\nc3\n"},
        {"a1\nb2\nc3\nd4\ne5\n", 2, "a1\nb2\nc3\n"},
        {"long line over all\n", 3, "long line over all\n"},
        {"long line\nb\nc\nd\n", 3, "long line\nd\n"},
    };

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        struct weft_text text = {NULL, 0, 0};
        size_t taken;

        weft_text_add(&text, "%s", cases[i].output);
        taken = program_output_shorten(&text, cases[i].n, 8, 16);
        ck_assert_str_eq(text.bytes, cases[i].kept);
        ck_assert_uint_eq(text.n, strlen(cases[i].kept));
        ck_assert_uint_eq(taken, strlen(cases[i].output) - text.n);
        weft_text_fini(&text);
    }
}
END_TEST

/* A program that never stops writing: the limit holds and the last line is kept. */
START_TEST(a_long_output_stays_within_its_bound)
{
    struct weft_text text = {NULL, 0, 0};
    char last[32];

    weft_text_add(&text, "%s", "");
    for (int i = 0; i < 5000; i++) {
        size_t n;

        weft_format(last, sizeof(last), "line %d\n", i);
        n = strlen(last);
        (void)program_output_shorten(&text, n, 500, 1000);
        weft_text_add_bytes(&text, last, n);
        ck_assert_uint_le(text.n, 1000);
        ck_assert_uint_ge(text.n, i < 100 ? 0 : 500);
    }
    ck_assert(strncmp(text.bytes, "line 0\nline 1\n", 14) == 0);
    ck_assert_str_eq(text.bytes + text.n - strlen(last), last);
    weft_text_fini(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run/program_verdict");
    TCase *tcase = tcase_create("program_verdict");

    tcase_add_loop_test(tcase, each_end_is_judged_by_each_expectation, 0,
                        (int)WEFT_LENGTH(ends));
    tcase_add_loop_test(tcase, a_job_is_judged_program_by_program_then_by_its_time, 0,
                        (int)WEFT_LENGTH(jobs));
    tcase_add_test(tcase, a_long_last_line_is_cut_between_characters);
    tcase_add_test(tcase, a_fault_stops_what_runs_on_its_host);
    tcase_add_test(tcase, beginning_and_end_of_the_output_are_kept);
    tcase_add_test(tcase, a_long_output_stays_within_its_bound);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* Reductions of a failing run, one at a time. */
#include "scenario/reduce.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "scenario/scenario_testing.h"

static const char three[] =
    "# Three hosts, one of them idle.\n"
    "name: three\n"
    "seed: 5\n"
    "topology:\n"
    "  defaults: {ports: [p0, p1]}\n"
    "  nodes: {a: {}, b: {}, ab: {ranks: 0}}\n"
    "  links:\n"
    "    - {endpoints: [\"a:p0\", \"b:p0\"], subnet: 10.0.1.0/24}\n"
    "    - {endpoints: [\"b:p1\", \"ab:p0\"], subnet: 10.0.2.0/24}\n"
    "ranks: [a, b]\n"
    "jobs:\n"
    "  - all_reduce: {bytes: [8, 1KiB], repeat: 3}\n"
    "  - barrier: {}\n"
    "faults:\n"
    "  - {at: 1ms, on: \"a:p0\", kind: down}\n"
    "  - {at: 2ms, on: \"a:p0\", kind: up}\n"
    "expect: {result: fail}\n";

static char *reduction(const char *text, uint32_t index)
{
    struct weft_text out = {NULL, 0, 0};

    return scenario_reduce(text, strlen(text), index, &out) ? out.bytes : NULL;
}

/* Removes " at 5:20", because places are not part of a scenario's meaning. */
static void cut_places(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0';) {
        int n = 0;

        if (sscanf(from, " at %*u:%*u%n", &n) == 0 && n > 0 && *from == ' ') {
            from += n;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

/* Returns everything that a scenario means as text, so that two scenarios can be compared. */
static char *meaning(const char *text)
{
    struct scenario *scenario;
    struct scenario_world *world;
    struct scenario_diagnostics diagnostics;
    struct weft_text out = {NULL, 0, 0};

    scenario_load_text("test", text, strlen(text), NULL, 0, &scenario, &diagnostics);
    ck_assert_msg(scenario != NULL, "%s\n%s", diagnostics.items[0].text, text);
    scenario_diagnostics_fini(&diagnostics);
    dump_scenario(scenario, &out);
    ck_assert_int_eq(scenario_to_world(scenario, &world), WEFT_OK);
    dump_world(world, &out);
    scenario_world_free(world);
    scenario_free(scenario);
    cut_places(out.bytes);
    return out.bytes;
}

/* Returns `text` with the first `from` replaced by `to`. The caller frees it. */
static char *edited(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    struct weft_text out = {NULL, 0, 0};

    ck_assert_ptr_nonnull(at);
    weft_text_add(&out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out.bytes;
}

static void check_same(char *got, char *wanted)
{
    char *meant, *said;

    ck_assert_ptr_nonnull(got);
    said = meaning(got);
    meant = meaning(wanted);
    ck_assert_str_eq(said, meant);
    free(said);
    free(meant);
    free(got);
    free(wanted);
}

/* Tests every reduction in the order of trial; those that save most come first. */
START_TEST(one_thing_less_at_a_time)
{
    char *text;

    check_same(reduction(three, 0),
               edited(three, "  - {at: 1ms, on: \"a:p0\", kind: down}\n", ""));
    check_same(reduction(three, 1),
               edited(three, "  - {at: 2ms, on: \"a:p0\", kind: up}\n", ""));
    /* Without host a or b, its cables and ranks are removed too. */
    text = reduction(three, 2);
    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_null(strstr(text, "10.0.1.0/24"));
    ck_assert_ptr_nonnull(strstr(text, "10.0.2.0/24"));
    ck_assert_ptr_nonnull(strstr(text, "ranks: [b]"));
    free(text);
    text = reduction(three, 3);
    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_null(strstr(text, "10.0."));
    ck_assert_ptr_nonnull(strstr(text, "ranks: [a]"));
    free(text);
    text = edited(three, ", ab: {ranks: 0}", "");
    check_same(reduction(three, 4),
               edited(text,
                      "    - {endpoints: [\"b:p1\", \"ab:p0\"], subnet: 10.0.2.0/24}\n",
                      ""));
    free(text);
    text = reduction(three, 5);
    ck_assert_ptr_null(strstr(text, "10.0.1.0/24"));
    free(text);
    check_same(reduction(three, 6),
               edited(three,
                      "    - {endpoints: [\"b:p1\", \"ab:p0\"], subnet: 10.0.2.0/24}\n",
                      ""));
    check_same(reduction(three, 7),
               edited(three, "  - all_reduce: {bytes: [8, 1KiB], repeat: 3}\n", ""));
    check_same(reduction(three, 8), edited(three, "  - barrier: {}\n", ""));
    check_same(reduction(three, 9), edited(three, "[8, 1KiB]", "[1KiB]"));
    check_same(reduction(three, 10), edited(three, "[8, 1KiB]", "[8]"));
    check_same(reduction(three, 11), edited(three, ", repeat: 3", ""));
    ck_assert_ptr_null(reduction(three, 12));
}
END_TEST

/* A single size is halved down to one byte. */
START_TEST(sizes_are_halved)
{
    char *text = edited(three, "[8, 1KiB], repeat: 3", "1KiB");
    char *one = edited(three, "[8, 1KiB], repeat: 3", "[1]");

    check_same(reduction(text, 9), edited(three, "[8, 1KiB], repeat: 3", "512"));
    ck_assert_ptr_null(reduction(text, 10));
    ck_assert_ptr_null(reduction(one, 9));
    free(text);
    free(one);
}
END_TEST

/* A fault at a row stays at that row while others are removed. If its own row is removed, it
 * moves to the one in its place. */
START_TEST(faults_follow_their_rows)
{
    static const struct {
        uint32_t index;
        const char *first, *second, *from, *to;
    } cases[] = {
        {7, "row 1+10us", "row 1", "  - all_reduce: {bytes: [8, 1KiB], repeat: 3}\n", ""},
        {8, "row 2+10us", "row 2", "  - barrier: {}\n", ""},
        {9, "row 1+10us", "row 2", "[8, 1KiB]", "[1KiB]"},
        {10, "row 2+10us", "row 2", "[8, 1KiB]", "[8]"},
    };
    char *half = edited(three, "at: 1ms", "at: row 2+10us");
    char *text = edited(half, "at: 2ms", "at: row 3");

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        char *jobs = edited(text, cases[i].from, cases[i].to);
        char *first = edited(jobs, "row 2+10us", cases[i].first);

        check_same(reduction(text, cases[i].index),
                   edited(first, "row 3", cases[i].second));
        free(first);
        free(jobs);
    }
    free(text);
    free(half);
}
END_TEST

/* Removing the last fault also removes `faults:`; the last job stays. */
START_TEST(the_last_of_a_list)
{
    char *text = reduction(three, 1);
    char *none = reduction(text, 0);

    ck_assert_ptr_nonnull(none);
    ck_assert_ptr_null(strstr(none, "\nfaults:"));
    free(text);
    free(none);
}
END_TEST

/* --set arguments and the seed are part of a run's description. */
START_TEST(flattened_with_its_settings)
{
    const struct scenario_set sets[] = {{"jobs.0.all_reduce.repeat=7"},
                                        {"topology.defaults.mtu=1500"}};
    struct weft_text out = {NULL, 0, 0};
    char *half = edited(three, "repeat: 3", "repeat: 7");
    char *more = edited(half, "defaults: {", "defaults: {mtu: 1500, ");

    ck_assert(
        scenario_flatten(three, strlen(three), sets, 2, 18446744073709551615u, &out));
    check_same(out.bytes, edited(more, "seed: 5", "seed: 18446744073709551615"));
    free(half);
    free(more);
}
END_TEST

START_TEST(what_cannot_be_flattened)
{
    const struct scenario_set bad = {"jobs.9.barrier=1"};
    struct weft_text out = {NULL, 0, 0};

    ck_assert(!scenario_flatten(three, strlen(three), &bad, 1, 1, &out));
    ck_assert(!scenario_flatten("[1]", 3, NULL, 0, 1, &out));
    ck_assert(!scenario_flatten("{", 1, NULL, 0, 1, &out));
    ck_assert(!scenario_reduce("{", 1, 0, &out));
    ck_assert(!scenario_reduce("a: 1", 4, 0, &out));
    ck_assert_uint_eq(out.n, 0);
}
END_TEST

/* Text that YAML would interpret as another type stays text. */
START_TEST(quoted_text_stays_text)
{
    const char text[] = "name: \"no\"\ndescription: 'it''s: \"1e3\" # \\ \xc3\xa9'\n"
                        "topology: {nodes: {a: {ports: [p0]}}, links: []}\n";
    struct weft_text out = {NULL, 0, 0};
    char *seeded = edited(text, "topology", "seed: 3\ntopology");

    ck_assert(scenario_flatten(text, strlen(text), NULL, 0, 3, &out));
    check_same(out.bytes, seeded);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reduce");
    TCase *tests = tcase_create("reduce");

    tcase_add_test(tests, one_thing_less_at_a_time);
    tcase_add_test(tests, sizes_are_halved);
    tcase_add_test(tests, faults_follow_their_rows);
    tcase_add_test(tests, the_last_of_a_list);
    tcase_add_test(tests, flattened_with_its_settings);
    tcase_add_test(tests, what_cannot_be_flattened);
    tcase_add_test(tests, quoted_text_stays_text);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

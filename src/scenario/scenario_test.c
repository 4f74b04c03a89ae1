#include "scenario/scenario.h"

#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "scenario/scenario_testing.h"

#define PAIR                                                                             \
    "name: a\n"                                                                          \
    "topology:\n"                                                                        \
    "  nodes: {a: {ports: [p0]}, b: {ports: [p0]}}\n"                                    \
    "  links: [{endpoints: [\"a:p0\", \"b:p0\"], subnet: 10.1.0.0/30}]\n"

/* Returns all complaints, one per line; "" if the text loads. */
static char *complaints(const char *name, const char *text, size_t n_bytes,
                        const struct scenario_set *sets, size_t n_sets)
{
    struct scenario *scenario;
    struct scenario_diagnostics diag;
    struct weft_text all = {0};
    weft_status status =
        scenario_load_text(name, text, n_bytes, sets, n_sets, &scenario, &diag);
    ck_assert_int_eq(status, diag.n == 0 ? WEFT_OK : WEFT_ERR_INPUT);
    ck_assert_int_eq(scenario != NULL, diag.n == 0);
    weft_text_add(&all, "%s", "");
    for (size_t i = 0; i < diag.n; i++) {
        weft_text_add(&all, "%s\n", diag.items[i].text);
    }
    scenario_free(scenario);
    scenario_diagnostics_fini(&diag);
    return all.bytes;
}

/* Returns the world and everything else that `text` means, as text. */
static char *meaning(const char *text, size_t n_bytes, const struct scenario_set *sets,
                     size_t n_sets)
{
    struct scenario *scenario;
    struct scenario_world *world;
    struct scenario_diagnostics diag;
    struct weft_text all = {0};
    weft_status status =
        scenario_load_text("good.yaml", text, n_bytes, sets, n_sets, &scenario, &diag);
    ck_assert_msg(status == WEFT_OK, "%s", diag.n > 0 ? diag.items[0].text : "");
    ck_assert_int_eq(scenario_to_world(scenario, &world), WEFT_OK);
    dump_scenario(scenario, &all);
    dump_world(world, &all);
    scenario_world_free(world);
    scenario_free(scenario);
    scenario_diagnostics_fini(&diag);
    return all.bytes;
}

static char *meaning_with(const char *set)
{
    const struct scenario_set sets[] = {{set}};
    return meaning(PAIR "jobs: [all_reduce: {bytes: [8, 16]}]\n",
                   strlen(PAIR "jobs: [all_reduce: {bytes: [8, 16]}]\n"), sets, 1);
}

struct bad_case {
    struct weft_text text, expected;
    char *sets[4];
    struct scenario_set set_list[4];
    size_t n_sets;
};

static void check_case(struct bad_case *bad, const char *title)
{
    char *got = complaints("bad.yaml", bad->text.bytes != NULL ? bad->text.bytes : "",
                           bad->text.n, bad->set_list, bad->n_sets);
    ck_assert_msg(strcmp(got, bad->expected.bytes) == 0, "%s\nexpected:\n%s\ngot:\n%s",
                  title, bad->expected.bytes, got);
    free(got);
    for (size_t i = 0; i < bad->n_sets; i++) {
        free(bad->sets[i]);
    }
    weft_text_fini(&bad->text);
    weft_text_fini(&bad->expected);
    *bad = (struct bad_case){0};
}

static void take_line(struct bad_case *bad, bool *is_expected, char *line)
{
    if (strcmp(line, "---- gives") == 0) {
        *is_expected = true;
    } else if (*is_expected) {
        const char *prefix = strncmp(line, "--set ", 6) == 0 ? "" : "bad.yaml:";
        weft_text_add(&bad->expected, "%s%s\n", prefix, line);
    } else if (strncmp(line, "--set ", 6) == 0) {
        bad->sets[bad->n_sets] = weft_strdup(line + 6);
        bad->set_list[bad->n_sets].text = bad->sets[bad->n_sets];
        bad->n_sets++;
    } else if (strcmp(line, "@pair") == 0) {
        weft_text_add(&bad->text, "%s", PAIR);
    } else {
        weft_text_add(&bad->text, "%s\n", line);
    }
}

/* Cases of testdata/bad.txt: "=== title | what else rejects it", the file, --set lines,
 * "---- gives", and the complaints without the file's name. */
START_TEST(every_bad_file_is_told_where_and_why)
{
    size_t n_bytes;
    char *all = testing_read_file("src/scenario/testdata/bad.txt", &n_bytes);
    char *line = all, title[128] = "";
    unsigned n_cases = 0;
    bool is_expected = false;
    struct bad_case bad = {0};
    while (*line != '\0') {
        char *end = strchr(line, '\n');
        ck_assert_ptr_nonnull(end);
        *end = '\0';
        if (strncmp(line, "=== ", 4) == 0) {
            if (n_cases++ > 0) {
                check_case(&bad, title);
            }
            snprintf(title, sizeof(title), "%s", line);
            is_expected = false;
        } else {
            take_line(&bad, &is_expected, line);
        }
        line = end + 1;
    }
    check_case(&bad, title);
    ck_assert_uint_ge(n_cases, 100);
    free(all);
}
END_TEST

static void check_meaning(const char *path, const char *expected_path)
{
    size_t n_bytes, n_expected;
    char *text = testing_read_file(path, &n_bytes);
    char *expected = testing_read_file(expected_path, &n_expected);
    char *got = meaning(text, n_bytes, NULL, 0);
    size_t at = 0;
    while (got[at] != '\0' && got[at] == expected[at]) {
        at++;
    }
    ck_assert_msg(got[at] == expected[at],
                  "%s: from byte %zu on, expected:\n%.200s\ngot:\n%.200s", path, at,
                  expected + at, got + at);
    free(got);
    free(expected);
    free(text);
}

START_TEST(the_whole_grammar_means_what_it_says)
{
    check_meaning("ci/corpus/scenario/whole.yaml", "src/scenario/testdata/whole.txt");
    check_meaning("ci/corpus/scenario/programs.yaml",
                  "src/scenario/testdata/programs.txt");
}
END_TEST

START_TEST(every_scenario_of_the_repository_loads)
{
    glob_t found;
    ck_assert_int_eq(glob("scenarios/*/*.yaml", 0, NULL, &found), 0);
    ck_assert_uint_ge(found.gl_pathc, 7);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct scenario *scenario;
        struct scenario_diagnostics diag;
        struct weft_text text = {0};
        weft_status status =
            scenario_load_file(found.gl_pathv[i], NULL, 0, &text, &scenario, &diag);
        ck_assert_msg(status == WEFT_OK, "%s", diag.n > 0 ? diag.items[0].text : "");
        ck_assert_msg(scenario->description[0] != '\0', "%s", found.gl_pathv[i]);
        ck_assert_str_eq(scenario->file, found.gl_pathv[i]);
        scenario_free(scenario);
        scenario_diagnostics_fini(&diag);
        weft_text_fini(&text);
    }
    globfree(&found);
}
END_TEST

START_TEST(line_ends_and_a_byte_order_mark_change_nothing)
{
    static const char plain[] = PAIR;
    char dressed[2 * sizeof(plain) + 3] = "\xef\xbb\xbf";
    size_t n = 3;
    for (const char *p = plain; *p != '\0'; p++) {
        if (*p == '\n') {
            dressed[n++] = '\r';
        }
        dressed[n++] = *p;
    }
    char *a = meaning(plain, strlen(plain), NULL, 0);
    char *b = meaning(dressed, n, NULL, 0);
    ck_assert_str_eq(a, b);
    free(a);
    free(b);
}
END_TEST

START_TEST(aliases_stand_for_what_they_name)
{
    static const char with[] =
        "name: a\ntopology: {nodes: {a: &n {ports: [p0]}, b: *n}}\n";
    static const char without[] =
        "name: a\ntopology: {nodes: {a: {ports: [p0]},     b: {ports: [p0]}}}\n";
    const struct scenario_set sets[] = {{"topology.nodes.a.gpus=2"}};
    char *a = meaning(with, strlen(with), sets, 1);
    char *b = meaning(without, strlen(without), sets, 1);
    ck_assert_ptr_nonnull(strstr(a, "host a profile=mlx5 gpus=2"));
    ck_assert_ptr_nonnull(strstr(a, "host b profile=mlx5 gpus=1"));
    ck_assert_str_eq(strstr(a, "world"), strstr(b, "world"));
    free(a);
    free(b);
}
END_TEST

/* With `ranks` and without `gpus`, each rank has its own GPU. */
START_TEST(gpus_are_shared_only_where_that_is_said)
{
    static const char file[] = "name: a\ntopology: {nodes: {a: {ports: [p0]}}}\n";
    const struct scenario_set sets[] = {{"topology.nodes.a.ranks=3"},
                                        {"topology.nodes.a.gpus=2"}};
    char *own = meaning(file, strlen(file), sets, 1);
    char *shared = meaning(file, strlen(file), sets, 2);

    ck_assert_ptr_nonnull(strstr(own, "host a profile=mlx5 gpus=3"));
    ck_assert_ptr_nonnull(strstr(shared, "host a profile=mlx5 gpus=2"));
    free(own);
    free(shared);
}
END_TEST

/* An address that is deleted temporarily returns with its prefix. */
START_TEST(an_address_of_a_port_has_its_prefix)
{
#define FAULT(address)                                                                   \
    "faults=[{at: 1ms, for: 1ms, on: 'b:p0', kind: addr_del, address: " address "}]"
    static const struct {
        const char *set, *has;
    } cases[] = {
        {FAULT("10.1.0.2"), "size=0 10.1.0.2/30 "},
        {FAULT("10.1.0.2/24"), "size=0 10.1.0.2/24 "},
        {FAULT("10.1.0.2/32"), "size=0 10.1.0.2/32 "},
        {FAULT("10.1.0.3"), "size=0 10.1.0.3/32 "},
    };

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        char *got = meaning_with(cases[i].set);

        ck_assert_msg(strstr(got, cases[i].has) != NULL, "%s gives\n%s", cases[i].set,
                      got);
        free(got);
    }
#undef FAULT
}
END_TEST

START_TEST(set_changes_one_value)
{
    static const struct {
        const char *set, *line;
    } cases[] = {
        {"jobs.0.all_reduce.bytes=64KiB",
         "job all_reduce float32 sum root=0 repeat=1 auto in_place=0 at 5:8: 65536\n"},
        {"jobs.0.all_reduce.bytes.1=24",
         "job all_reduce float32 sum root=0 repeat=1 auto in_place=0 at 5:8: 8 24\n"},
        {"jobs.0={barrier: {}}",
         "job barrier float32 sum root=0 repeat=1 auto in_place=0 at 1:2: 0\n"},
        {"jobs=[]", "job"},
        {"seed=3", "world seed=3 "},
        {"policy=nccl-2.25", "scenario a policy=nccl-2.25 "},
        {"topology.links.0.rate=25Gbps",
         "cable host0.0 host1.0 rate=25000000000 delay_ps=1000000 "},
        {"topology.defaults.mtu=1500", "  port p0 device=0.1 root0 rate=100000000000 "
                                       "mtu=1500 10.1.0.1/30\n"},
        {"topology.nodes.b.sysctl.rp_filter=1", "  sysctl 1 0 0 0 0 "},
        {"expect.result=fail", "expect fail=1 "},
        {"description=x=y", "'x=y'"},
    };
    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        char *got = meaning_with(cases[i].set);
        bool has_line = strstr(got, cases[i].line) != NULL;
        ck_assert_msg(has_line == (strcmp(cases[i].line, "job") != 0), "%s gives\n%s",
                      cases[i].set, got);
        free(got);
    }
}
END_TEST

START_TEST(what_cannot_be_read_is_said_so)
{
    static const struct {
        const char *path, *expected;
    } cases[] = {
        {"scenarios/none.yaml",
         "scenarios/none.yaml: cannot read: No such file or directory"},
        {"scenarios", "scenarios: cannot read: Is a directory"},
    };
    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        struct scenario *scenario;
        struct scenario_diagnostics diag;
        struct weft_text text = {0};
        ck_assert_int_eq(
            scenario_load_file(cases[i].path, NULL, 0, &text, &scenario, &diag),
            WEFT_ERR_INPUT);
        ck_assert_ptr_null(scenario);
        ck_assert_uint_eq(diag.n, 1);
        ck_assert_str_eq(diag.items[0].text, cases[i].expected);
        scenario_diagnostics_fini(&diag);
        weft_text_fini(&text);
    }
}
END_TEST

START_TEST(a_file_too_large_is_refused_unread)
{
    size_t n_bytes = ((size_t)16 << 20) + 1;
    char *text = weft_calloc(n_bytes, 1);
    memset(text, ' ', n_bytes);
    char *got = complaints("big.yaml", text, n_bytes, NULL, 0);
    ck_assert_str_eq(got, "big.yaml:1:1: too large: more than 16777216 bytes\n");
    free(got);
    free(text);
}
END_TEST

START_TEST(an_alias_bomb_is_refused)
{
    struct weft_text text = {0};
    weft_text_add(&text, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (unsigned i = 1; i < 12; i++) {
        weft_text_add(&text, "a%u: &a%u [", i, i);
        for (unsigned k = 0; k < 10; k++) {
            weft_text_add(&text, "%s*a%u", k > 0 ? ", " : "", i - 1);
        }
        weft_text_add(&text, "]\n");
    }
    char *got = complaints("bomb.yaml", text.bytes, text.n, NULL, 0);
    ck_assert_str_eq(got, "bomb.yaml:6:30: too large: more than 500000 values\n");
    free(got);
    weft_text_fini(&text);
}
END_TEST

/* An alias counts with the levels that it stands for, as if they were written out. */
START_TEST(levels_of_aliases_are_counted)
{
    static const struct {
        unsigned n_aliases, n_around; /* lists in lists, by aliases and as written */
        bool is_fine;
    } rows[] = {{22, 0, true},  {23, 0, false}, {100, 0, false}, {21, 1, true},
                {21, 2, false}, {0, 22, true},  {0, 23, false},  {0, 24, false}};
    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        struct weft_text text = {0};
        weft_text_add(&text, "x0: &x0 [x]\n");
        for (unsigned k = 1; k <= rows[i].n_aliases; k++) {
            weft_text_add(&text, "x%u: &x%u [*x%u]\n", k, k, k - 1);
        }
        weft_text_add(&text, "y: ");
        for (unsigned k = 0; k < rows[i].n_around; k++) {
            weft_text_add(&text, "[");
        }
        weft_text_add(&text, "*x%u", rows[i].n_aliases);
        for (unsigned k = 0; k < rows[i].n_around; k++) {
            weft_text_add(&text, "]");
        }
        char *got = complaints("deep.yaml", text.bytes, text.n, NULL, 0);
        bool is_fine = strstr(got, "nested deeper than 24 levels") == NULL;
        ck_assert_msg(is_fine == rows[i].is_fine, "row %zu: %s", i, got);
        free(got);
        weft_text_fini(&text);
    }
}
END_TEST

/* From YAML 1.1's float: a digit comes before the first '_'. */
START_TEST(what_only_looks_like_a_number_is_text)
{
    static const struct {
        const char *text;
        bool is_text;
    } rows[] = {{"_.5", true},  {"_.", true},     {"._", true},      {"._5", true},
                {"__._", true}, {"-_.5", true},   {"1.5e_", true},   {".", true},
                {"_", true},    {"1_.5", false},  {".5", false},     {".5_", false},
                {"1.", false},  {"-1._5", false}, {"1.5e1_0", false}};
    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        char set[64], *got;
        weft_format(set, sizeof(set), "faults=[{on: %s, kind: kill}]", rows[i].text);
        const struct scenario_set sets[] = {{set}};
        got = complaints("x", PAIR, strlen(PAIR), sets, 1);
        ck_assert_msg((strstr(got, "expected text") == NULL) == rows[i].is_text, "%s: %s",
                      rows[i].text, got);
        free(got);
    }
}
END_TEST

START_TEST(anchors_are_counted)
{
    struct weft_text text = {0};
    weft_text_add(&text, PAIR "jobs:\n");
    for (unsigned i = 0; i < 257; i++) {
        weft_text_add(&text, "  - &x%u all_reduce\n", i);
    }
    char *got = complaints("many.yaml", text.bytes, text.n, NULL, 0);
    ck_assert_str_eq(got, "many.yaml:262:5: more than 256 anchors\n");
    free(got);
    weft_text_fini(&text);
}
END_TEST

START_TEST(complaints_end_somewhere)
{
    struct weft_text text = {0};
    struct scenario *scenario;
    struct scenario_diagnostics diag;
    weft_text_add(&text, PAIR);
    for (unsigned i = 0; i < 70; i++) {
        weft_text_add(&text, "wrong%u: 1\n", i);
    }
    ck_assert_int_eq(
        scenario_load_text("x", text.bytes, text.n, NULL, 0, &scenario, &diag),
        WEFT_ERR_INPUT);
    ck_assert_uint_eq(diag.n, SCENARIO_DIAGNOSTICS_MAX);
    ck_assert_uint_eq(diag.n_left_out, 20);
    ck_assert_str_eq(diag.items[49].text, "x:54:1: unknown key 'wrong49' in a scenario");
    scenario_diagnostics_fini(&diag);
    weft_text_fini(&text);
}
END_TEST

START_TEST(what_cannot_run_yet_is_named)
{
    static const struct {
        const char *set, *key;
    } cases[] = {
        {"seed=2", NULL},
        {"boot=static", NULL},
        {"payload=timing", NULL},
        {"topology.management=none", NULL},
        {"topology.switches={sw0: {ports: 2}}", NULL},
        {"topology.nodes.b.ranks=0", NULL},
        {"topology.nodes.b.gpus=2", NULL},
        {"topology.nodes.a.gpu={topology: x.xml}", NULL},
        {"jobs=[send_recv: {bytes: 8, dtype: uint8}]", NULL},
        {"jobs=[all_reduce: {bytes: 8, dtype: int32, algorithm: rings}]", NULL},
        {"topology.links.0.pause=on", NULL},
        {"faults=[{on: a, kind: stop, for: 1ms}]", NULL},
        {"faults=[{on: \"a:p0\", kind: pause, for: 1ms}]", NULL},
        {"jobs=[{barrier: {}}, {all_reduce: {bytes: 8, op: avg, dtype: float16}}]", NULL},
        {"jobs=[all_reduce: {bytes: 8, algorithm: trees}]", NULL},
        {"faults=[{on: a, kind: kill}, {on: a, kind: clock, by: 1s}]", "faults.1.clock"},
        /* counted as in the file, where one can stand for several */
        {"faults=[{on: \"a:p0\", kind: down, for: 1ms, every: 5ms, times: 3}, "
         "{on: a, kind: clock, by: 1s}]",
         "faults.1.clock"},
        {"faults=[{on: \"a:p0\", kind: addr_change, address: 10.9.0.1/24}, "
         "{on: a, kind: kill}, {on: a, kind: clock, by: 1s}]",
         "faults.2.clock"},
    };
    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        const struct scenario_set sets[] = {{cases[i].set}};
        struct scenario *scenario;
        struct scenario_diagnostics diag;
        const char *key = NULL;
        ck_assert_int_eq(
            scenario_load_text("x", PAIR, strlen(PAIR), sets, 1, &scenario, &diag),
            WEFT_OK);
        ck_assert_int_eq(scenario_not_implemented(scenario, &key), cases[i].key != NULL);
        ck_assert_pstr_eq(key, cases[i].key);
        scenario_free(scenario);
        scenario_diagnostics_fini(&diag);
    }
}
END_TEST

START_TEST(faults_come_at_moments_of_the_job)
{
    static const struct {
        const char *at, *meaning;
    } cases[] = {
        {"2ms", "at=2000000 for=5 host0.0 direction"},
        {"jobs", "at=0 for=5 host0.0 moment=1 row0 host0 0 direction"},
        {"jobs+1ms", "at=1000000 for=5 host0.0 moment=1 row0 host0 0 direction"},
        {"row 2", "at=0 for=5 host0.0 moment=2 row2 host0 0 direction"},
        {"' row  2 + 10us'", "at=10000 for=5 host0.0 moment=2 row2 host0 0 direction"},
        {"b sent 10MiB", "at=0 for=5 host0.0 moment=3 row0 host1 10485760 direction"},
        {"b sent 9+1s", "at=1000000000 for=5 host0.0 moment=3 row0 host1 9 direction"},
    };
    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        char set[128], *got;
        weft_format(set, sizeof(set),
                    "faults=[{at: %s, on: \"a:p0\", kind: down, for: 5ns}]", cases[i].at);
        got = meaning_with(set);
        ck_assert_msg(strstr(got, cases[i].meaning) != NULL, "%s\n%s", cases[i].at, got);
        free(got);
    }
}
END_TEST

/* Each repetition of a fault counts from its moment. */
START_TEST(a_moment_is_said_as_it_was_written)
{
    static const char text[] =
        PAIR "jobs: [all_reduce: {bytes: [8, 16]}]\n"
             "faults:\n"
             "  - {at: row 2+1us, link: \"a:p0\", down_for: 1us, every: 3us, times: 2}\n"
             "  - {at: jobs, on: a, kind: kill}\n"
             "  - {at: b sent 2KiB, on: a, kind: kill}\n"
             "  - {at: 1ms, on: a, kind: kill}\n"
             "  - {at: jobs+2s, on: a, kind: kill}\n";
    static const char *const said[] = {"1 at row 2+1us", "1 at row 2+4us",
                                       "2 at jobs",      "3 at b sent 2KiB",
                                       "4 at 1ms",       "5 at jobs+2s"};
    struct scenario *scenario;
    struct scenario_diagnostics diag;
    ck_assert_int_eq(
        scenario_load_text("x", text, strlen(text), NULL, 0, &scenario, &diag), WEFT_OK);
    ck_assert_uint_eq(scenario_n_rows(scenario), 2);
    ck_assert_uint_eq(scenario->n_faults, WEFT_LENGTH(said));
    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        const struct scenario_fault *fault = &scenario->faults[i];
        char moment[SCENARIO_MOMENT_BYTES], got[SCENARIO_MOMENT_BYTES + 16];
        scenario_moment_text(scenario, &fault->spec, moment, sizeof(moment));
        weft_format(got, sizeof(got), "%u %s", fault->number, moment);
        ck_assert_str_eq(got, said[i]);
    }
    scenario_free(scenario);
    scenario_diagnostics_fini(&diag);
}
END_TEST

START_TEST(moments_of_programs_are_said_as_they_were_written)
{
    static const char text[] = PAIR "jobs: [exec: {a: x}]\n"
                                    "faults:\n"
                                    "  - {at: 'a:p0 rts', on: a, kind: kill}\n"
                                    "  - {at: 'b:p0  rts 2 + 3us', on: a, kind: kill}\n"
                                    "  - {at: 'b:p0 packet 1', on: a, kind: kill}\n";
    static const struct {
        enum world_moment_kind kind;
        uint32_t host, n;
        const char *said;
    } cases[] = {{WORLD_MOMENT_RTS, 0, 1, "at a:p0 rts"},
                 {WORLD_MOMENT_RTS, 1, 2, "at b:p0 rts 2+3us"},
                 {WORLD_MOMENT_PACKET, 1, 1, "at b:p0 packet 1"}};
    struct scenario *scenario;
    struct scenario_diagnostics diag;

    ck_assert_int_eq(
        scenario_load_text("x", text, strlen(text), NULL, 0, &scenario, &diag), WEFT_OK);
    ck_assert_uint_eq(scenario->n_faults, WEFT_LENGTH(cases));
    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        const struct world_moment *moment = &scenario->faults[i].spec.moment;
        char got[SCENARIO_MOMENT_BYTES];

        ck_assert_int_eq(moment->kind, cases[i].kind);
        ck_assert_uint_eq(moment->host, cases[i].host);
        ck_assert_uint_eq(moment->port, 0);
        ck_assert_uint_eq(moment->n, cases[i].n);
        scenario_moment_text(scenario, &scenario->faults[i].spec, got, sizeof(got));
        ck_assert_str_eq(got, cases[i].said);
    }
    scenario_free(scenario);
    scenario_diagnostics_fini(&diag);
}
END_TEST

START_TEST(places_found_wrong_later_can_be_said)
{
    const struct scenario_set sets[] = {{"faults=[{on: a, kind: kill}]"}};
    struct scenario *scenario;
    struct scenario_diagnostics diag;
    char place[64];
    ck_assert_int_eq(
        scenario_load_text("x.yaml", PAIR, strlen(PAIR), sets, 1, &scenario, &diag),
        WEFT_OK);
    scenario_where(scenario, scenario->links[0].mark, place, sizeof(place));
    ck_assert_str_eq(place, "x.yaml:4:11: ");
    scenario_where(scenario, scenario->faults[0].mark, place, sizeof(place));
    ck_assert_str_eq(place, "--set faults: ");
    scenario_free(scenario);
    scenario_diagnostics_fini(&diag);
    scenario_free(NULL);
    scenario_world_free(NULL);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {every_bad_file_is_told_where_and_why,
                                  the_whole_grammar_means_what_it_says,
                                  every_scenario_of_the_repository_loads,
                                  line_ends_and_a_byte_order_mark_change_nothing,
                                  aliases_stand_for_what_they_name,
                                  gpus_are_shared_only_where_that_is_said,
                                  an_address_of_a_port_has_its_prefix,
                                  set_changes_one_value,
                                  what_cannot_be_read_is_said_so,
                                  a_file_too_large_is_refused_unread,
                                  an_alias_bomb_is_refused,
                                  levels_of_aliases_are_counted,
                                  what_only_looks_like_a_number_is_text,
                                  anchors_are_counted,
                                  complaints_end_somewhere,
                                  what_cannot_run_yet_is_named,
                                  faults_come_at_moments_of_the_job,
                                  a_moment_is_said_as_it_was_written,
                                  moments_of_programs_are_said_as_they_were_written,
                                  places_found_wrong_later_can_be_said};
    Suite *suite = suite_create("scenario");
    TCase *tcase = tcase_create("files");
    for (size_t i = 0; i < WEFT_LENGTH(tests); i++) {
        tcase_add_test(tcase, tests[i]);
    }
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

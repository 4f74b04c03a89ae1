#include "run/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "diag/diag.h"
#include "diag/observations.h"
#include "run/private.h"

/* Small scenarios, in which every number can be checked. */
#define TRIANGLE                                                                         \
    "name: t\n"                                                                          \
    "topology:\n"                                                                        \
    "  defaults: {ports: [p0, p1], rate: 100Gbps, delay: 1us, mtu: 9000}\n"              \
    "  nodes: {a: {}, b: {}, c: {}}\n"                                                   \
    "  links:\n"                                                                         \
    "    - {endpoints: ['a:p0', 'b:p1'], subnet: 10.1.0.0/24}\n"                         \
    "    - {endpoints: ['b:p0', 'c:p1'], subnet: 10.2.0.0/24}\n"                         \
    "    - {endpoints: ['c:p0', 'a:p1'], subnet: 10.3.0.0/24}\n"
#define JOB "jobs: [{all_reduce: {bytes: [8, 1MiB]}}]\n"

struct outcome {
    enum run_result result;
    json_t *document, *observations;
    struct weft_text story;
    struct weft_error error;
};

static void take_line(void *context, const char *line, size_t n_bytes)
{
    weft_text_add_bytes(context, line, n_bytes);
}

static struct outcome run_with(const char *text, const struct run_options *changes)
{
    struct outcome out = {.result = RUN_ERROR};
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;
    struct run_options options = *changes;

    ck_assert_msg(scenario_load_text("t.yaml", text, strlen(text), NULL, 0, &scenario,
                                     &diagnostics) == WEFT_OK,
                  "%s", diagnostics.n > 0 ? diagnostics.items[0].text : "?");
    options.backend = backend_find("sim");
    options.trace_level = WEFT_TRACE_STORY;
    options.events = take_line;
    options.events_context = &out.story;
    out.result =
        run_scenario(scenario, &options, &out.document, &out.observations, &out.error);
    scenario_free(scenario);
    scenario_diagnostics_fini(&diagnostics);
    return out;
}

static struct outcome run(const char *text)
{
    return run_with(text, &(struct run_options){.replay = "weft run t.yaml"});
}

static void outcome_fini(struct outcome *out)
{
    json_decref(out->document);
    json_decref(out->observations);
    weft_text_fini(&out->story);
}

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static json_int_t int_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* ---- the document ---- */

START_TEST(the_document_has_every_key)
{
    static const char *const keys[] = {
        "schema_version", "weft",       "scenario",    "backend",      "policy",
        "seed",           "trace_hash", "result",      "symptom",      "connections",
        "jobs",           "links",      "findings",    "expectations", "counters",
        "warnings",       "replay",     "sim_time_ns", "completions",
    };
    struct outcome out = run(TRIANGLE JOB);
    const json_t *document = out.document;

    ck_assert_int_eq(out.result, RUN_PASS);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        ck_assert_msg(json_object_get(document, keys[i]) != NULL, "%s", keys[i]);
    }
    ck_assert_int_eq(int_at(document, "schema_version"), 1);
    ck_assert_str_eq(text_at(document, "scenario"), "t");
    ck_assert_str_eq(text_at(document, "backend"), "sim");
    ck_assert_str_eq(text_at(document, "policy"), "weft");
    ck_assert_str_eq(text_at(document, "seed"), "1");
    ck_assert_str_eq(text_at(document, "result"), "pass");
    ck_assert_uint_eq(strlen(text_at(document, "trace_hash")), 64);
    ck_assert(json_is_null(json_object_get(document, "symptom")));
    ck_assert_uint_eq(json_array_size(json_object_get(document, "findings")), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(document, "expectations")), 3);
    ck_assert_uint_eq(json_array_size(json_object_get(document, "links")), 6);
    outcome_fini(&out);
}
END_TEST

START_TEST(connections_are_told_per_direction)
{
    struct outcome out = run(TRIANGLE JOB);
    const json_t *list = json_object_get(out.document, "connections");
    const json_t *first = json_array_get(list, 0);
    bool seen[3][3] = {{false}};

    ck_assert_uint_eq(json_array_size(list), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *c = json_array_get(list, i);

        seen[int_at(c, "from")][int_at(c, "to")] = true;
    }
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            ck_assert(seen[i][j] == (i != j));
        }
    }
    ck_assert_str_eq(text_at(first, "from_host"), "a");
    ck_assert_str_eq(text_at(first, "to_host"), "b");
    ck_assert_str_eq(text_at(first, "local_port"), "p0");
    ck_assert_str_eq(text_at(first, "remote_port"), "p1");
    ck_assert_str_eq(text_at(first, "local_gid"), "10.1.0.1");
    ck_assert_str_eq(text_at(first, "remote_gid"), "10.1.0.2");
    ck_assert_str_eq(text_at(first, "gid_type"), "RoCE v2");
    ck_assert_int_eq(int_at(first, "path_mtu"), 4096);
    ck_assert_int_eq(int_at(first, "qps"), 2);
    ck_assert_int_eq(int_at(first, "rail"), 0);
    ck_assert_int_gt(int_at(first, "setup_ns"), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(first, "via")), 0);
    outcome_fini(&out);
}
END_TEST

/* Returns the entry of one queue, or NULL if it completed nothing. */
static const json_t *queue_of(const json_t *list, const char *host, const char *peer,
                              const char *role, int qp, const char *queue)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry)
    {
        if (strcmp(text_at(entry, "host"), host) == 0 &&
            strcmp(text_at(entry, "peer"), peer) == 0 &&
            strcmp(text_at(entry, "role"), role) == 0 && int_at(entry, "qp") == qp &&
            strcmp(text_at(entry, "queue"), queue) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* Each data message that a connector's queue completed after its four probes was received by the
 * acceptor's queue of the same queue pair. */
START_TEST(what_one_end_sent_the_other_received)
{
    static const char *const names[3] = {"a", "b", "c"};
    struct outcome out = run(TRIANGLE JOB);
    const json_t *list = json_object_get(out.document, "completions");
    json_int_t n_received = 0;

    for (int pair = 0; pair < 9; pair++) {
        const char *from = names[pair / 3];
        const char *to = names[pair % 3];

        for (int qp = 0; qp < 2 && from != to; qp++) {
            const json_t *sent = queue_of(list, from, to, "connector", qp, "send");
            const json_t *got = queue_of(list, to, from, "acceptor", qp, "receive");

            ck_assert(sent != NULL);
            ck_assert_int_eq(int_at(sent, "count"),
                             4 + (got == NULL ? 0 : int_at(got, "count")));
            ck_assert_int_eq(int_at(sent, "epoch"), 0);
            ck_assert_str_eq(
                json_string_value(json_array_get(json_object_get(sent, "first"), 3)),
                "RDMA_READ");
            n_received += got == NULL ? 0 : int_at(got, "count");
        }
    }
    ck_assert_int_gt(n_received, 0);
    outcome_fini(&out);
}
END_TEST

START_TEST(rows_hold_their_rates_and_bounds)
{
    struct outcome out = run(TRIANGLE JOB);
    const json_t *jobs = json_object_get(out.document, "jobs");
    const json_t *row = json_array_get(jobs, 1);
    double time = (double)int_at(row, "time_ns");
    double limit = json_real_value(json_object_get(row, "limit_gBps"));
    double bus = json_real_value(json_object_get(row, "bus_bw_gBps"));

    ck_assert_uint_eq(json_array_size(jobs), 2);
    ck_assert_int_eq(int_at(json_array_get(jobs, 0), "size_bytes"), 8);
    ck_assert_str_eq(text_at(row, "job"), "all_reduce");
    ck_assert_int_eq(int_at(row, "index"), 0);
    ck_assert_int_eq(int_at(row, "size_bytes"), 1 << 20);
    ck_assert_int_eq(int_at(row, "count"), 1 << 18);
    ck_assert_str_eq(text_at(row, "dtype"), "float32");
    ck_assert_str_eq(text_at(row, "op"), "sum");
    ck_assert(json_is_null(json_object_get(row, "root")));
    ck_assert_int_eq(int_at(row, "nwrong"), 0);
    ck_assert_double_eq_tol(json_real_value(json_object_get(row, "alg_bw_gBps")),
                            (1 << 20) / time, 1e-9);
    ck_assert_double_eq_tol(bus, 4.0 / 3 * (1 << 20) / time, 1e-9);
    /* Two cables of 100 Gbit/s, with 4096 payload bytes in frames of 4178 bytes. */
    ck_assert_double_eq_tol(limit, 25.0 * 4096 / 4178, 0.03);
    ck_assert_double_lt(bus, limit);
    ck_assert_double_gt(bus, 0.85 * limit);
    outcome_fini(&out);
}
END_TEST

START_TEST(the_same_seed_gives_the_same_bytes)
{
    struct outcome a = run(TRIANGLE JOB);
    struct outcome b = run(TRIANGLE JOB);
    struct outcome c =
        run_with(TRIANGLE JOB, &(struct run_options){.has_seed = true, .seed = 2});
    char *first = json_dumps(a.document, JSON_SORT_KEYS);
    char *second = json_dumps(b.document, JSON_SORT_KEYS);

    ck_assert_uint_gt(a.story.n, 1000);
    ck_assert_str_eq(a.story.bytes, b.story.bytes);
    ck_assert_str_eq(first, second);
    ck_assert_str_ne(text_at(a.document, "trace_hash"),
                     text_at(c.document, "trace_hash"));
    ck_assert_str_eq(text_at(c.document, "seed"), "2");
    free(first);
    free(second);
    outcome_fini(&a);
    outcome_fini(&b);
    outcome_fini(&c);
}
END_TEST

/* ---- faults at moments of the job ---- */

/* Returns the time of the first line that contains `what`; -1 if there is none. */
static long long time_of(const struct outcome *out, const char *what)
{
    const char *at = strstr(out->story.bytes, what);

    while (at != NULL && at > out->story.bytes && at[-1] != '\n') {
        at--;
    }
    return at == NULL ? -1 : strtoll(at, NULL, 10);
}

/* The fault sets the cable's own delay, so that it changes only the event log. */
#define HARMLESS(at) "{at: " at ", on: 'a:p0', kind: delay, delay: 1us}"

START_TEST(faults_come_at_moments_of_the_job)
{
    static const struct {
        const char *faults, *from;
        long long after_ns;
    } cases[] = {
        {"faults: [" HARMLESS("jobs") "]\n", "from=barrier to=jobs", 0},
        {"faults: [" HARMLESS("jobs+1us") "]\n", "from=barrier to=jobs", 1000},
        {"faults: [" HARMLESS("row 2") "]\n", "start bytes=1048576", 0},
        {"faults: [" HARMLESS("row 2+7ns") "]\n", "start bytes=1048576", 7},
    };
    struct weft_text text = {NULL, 0, 0};
    struct outcome out, again;

    weft_text_add(&text, "%s%s", TRIANGLE JOB, cases[_i].faults);
    out = run(text.bytes);
    again = run(text.bytes);
    ck_assert_int_eq(out.result, RUN_PASS);
    ck_assert_int_gt(time_of(&out, cases[_i].from), 0);
    ck_assert_int_eq(time_of(&out, "a p0 fault kind=delay"),
                     time_of(&out, cases[_i].from) + cases[_i].after_ns);
    ck_assert_str_eq(out.story.bytes, again.story.bytes);
    ck_assert_uint_eq(json_array_size(json_object_get(out.document, "warnings")), 0);
    outcome_fini(&out);
    outcome_fini(&again);
    weft_text_fini(&text);
}
END_TEST

/* Faults begin within the row that sends that amount, the larger amount later. */
START_TEST(faults_come_when_a_host_has_sent_so_much)
{
    static const char text[] = TRIANGLE JOB "faults: [" HARMLESS(
        "b sent 512KiB") ", {at: b sent 1MiB, on: 'b:p0', kind: delay, "
                         "delay: 1us}]\n";
    struct outcome out = run(text), again = run(text);
    long long first = time_of(&out, "a p0 fault kind=delay");
    long long second = time_of(&out, "b p0 fault kind=delay");

    ck_assert_int_eq(out.result, RUN_PASS);
    ck_assert_int_gt(first, time_of(&out, "start bytes=1048576"));
    ck_assert_int_gt(second, first);
    ck_assert_int_lt(second, time_of(&out, "from=jobs to=close"));
    ck_assert_str_eq(out.story.bytes, again.story.bytes);
    outcome_fini(&out);
    outcome_fini(&again);
}
END_TEST

/* The warning names the fault as in the file. The run is judged as if it had no such fault. */
START_TEST(a_moment_that_never_comes_is_said)
{
    struct outcome out =
        run(TRIANGLE JOB "faults: [{at: row 1, on: b, kind: kill}, " HARMLESS(
            "row 2+1us") "]\n"
                         "expect: {result: fail, findings: [peer.dead], invariants: "
                         "[ends, "
                         "recovery, time, explained]}\n");
    const json_t *warnings = json_object_get(out.document, "warnings");

    ck_assert_int_eq(out.result, RUN_PASS);
    ck_assert_uint_eq(json_array_size(warnings), 1);
    ck_assert_str_eq(json_string_value(json_array_get(warnings, 0)),
                     "fault 2 at row 2+1us never came: the run was over before");
    outcome_fini(&out);
}
END_TEST

#define FLAP "{at: 12ms, link: 'a:p0', down_for: 2ms, every: 5ms, times: 3}"

/* Times are of a run of processes: when jobs began and when it ended. The flap ends at 24 ms. */
START_TEST(a_fault_whose_time_missed_the_job_is_said)
{
    static const struct {
        const char *fault;
        weft_ns jobs_ns, ended_ns;
        const char *said; /* NULL if nothing is */
    } cases[] = {
        {FLAP, 24000000, 90000000,
         "fault 1 at 12ms was over before the job began, 24ms after the start: jobs+12ms "
         "counts from there"},
        {FLAP, 23999999, 90000000, NULL},
        {"{at: 1us, on: 'a:p0', kind: down, for: 1us}", 2000007, 90000000,
         "fault 1 at 1us was over before the job began, 2ms after the start: jobs+1us "
         "counts from there"},
        {"{at: 0s, on: 'a:p0', kind: down, for: 1us}", 2000000, 90000000, NULL},
        {FLAP, 0, 90000000, NULL}, /* it may be why no job began */
        {FLAP, 0, 12000000, "fault 1 at 12ms never came: the run was over before"},
        {FLAP, 0, 12000001, NULL},
        {"{at: 12ms, on: 'a:p0', kind: down}", 24000000, 90000000, NULL},
        {"{at: jobs+12ms, on: 'a:p0', kind: down}", 5000000, 6000000, NULL},
    };
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;
    struct weft_text text = {NULL, 0, 0};
    char said[256] = "";
    bool is_said;

    weft_text_add(&text, "%sfaults: [%s]\n", TRIANGLE JOB, cases[_i].fault);
    ck_assert_int_eq(scenario_load_text("t.yaml", text.bytes, text.n, NULL, 0, &scenario,
                                        &diagnostics),
                     WEFT_OK);
    is_said = run_fault_missed(scenario, 1, cases[_i].jobs_ns, cases[_i].ended_ns, said,
                               sizeof(said));
    ck_assert_int_eq(is_said, cases[_i].said != NULL);
    ck_assert_str_eq(said, is_said ? cases[_i].said : "");
    scenario_free(scenario);
    scenario_diagnostics_fini(&diagnostics);
    weft_text_fini(&text);
}
END_TEST

/* ---- failures ---- */

START_TEST(pairing_by_index_fails_as_on_real_machines)
{
    struct outcome out =
        run_with(TRIANGLE JOB, &(struct run_options){.has_policy = true,
                                                     .policy = WEFT_POLICY_NCCL_2_25});
    const json_t *symptom = json_object_get(out.document, "symptom");
    const json_t *finding = json_array_get(json_object_get(out.document, "findings"), 0);
    const json_t *row = json_array_get(json_object_get(out.document, "jobs"), 0);

    ck_assert_int_eq(out.result, RUN_FAIL);
    ck_assert_str_eq(text_at(out.document, "result"), "fail");
    ck_assert_int_eq(int_at(symptom, "errno"), 110);
    ck_assert(json_is_null(json_object_get(symptom, "wc_status")));
    ck_assert_str_eq(text_at(finding, "code"), "route.wrong_nic");
    ck_assert_str_eq(text_at(finding, "severity"), "error");
    ck_assert(json_is_null(json_object_get(row, "time_ns")));
    ck_assert(json_is_null(json_object_get(row, "nwrong")));
    ck_assert_uint_eq(json_array_size(json_object_get(out.document, "warnings")), 1);
    outcome_fini(&out);
}
END_TEST

START_TEST(observations_diagnose_the_same)
{
    struct outcome out = run(TRIANGLE JOB "faults: [{at: 600us, on: b, kind: kill}]\n"
                                          "expect: {result: fail, symptom: {errno: 104}, "
                                          "findings: [peer.dead]}\n");
    struct diag_input input;
    struct diag_findings findings;
    struct weft_error error = {0};
    json_t *again;

    ck_assert_int_eq(out.result, RUN_PASS);
    ck_assert_int_eq(diag_observations_decode(out.observations, &input, &error), WEFT_OK);
    diag(&input, &findings);
    again = diag_findings_encode(&findings);
    ck_assert_uint_eq(json_array_size(again), 1);
    ck_assert_str_eq(text_at(json_array_get(again, 0), "code"), "peer.dead");
    ck_assert(json_equal(again, json_object_get(out.document, "findings")));
    json_decref(again);
    diag_findings_fini(&findings);
    diag_input_fini(&input);
    outcome_fini(&out);
}
END_TEST

/* Three more addresses on a port make its table longer than a description. */
START_TEST(a_table_that_was_cut_says_so_at_both_ends)
{
    struct outcome out =
        run("name: t\n"
            "topology:\n"
            "  defaults: {ports: [p0], rate: 100Gbps, delay: 1us, mtu: 9000}\n"
            "  nodes: {a: {addresses: {p0: [10.7.0.1/24, 10.8.0.1/24, 10.9.0.1/24]}}, b: "
            "{}}\n"
            "  links: [{endpoints: ['a:p0', 'b:p0'], subnet: 10.1.0.0/24}]\n" JOB);
    const json_t *hosts = json_object_get(out.observations, "hosts");
    const json_t *told = json_object_get(json_array_get(hosts, 1), "told");

    for (size_t i = 0; i < 3; i++) {
        const json_t *host = i < 2 ? json_array_get(hosts, i) : json_array_get(told, 0);
        const json_t *port = json_array_get(json_object_get(host, "ports"), 0);

        ck_assert_str_eq(text_at(port, "name"), "p0");
        ck_assert(i == 1 ? json_is_false(json_object_get(port, "gids_cut"))
                         : json_is_true(json_object_get(port, "gids_cut")));
    }
    outcome_fini(&out);
}
END_TEST

/* A host records 64 events. What it observed does not look complete if there were more. */
START_TEST(events_that_were_not_kept_are_said_to_be_missing)
{
    static const char *const times[] = {"32", "33"}; /* each time down and up */
    struct weft_text text = {NULL, 0, 0};
    const json_t *host;
    struct outcome out;

    weft_text_add(&text,
                  "%s" JOB "faults: [{at: jobs, for: 100ns, every: 300ns, times: %s, on: "
                  "'a:p0', kind: down}]\n",
                  TRIANGLE, times[_i]);
    out = run(text.bytes);
    host = json_array_get(json_object_get(out.observations, "hosts"), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(host, "events")), 64);
    ck_assert_int_eq(json_is_true(json_object_get(host, "events_cut")), _i == 1);
    outcome_fini(&out);
    weft_text_fini(&text);
}
END_TEST

/* Every host has two processes, and no neighbour answers on the first of two cables. */
START_TEST(a_rail_that_was_left_out_led_to_a_process)
{
    struct outcome out = run(
        "name: t\n"
        "topology:\n"
        "  defaults: {ports: [p0, p1], ranks: 2, rate: 100Gbps, delay: 1us, mtu: 9000}\n"
        "  nodes: {a: {}, b: {}}\n"
        "  links:\n"
        "    - {endpoints: ['a:p0', 'b:p0'], subnet: 10.1.0.0/24, vlan: {'a:p0': 10, "
        "'b:p0': 20}}\n"
        "    - {endpoints: ['a:p1', 'b:p1'], subnet: 10.2.0.0/24}\n" JOB);
    const json_t *host = json_array_get(json_object_get(out.observations, "hosts"), 0);
    const json_t *left_out = json_object_get(host, "left_out");

    bool has_second = false;

    ck_assert_str_eq(text_at(host, "name"), "a");
    for (size_t i = 0; i < json_array_size(left_out); i++) {
        const char *peer = text_at(json_array_get(left_out, i), "peer");

        has_second = has_second || strcmp(peer, "b/1") == 0;
    }
    ck_assert(has_second);
    outcome_fini(&out);
}
END_TEST

/* The host's kernel and NIC still answer for it. That it outlives all others is the only
 * evidence. */
START_TEST(a_host_that_stops_for_good_is_named_in_bounded_time)
{
    struct outcome out =
        run(TRIANGLE JOB "faults: [{at: 600us, on: b, kind: stop}]\n"
                         "expect: {result: fail, findings: [peer.silent]}\n");
    const json_t *finding = json_array_get(json_object_get(out.document, "findings"), 0);

    ck_assert_int_eq(out.result, RUN_PASS);
    ck_assert_uint_eq(json_array_size(json_object_get(out.document, "findings")), 1);
    ck_assert_str_eq(text_at(json_object_get(finding, "where"), "peer"), "b");
    /* 1 min for the job, 15 min for the rendezvous, 1.5 min until it counts as hung. */
    ck_assert_int_lt(int_at(out.document, "sim_time_ns"), INT64_C(1080) * 1000000000);
    outcome_fini(&out);
}
END_TEST

/* The ranks are done without the relay, which is stopped before the last rows and had nothing left
 * to do. It is not waited for, unless it goes on. */
START_TEST(a_relay_that_stops_for_good_is_not_waited_for)
{
    static const char *const moments[] = {"row 2", "row 3"};
    bool goes_on = _i >= 2;
    char text[1024];
    struct outcome out;

    weft_format(text, sizeof(text),
                "name: t\n"
                "topology:\n"
                "  defaults: {ports: [p0, p1], rate: 100Gbps, delay: 1us}\n"
                "  nodes: {a: {}, b: {}, c: {ranks: 0, gpus: 0}}\n"
                "  links:\n"
                "    - {endpoints: ['a:p0', 'b:p1'], subnet: 10.1.0.0/24}\n"
                "    - {endpoints: ['b:p0', 'c:p1'], subnet: 10.2.0.0/24}\n"
                "    - {endpoints: ['c:p0', 'a:p1'], subnet: 10.3.0.0/24}\n"
                "jobs: [{all_reduce: {bytes: [4096, 65536, 8]}}]\n"
                "faults: [{at: '%s', on: c, kind: stop%s}]\n"
                "expect: {result: %s}\n",
                moments[_i % 2], goes_on ? ", for: 3s" : "", goes_on ? "pass" : "fail");
    out = run(text);
    ck_assert_int_eq(out.result, RUN_PASS);
    ck_assert_int_lt(int_at(out.document, "sim_time_ns"),
                     goes_on ? INT64_C(4000000000) : INT64_C(1000000000));
    outcome_fini(&out);
}
END_TEST

/* ---- expectations ---- */

static const struct {
    const char *expect;
    enum run_result result;
    const char *got; /* result for the first unmet expectation; NULL if all are met */
} judged[] = {
    {"expect: {result: pass}\n", RUN_PASS, NULL},
    {"expect: {result: fail}\n", RUN_FAIL, "pass"},
    {"expect: {findings: [link.down]}\n", RUN_FAIL, "none"},
    {"expect: {result: fail, symptom: {errno: 110}}\n", RUN_FAIL, "pass"},
    {"expect: {result: fail, symptom: {wc_status: 12}}\n", RUN_FAIL, "pass"},
    {"expect: {time: {at_most: 1s}}\n", RUN_PASS, NULL},
    {"expect: {bus_bandwidth: {at_least: 0.5 of limit}}\n", RUN_PASS, NULL},
    {"expect: {bus_bandwidth: {at_least: 10 GBps}}\n", RUN_PASS, NULL},
    {"expect: {connections: [{from: 0, to: 1, port: p0, via: []}]}\n", RUN_PASS, NULL},
    {"expect: {connections: [{from: 0, to: 1, port: p1}]}\n", RUN_FAIL,
     "port p0, direct"},
};

/* Ranks that are done, and a host that only relays, wait for a rank whose job takes over a minute
 * more. The second cable is slow, so that the first rank of the chain is a row ahead. */
START_TEST(who_works_is_waited_for)
{
    static const char *const middles[] = {"{ports: [p0, p1]}",
                                          "{ports: [p0, p1], ranks: 0}"};
    char text[1024];
    struct outcome out;

    weft_format(text, sizeof(text),
                "name: t\n"
                "topology:\n"
                "  nodes: {a: {ports: [p0]}, b: %s, c: {ports: [p0]}}\n"
                "  links:\n"
                "    - {endpoints: ['a:p0', 'b:p0'], subnet: 10.1.0.0/24}\n"
                "    - {endpoints: ['b:p1', 'c:p0'], subnet: 10.2.0.0/24, rate: 1Mbps}\n"
                "jobs: [{broadcast: {bytes: 8MiB, algorithm: chain, repeat: 2}}]\n",
                middles[_i]);
    out = run(text);
    ck_assert_int_eq(out.result, RUN_PASS);
    ck_assert_int_gt(int_at(out.document, "sim_time_ns"), 120 * INT64_C(1000000000));
    outcome_fini(&out);
}
END_TEST

START_TEST(expectations_are_judged)
{
    struct weft_text text = {NULL, 0, 0};
    struct outcome out;
    const json_t *expectation;
    const char *got = NULL;
    size_t i;

    weft_text_add(&text, "%s%s", TRIANGLE JOB, judged[_i].expect);
    out = run(text.bytes);
    ck_assert_int_eq(out.result, judged[_i].result);
    json_array_foreach(json_object_get(out.document, "expectations"), i, expectation)
    {
        if (got == NULL && !json_is_true(json_object_get(expectation, "ok"))) {
            got = text_at(expectation, "got");
        }
    }
    ck_assert((got == NULL) == (judged[_i].got == NULL));
    if (got != NULL) {
        ck_assert_str_eq(got, judged[_i].got);
    }
    outcome_fini(&out);
    weft_text_fini(&text);
}
END_TEST

/* A cable without a common subnet is a warning, because a relay stands in for it. */
START_TEST(what_a_job_went_on_despite_is_said)
{
    struct outcome out = run("name: t\n"
                             "topology:\n"
                             "  defaults: {ports: [p0, p1]}\n"
                             "  nodes: {a: {addresses: {p1: [10.4.0.2/24]}}, b: {},\n"
                             "          c: {addresses: {p1: [10.3.0.1/24]}}}\n"
                             "  links:\n"
                             "    - {endpoints: ['a:p0', 'b:p0'], subnet: 10.1.0.0/24}\n"
                             "    - {endpoints: ['b:p1', 'c:p0'], subnet: 10.2.0.0/24}\n"
                             "    - {endpoints: ['c:p1', 'a:p1']}\n" JOB);
    const json_t *expectation;
    size_t i;
    unsigned n = 0;

    ck_assert_int_eq(out.result, RUN_PASS);
    json_array_foreach(json_object_get(out.document, "expectations"), i, expectation)
    {
        if (strcmp(text_at(expectation, "expect"), "findings: none") == 0) {
            ck_assert_str_eq(text_at(expectation, "got"),
                             "none; the job went on despite route.no_facing_port");
            n++;
        }
    }
    ck_assert_uint_eq(n, 1);
    outcome_fini(&out);
}
END_TEST

START_TEST(bounds_that_cannot_be_met_are_not)
{
    static const char *const impossible[] = {
        "expect: {time: {at_most: 1ns}}\n",
        "expect: {bus_bandwidth: {at_least: 1.0 of limit}}\n",
        "expect: {bus_bandwidth: {job: 0, bytes: 8, at_least: 0.5 of limit}}\n",
        "expect: {bus_bandwidth: {at_least: 26 GBps}}\n",
    };
    struct weft_text text = {NULL, 0, 0};
    struct outcome out;

    weft_text_add(&text, "%s%s", TRIANGLE JOB, impossible[_i]);
    out = run(text.bytes);
    ck_assert_int_eq(out.result, RUN_FAIL);
    outcome_fini(&out);
    weft_text_fini(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run");
    TCase *tests = tcase_create("run");

    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, the_document_has_every_key);
    tcase_add_test(tests, connections_are_told_per_direction);
    tcase_add_test(tests, what_one_end_sent_the_other_received);
    tcase_add_test(tests, rows_hold_their_rates_and_bounds);
    tcase_add_test(tests, the_same_seed_gives_the_same_bytes);
    tcase_add_loop_test(tests, faults_come_at_moments_of_the_job, 0, 4);
    tcase_add_test(tests, faults_come_when_a_host_has_sent_so_much);
    tcase_add_test(tests, a_moment_that_never_comes_is_said);
    tcase_add_loop_test(tests, a_fault_whose_time_missed_the_job_is_said, 0, 9);
    tcase_add_test(tests, pairing_by_index_fails_as_on_real_machines);
    tcase_add_test(tests, observations_diagnose_the_same);
    tcase_add_test(tests, a_table_that_was_cut_says_so_at_both_ends);
    tcase_add_test(tests, a_rail_that_was_left_out_led_to_a_process);
    tcase_add_loop_test(tests, events_that_were_not_kept_are_said_to_be_missing, 0, 2);
    tcase_add_test(tests, a_host_that_stops_for_good_is_named_in_bounded_time);
    tcase_add_loop_test(tests, a_relay_that_stops_for_good_is_not_waited_for, 0, 4);
    tcase_add_loop_test(tests, who_works_is_waited_for, 0, 2);
    tcase_add_loop_test(tests, expectations_are_judged, 0,
                        (int)(sizeof(judged) / sizeof(judged[0])));
    tcase_add_test(tests, what_a_job_went_on_despite_is_said);
    tcase_add_loop_test(tests, bounds_that_cannot_be_met_are_not, 0, 4);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

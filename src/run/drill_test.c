#include <check.h>
#include <string.h>

#include "backends/registry.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "run/run.h"

/* Two hosts with one cable. `node` are fields of the first host, `link` of the cable. */
#define PAIR(node, link)                                                                 \
    "name: t\n"                                                                          \
    "topology:\n"                                                                        \
    "  defaults: {ports: [p0], mtu: 4200}\n"                                             \
    "  nodes: {a: {" node "}, b: {}}\n"                                                  \
    "  links: [{endpoints: ['a:p0', 'b:p0'], subnet: 10.1.0.0/24" link "}]\n"            \
    "jobs: [{barrier: {}}]\n"
#define EXPECT(more) "expect: {invariants: [objects, counters" more "]}\n"

enum { N_SEEDS = 40 };

struct outcome {
    int64_t n_packets;
    char broken[512]; /* violations of invariants, or "" */
};

static struct outcome run(const char *text, uint64_t seed)
{
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;
    struct run_options options = {
        .backend = backend_find("sim"), .has_seed = true, .seed = seed, .no_story = true};
    struct weft_error error = {0};
    struct outcome out = {0, ""};
    json_t *document = NULL, *item;
    size_t i;

    ck_assert_msg(scenario_load_text("t.yaml", text, strlen(text), NULL, 0, &scenario,
                                     &diagnostics) == WEFT_OK,
                  "%s", diagnostics.n > 0 ? diagnostics.items[0].text : "?");
    (void)run_scenario(scenario, &options, &document, NULL, &error);
    ck_assert_ptr_nonnull(document);
    out.n_packets = (int64_t)json_integer_value(
        json_object_get(json_object_get(document, "counters"), "tx_packets"));
    json_array_foreach(json_object_get(document, "expectations"), i, item)
    {
        if (!json_is_true(json_object_get(item, "ok"))) {
            weft_format(out.broken, sizeof(out.broken), "seed %llu: %s",
                        (unsigned long long)seed,
                        json_string_value(json_object_get(item, "got")));
        }
    }
    json_decref(document);
    scenario_free(scenario);
    scenario_diagnostics_fini(&diagnostics);
    return out;
}

static const char *const good[] = {
    PAIR("", "") EXPECT(", verbs, trains"),
    PAIR("", ", loss: 2%, corrupt: 1%, duplicate: 3%, reorder: 3%")
        EXPECT(", verbs, wire"),
    PAIR("profile: rxe", ", loss: 1%") EXPECT(", verbs, wire"),
    PAIR("profile: hns-hip08", "") EXPECT(", verbs, wire"),
    PAIR("profile: synth2port, ports: [p0, p1]", "") EXPECT(", verbs, wire"),
    PAIR("profile_override: {window_packets: 3, ack_req_packets: 2, write_spread: 3us}",
         ", delay: 50us") EXPECT(", verbs, wire"),
};

/* All objects are freed, frames conform to the specification, and trains change nothing. */
START_TEST(good_devices_do_as_the_model)
{
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        struct outcome out = run(good[_i], seed);

        ck_assert_str_eq(out.broken, "");
    }
}
END_TEST

START_TEST(it_sends_packets_of_its_own)
{
    int64_t without = run(PAIR("", "") EXPECT(""), 1).n_packets;
    struct outcome lost;

    ck_assert_int_gt(without, 0);
    ck_assert_int_gt(run(PAIR("", "") EXPECT(", verbs"), 1).n_packets, without);
    /* While a fault still acts, nothing can be judged. */
    lost = run(
        PAIR("", "") "faults: [{at: 20s, on: 'a:p0', kind: loss, share: 100%}]\n" EXPECT(
            ", verbs"),
        1);
    ck_assert_int_eq(lost.n_packets, without);
    ck_assert_str_eq(lost.broken, "");
}
END_TEST

/* A cable that a fault took away has its carrier again after `up`. */
START_TEST(it_waits_for_a_cable_that_is_up_for_good)
{
    static const struct {
        const char *faults;
        bool is_judged;
    } cases[] = {
        {"{at: 20s, on: 'a:p0', kind: down}", false},
        {"{at: 20s, on: 'a:p0', kind: down}, {at: 21s, on: 'a:p0', kind: up}", true},
        {"{at: 21s, on: 'a:p0', kind: down}, {at: 20s, on: 'a:p0', kind: up}", false},
        {"{at: 20s, on: 'a:p0', kind: down, for: 1s}", true},
        {"{at: 20s, on: 'a:p0', kind: up, for: 1s}", false},
        {"{at: 20s, on: 'a:p0', kind: down, for: 1s}, {at: 100s, on: 'a:p0', kind: down}",
         false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct weft_text text = {NULL, 0, 0};
        struct outcome without, with;

        weft_text_add(&text, PAIR("", "") "faults: [%s]\n" EXPECT(""), cases[i].faults);
        without = run(text.bytes, 1);
        text.n = 0;
        weft_text_add(&text, PAIR("", "") "faults: [%s]\n" EXPECT(", verbs"),
                      cases[i].faults);
        with = run(text.bytes, 1);
        ck_assert_str_eq(with.broken, "");
        ck_assert_msg((with.n_packets > without.n_packets) == cases[i].is_judged, "%s",
                      cases[i].faults);
        weft_text_fini(&text);
    }
}
END_TEST

/* A device without SQD deviates from IBA. Detected when a connected queue pair passes through SQD,
 * and by a walk through all states. */
START_TEST(a_device_that_does_otherwise_is_found)
{
    unsigned n_drained = 0, n_walked = 0;

    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        struct outcome out =
            run(PAIR("profile_override: {has_sqd: false}", "") EXPECT(", verbs"), seed);

        if (strstr(out.broken, "a to b: a queue pair does not pass through SQD") !=
            NULL) {
            n_drained++;
        } else if (strstr(out.broken, "a to b: modify_qp in state 3 to 4, mask 0x") !=
                   NULL) {
            n_walked++;
        } else {
            ck_assert_str_eq(out.broken, "");
        }
    }
    ck_assert_uint_gt(n_drained, 0);
    ck_assert_uint_gt(n_walked, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("drill");
    TCase *tests = tcase_create("drill");

    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, good_devices_do_as_the_model, 0,
                        (int)(sizeof(good) / sizeof(good[0])));
    tcase_add_test(tests, it_sends_packets_of_its_own);
    tcase_add_test(tests, it_waits_for_a_cable_that_is_up_for_good);
    tcase_add_test(tests, a_device_that_does_otherwise_is_found);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

#include "run/outlook.h"

#include <check.h>
#include <string.h>

#include "base/suite_testing.h"

#define LINE                                                                             \
    "name: t\n"                                                                          \
    "topology:\n"                                                                        \
    "  defaults: {ports: [p0, p1]}\n"                                                    \
    "  nodes: {a: {}, b: {}, c: {}}\n"                                                   \
    "  links:\n"                                                                         \
    "    - {endpoints: ['a:p0', 'b:p1'], subnet: 10.1.0.0/24}\n"                         \
    "    - {endpoints: ['b:p0', 'c:p1'], subnet: 10.2.0.0/24}\n"
#define RING LINE "    - {endpoints: ['c:p0', 'a:p1'], subnet: 10.3.0.0/24}\n"

#define BONDED                                                                           \
    "name: t\n"                                                                          \
    "topology:\n"                                                                        \
    "  nodes:\n"                                                                         \
    "    a:\n"                                                                           \
    "      ports: [p0, p1]\n"                                                            \
    "      bonds: {b: {ports: [p0, p1], addresses: [10.1.0.1/24]}}\n"                    \
    "    b:\n"                                                                           \
    "      ports: [p0, p1]\n"                                                            \
    "      bonds: {b: {ports: [p0, p1], addresses: [10.1.0.2/24]}}\n"                    \
    "  links:\n"                                                                         \
    "    - {endpoints: ['a:p0', 'b:p0']}\n"                                              \
    "    - {endpoints: ['a:p1', 'b:p1']}\n"
#define UNPLUGGED                                                                        \
    "name: t\n"                                                                          \
    "topology:\n"                                                                        \
    "  nodes: {a: {ports: [p0]}, b: {ports: [p0]}}\n"                                    \
    "  links:\n"                                                                         \
    "    - {endpoints: ['a:p0', 'b:p0'], subnet: 10.1.0.0/24, up: false}\n"
#define RELAYED                                                                          \
    "name: t\n"                                                                          \
    "topology:\n"                                                                        \
    "  nodes: {a: {ports: [p0, p1]}, b: {ports: [p0]}, c: {ports: [p0], ranks: 0}}\n"    \
    "  links:\n"                                                                         \
    "    - {endpoints: ['a:p0', 'b:p0'], subnet: 10.1.0.0/24}\n"                         \
    "    - {endpoints: ['a:p1', 'c:p0'], subnet: 10.2.0.0/24}\n"

/* Outcomes that a file allows, worked out by hand. */
static const struct expected {
    const char *text;
    bool may_fail, is_connected, is_calm;
    weft_ns cut_ns;
} expected[] = {
    {RING, false, true, true, 0},
    {LINE "rare: 1%\n", false, true, false, 0},
    /* In a ring there is another path, in a line there is none. */
    {RING "faults: [{on: 'a:p0', kind: down}]\n", false, true, false, 0},
    {LINE "faults: [{on: 'a:p0', kind: down}]\n", true, false, false, WEFT_NEVER},
    {LINE "faults: [{at: 1ms, on: 'a:p0', kind: down, for: 5ms}]\n", false, true, false,
     5000000},
    {LINE "faults: [{at: 1ms, on: 'b:p0', kind: pause, for: 2s}]\n", true, true, false,
     2000000000},
    /* Hosts connected by nothing but cables survive a cut of 1 s, others the documented outage. */
    {LINE "faults: [{at: 1ms, on: 'b:p0', kind: down, for: 1s}]\n", false, true, false,
     1000000000},
    {RING "faults: [{on: b, kind: stop, for: 5s}]\n", false, true, false, 5000000000},
    {RING "faults: [{on: b, kind: stop, for: 5001ms}]\n", true, true, false, 5001000000},
    /* Cuts less than a second apart count as one. */
    {LINE "faults: [{on: 'a:p0', kind: down, for: 5ms, every: 100ms, times: 3}]\n", false,
     true, false, 205000000},
    /* `up` ends a `down` of the same port that began before it, for good or for some time. */
    {LINE
     "faults: [{at: 1ms, on: 'a:p0', kind: down}, {at: 6ms, on: 'a:p0', kind: up}]\n",
     false, true, false, 5000000},
    {LINE
     "faults: [{at: 2ms, on: 'a:p0', kind: down}, {at: 1ms, on: 'a:p0', kind: up}]\n",
     true, false, false, WEFT_NEVER},
    {LINE "faults: [{at: 1ms, on: 'a:p0', kind: down, for: 100s}, {at: 6ms, on: 'a:p0', "
          "kind: up}]\n",
     false, true, false, 5000000},
    {LINE "faults: [{at: 1ms, on: 'a:p0', kind: up, for: 5ms}]\n", true, false, false,
     WEFT_NEVER},
    {LINE "faults: [{at: 1ms, on: a, kind: down}, {at: 4ms, on: 'a:p0', kind: up}]\n",
     false, true, false, 3000000},
    {LINE "faults: [{at: 1ms, on: 'a:p0', kind: down}, {at: 4ms, on: a, kind: up}]\n",
     false, true, false, 3000000},
    /* Each direction needs its own; the other end has none to give. */
    {LINE "faults: [{at: 1ms, on: 'a:p0->', kind: down}, {at: 4ms, on: 'a:p0<-', kind: "
          "up}]\n",
     true, false, false, WEFT_NEVER},
    {LINE
     "faults: [{at: 1ms, on: 'a:p0', kind: down}, {at: 4ms, on: 'a:p0<-', kind: up}, "
     "{at: 6ms, on: 'a:p0->', kind: up}]\n",
     false, true, false, 5000000},
    {LINE
     "faults: [{at: 1ms, on: 'a:p0', kind: down}, {at: 4ms, on: 'b:p1', kind: up}]\n",
     true, false, false, WEFT_NEVER},
    /* The end of one fault is the end of another that overlaps it. */
    {LINE
     "faults: [{at: 1ms, on: 'a:p0', kind: down, for: 3ms}, {at: 2ms, on: 'a:p0', kind: "
     "down, for: 10ms}]\n",
     false, true, false, 3000000},
    {UNPLUGGED "faults: [{at: 4ms, on: 'a:p0', kind: up}]\n", true, false, false,
     WEFT_NEVER},
    {UNPLUGGED
     "faults: [{at: 4ms, on: 'a:p0', kind: up}, {at: 6ms, on: 'b:p0', kind: up}]\n",
     false, true, false, 6000000},
    /* Both cables of a host in a ring at the same time. */
    {RING "faults: [{at: 1ms, on: 'a:p0', kind: down, for: 5ms}, {at: 3ms, on: 'a:p1', "
          "kind: loss, share: 100%, for: 10ms}]\n",
     false, true, false, 3000000},
    {RING "faults: [{on: 'a:p0', kind: loss, share: 1%}]\n", false, true, false, 0},
    {RING "faults: [{on: 'a:p0', kind: corrupt, share: 1%, icrc: good}]\n", true, true,
     false, 0},
    {RING "faults: [{on: b, kind: kill}]\n", true, false, false, WEFT_NEVER},
    {RELAYED "faults: [{on: c, kind: kill}]\n", true, true, false, 0},
    /* A bond switches to its other cable only if the carrier is lost. */
    {BONDED "faults: [{on: 'a:p1', kind: down}]\n", false, true, false, 0},
    {BONDED "faults: [{on: 'a:p1', kind: loss, share: 100%}]\n", true, false, false,
     WEFT_NEVER},
    {RING "faults: [{on: b, kind: stop, for: 10ms}]\n", false, true, false, 10000000},
    {RING "faults: [{on: b, kind: verb_error, verb: reg_mr, errno: 12}]\n", true, true,
     false, 0},
    {RING "faults: [{on: b, kind: call_slow, call: recv, by: 1ms, count: 3}]\n", false,
     true, false, 0},
    {RING "policy: nccl-2.25\n", true, true, true, 0},
};

static struct scenario *load(const char *text)
{
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;

    ck_assert_msg(scenario_load_text("t.yaml", text, strlen(text), NULL, 0, &scenario,
                                     &diagnostics) == WEFT_OK,
                  "%s", diagnostics.n > 0 ? diagnostics.items[0].text : "?");
    scenario_diagnostics_fini(&diagnostics);
    return scenario;
}

/* A relay that is cut off permanently is a member that never answers, although the hosts with ranks
 * still reach each other. */
START_TEST(a_relay_may_be_cut_off)
{
    static const struct {
        const char *text;
        bool is_cut_off;
    } files[] = {
        {RELAYED, false},
        {RELAYED "faults: [{at: 1ms, on: 'c:p0', kind: down}]\n", true},
        {RELAYED "faults: [{at: 1ms, on: 'c:p0', kind: down, for: 100s}]\n", false},
        {RING "faults: [{on: 'a:p0', kind: down}]\n", false},
    };
    struct run_outlook outlook;
    struct scenario *scenario = load(files[_i].text);

    run_outlook_make(scenario, WEFT_POLICY_WEFT, &outlook);
    ck_assert(outlook.is_connected);
    ck_assert(!outlook.may_fail);
    ck_assert_int_eq(outlook.is_member_cut_off, files[_i].is_cut_off);
    run_outlook_fini(&outlook);
    scenario_free(scenario);
}
END_TEST

START_TEST(a_file_says_what_may_come_of_it)
{
    const struct expected *want = &expected[_i];
    struct scenario *scenario = load(want->text);
    struct run_outlook outlook;

    run_outlook_make(scenario, scenario->policy, &outlook);
    ck_assert_int_eq(outlook.may_fail, want->may_fail);
    ck_assert_int_eq(outlook.is_connected, want->is_connected);
    ck_assert_int_eq(outlook.is_calm, want->is_calm);
    ck_assert_int_eq(outlook.cut_ns, want->cut_ns);
    run_outlook_fini(&outlook);
    scenario_free(scenario);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("outlook");
    TCase *tests = tcase_create("outlook");

    tcase_add_loop_test(tests, a_file_says_what_may_come_of_it, 0,
                        (int)(sizeof(expected) / sizeof(expected[0])));
    tcase_add_loop_test(tests, a_relay_may_be_cut_off, 0, 4);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

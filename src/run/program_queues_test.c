#include "run/program_queues.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "run/program_watched.h"
#include "scenario/scenario.h"

#define RECORD " 1 h 7 p "
#define AT_A "::ffff:10.0.1.1" /* a:p0, and the next is b:p0 */
#define AT_B "::ffff:10.0.1.2"

static const char pair[] =
    "name: t\n"
    "topology:\n"
    "  nodes: {a: {ports: [p0]}, b: {ports: [p0]}}\n"
    "  links: [{endpoints: [\"a:p0\", \"b:p0\"], subnet: 10.0.1.0/24}]\n"
    "jobs: [{barrier: {}}]\n";

static struct scenario *scenario;
static struct scenario_world *world;
static struct diag_port ports[2];
static struct program_look looks[2];
static struct program_facts facts[2];

static void device(const struct world_spec *spec, uint32_t host, uint32_t port, char *out,
                   size_t n_bytes)
{
    weft_format(out, n_bytes, "%s-%s", spec->hosts[host].name,
                spec->hosts[host].ports[port].name);
}

static void set_up(void)
{
    struct scenario_diagnostics diagnostics;

    ck_assert_int_eq(
        scenario_load_text("mesh", pair, strlen(pair), NULL, 0, &scenario, &diagnostics),
        WEFT_OK);
    scenario_diagnostics_fini(&diagnostics);
    ck_assert_int_eq(scenario_to_world(scenario, &world), WEFT_OK);
    for (uint32_t i = 0; i < 2; i++) {
        diag_port_init(&ports[i]);
        weft_format(ports[i].name, sizeof(ports[i].name), "p0");
        ports[i].n_gids = 1;
        ck_assert(io_ip_parse(i == 0 ? AT_A : AT_B, &ports[i].gids[0].ip));
        looks[i] = (struct program_look){.is_seen = true,
                                         .host = {.ports = &ports[i], .n_ports = 1}};
        facts[i] = (struct program_facts){.id = i, .host = i, .has_begun = true};
    }
}

static void tear_down(void)
{
    scenario_world_free(world);
    scenario_free(scenario);
}

/* Sets the records of both hosts. Programs 0 and 1 are at a and b. */
static void record(char *at_a, char *at_b)
{
    looks[0].watched = at_a;
    looks[1].watched = at_b;
}

static void expect(const char *lines)
{
    const struct program_causes causes = {
        .spec = &world->spec, .device = device, .facts = facts, .n = 2, .after = looks};
    struct weft_text text = {NULL, 0, 0};

    program_queues_list(&causes, 0, 0, &text);
    ck_assert_str_eq(text.bytes != NULL ? text.bytes : "", lines);
    weft_text_fini(&text);
}

#define MADE(id, at, qp)                                                                 \
#id RECORD "create_qp device=" at "-p0 qp=" #qp " type=2 errno=0\n"
#define TO(id, at, qp, to)                                                               \
#id RECORD "modify_qp device=" at "-p0 qp=" #qp " to=" #to " errno=0\n"
#define CONNECTED(id, at, qp, peer, gid)                                                 \
#id RECORD "modify_qp device=" at "-p0 qp=" #qp " to=2 dest_qp=" #peer               \
               " sgid_index=1 dgid=" gid " errno=0\n"
#define SENDS(id, at, qp, peer, gid)                                                     \
    MADE(id, at, qp) TO(id, at, qp, 1) CONNECTED(id, at, qp, peer, gid) TO(id, at, qp, 3)
#define A_SENDS SENDS(0, "a", 17, 18, AT_B)
#define LINE "  queue pair 17 of a-p0: RTS, to queue pair 18 of b:p0"

/* ---- cases ---- */

START_TEST(one_that_was_not_connected_waits_for_its_program)
{
    char made[] = MADE(0, "a", 17), init[] = MADE(0, "a", 17) TO(0, "a", 17, 1);

    record(made, NULL);
    expect("  queue pair 17 of a-p0: RESET, not connected; it drops what arrives until "
           "its program moves it to RTR\n");
    record(init, NULL);
    expect("  queue pair 17 of a-p0: INIT, not connected; it drops what arrives until "
           "its program moves it to RTR\n");
}
END_TEST

START_TEST(a_peer_has_a_state)
{
    static const struct {
        const char *records, *expected;
    } cases[] = {
        {MADE(1, "b", 18),
         ", which is in RESET; its peer drops what arrives until it is in RTR"},
        {MADE(1, "b", 18) TO(1, "b", 18, 1),
         ", which is in INIT; its peer drops what arrives until it is in RTR"},
        {SENDS(1, "b", 18, 17, AT_A), ", which is in RTS"},
        {SENDS(1, "b", 18, 99, AT_A),
         ", which is in RTS; its peer is connected to another queue pair"},
        {SENDS(1, "b", 18, 17, AT_A) TO(1, "b", 18, 6),
         ", which is in ERR; its peer is in error and does not answer"},
        {SENDS(1, "b", 19, 17, AT_A), "; its peer has no such queue pair (any more)"},
        {SENDS(1, "b", 18, 17, AT_A) "1" RECORD "destroy_qp device=b-p0 qp=18 errno=0\n",
         "; its peer has no such queue pair (any more)"},
        {SENDS(1, "b", 18, 17, AT_A) MADE(1, "b", 18),
         ", which is in RESET; its peer drops what arrives until it is in RTR"},
    };

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        char at_a[] = A_SENDS, line[256];
        char *at_b = weft_strdup(cases[i].records);

        record(at_a, at_b);
        weft_format(line, sizeof(line), LINE "%s\n", cases[i].expected);
        expect(line);
        free(at_b);
    }
}
END_TEST

START_TEST(a_call_that_failed_changes_nothing)
{
    char at_a[] = A_SENDS;
    char at_b[] = MADE(1, "b", 18)
        TO(1, "b", 18, 1) "1" RECORD
                          "modify_qp device=b-p0 qp=18 to=2 dest_qp=17 errno=22\n";

    record(at_a, at_b);
    expect(LINE ", which is in INIT; its peer drops what arrives until it is in RTR\n");
}
END_TEST

START_TEST(a_peer_that_ended_and_one_that_is_not_watched)
{
    char at_a[] = A_SENDS, at_b[] = SENDS(1, "b", 18, 17, AT_A);

    record(at_a, NULL);
    expect(LINE "\n");
    record(at_a, at_b);
    facts[1].has_ended = true;
    facts[1].end = WORLD_PROGRAM_EXITED;
    expect(LINE "; its peer's program has ended\n");
}
END_TEST

START_TEST(only_its_own_and_not_too_many)
{
    char at_a[] = SENDS(1, "a", 20, 18, AT_B),
         elsewhere[] = SENDS(0, "a", 17, 18, "fe80::1");
    struct weft_text many = {NULL, 0, 0};
    struct weft_text lines = {NULL, 0, 0};

    record(at_a, NULL);
    expect("");
    record(elsewhere, NULL);
    expect("  queue pair 17 of a-p0: RTS, to queue pair 18 at GID fe80::1, which is not "
           "one port's\n");
    for (unsigned i = 1; i <= PROGRAM_QUEUES_MAX + 3; i++) {
        weft_text_add(&many, "0" RECORD "create_qp device=a-p0 qp=%u type=2 errno=0\n",
                      i);
        if (i <= PROGRAM_QUEUES_MAX) {
            weft_text_add(&lines,
                          "  queue pair %u of a-p0: RESET, not connected; it drops what "
                          "arrives until its program moves it to RTR\n",
                          i);
        }
    }
    weft_text_add(&lines, "  and 3 more queue pairs\n");
    record(many.bytes, NULL);
    expect(lines.bytes);
    weft_text_fini(&many);
    weft_text_fini(&lines);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run/program_queues");
    TCase *tcase = tcase_create("cases");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, one_that_was_not_connected_waits_for_its_program);
    tcase_add_test(tcase, a_peer_has_a_state);
    tcase_add_test(tcase, a_call_that_failed_changes_nothing);
    tcase_add_test(tcase, a_peer_that_ended_and_one_that_is_not_watched);
    tcase_add_test(tcase, only_its_own_and_not_too_many);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

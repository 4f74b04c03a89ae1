#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "diag/diag.h"
#include "diag/diag_testing.h"

static struct scene scene;
static struct diag_findings findings;
static struct diag_port *p0, *p1; /* titanic's, which faces iceberg's */

static void setup(void)
{
    scene_set(&scene);
    scene.a->n_errors = 0;
    scene.a->has_uses = scene.b->has_uses = true;
    scene.a->has_events = scene.b->has_events = true;
    scene.a->n_uses = 1;
    scene.a->uses[0] = (struct diag_use){.peer = "iceberg",
                                         .local_port = "p0",
                                         .remote_port = "p1",
                                         .local_gid = "192.168.101.1",
                                         .remote_gid = "192.168.101.2",
                                         .path_mtu = 4096};
    p0 = &scene.a->ports[0];
    p1 = &scene.b->ports[1];
    for (int i = 0; i < DIAG_N_COUNTERS; i++) {
        p0->counters[i] = p1->counters[i] = 0;
    }
    p0->counters[DIAG_TX_PACKETS] = 1000;
    p1->counters[DIAG_RX_PACKETS] = 990;
    p1->counters[DIAG_TX_PACKETS] = 1100;
    p0->counters[DIAG_RX_PACKETS] = 1080;
    p0->counters[DIAG_RETRANSMITS] = 12;
}

static void teardown(void)
{
    diag_findings_fini(&findings);
    diag_input_fini(&scene.input);
}

/* NULL: nothing is told. */
static void check_code(const char *code)
{
    diag_findings_fini(&findings);
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, code != NULL ? 1 : 0);
    if (code != NULL) {
        ck_assert_str_eq(findings.items[0].entry->code, code);
        ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
        ck_assert(findings.items[0].is_survived);
        ck_assert_str_eq(findings.items[0].host, "titanic");
        ck_assert_str_eq(findings.items[0].port, "p0");
        ck_assert_str_eq(findings.items[0].peer, "iceberg");
    }
}

static void lose_carrier(struct diag_host *host, const char *port)
{
    struct diag_event *event = &host->events[host->n_events++];

    *event = (struct diag_event){.type = "port_error"};
    weft_format(event->port, sizeof(event->port), "%s", port);
}

START_TEST(frames_that_were_repeated_are_a_warning)
{
    check_code("link.lossy");
    p0->counters[DIAG_RX_PACKETS] = 1100;
    check_code(NULL); /* ten one way and none the other: chance may do that */
    p1->counters[DIAG_RX_PACKETS] = 980;
    check_code("link.one_way");
    p0->counters[DIAG_RX_PACKETS] = 1099;
    check_code("link.lossy");
    p0->counters[DIAG_RX_PACKETS] = 1100;
    p1->counters[DIAG_RX_PACKETS] = 997; /* three: they may be under way */
    check_code(NULL);
    p1->counters[DIAG_RX_PACKETS] = 990;
    p0->counters[DIAG_RETRANSMITS] = 0; /* nobody missed them */
    check_code(NULL);
}
END_TEST

START_TEST(damage_and_carrier_explain_what_was_lost)
{
    p1->counters[DIAG_ICRC_ERRORS] = 9;
    check_code("link.corrupting");
    lose_carrier(scene.b, "p1");
    check_code("link.down");
    lose_carrier(scene.b, "p1");
    check_code("link.flapping");
}
END_TEST

START_TEST(where_something_failed_only_that_is_told)
{
    struct diag_error *error = &scene.b->errors[scene.b->n_errors++];

    weft_fail(&error->error, WEFT_ERR_DATA, "verify", "wrong");
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "data.wrong");
}
END_TEST

/* What could have hidden another reading of the same frames. */
START_TEST(nothing_is_told_where_something_is_not_known)
{
    int64_t *const numbers[] = {
        &scene.a->uses[0].vanished_mtu,  &p0->counters[DIAG_TX_PACKETS],
        &p1->counters[DIAG_RX_PACKETS],  &p0->counters[DIAG_ICRC_ERRORS],
        &p1->counters[DIAG_ICRC_ERRORS], &p0->counters[DIAG_RX_OVERSIZE],
        &p1->counters[DIAG_RX_OVERSIZE]};
    bool *const flags[] = {&scene.a->has_events, &scene.b->has_events,
                           &scene.b->was_observed, &p0->has_gids, &p1->has_gids};

    for (size_t i = 0; i < WEFT_LENGTH(numbers); i++) {
        int64_t kept = *numbers[i];

        *numbers[i] = IO_UNKNOWN;
        check_code(NULL);
        *numbers[i] = kept;
    }
    for (size_t i = 0; i < WEFT_LENGTH(flags); i++) {
        *flags[i] = false;
        check_code(NULL);
        *flags[i] = true;
    }
    lose_carrier(scene.a, "");
    check_code(NULL);
    scene.a->n_events = 0;
    scene.a->uses[0].vanished_mtu = 4096; /* probes that were too large: told as such */
    diag_findings_fini(&findings);
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.black_hole");
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diag/survived");
    TCase *tests = tcase_create("survived");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, frames_that_were_repeated_are_a_warning);
    tcase_add_test(tests, damage_and_carrier_explain_what_was_lost);
    tcase_add_test(tests, where_something_failed_only_that_is_told);
    tcase_add_test(tests, nothing_is_told_where_something_is_not_known);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

/* Tests of who is behind a finding, and of circles. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "diag/diag_testing.h"

static struct scene scene;
static struct diag_findings findings;

static void setup(void)
{
    scene_set(&scene);
}

static void teardown(void)
{
    diag_findings_fini(&findings);
    diag_input_fini(&scene.input);
}

/* Adds a host that gave up because of another one, and what it waited for. */
static struct diag_host *add_waiting(const char *name, enum weft_wait_for what,
                                     const char *peer)
{
    struct diag_host *host = scene_add_host(&scene, name);
    struct diag_error *error = &host->errors[host->n_errors++];

    weft_fail(&error->error, WEFT_ERR_CLOSED, WEFT_PHASE_PEER, "the peer failed");
    error->at_ns = 2000;
    error->source = DIAG_HEARSAY;
    weft_format(error->peer, sizeof(error->peer), "%s", peer);
    scene_wait(host, what, peer);
    return host;
}

static void expect_behind(const struct diag_finding *finding, uint32_t i,
                          const char *host, enum weft_wait_for what, const char *peer)
{
    ck_assert_uint_lt(i, finding->n_behind);
    ck_assert_str_eq(finding->behind[i].host, host);
    ck_assert_int_eq(finding->behind[i].what, what);
    ck_assert_str_eq(finding->behind[i].peer, peer);
}

/* The cable between titanic and iceberg is down. Olympic waits for carpathia, which waits for
 * iceberg. Of the baltic, which waits for a host that is in order, it is not known. */
START_TEST(who_waits_for_the_fault_is_behind_it)
{
    scene_down_here(&scene);
    add_waiting("olympic", WEFT_WAIT_ROUND, "carpathia");
    scene_wait(add_waiting("carpathia", WEFT_WAIT_SEND, "nobody"), WEFT_WAIT_RECEIVE,
               "iceberg");
    add_waiting("baltic", WEFT_WAIT_RECEIVE, "lusitania");
    scene_add_host(&scene, "lusitania");
    scene_wait(scene.a, WEFT_WAIT_SEND, "iceberg");
    scene_wait(scene.b, WEFT_WAIT_RECEIVE, "titanic");
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.down");
    ck_assert_uint_eq(findings.items[0].n_behind, 2);
    expect_behind(&findings.items[0], 0, "carpathia", WEFT_WAIT_RECEIVE, "iceberg");
    expect_behind(&findings.items[0], 1, "olympic", WEFT_WAIT_ROUND, "carpathia");
}
END_TEST

/* Two causes: each host is behind the first only, and no host of one is behind the other. */
START_TEST(each_is_behind_one_finding)
{
    struct diag_host *host;

    scene_down_here(&scene);
    host = scene_add_host(&scene, "carpathia");
    weft_fail_errno(&host->errors[host->n_errors++].error, 13, WEFT_PHASE_DISCOVER,
                    "the device was not opened");
    scene_wait(host, WEFT_WAIT_ROUND, "titanic");
    scene_wait(add_waiting("olympic", WEFT_WAIT_ROUND, "titanic"), WEFT_WAIT_ROUND,
               "carpathia");
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 2);
    ck_assert_uint_eq(findings.items[0].n_behind + findings.items[1].n_behind, 1);
    expect_behind(&findings.items[0], 0, "olympic", WEFT_WAIT_ROUND,
                  findings.items[0].host);
}
END_TEST

/* The evidence of a finding can name a third host as the one at fault. */
START_TEST(whom_evidence_names_is_not_behind)
{
    scene_down_here(&scene);
    weft_error_text(&scene.failure->error, WEFT_VALUE_HOST, "carpathia");
    add_waiting("carpathia", WEFT_WAIT_RECEIVE, "titanic");
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_uint_eq(findings.items[0].n_behind, 0);
}
END_TEST

START_TEST(all_are_counted)
{
    scene_down_here(&scene);
    for (uint32_t i = 0; i < DIAG_BEHIND_MAX + 3; i++) {
        char name[16];

        weft_format(name, sizeof(name), "n%u", i);
        add_waiting(name, WEFT_WAIT_ROUND, "titanic");
    }
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.items[0].n_behind, DIAG_BEHIND_MAX + 3);
    expect_behind(&findings.items[0], DIAG_BEHIND_MAX - 1, "n15", WEFT_WAIT_ROUND,
                  "titanic");
}
END_TEST

/* ---- circles ---- */

static void add_server(const char *name, const char *peer)
{
    struct diag_host *host = scene_add_host(&scene, name);
    struct diag_error *error = &host->errors[host->n_errors++];

    weft_fail(&error->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_DATA, "it did not end");
    weft_format(error->peer, sizeof(error->peer), "%s", peer);
    error->at_ns = 9000;
    scene_wait(host, WEFT_WAIT_CLIENT, peer);
}

START_TEST(servers_that_wait_for_each_other_are_one_finding)
{
    add_server("carpathia", "olympic");
    add_server("olympic", "baltic");
    add_server("baltic", "carpathia");
    scene.a->n_errors = 0;
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "peer.deadlock");
    ck_assert_str_eq(findings.items[0].host, "carpathia");
    ck_assert_str_eq(findings.items[0].peer, "olympic");
    ck_assert_uint_eq(findings.items[0].n_evidence, 3);
    ck_assert_str_eq(findings.items[0].evidence[2].name, "wait_3");
    ck_assert_str_eq(findings.items[0].evidence[2].text,
                     "baltic for a client on carpathia");
    ck_assert_uint_eq(findings.items[0].n_behind, 1); /* baltic, which evidence names */
}
END_TEST

/* A server that waits for one outside the circle is not in it, nor is one whose peer is unknown, or
 * that waits for itself. */
START_TEST(a_chain_of_servers_is_no_circle)
{
    add_server("carpathia", "olympic");
    add_server("olympic", _i == 0 ? "titanic" : _i == 1 ? "nobody" : "olympic");
    scene.a->n_errors = 0;
    diag(&scene.input, &findings);
    for (uint32_t i = 0; i < findings.n; i++) {
        ck_assert_str_ne(findings.items[i].entry->code, "peer.deadlock");
    }
}
END_TEST

/* ---- circles of data ---- */

/* Adds a host whose row of a job was not done in time. */
static struct diag_host *add_stuck(const char *name, enum weft_wait_for what,
                                   const char *peer)
{
    struct diag_host *host = scene_add_host(&scene, name);
    struct diag_error *error = &host->errors[host->n_errors++];

    weft_fail(&error->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_JOBS, "not done");
    error->at_ns = 9000;
    scene_wait(host, what, peer);
    return host;
}

/* Two hosts send first, and each waits for the other's buffer. Olympic waits for one of them. */
START_TEST(hosts_that_wait_for_each_others_buffers_are_one_finding)
{
    enum weft_wait_for what = _i == 0 ? WEFT_WAIT_SEND : WEFT_WAIT_RECEIVE;
    const char *text = _i == 0 ? "to receive" : "to send";
    char wanted[64];

    scene.a->n_errors = 0;
    add_stuck("carpathia", what, "baltic");
    add_stuck("olympic", WEFT_WAIT_RECEIVE, "baltic");
    add_stuck("baltic", what, "carpathia");
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "peer.deadlock");
    ck_assert_str_eq(findings.items[0].host, "carpathia");
    ck_assert_str_eq(findings.items[0].peer, "baltic");
    ck_assert_uint_eq(findings.items[0].n_evidence, 2);
    weft_format(wanted, sizeof(wanted), "carpathia for baltic %s", text);
    ck_assert_str_eq(findings.items[0].evidence[0].text, wanted);
    expect_behind(&findings.items[0], 0, "olympic", WEFT_WAIT_RECEIVE, "baltic");
}
END_TEST

/* What leads out of a circle: the peer receives what is sent, so that the cable can be the reason;
 * one waits for a third host, or for its own devices; one recorded no waits; a third host, which
 * can be a relay, was stopped; posted requests did not complete; or another host failed. */
static void answer(struct diag_host *a, struct diag_host *b)
{
    (void)a;
    scene_wait(b, WEFT_WAIT_RECEIVE, "carpathia");
}

static void wait_for_a_third(struct diag_host *a, struct diag_host *b)
{
    (void)b;
    scene_wait(a, WEFT_WAIT_RECEIVE, "titanic");
}

static void work(struct diag_host *a, struct diag_host *b)
{
    (void)b;
    scene_wait(a, WEFT_WAIT_OWN, "carpathia");
}

static void say_nothing(struct diag_host *a, struct diag_host *b)
{
    (void)a;
    b->was_observed = false;
}

static void stop_a_third(struct diag_host *a, struct diag_host *b)
{
    (void)a;
    (void)b;
    scene.a->was_observed = false;
    scene.a->has_hung = true;
}

static void complete_nothing(struct diag_host *a, struct diag_host *b)
{
    for (uint32_t i = 0; i < a->n_errors + b->n_errors; i++) {
        struct diag_error *error =
            i < a->n_errors ? &a->errors[i] : &b->errors[i - a->n_errors];

        error->error.phase = WEFT_PHASE_DATA;
    }
}

/* A relay was refused memory, and lost what was sent through it. */
static void refuse_a_relay(struct diag_host *a, struct diag_host *b)
{
    struct diag_error *error = &scene.a->errors[scene.a->n_errors++];

    (void)a;
    (void)b;
    *error = (struct diag_error){.at_ns = 9000};
    weft_fail_errno(&error->error, ENOMEM, WEFT_PHASE_REGISTER, "reg_mr");
}

static void (*const ways_out[])(struct diag_host *a, struct diag_host *b) = {
    answer,       wait_for_a_third, work,          say_nothing,
    stop_a_third, complete_nothing, refuse_a_relay};

START_TEST(a_circle_with_a_way_out_is_no_deadlock)
{
    scene.a->n_errors = 0;
    add_stuck("carpathia", WEFT_WAIT_SEND, "baltic");
    add_stuck("baltic", WEFT_WAIT_SEND, "carpathia");
    ways_out[_i](&scene.input.hosts[scene.input.n_hosts - 2],
                 &scene.input.hosts[scene.input.n_hosts - 1]);
    diag(&scene.input, &findings);
    for (uint32_t i = 0; i < findings.n; i++) {
        ck_assert_str_ne(findings.items[i].entry->code, "peer.deadlock");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diag/waits");
    TCase *tests = tcase_create("waits");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, who_waits_for_the_fault_is_behind_it);
    tcase_add_test(tests, each_is_behind_one_finding);
    tcase_add_test(tests, whom_evidence_names_is_not_behind);
    tcase_add_test(tests, all_are_counted);
    tcase_add_test(tests, servers_that_wait_for_each_other_are_one_finding);
    tcase_add_loop_test(tests, a_chain_of_servers_is_no_circle, 0, 3);
    tcase_add_loop_test(tests, hosts_that_wait_for_each_others_buffers_are_one_finding, 0,
                        2);
    tcase_add_loop_test(tests, a_circle_with_a_way_out_is_no_deadlock, 0,
                        WEFT_LENGTH(ways_out));
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

/* Tests for whom hosts wait: stops a world at many moments, and looks at each host. */
#include <check.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "host/host_testing.h"

#define US INT64_C(1000)
#define N_STATES (HOST_DEAD + 1)

#define OF(what) (1u << WEFT_WAIT_##what)

/* What a host in each state can wait for. */
static const unsigned kinds[] = {
    [HOST_NEW] = 0, /* it has no process */
    [HOST_DISCOVER] = OF(OWN),
    [HOST_LISTEN] = OF(OWN),
    [HOST_BOOT] = OF(ROUND),
    [HOST_SETUP] = OF(ROUND),
    [HOST_CONNECT] = OF(CONNECTION) | OF(RELAY) | OF(OWN),
    [HOST_BARRIER] = OF(ROUND) | OF(RELAY),
    [HOST_JOBS] = OF(SEND) | OF(RECEIVE) | OF(RELAY) | OF(OWN),
    [HOST_CLOSE] = OF(ROUND) | OF(CLOSE) | OF(OWN),
    [HOST_DONE] = 0, /* it has ended */
    [HOST_FAILED] = 0,
    [HOST_DEAD] = 0,
};
_Static_assert(WEFT_LENGTH(kinds) == N_STATES, "one set for each state");

static struct mesh_test test;

/* Checks the waits of a host now. Returns what it waits for, as bits. */
static unsigned look_at(struct host *host)
{
    unsigned seen = 0;

    host_note_waits(host);
    ck_assert_msg(kinds[host->state] == 0 || host->n_waits > 0, "%s in %s waits for none",
                  host->env->name, host_state_name(host->state));
    for (uint32_t i = 0; i < host->n_waits; i++) {
        const struct host_wait *wait = &host->waits[i];
        bool is_self = wait->member == host->config.rank;

        seen |= 1u << wait->what;
        ck_assert_int_eq(is_self, wait->what == WEFT_WAIT_OWN);
        ck_assert_uint_lt(wait->member, host->config.n_members);
    }
    ck_assert_msg((seen & ~kinds[host->state]) == 0, "%s waits for %#x",
                  host_state_name(host->state), seen);
    return seen;
}

START_TEST(each_state_that_does_not_end_has_a_wait)
{
    struct weft_error error;
    weft_status status = WEFT_ERR_TIMEOUT;
    unsigned seen = 0;

    mesh_test_init(&test, _i == 0 ? 3 : 2);
    if (_i == 1) { /* both ranks are processes of one host */
        test.spec.n_hosts = 1;
        test.spec.n_cables = 0;
        test.n_processes = 2;
        test.machines[0].n_processes = 2;
    }
    mesh_test_start(&test);
    for (weft_ns at = 0; status == WEFT_ERR_TIMEOUT; at += 5 * US) {
        status = mesh_test_run(&test, at, &error);
        for (uint32_t i = 0; i < (_i == 0 ? 3 : 2); i++) {
            seen |= look_at(test.hosts[i]);
        }
    }
    ck_assert_int_eq(status, WEFT_OK);
    ck_assert_uint_eq(seen, OF(OWN) | OF(ROUND) | OF(CONNECTION) | OF(SEND) |
                                OF(RECEIVE) | OF(CLOSE));
    mesh_test_fini(&test);
}
END_TEST

/* diag_may_be_foreign() recognizes a recorded state by the phase of that name. */
START_TEST(a_state_is_named_like_its_phase)
{
    enum weft_phase phase = host_state_phase((enum host_state)_i);

    if (phase != WEFT_PHASE_NONE) {
        ck_assert_str_eq(host_state_name((enum host_state)_i), weft_phase_name(phase));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host/waits");
    TCase *tests = tcase_create("waits");

    tcase_add_loop_test(tests, each_state_that_does_not_end_has_a_wait, 0, 2);
    tcase_add_loop_test(tests, a_state_is_named_like_its_phase, 0, N_STATES);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

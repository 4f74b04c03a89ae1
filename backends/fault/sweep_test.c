/* The k-th call of the waist that may fail fails, for every k: from the first query of a device to
 * the last byte that says goodbye. Whatever it was, the job ends in bounded time: done with the
 * right data, or failed with an error that names what failed; and nothing is left over.
 *
 *   sweep_test [STRIDE]    every STRIDE'th k of each case; 1 is all of them */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fault/fault.h"
#include "host/host_testing.h"

#define SECOND INT64_C(1000000000)
/* Declared: whoever waits for one that gave up set-up silently, waits no longer than this. */
#define BOUND_NS (70 * SECOND)

static struct mesh_test test;
static struct weft_error error;
static uint32_t stride = 1;

static struct world *wrap(struct world *world, const struct world_spec *spec)
{
    const struct fault_config config = {.is_always = true};

    return fault_world_wrap(world, spec, &config);
}

static void start(uint32_t n_hosts, uint32_t host, enum world_fault_kind kind, uint32_t k,
                  int errno_value)
{
    struct world_fault *fault;

    mesh_test_init(&test, n_hosts);
    test.wrap = wrap;
    /* The other end's patience is another test's business. */
    test.config.boot.patience_ns = 5 * SECOND;
    test.config.conn.patience_ns = 5 * SECOND;
    if (k > 0) {
        fault = mesh_test_fault(&test, 0, kind, host);
        fault->call = WORLD_CALL_ANY;
        fault->nth = k;
        fault->error = errno_value;
        fault->by_ns = SECOND / 100;
        fault->size_bytes = 1;
        fault->n_calls = kind == WORLD_FAULT_CALL_SHORT ? UINT32_MAX : 1;
    }
    mesh_test_start(&test);
}

static uint32_t count_calls(uint32_t n_hosts, uint32_t host)
{
    uint64_t n;

    start(n_hosts, host, WORLD_FAULT_CALL_ERROR, 0, 0);
    ck_assert_int_eq(mesh_test_run(&test, BOUND_NS, &error), WEFT_OK);
    n = fault_world_calls(test.world, host, 0, WORLD_CALL_ANY);
    mesh_test_fini(&test);
    return (uint32_t)n;
}

/* Of a host that failed by itself the error is typed, and says where and what. */
static void check_error(const struct host *host, uint32_t k)
{
    const struct weft_error *e = &host->error;

    ck_assert_msg(e->status < 0, "k=%u: status %d", k, (int)e->status);
    ck_assert_msg(e->phase[0] != '\0' && e->message[0] != '\0', "k=%u: no words", k);
    ck_assert_msg(e->status != WEFT_ERR_SYSTEM || e->sys_errno > 0, "k=%u: no errno: %s",
                  k, e->message);
}

/* Returns whether all are done. */
static bool check_end(uint32_t k, weft_status status)
{
    bool all_done = true;

    ck_assert_msg(status == WEFT_OK, "k=%u: the job did not end: %s: %s", k, error.phase,
                  error.message);
    for (uint32_t i = 0; i < test.spec.n_hosts; i++) {
        const struct host *host = test.hosts[i];

        ck_assert_msg(host->state == HOST_DONE || host->state == HOST_FAILED,
                      "k=%u: host %u is %s", k, i, host_state_name(host->state));
        if (host->state == HOST_FAILED) {
            check_error(host, k);
            all_done = false;
        } else {
            ck_assert_msg(host->results[0].is_done && host->results[0].n_wrong == 0,
                          "k=%u: host %u has wrong data", k, i);
        }
    }
    return all_done;
}

static void sweep(uint32_t n_hosts, uint32_t host, enum world_fault_kind kind,
                  int errno_value)
{
    uint32_t n = count_calls(n_hosts, host), n_failed = 0;

    ck_assert_uint_gt(n, 100);
    for (uint32_t k = 1 + host % stride; k <= n; k += stride) {
        weft_status status;

        start(n_hosts, host, kind, k, errno_value);
        status = mesh_test_run(&test, BOUND_NS, &error);
        n_failed += !check_end(k, status);
        ck_assert_uint_gt(fault_world_hits(test.world, host, 0), 0);
        mesh_test_fini(&test);
    }
    printf("hosts=%u host=%u kind=%d: %u calls, %u fail the job\n", n_hosts, host,
           (int)kind, n, n_failed);
}

START_TEST(of_a_pair_any_call_may_be_refused)
{
    sweep(2, (uint32_t)_i, WORLD_FAULT_CALL_ERROR, ENOMEM);
}
END_TEST

START_TEST(of_a_triangle_any_call_may_be_refused)
{
    sweep(3, (uint32_t)_i, WORLD_FAULT_CALL_ERROR, ENOMEM);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("sweep");
    TCase *tcase = tcase_create("all");
    SRunner *runner;
    int failed;

    stride = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 41;
    stride = stride == 0 ? 1 : stride;
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, of_a_pair_any_call_may_be_refused, 0, 2);
    tcase_add_loop_test(tcase, of_a_triangle_any_call_may_be_refused, 0, 3);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

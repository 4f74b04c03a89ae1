/* Lets the k-th call of the I/O interface that can fail fail, for every k, from the first query
 * of a device to the last byte of the closing message. The job must end in bounded time, done
 * with the right data or failed with an error that names the failure, and must leave nothing
 * behind.
 *
 *   sweep_test [STRIDE]    tests every STRIDE'th k of each case; 1: all */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fault/fault.h"
#include "base/suite_testing.h"
#include "host/host_testing.h"

#define SECOND INT64_C(1000000000)
/* Time limit of a job. An end can wait this long for a peer that gave up set-up silently. */
#define BOUND_NS (70 * SECOND)

static struct mesh_test test;
static struct weft_error error;
static uint32_t stride = 1;

static struct world *wrap(struct world *world, const struct world_spec *spec)
{
    const struct fault_config config = {.is_always = true};

    return fault_world_wrap(world, spec, &config);
}

struct sweep {
    uint32_t n_hosts;
    enum world_fault_kind kind;
    enum world_call call;
    int error;
    weft_ns by_ns;
};

static const struct sweep sweeps[] = {
    {2, WORLD_FAULT_CALL_ERROR, WORLD_CALL_ANY, ENOMEM, 0},
    {3, WORLD_FAULT_CALL_ERROR, WORLD_CALL_ANY, ENOMEM, 0},
    {2, WORLD_FAULT_CALL_ERROR, WORLD_CALL_POLL_CQ, EIO, 0},
    {2, WORLD_FAULT_CALL_ERROR, WORLD_CALL_SEND, ECONNRESET, 0},
    {2, WORLD_FAULT_CALL_ERROR, WORLD_CALL_RECV, ECONNRESET, 0},
    {2, WORLD_FAULT_CALL_ERROR, WORLD_CALL_CONNECTED, ETIMEDOUT, 0},
    {2, WORLD_FAULT_CALL_LOST, WORLD_CALL_SEND, 0, 0},
    {2, WORLD_FAULT_CALL_SLOW, WORLD_CALL_SEND, 0, 12 * SECOND},
    {2, WORLD_FAULT_CALL_SLOW, WORLD_CALL_RECV, 0, 12 * SECOND},
    {2, WORLD_FAULT_CALL_SLOW, WORLD_CALL_POLL_CQ, 0, 2 * SECOND},
};
#define N_SWEEPS ((int)(sizeof(sweeps) / sizeof(sweeps[0])))

/* Prepares a mesh in which the k-th call has the fault; 0: none. */
static void prepare(const struct sweep *sweep, uint32_t host, uint32_t k)
{
    mesh_test_init(&test, sweep->n_hosts);
    test.wrap = wrap;
    /* Short limits, because the defaults are tested elsewhere. */
    test.config.boot.patience_ns = 5 * SECOND;
    test.config.conn.patience_ns = 5 * SECOND;
    if (k > 0) {
        struct world_fault *fault = mesh_test_fault(&test, 0, sweep->kind, host);

        fault->call = sweep->call;
        fault->nth = k;
        fault->error = sweep->error;
        fault->by_ns = sweep->by_ns;
    }
}

static void start(const struct sweep *sweep, uint32_t host, uint32_t k)
{
    prepare(sweep, host, k);
    mesh_test_start(&test);
}

static uint32_t count_calls(const struct sweep *sweep, uint32_t host)
{
    uint64_t n;

    start(sweep, host, 0);
    ck_assert_int_eq(mesh_test_run(&test, BOUND_NS, &error), WEFT_OK);
    n = fault_world_calls(test.world, host, 0, sweep->call);
    mesh_test_fini(&test);
    return (uint32_t)n;
}

/* Checks that the error of a failed host has a status, a phase and a message, and an errno if it
 * is WEFT_ERR_SYSTEM. */
static void check_error(const struct host *host, uint32_t k)
{
    const struct weft_error *e = &host->error;

    ck_assert_msg(e->status < 0, "k=%u: status %d", k, (int)e->status);
    ck_assert_msg(e->phase != WEFT_PHASE_NONE && e->message[0] != '\0', "k=%u: no words",
                  k);
    ck_assert_msg(e->status != WEFT_ERR_SYSTEM || e->sys_errno > 0, "k=%u: no errno: %s",
                  k, e->message);
}

static bool names_errno(const struct host *host, int errno_value)
{
    const struct weft_value *told = weft_error_value(&host->error, WEFT_VALUE_PEER_ERRNO);
    char words[16];

    weft_format(words, sizeof(words), "errno %d", errno_value);
    return host->state == HOST_FAILED && (host->error.sys_errno == errno_value ||
                                          (told != NULL && told->number == errno_value) ||
                                          strstr(host->error.message, words) != NULL);
}

/* If the injected errno is ENOMEM, checks that some host's error names it. Exceptions: an
 * unreadable GID slot counts as empty, and a rank in DONE may fail to send its closing
 * message. */
static void check_named(const struct sweep *sweep, uint32_t host, uint32_t k)
{
    enum world_call hit = fault_world_hit(test.world, host, 0);
    bool is_named = sweep->error != ENOMEM || hit == WORLD_CALL_QUERY_GID ||
                    (test.hosts[host]->state == HOST_DONE && hit == WORLD_CALL_SEND);

    for (uint32_t i = 0; i < test.spec.n_hosts; i++) {
        is_named = is_named || names_errno(test.hosts[i], sweep->error);
    }
    ck_assert_msg(
        is_named, "k=%u: %s of host %u failed; in %s: %s", k, world_call_name(hit), host,
        weft_phase_name(test.hosts[host]->error.phase), test.hosts[host]->error.message);
}

/* Returns true if all hosts are done. */
static bool check_end(uint32_t k, weft_status status)
{
    bool all_done = true;

    ck_assert_msg(status == WEFT_OK, "k=%u: the job did not end: %s: %s", k,
                  weft_phase_name(error.phase), error.message);
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

START_TEST(any_call_may_fail)
{
    const struct sweep *sweep = &sweeps[_i];

    for (uint32_t host = 0; host < sweep->n_hosts; host++) {
        uint32_t n = count_calls(sweep, host), n_failed = 0;
        uint32_t step = n < 200 ? (stride + 9) / 10 : stride;

        for (uint32_t k = 1 + host % step; k <= n; k += step) {
            weft_status status;

            start(sweep, host, k);
            status = mesh_test_run(&test, BOUND_NS, &error);
            if (!check_end(k, status)) {
                check_named(sweep, host, k);
                n_failed++;
            }
            ck_assert_uint_gt(fault_world_hits(test.world, host, 0), 0);
            mesh_test_fini(&test);
        }
        printf("%u hosts, %s %s on host %u: %u calls, %u fail the job\n", sweep->n_hosts,
               world_fault_name(sweep->kind), world_call_name(sweep->call), host, n,
               n_failed);
    }
}
END_TEST

/* From before the device's discovery until after the last closing message. */
START_TEST(a_device_may_go_at_any_time)
{
    const struct sweep sweep = {.n_hosts = 2};
    uint32_t n_done = 0;

    for (weft_ns at = _i % 2 * 3000; at < 2500000; at += 2000 * stride) {
        struct world_fault fault = {.kind = WORLD_FAULT_DEVICE_FATAL,
                                    .host = (uint32_t)_i,
                                    .has_port = true,
                                    .port = (uint32_t)_i};
        weft_status status;

        start(&sweep, 0, 0);
        status = mesh_test_run(&test, at, &error);
        ck_assert_int_eq(test.world->ops->inject(test.world, &fault), 0);
        if (status != WEFT_OK) {
            status = mesh_test_run(&test, BOUND_NS, &error);
        }
        n_done += check_end((uint32_t)(at / 1000), status);
        mesh_test_fini(&test);
    }
    printf("device_fatal on host %d: %u jobs were done before\n", _i, n_done);
}
END_TEST

/* Checks that a host that lost a device does not wait for its return. */
static void check_waits_for_nothing(uint32_t host)
{
    for (const char *line = test.story.bytes; (line = strstr(line, " waits_for_port"));) {
        while (line > test.story.bytes && line[-1] != '\n') {
            line--;
        }
        ck_assert_msg(*line != test.machines[host].name[0], "%.60s", line);
        line = strchr(line, '\n');
    }
}

/* From the time of its discovery. The other device takes over, and no failure is reported. */
START_TEST(a_device_of_two_may_go_at_any_time)
{
    const struct sweep sweep = {.n_hosts = 2};
    uint32_t host = (uint32_t)_i / 2, port = (uint32_t)_i % 2;

    for (weft_ns at = 1 + _i * 1000; at < 2500000; at += 2000 * stride) {
        struct world_fault fault = {.kind = WORLD_FAULT_DEVICE_FATAL,
                                    .host = host,
                                    .has_port = true,
                                    .port = port};
        weft_status status;

        prepare(&sweep, 0, 0);
        mesh_test_twin(&test);
        mesh_test_start(&test);
        status = mesh_test_run(&test, at, &error);
        ck_assert_int_eq(test.world->ops->inject(test.world, &fault), 0);
        if (status != WEFT_OK) {
            status = mesh_test_run(&test, BOUND_NS, &error);
        }
        if (!check_end((uint32_t)(at / 1000), status)) {
            const struct weft_error *why = &test.hosts[host]->error;

            ck_abort_msg("gone at %lld ns: host %u failed in %s: %s", (long long)at, host,
                         weft_phase_name(why->phase), why->message);
        }
        check_waits_for_nothing(host);
        mesh_test_fini(&test);
    }
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("sweep");
    TCase *tcase = tcase_create("all");

    stride = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 97;
    stride = stride == 0 ? 1 : stride;
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 1800);
    suite_add_sweep(tcase, any_call_may_fail, 0, N_SWEEPS);
    tcase_add_loop_test(tcase, a_device_may_go_at_any_time, 0, 2);
    tcase_add_loop_test(tcase, a_device_of_two_may_go_at_any_time, 0, 4);
    return suite_run(suite);
}

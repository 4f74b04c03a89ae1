#include "host/host.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "coll/mesh_testing.h"
#include "host/host_testing.h"
#include "xfer/flow_private.h"

#define GBPS UINT64_C(1000000000)
#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)
#define HOUR (3600 * SECOND)
#define BIG_COUNT (16u << 20) /* 64 MiB: about 4 ms on a triangle */

static struct mesh_test test;
static struct weft_error error;
static char states[64];

static void make_big(void)
{
    test.rows[0].coll.count = BIG_COUNT;
    test.rows[0].size_bytes = 4ull * BIG_COUNT;
    test.rows[0].repeat = 1;
}

/* ---- successful runs ---- */

START_TEST(a_pair_runs_its_row_and_closes)
{
    mesh_test_init(&test, 2);
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(test.story.bytes, "a rank0 state from=new to=discover\n"
                                       "b rank1 state from=new to=discover\n"
                                       "a rank0 state from=discover to=listen\n"
                                       "a rank0 state from=listen to=boot\n"
                                       "b rank1 state from=discover to=listen\n"
                                       "b rank1 state from=listen to=boot\n"
                                       "a rank0 state from=boot to=connect\n"
                                       "b rank1 state from=boot to=connect\n"
                                       "a rank0 state from=connect to=barrier\n"
                                       "b rank1 state from=connect to=barrier\n"
                                       "a rank0 state from=barrier to=jobs\n"
                                       "a job0 start bytes=65536 algorithm=direct\n"
                                       "b rank1 state from=barrier to=jobs\n"
                                       "b job0 start bytes=65536 algorithm=direct\n"
                                       "a job0 done bytes=65536 wrong=0\n"
                                       "a rank0 state from=jobs to=close\n"
                                       "b job0 done bytes=65536 wrong=0\n"
                                       "b rank1 state from=jobs to=close\n"
                                       "b rank1 state from=close to=done\n"
                                       "a rank0 state from=close to=done\n");
    for (int i = 0; i < 2; i++) {
        const struct host_row_result *result = &test.hosts[i]->results[0];

        ck_assert(result->is_done);
        ck_assert_int_gt(result->finished_ns[1], result->finished_ns[0]);
        ck_assert_int_gt(result->finished_ns[2], result->finished_ns[1]);
        ck_assert_ptr_null(test.hosts[i]->rdma);
        ck_assert_ptr_null(test.hosts[i]->boot);
        ck_assert_uint_eq(test.hosts[i]->n_connections, 1);
    }
    mesh_test_fini(&test);
}
END_TEST

START_TEST(a_triangle_connects_every_pair_by_its_own_cable)
{
    static const char *const ports[3][3] = {
        {"", "p0 p1", "p1 p0"}, {"p1 p0", "", "p0 p1"}, {"p0 p1", "p1 p0", ""}};

    mesh_test_init(&test, 3);
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)), "done done done");
    for (uint32_t from = 0; from < 3; from++) {
        const struct host *host = test.hosts[from];

        ck_assert_uint_eq(host->n_connections, 2);
        for (uint32_t i = 0; i < 2; i++) {
            const struct host_connection *c = &host->connections[i];
            char pair[96];

            weft_format(pair, sizeof(pair), "%s %s", c->local_port, c->remote_port);
            ck_assert_str_eq(pair, ports[from][c->to]);
            ck_assert_uint_eq(c->path_mtu, 4096);
            ck_assert_uint_eq(c->n_qps, 2);
            ck_assert_int_gt(c->setup_ns, 0);
        }
        ck_assert_uint_eq(host->results[0].n_wrong, 0);
    }
    mesh_test_fini(&test);
}
END_TEST

START_TEST(rows_of_every_kind_of_run_are_verified)
{
    mesh_test_init(&test, 3);
    test.rows[1] = test.rows[0];
    test.rows[1].coll.in_place = true;
    test.rows[1].repeat = 3;
    test.rows[2] = test.rows[0];
    test.rows[2].job = 1;
    test.rows[2].coll.count = 4u << 20;
    test.rows[2].size_bytes = 16u << 20;
    test.rows[3] = test.rows[0];
    test.rows[3].coll = (struct coll_job){.dtype = WEFT_INT32, .count = 1};
    test.rows[3].size_bytes = 4;
    test.config.n_rows = 4;
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t row = 0; row < 4; row++) {
            const struct host_row_result *result = &test.hosts[i]->results[row];

            ck_assert(result->is_done);
            ck_assert_uint_eq(result->n_wrong, 0);
            for (uint32_t k = 0; k < test.rows[row].repeat; k++) {
                ck_assert_int_gt(result->finished_ns[k + 1], result->finished_ns[k]);
            }
        }
    }
    mesh_test_fini(&test);
}
END_TEST

static const struct io_device_ops *nic_ops;

static int query_software(struct io_device *device, struct io_device_attr *out)
{
    int result = nic_ops->query_device(device, out);

    out->may_stall = true;
    return result;
}

/* A rail is timed unless a device at either end is software. Row: the host that has it; 2: none. */
START_TEST(only_rails_between_nics_are_timed)
{
    struct io_device_ops software;

    mesh_test_init(&test, 2);
    test.rows[0].coll.count = 4u << 20;
    test.rows[0].size_bytes = 16u << 20;
    mesh_test_start(&test);
    nic_ops = test.hosts[0]->env->devices[0]->ops;
    software = *nic_ops;
    software.query_device = query_software;
    for (uint32_t i = 0; _i < 2 && i < test.hosts[_i]->env->n_devices; i++) {
        test.hosts[_i]->env->devices[i]->ops = &software;
    }
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)), "done done");
    ck_assert_int_eq(test.hosts[0]->connections[0].pace.n_bytes > 0, _i == 2);
    mesh_test_fini(&test);
}
END_TEST

START_TEST(a_host_that_starts_late_is_waited_for)
{
    mesh_test_init(&test, 3);
    test.machines[1].start_ns = 5 * SECOND;
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)), "done done done");
    ck_assert_int_gt(test.hosts[0]->jobs_started_ns, 5 * SECOND);
    mesh_test_fini(&test);
}
END_TEST

START_TEST(a_blink_of_a_cable_costs_time_only)
{
    mesh_test_init(&test, 3);
    make_big();
    *mesh_test_fault(&test, 4 * MS, WORLD_FAULT_DOWN, 0) = (struct world_fault){
        .at_ns = 4 * MS, .for_ns = MS / 2, .kind = WORLD_FAULT_DOWN, .has_port = true};
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)), "done done done");
    ck_assert_uint_eq(test.hosts[0]->n_events, 2);
    ck_assert_int_eq(test.hosts[0]->events[0].type, IBV_EVENT_PORT_ERR);
    ck_assert_int_eq(test.hosts[0]->events[1].type, IBV_EVENT_PORT_ACTIVE);
    ck_assert_uint_eq(test.hosts[0]->events[0].device, 0);
    mesh_test_fini(&test);
}
END_TEST

/* The port is read while the cable is down; the cable comes up while discovery still runs. */
START_TEST(a_port_that_comes_up_during_discovery_is_used)
{
    struct world_fault *fault;

    mesh_test_init(&test, 2);
    fault = mesh_test_fault(&test, 0, WORLD_FAULT_DOWN, 0);
    fault->for_ns = 100;
    mesh_test_start(&test);
    /* Discovery ends after 5 us. The port is known to be up then, before anyone reads it again. */
    ck_assert_int_eq(mesh_test_run(&test, 5001, &error), WEFT_ERR_TIMEOUT);
    ck_assert_int_ne(test.hosts[0]->state, HOST_DISCOVER);
    ck_assert(test.hosts[0]->ports[0].is_active);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)), "done done");
    ck_assert_int_eq(test.hosts[0]->events[test.hosts[0]->n_events - 1].type,
                     IBV_EVENT_PORT_ACTIVE);
    mesh_test_fini(&test);
}
END_TEST

/* ---- failures ---- */

static void expect_given_back(const struct host *host)
{
    ck_assert_ptr_null(host->rdma);
    ck_assert_ptr_null(host->boot);
    ck_assert_ptr_null(host->listener);
    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        ck_assert_ptr_null(host->peers[rank].send);
        ck_assert_ptr_null(host->peers[rank].receive);
    }
}

START_TEST(a_killed_peer_fails_the_others_at_once)
{
    mesh_test_init(&test, 3);
    make_big();
    mesh_test_fault(&test, 4 * MS, WORLD_FAULT_KILL, 1);
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)),
                     "failed dead failed");
    ck_assert_int_eq(test.hosts[0]->failed_in, HOST_JOBS);
    ck_assert_int_eq(test.hosts[0]->error.sys_errno, ECONNRESET);
    ck_assert_uint_eq(test.hosts[0]->error_peer, 1);
    ck_assert(!test.hosts[0]->error_is_hearsay);
    ck_assert_int_lt(test.hosts[2]->error_ns, 5 * MS);
    expect_given_back(test.hosts[0]);
    expect_given_back(test.hosts[2]);
    mesh_test_fini(&test);
}
END_TEST

START_TEST(a_dead_cable_fails_its_ends_and_the_third_hears_of_it)
{
    mesh_test_init(&test, 3);
    make_big();
    mesh_test_fault(&test, 4 * MS, WORLD_FAULT_DOWN, 0)->has_port = true;
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)),
                     "failed failed failed");
    /* Each end reports what it saw, because their limits end within microseconds of each other. */
    ck_assert_int_eq(test.hosts[1]->error.wc_status, 12);
    ck_assert_uint_eq(test.hosts[1]->error_peer, 0);
    ck_assert(!test.hosts[1]->error_is_hearsay);
    ck_assert_int_eq(test.hosts[0]->error.wc_status, 12);
    ck_assert_uint_eq(test.hosts[0]->error_peer, 1);
    ck_assert(!test.hosts[0]->error_is_hearsay);
    ck_assert(!test.hosts[0]->ports[0].is_active);
    ck_assert(test.hosts[0]->ports[1].is_active);
    ck_assert(test.hosts[2]->error_is_hearsay);
    for (int i = 0; i < 3; i++) {
        expect_given_back(test.hosts[i]);
    }
    mesh_test_fini(&test);
}
END_TEST

/* Discovery takes some 100 us, connections until about 1.3 ms, the row until 6 ms. */
#define KILLS SWEEP(24)
#define ENDS SWEEP(29)

START_TEST(a_peer_killed_in_any_state_is_noticed)
{
    weft_ns at = 50000 + _i * (2400000 / KILLS);

    mesh_test_init(&test, 3);
    make_big();
    mesh_test_fault(&test, at, WORLD_FAULT_KILL, (uint32_t)_i % 3);
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(test.hosts[i]->state, i == _i % 3 ? HOST_DEAD : HOST_FAILED);
    }
    mesh_test_fini(&test);
}
END_TEST

/* Counts polls of queues by a process that was killed. */
static unsigned n_polls;

static int count_poll(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n)
{
    (void)cq;
    (void)n_max;
    (void)wc;
    n_polls++;
    *out_n = 0;
    return 0;
}

START_TEST(a_killed_process_polls_no_queue_when_it_is_destroyed)
{
    weft_ns at = 50000 + _i * (5500000 / KILLS);
    struct io_device_ops ops;
    struct io_env *env;

    mesh_test_init(&test, 3);
    make_big();
    mesh_test_fault(&test, at, WORLD_FAULT_KILL, (uint32_t)_i % 3);
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_int_eq(test.hosts[_i % 3]->state, HOST_DEAD);
    env = test.hosts[_i % 3]->env;
    ops = *env->devices[0]->ops;
    ops.poll_cq = count_poll;
    for (uint32_t i = 0; i < env->n_devices; i++) {
        env->devices[i]->ops = &ops;
    }
    n_polls = 0;
    mesh_test_fini(&test);
    ck_assert_uint_eq(n_polls, 0);
}
END_TEST

START_TEST(without_the_management_network_the_rendezvous_times_out)
{
    static const char *const drop[] = {"tcp:29500"};

    mesh_test_init(&test, 3);
    test.machines[0].input_drop = drop;
    test.machines[0].n_input_drop = 1;
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)),
                     "failed failed failed");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(test.hosts[i]->failed_in, HOST_BOOT);
        ck_assert_str_eq(weft_phase_name(test.hosts[i]->error.phase), "boot");
        ck_assert_int_ge(test.hosts[i]->error_ns, test.config.boot.patience_ns);
    }
    mesh_test_fini(&test);
}
END_TEST

START_TEST(memory_beyond_the_limit_fails_with_its_errno)
{
    mesh_test_init(&test, 3);
    make_big();
    test.machines[2].memlock_bytes = 1 << 20;
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)),
                     "failed failed failed");
    ck_assert_int_eq(test.hosts[2]->error.sys_errno, ENOMEM);
    ck_assert_str_eq(weft_phase_name(test.hosts[2]->error.phase), "register");
    ck_assert(test.hosts[0]->error_is_hearsay);
    ck_assert(test.hosts[1]->error_is_hearsay);
    mesh_test_fini(&test);
}
END_TEST

START_TEST(a_row_that_takes_too_long_is_stuck)
{
    mesh_test_init(&test, 2);
    make_big();
    test.rows[0].limit_ns = MS;
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)), "failed failed");
    ck_assert_int_eq(test.hosts[0]->error.status, WEFT_ERR_TIMEOUT);
    ck_assert_str_eq(weft_phase_name(test.hosts[0]->error.phase), "jobs");
    ck_assert_ptr_nonnull(weft_error_value(&test.hosts[0]->error, WEFT_VALUE_WAITS_FOR));
    ck_assert_str_eq(weft_error_value(&test.hosts[0]->error, WEFT_VALUE_WAITS_FOR)->text,
                     "1");
    ck_assert_uint_gt(test.hosts[0]->n_waits, 0);
    for (uint32_t i = 0; i < test.hosts[0]->n_waits; i++) {
        const struct host_wait *wait = &test.hosts[0]->waits[i];

        ck_assert_uint_eq(wait->member, 1);
        ck_assert(wait->what == WEFT_WAIT_SEND || wait->what == WEFT_WAIT_RECEIVE);
    }
    ck_assert_int_eq(test.hosts[0]->waited_ns, MS);
    mesh_test_fini(&test);
}
END_TEST

/* The relay reaches the end of the job when the rows begin, and waits until they end, or as long as
 * they may last. Over the mesh, a relay that reaches no rank for 30 s ends well, because none can
 * have needed it since. */
static const struct patient_relay {
    enum boot_mode mode;
    bool is_stuck; /* the ranks stay stopped */
    const char *states;
} patient_relays[] = {{BOOT_RENDEZVOUS, false, "done done done"},
                      {BOOT_NEIGHBOURS, false, "done done done"},
                      {BOOT_RENDEZVOUS, true, "failed failed failed"},
                      {BOOT_NEIGHBOURS, true, "failed failed done"}};

START_TEST(a_relay_waits_as_long_as_the_rows_may_last)
{
    const struct patient_relay *row = &patient_relays[_i];

    mesh_test_init(&test, 3);
    make_big();
    test.config.n_ranks = 2;
    coll_mesh_fini(&test.coll_mesh);
    coll_mesh_full(2, 100 * GBPS, MS, &test.coll_mesh);
    test.config.boot.mode = row->mode;
    test.rows[0].limit_ns = 200 * SECOND;
    test.config.work_ns = test.rows[0].limit_ns;
    for (uint32_t rank = 0; rank < 2; rank++) {
        mesh_test_fault(&test, 4 * MS, WORLD_FAULT_STOP, rank)->for_ns =
            (row->is_stuck ? 1000 : 100) * SECOND;
    }
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)), row->states);
    if (test.hosts[2]->state == HOST_FAILED) {
        ck_assert_int_eq(test.hosts[2]->failed_in, HOST_CLOSE);
        ck_assert_int_ge(test.hosts[2]->error_ns, 200 * SECOND);
        ck_assert_int_le(test.hosts[2]->error_ns, 300 * SECOND);
    }
    mesh_test_fini(&test);
}
END_TEST

START_TEST(a_host_without_devices_says_so)
{
    mesh_test_init(&test, 2);
    test.machines[1].n_ports = 0;
    test.spec.n_cables = 0;
    test.config.boot.patience_ns = SECOND;
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)), "failed failed");
    ck_assert_int_eq(test.hosts[1]->error.status, WEFT_ERR_ENVIRONMENT);
    ck_assert_int_eq(test.hosts[1]->failed_in, HOST_DISCOVER);
    mesh_test_fini(&test);
}
END_TEST

/* A process of the same host stops its streams while both close. That is no failure, and is not
 * mixed with one that may follow. */
START_TEST(the_end_of_a_stream_inside_a_host_is_forgiven_in_close)
{
    weft_ns at = 0;

    mesh_test_init(&test, 2);
    test.spec.n_hosts = 1;
    test.spec.n_cables = 0;
    test.n_processes = 2;
    test.machines[0].n_processes = 2;
    mesh_test_start(&test);
    while (test.hosts[0]->state != HOST_CLOSE || test.hosts[1]->state != HOST_CLOSE) {
        at += 1000;
        ck_assert_int_eq(mesh_test_run(&test, at, &error), WEFT_ERR_TIMEOUT);
    }
    inside_stop(test.hosts[1]->inside, "enough");
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&test, states, sizeof(states)), "done done");
    ck_assert_int_eq(test.hosts[0]->error.status, WEFT_OK);
    ck_assert_uint_eq(test.hosts[0]->error_peer, HOST_NO_MEMBER);
    mesh_test_fini(&test);
}
END_TEST

static struct io_device *lost[2]; /* devices that have reported their loss */
static unsigned n_lost;

/* Reports the loss of each device once. */
static int fatal_once(struct io_device *device, struct io_async_event *out)
{
    if (n_lost == 2 || (n_lost == 1 && lost[0] == device)) {
        return EAGAIN;
    }
    lost[n_lost++] = device;
    *out = (struct io_async_event){.type = IBV_EVENT_DEVICE_FATAL};
    return 0;
}

/* A flow waits because its peer gave up a lane. Then this host loses its devices, which is more
 * specific than the peer's report. */
START_TEST(a_lost_device_is_not_a_report_of_the_peer)
{
    struct io_device_ops ops;
    struct io_env *env;
    struct flow *flow;

    mesh_test_init(&test, 2);
    make_big();
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, 4 * MS, &error), WEFT_ERR_TIMEOUT);
    ck_assert_int_eq(test.hosts[0]->state, HOST_JOBS);
    flow = test.hosts[0]->peers[1].send;
    flow->without_ns = 4 * MS;
    weft_fail(&flow->first_failure, WEFT_ERR_CLOSED, WEFT_PHASE_PEER, "gave up");
    env = test.hosts[0]->env;
    ops = *env->devices[0]->ops;
    ops.async_event = fatal_once;
    n_lost = 0;
    for (uint32_t i = 0; i < env->n_devices; i++) {
        env->devices[i]->ops = &ops;
    }
    io_task_wake(env->devices[0]->async_task);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
    ck_assert_int_eq(test.hosts[0]->state, HOST_FAILED);
    ck_assert_str_eq(weft_phase_name(test.hosts[0]->error.phase), "device");
    ck_assert_int_eq(test.hosts[0]->error.sys_errno, EIO);
    ck_assert(!test.hosts[0]->error_is_hearsay);
    mesh_test_fini(&test);
}
END_TEST

/* ---- the loop ---- */

/* A member dies, has no device, or is refused every call, before it joins. The others are informed
 * as by a launcher, or, if reports_ends is false, wait for their patience. */
START_TEST(the_others_hear_of_one_that_ended_before_it_came)
{
    static const uint32_t gone[] = {0, 1, 2, 0, 1, 2};
    bool dies = _i >= 3;

    for (int hears = 0; hears < 2; hears++) {
        mesh_test_init(&test, 3);
        if (dies) {
            mesh_test_fault(&test, 1, WORLD_FAULT_KILL, gone[_i]);
        } else {
            test.machines[gone[_i]].n_ports = 0;
            test.spec.n_cables = 0;
        }
        test.config.boot.patience_ns = 20 * SECOND;
        test.reports_ends = hears == 1;
        mesh_test_start(&test);
        ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_OK);
        for (uint32_t i = 0; i < 3; i++) {
            if (i != gone[_i]) {
                ck_assert_int_eq(test.hosts[i]->state, HOST_FAILED);
                ck_assert_int_eq(test.hosts[i]->failed_in, HOST_BOOT);
                ck_assert_int_eq(test.hosts[i]->error_ns < 2 * SECOND, hears == 1);
            }
        }
        mesh_test_fini(&test);
    }
}
END_TEST

START_TEST(the_loop_gives_up_at_its_limit)
{
    mesh_test_init(&test, 2);
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, MS / 10, &error), WEFT_ERR_TIMEOUT);
    ck_assert(!host_is_over(test.hosts[0]));
    mesh_test_fini(&test);
}
END_TEST

START_TEST(the_loop_calls_a_stall_a_stall)
{
    mesh_test_init(&test, 2);
    test.machines[0].start_ns = 2 * HOUR;
    test.machines[1].start_ns = 2 * HOUR;
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, HOUR, &error), WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_STATE)->text, "new");
    mesh_test_fini(&test);
}
END_TEST

START_TEST(hosts_are_destroyed_in_any_state)
{
    mesh_test_init(&test, 3);
    make_big();
    mesh_test_start(&test);
    ck_assert_int_eq(mesh_test_run(&test, _i * (2900000 / ENDS), &error),
                     WEFT_ERR_TIMEOUT);
    mesh_test_fini(&test);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host");
    TCase *tests = tcase_create("host");

    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_pair_runs_its_row_and_closes);
    tcase_add_test(tests, a_triangle_connects_every_pair_by_its_own_cable);
    tcase_add_test(tests, rows_of_every_kind_of_run_are_verified);
    tcase_add_loop_test(tests, only_rails_between_nics_are_timed, 0, 3);
    tcase_add_test(tests, a_host_that_starts_late_is_waited_for);
    suite_add_sweep(tests, a_blink_of_a_cable_costs_time_only, 4, 5);
    tcase_add_test(tests, a_port_that_comes_up_during_discovery_is_used);
    tcase_add_test(tests, a_killed_peer_fails_the_others_at_once);
    tcase_add_test(tests, a_dead_cable_fails_its_ends_and_the_third_hears_of_it);
    suite_add_sweep(tests, a_peer_killed_in_any_state_is_noticed, 0, KILLS);
    suite_add_sweep(tests, a_killed_process_polls_no_queue_when_it_is_destroyed, 0,
                    KILLS);
    tcase_add_test(tests, without_the_management_network_the_rendezvous_times_out);
    tcase_add_test(tests, memory_beyond_the_limit_fails_with_its_errno);
    tcase_add_test(tests, a_row_that_takes_too_long_is_stuck);
    tcase_add_loop_test(tests, a_relay_waits_as_long_as_the_rows_may_last, 0,
                        WEFT_LENGTH(patient_relays));
    tcase_add_test(tests, a_host_without_devices_says_so);
    tcase_add_test(tests, the_end_of_a_stream_inside_a_host_is_forgiven_in_close);
    tcase_add_test(tests, a_lost_device_is_not_a_report_of_the_peer);
    tcase_add_loop_test(tests, the_others_hear_of_one_that_ended_before_it_came, 0, 6);
    tcase_add_test(tests, the_loop_gives_up_at_its_limit);
    tcase_add_test(tests, the_loop_calls_a_stall_a_stall);
    suite_add_sweep(tests, hosts_are_destroyed_in_any_state, 1, ENDS + 1);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

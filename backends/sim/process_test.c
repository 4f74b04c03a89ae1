/* Several processes on a host, and traffic between them. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/bed_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "io/gpu.h"
#include "io/oob.h"
#include "io/shm.h"
#include "io/verbs.h"

#define MS ((weft_ns)1000000)

static struct bed bed;
static struct bed_end ends[4];

/* h0 with two processes and two ports, h1 with one of each; h0:p0 -- h1:p0. */
static void start(void)
{
    sim_bed_init(&bed);
    sim_bed_host(&bed);
    sim_bed_host(&bed);
    bed.hosts[0].n_processes = 2;
    bed.hosts[0].n_gpus = 2;
    sim_bed_port(&bed, 0, "10.0.0.1/24", 0);
    sim_bed_port(&bed, 0, "10.0.1.1/24", 0);
    sim_bed_port(&bed, 1, "10.0.0.2/24", 0);
    sim_bed_cable(&bed, (struct world_end){.node = 0}, (struct world_end){.node = 1});
    memset(ends, 0, sizeof ends);
}

static void stop(void)
{
    for (size_t i = 0; i < WEFT_LENGTH(ends); i++) {
        if (ends[i].env != NULL) {
            sim_bed_close(&ends[i]);
        }
    }
    sim_bed_fini(&bed);
}

static struct io_env *env(uint32_t host, uint32_t process)
{
    return backend_sim.host_env(bed.world, host, process);
}

START_TEST(processes_share_a_host_and_nothing_else)
{
    sim_bed_create(&bed);
    struct io_env *a = env(0, 0), *b = env(0, 1), *c = env(1, 0);
    uint64_t random[2];
    ck_assert_uint_eq(a->host, 0);
    ck_assert_uint_eq(b->host, 1);
    ck_assert_uint_eq(c->host, 2);
    ck_assert_uint_eq(b->world_host, 0);
    ck_assert_uint_eq(b->process, 1);
    ck_assert_uint_eq(c->world_host, 1);
    ck_assert_uint_eq(c->process, 0);
    ck_assert_str_eq(a->name, "h0");
    ck_assert_str_eq(b->name, "h0");
    ck_assert_mem_eq(a->ops->hostinfo(a)->host_id, b->ops->hostinfo(b)->host_id,
                     sizeof a->ops->hostinfo(a)->host_id);
    ck_assert_uint_eq(b->ops->hostinfo(b)->n_netdevs, 2);
    a->ops->random(a, &random[0], sizeof random[0]);
    b->ops->random(b, &random[1], sizeof random[1]);
    ck_assert_uint_ne(random[0], random[1]);
    ck_assert_str_ne(a->gpu->uuid, b->gpu->uuid);
    ck_assert_uint_eq(b->n_devices, 2);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_ptr_ne(a->devices[i], b->devices[i]);
        ck_assert_str_eq(a->devices[i]->name, b->devices[i]->name);
        ck_assert_uint_eq(a->devices[i]->guid, b->devices[i]->guid);
    }
}
END_TEST

static int next_event(const struct bed_end *end)
{
    struct io_async_event event;
    int error = end->device->ops->async_event(end->device, &event);
    ck_assert(error == 0 || error == EAGAIN);
    return error == EAGAIN ? -1 : (int)event.type;
}

START_TEST(events_reach_whom_they_concern)
{
    sim_bed_create(&bed);
    sim_bed_open(&bed, &ends[0], 0, 0, 0);
    sim_bed_open(&bed, &ends[1], 0, 1, 0);
    sim_bed_open(&bed, &ends[2], 1, 0, 0);
    ck_assert_int_eq(sim_bed_connect(&ends[1], &ends[2]), 0);
    for (int i = 0; i < 2; i++) {
        while (next_event(&ends[i]) >= 0) { /* GID changes and COMM_EST */
        }
    }
    /* A QP's event reaches only its process. The peer writes with a wrong rkey. */
    ends[1].mr->rkey ^= 1;
    sim_bed_write(&ends[2], &ends[1], 8, 1);
    ends[1].mr->rkey ^= 1;
    sim_bed_run(&bed, backend_sim.now(bed.world) + MS, NULL, NULL);
    ck_assert_int_eq(next_event(&ends[0]), -1);
    ck_assert_int_eq(next_event(&ends[1]), IBV_EVENT_QP_ACCESS_ERR);
    ck_assert_int_eq(next_event(&ends[1]), -1);
    /* A port's event reaches all processes that have opened the device, and wakes each one's
     * task. */
    ends[0].device->async_task = &ends[0].task;
    ends[1].device->async_task = &ends[1].task;
    struct world_fault down = {.kind = WORLD_FAULT_DOWN, .has_port = true};
    ck_assert_int_eq(backend_sim.inject(bed.world, &down), 0);
    ck_assert_int_eq(backend_sim.step(bed.world, backend_sim.now(bed.world) + MS),
                     WEFT_OK);
    ck_assert_ptr_eq(io_loop_pop(backend_sim.loop(bed.world)), &ends[0].task);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(next_event(&ends[i]), IBV_EVENT_PORT_ERR);
        ck_assert_int_eq(next_event(&ends[i]), -1);
    }
    ends[0].device->async_task = NULL;
    ends[1].device->async_task = NULL;
}
END_TEST

START_TEST(memlock_counts_per_process)
{
    bed.hosts[0].memlock_bytes = BED_BYTES;
    sim_bed_create(&bed);
    sim_bed_open(&bed, &ends[0], 0, 0, 0); /* each pins up to its limit */
    sim_bed_open(&bed, &ends[1], 0, 1, 0);
    struct io_op op = {.kind = IO_OP_REG_MR, .task = &ends[1].task};
    op.arg.reg_mr.pd = ends[1].pd;
    op.arg.reg_mr.addr = ends[1].memory;
    op.arg.reg_mr.length = 4096;
    op.arg.reg_mr.access = IBV_ACCESS_LOCAL_WRITE;
    ck_assert_int_eq(ends[1].device->ops->submit(ends[1].device, &op), 0);
    sim_bed_run(&bed, backend_sim.now(bed.world) + MS, NULL, NULL);
    ck_assert_int_eq(op.error, ENOMEM);
}
END_TEST

START_TEST(a_fault_of_the_host_is_one_of_its_processes)
{
    sim_bed_create(&bed);
    sim_bed_open(&bed, &ends[0], 0, 0, 0);
    sim_bed_open(&bed, &ends[1], 0, 1, 1);
    struct io_loop *loop = backend_sim.loop(bed.world);
    struct world_fault fault = {.kind = WORLD_FAULT_STOP, .for_ns = MS};
    ck_assert_int_eq(backend_sim.inject(bed.world, &fault), 0);
    io_task_wake(&ends[0].task);
    io_task_wake(&ends[1].task);
    ck_assert_ptr_null(io_loop_pop(loop));
    weft_ns start = backend_sim.now(bed.world);
    ck_assert_int_eq(backend_sim.step(bed.world, start + 2 * MS), WEFT_OK);
    ck_assert_int_eq(backend_sim.now(bed.world), start + MS);
    ck_assert_ptr_eq(io_loop_pop(loop), &ends[0].task);
    ck_assert_ptr_eq(io_loop_pop(loop), &ends[1].task);
    fault = (struct world_fault){.kind = WORLD_FAULT_KILL};
    ck_assert_int_eq(backend_sim.inject(bed.world, &fault), 0);
    ck_assert(!backend_sim.host_alive(bed.world, 0));
    ck_assert(backend_sim.host_alive(bed.world, 1));
    for (int i = 0; i < 2; i++) {
        struct io_op op = {.kind = IO_OP_ALLOC_PD, .task = &ends[i].task};
        ck_assert_int_eq(ends[i].device->ops->submit(ends[i].device, &op), EIO);
        io_task_wake(&ends[i].task);
    }
    ck_assert_ptr_null(io_loop_pop(loop));
}
END_TEST

/* ---- traffic between processes ---- */

/* Returns the time of 64 WRITEs of 1 MiB over a connection. */
static weft_ns time_of_writes(struct bed_end *from, struct bed_end *to)
{
    weft_ns begin = backend_sim.now(bed.world);
    memset(from->memory, 0x5a, BED_BYTES);
    memset(to->memory, 0, BED_BYTES);
    sim_bed_write(from, to, BED_BYTES, 64);
    weft_ns time = sim_bed_wait(from, 64) - begin;
    ck_assert_mem_eq(from->memory, to->memory, BED_BYTES);
    return time;
}

/* Returns the wire time. 1 MiB is 256 packets of 4096 bytes, each with 82 bytes of overhead, and
 * a RETH of 16 bytes in the first. */
static weft_ns wire_ns(uint64_t bps)
{
    uint64_t bytes = 64 * (256 * UINT64_C(4178) + 16);
    return (weft_ns)(bytes * 8 * 1000000000 / bps);
}

static void expect_about(weft_ns time, weft_ns least)
{
    ck_assert_msg(time >= least && time < least + least / 20, "%lld of %lld ns",
                  (long long)time, (long long)least);
}

START_TEST(an_own_address_is_looped_at_the_rate_of_pcie)
{
    bed.roots[0][0] = 250 * BED_GBPS;
    sim_bed_create(&bed);
    sim_bed_open(&bed, &ends[0], 0, 0, 0);
    sim_bed_open(&bed, &ends[1], 0, 1, 0);
    ck_assert_int_eq(sim_bed_connect(&ends[0], &ends[1]), 0);
    expect_about(time_of_writes(&ends[0], &ends[1]), wire_ns(250 * BED_GBPS));
    /* None of it was on the cable. */
    struct world_cable_stats stats;
    backend_sim.cable_stats(bed.world, 0, &stats);
    ck_assert_uint_eq(stats.packets[0], 0);
    ck_assert_uint_eq(stats.bytes[0], 0);
}
END_TEST

START_TEST(the_loop_needs_no_cable)
{
    sim_bed_create(&bed);
    sim_bed_open(&bed, &ends[0], 0, 0, 1);
    sim_bed_open(&bed, &ends[1], 0, 1, 1);
    ck_assert_int_eq(sim_bed_connect(&ends[0], &ends[1]), 0);
    expect_about(time_of_writes(&ends[0], &ends[1]), wire_ns(100 * BED_GBPS));
}
END_TEST

START_TEST(one_process_may_talk_to_itself)
{
    sim_bed_create(&bed);
    sim_bed_open(&bed, &ends[0], 1, 0, 0);
    sim_bed_open(&bed, &ends[1], 1, 0, 0);
    ck_assert_int_eq(sim_bed_connect(&ends[0], &ends[1]), 0);
    (void)time_of_writes(&ends[0], &ends[1]);
}
END_TEST

/* Two ports of a host, cabled to each other. Like Linux, the host rejects its own address from a
 * cable unless accept_local is set. */
START_TEST(two_ports_of_a_host_meet_on_the_wire)
{
    bed.hosts[0].sysctl.accept_local = _i;
    bed.hosts[0].sysctl.arp_ignore = 1;
    bed.cables[0].ends[1] = (struct world_end){.node = 0, .port = 1};
    sim_bed_create(&bed);
    sim_bed_open(&bed, &ends[0], 0, 0, 0);
    sim_bed_open(&bed, &ends[1], 0, 1, 1);
    if (_i == 0) {
        ck_assert_int_eq(sim_bed_connect(&ends[0], &ends[1]), ETIMEDOUT);
        return;
    }
    ck_assert_int_eq(sim_bed_connect(&ends[0], &ends[1]), 0);
    expect_about(time_of_writes(&ends[0], &ends[1]), wire_ns(100 * BED_GBPS));
    struct world_cable_stats stats;
    backend_sim.cable_stats(bed.world, 0, &stats);
    ck_assert_uint_ge(stats.packets[0], 64 * 256);
}
END_TEST

START_TEST(tcp_connects_processes_of_a_host)
{
    sim_bed_create(&bed);
    struct io_env *server = env(0, 1), *client = env(0, 0);
    struct io_endpoint at = {.ip = io_ip_v4(10, 0, 0, 1), .port = 4000}, real;
    struct io_listener *listener;
    struct io_stream *out, *in;
    struct io_task tasks[3];
    for (int i = 0; i < 3; i++) {
        io_task_init(&tasks[i], server->loop, i == 0 ? client->host : server->host, i);
    }
    ck_assert_int_eq(server->oob->listen(server, &at, 4, &tasks[1], &listener, &real), 0);
    ck_assert_int_eq(client->oob->connect(client, NULL, &at, &tasks[0], &out), 0);
    sim_bed_run(&bed, MS, NULL, NULL);
    ck_assert_int_eq(client->oob->connected(out), 0);
    ck_assert_int_eq(server->oob->accept(listener, &tasks[2], &in), 0);
    size_t n;
    char text[8] = "";
    ck_assert_int_eq(client->oob->send(out, "hello", 6, &n), 0);
    sim_bed_run(&bed, 2 * MS, NULL, NULL);
    ck_assert_int_eq(server->oob->recv(in, text, sizeof text, &n), 0);
    ck_assert_str_eq(text, "hello");
    /* A TCP port is taken for all processes of the host. */
    struct io_listener *second;
    ck_assert_int_eq(client->oob->listen(client, &at, 4, &tasks[0], &second, &real),
                     EADDRINUSE);
    client->oob->close(out, false);
    server->oob->close(in, false);
    server->oob->close_listener(listener);
    sim_bed_run(&bed, 3 * MS, NULL, NULL);
}
END_TEST

static void pass(weft_ns for_ns)
{
    sim_bed_run(&bed, backend_sim.now(bed.world) + for_ns, NULL, NULL);
}

START_TEST(a_process_dies_alone)
{
    sim_bed_create(&bed);
    sim_bed_open(&bed, &ends[0], 0, 0, 0);
    sim_bed_open(&bed, &ends[1], 0, 1, 1);
    struct io_env *living = backend_sim.host_env(bed.world, 0, 0);
    struct io_env *dying = backend_sim.host_env(bed.world, 0, 1);
    struct io_endpoint at = {.port = 7000}, real;
    struct io_endpoint doomed_at = {.port = 7001};
    struct io_listener *listener, *doomed;
    struct io_stream *theirs, *ours;
    char name[IO_SHM_NAME_BYTES];
    struct io_shm *segment, *attached;
    uint8_t byte;
    size_t n = 0;
    at.ip = doomed_at.ip = living->ops->hostinfo(living)->netdevs[0].addresses[0].ip;
    ck_assert_int_eq(living->oob->listen(living, &at, 4, &ends[0].task, &listener, &real),
                     0);
    ck_assert_int_eq(
        dying->oob->listen(dying, &doomed_at, 4, &ends[1].task, &doomed, &real), 0);
    ck_assert_int_eq(dying->oob->connect(dying, NULL, &at, &ends[1].task, &theirs), 0);
    pass(2 * MS);
    ck_assert_int_eq(living->oob->accept(listener, &ends[0].task, &ours), 0);
    ck_assert_int_eq(dying->shm->create(dying, 4096, name, &segment), 0);
    ck_assert_int_eq(living->shm->attach(living, name, 4096, &attached), 0);

    struct world_fault fault = {
        .kind = WORLD_FAULT_KILL, .has_process = true, .process = 1};
    ck_assert_int_eq(backend_sim.inject(bed.world, &fault), 0);
    ck_assert(backend_sim.host_alive(bed.world, 0));
    ck_assert(backend_sim.process_alive(bed.world, 0, 0));
    ck_assert(!backend_sim.process_alive(bed.world, 0, 1));
    ck_assert(backend_sim.process_alive(bed.world, 1, 0));

    /* The kernel resets its streams and refuses connections to its TCP ports. */
    pass(2 * MS);
    ck_assert_int_eq(living->oob->recv(ours, &byte, 1, &n), ECONNRESET);
    living->oob->close(ours, true);
    ck_assert_int_eq(living->oob->connect(living, NULL, &doomed_at, &ends[0].task, &ours),
                     0);
    pass(2 * MS);
    ck_assert_int_eq(living->oob->connected(ours), ECONNREFUSED);
    living->oob->close(ours, true);
    living->oob->close_listener(listener);

    /* The name of its segment is gone; the segment is still valid where attached. */
    ck_assert_int_eq(living->shm->attach(living, name, 4096, &segment), ENOENT);
    memset(attached->memory, 1, 4096);
    living->shm->close(attached);

    /* Only its own devices are gone. */
    struct io_op op = {.kind = IO_OP_ALLOC_PD, .task = &ends[1].task};
    ck_assert_int_eq(ends[1].device->ops->submit(ends[1].device, &op), EIO);
    op.task = &ends[0].task;
    ck_assert_int_eq(ends[0].device->ops->submit(ends[0].device, &op), 0);
    pass(2 * MS);
    ck_assert_int_eq(op.error, 0);

    /* The end of a stop does not wake a dead process. */
    fault = (struct world_fault){.kind = WORLD_FAULT_STOP, .for_ns = MS};
    ck_assert_int_eq(backend_sim.inject(bed.world, &fault), 0);
    pass(2 * MS);
    io_task_wake(&ends[1].task);
    ck_assert_ptr_null(io_loop_pop(backend_sim.loop(bed.world)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/sim/process");
    TCase *processes = tcase_create("processes");
    tcase_add_checked_fixture(processes, start, stop);
    tcase_add_test(processes, processes_share_a_host_and_nothing_else);
    tcase_add_test(processes, events_reach_whom_they_concern);
    tcase_add_test(processes, memlock_counts_per_process);
    tcase_add_test(processes, a_fault_of_the_host_is_one_of_its_processes);
    suite_add_tcase(suite, processes);
    TCase *loop = tcase_create("loopback");
    tcase_add_checked_fixture(loop, start, stop);
    tcase_add_test(loop, an_own_address_is_looped_at_the_rate_of_pcie);
    tcase_add_test(loop, the_loop_needs_no_cable);
    tcase_add_test(loop, one_process_may_talk_to_itself);
    tcase_add_loop_test(loop, two_ports_of_a_host_meet_on_the_wire, 0, 2);
    tcase_add_test(loop, tcp_connects_processes_of_a_host);
    tcase_add_test(loop, a_process_dies_alone);
    suite_add_tcase(suite, loop);
    return suite_run(suite);
}

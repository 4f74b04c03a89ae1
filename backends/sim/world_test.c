#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "io/gpu.h"
#include "io/oob.h"
#include "io/verbs.h"

#define MS ((weft_ns)1000000)

/* Two hosts, one cable between "a:p0" and "b:p0"; tests change them before create(). */
static struct io_prefix addresses[2];
static struct world_port ports[2][2];
static struct world_host hosts[2];
static struct world_cable cable;
static struct world_fault faults[4];
static struct world_spec spec;
static struct weft_trace trace;
static struct weft_text story;
static struct world *world;

static void add_line(void *context, const char *line, size_t n_bytes)
{
    weft_text_add_bytes(context, line, n_bytes);
}

static void start(void)
{
    static const char *const names[2] = {"a", "b"};
    memset(ports, 0, sizeof ports);
    memset(faults, 0, sizeof faults);
    story = (struct weft_text){0};
    world = NULL;
    weft_trace_init(&trace, WEFT_TRACE_STORY, add_line, &story);
    for (uint8_t i = 0; i < 2; i++) {
        addresses[i] = (struct io_prefix){.ip = io_ip_v4(10, 0, 0, (uint8_t)(i + 1)),
                                          .prefix_len = 24};
        ports[i][0] = (struct world_port){.name = "p0",
                                          .port = 1,
                                          .rate_bps = 100000000000,
                                          .mtu_bytes = 1500,
                                          .addresses = &addresses[i],
                                          .n_addresses = 1};
        hosts[i] = (struct world_host){.name = names[i],
                                       .profile = WEFT_PROFILE_MLX5,
                                       .ports = ports[i],
                                       .n_ports = 1,
                                       .memlock_bytes = INT64_MAX};
    }
    cable = (struct world_cable){.ends = {{.node = 0}, {.node = 1}},
                                 .rate_bps = 100000000000,
                                 .delay_ps = 1000000,
                                 .up = true};
    spec = (struct world_spec){.seed = 3,
                               .hosts = hosts,
                               .n_hosts = 2,
                               .cables = &cable,
                               .n_cables = 1,
                               .faults = faults,
                               .trace = &trace};
}

static void stop(void)
{
    backend_sim.destroy(world);
    weft_text_fini(&story);
}

static void create(void)
{
    struct weft_error error = {.status = WEFT_OK};
    weft_status status = backend_sim.create(&spec, &world, &error);
    ck_assert_msg(status == WEFT_OK, "%s", error.message);
}

static void refuses(weft_status expected, const char *part)
{
    struct weft_error error = {.status = WEFT_OK};
    ck_assert_int_eq(backend_sim.create(&spec, &world, &error), expected);
    ck_assert_ptr_null(world);
    ck_assert_msg(strstr(error.message, part) != NULL, "%s", error.message);
}

static struct io_env *env(uint32_t host)
{
    return backend_sim.host_env(world, host, 0);
}

/* Runs the world until `until`. */
static void run(weft_ns until)
{
    while (backend_sim.step(world, until) == WEFT_OK) {
        while (io_loop_pop(backend_sim.loop(world)) != NULL) {
        }
    }
    ck_assert_int_eq(backend_sim.now(world), until);
}

static const struct io_netdev *netdev(uint32_t host)
{
    return &env(host)->ops->hostinfo(env(host))->netdevs[0];
}

START_TEST(what_cannot_be_built_is_named)
{
    struct world_setting override = {"max_inlein", "1"};
    hosts[0].overrides = &override;
    hosts[0].n_overrides = 1;
    refuses(WEFT_ERR_INPUT, "max_inlein");
    hosts[0].n_overrides = 0;
    static const char *const bad[] = {
        "sctp:1-2", "udp:", "tcp:", "tcp:5-1", "tcp:1-70000", "tcp:1-2x"};
    for (size_t i = 0; i < WEFT_LENGTH(bad); i++) {
        hosts[0].input_drop = &bad[i];
        hosts[0].n_input_drop = 1;
        refuses(WEFT_ERR_INPUT, bad[i]);
    }
    hosts[0].n_input_drop = 0;
    ports[0][0].port = 2;
    refuses(WEFT_ERR_INPUT, "a:p0 is port 2");
    ports[0][0].port = 1;
    spec.n_faults = 1;
    faults[0].kind = WORLD_FAULT_CLOCK;
    refuses(WEFT_ERR_UNSUPPORTED, "fault clock");
}
END_TEST

START_TEST(overrides_firewalls_and_limits_are_taken)
{
    struct world_setting override = {"max_inline", "0"};
    static const char *const drop[] = {"tcp:7", "tcp:1024-65535"};
    uint64_t root = 50000000000;
    hosts[0].overrides = &override;
    hosts[0].n_overrides = 1;
    hosts[0].input_drop = drop;
    hosts[0].n_input_drop = 2;
    hosts[0].memlock_bytes = 65536;
    hosts[0].pcie_root_bps = &root;
    hosts[0].n_pcie_roots = 1;
    create();
    struct io_device *device = env(0)->devices[0];
    struct io_device_attr attr;
    ck_assert_int_eq(device->ops->query_device(device, &attr), 0);
    ck_assert_uint_eq(attr.max_inline_bytes, 0);
    ck_assert_str_eq(device->pci_path,
                     "/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0");
    ck_assert_int_eq(env(0)->ops->hostinfo(env(0))->memlock_bytes, 65536);
    ck_assert_str_eq(env(0)->gpu->name, "host memory");
}
END_TEST

START_TEST(two_ports_may_share_a_device)
{
    hosts[0].profile = WEFT_PROFILE_SYNTH2PORT;
    ports[0][1] = ports[0][0];
    ports[0][1].name = "p1";
    ports[0][1].port = 2;
    ports[0][1].n_addresses = 0;
    hosts[0].n_ports = 2;
    create();
    struct io_device *device = env(0)->devices[0];
    uint32_t first, second;
    ck_assert_uint_eq(env(0)->n_devices, 1);
    ck_assert_uint_eq(device->n_ports, 2);
    ck_assert_int_eq(device->ops->port_netdev(device, 1, &first), 0);
    ck_assert_int_eq(device->ops->port_netdev(device, 2, &second), 0);
    ck_assert_uint_eq(first, 2);
    ck_assert_uint_eq(second, 3);
}
END_TEST

START_TEST(two_functions_of_one_root_differ)
{
    ports[0][1] = ports[0][0];
    ports[0][1].name = "p1";
    ports[0][1].device = 1;
    hosts[0].n_ports = 2;
    create();
    ck_assert_str_ne(env(0)->devices[0]->pci_path, env(0)->devices[1]->pci_path);
    ck_assert_uint_ne(env(0)->devices[0]->guid, env(0)->devices[1]->guid);
    ck_assert_str_eq(env(0)->devices[1]->name, "p1");
}
END_TEST

START_TEST(faults_begin_and_end)
{
    faults[0] = (struct world_fault){
        .kind = WORLD_FAULT_DOWN, .has_port = true, .at_ns = 2 * MS, .for_ns = MS};
    faults[1] = (struct world_fault){.kind = WORLD_FAULT_MTU,
                                     .host = 1,
                                     .has_port = true,
                                     .size_bytes = 9000,
                                     .for_ns = 5 * MS};
    spec.n_faults = 2;
    create();
    ck_assert_uint_eq(netdev(1)->mtu_bytes, 9000); /* at 0, before anything else */
    ck_assert(netdev(0)->is_up);
    run(2 * MS);
    ck_assert(!netdev(0)->is_up && !netdev(1)->is_up);
    run(3 * MS);
    ck_assert(netdev(0)->is_up && netdev(1)->is_up);
    run(6 * MS);
    ck_assert_uint_eq(netdev(1)->mtu_bytes, 1500);
    ck_assert_ptr_nonnull(strstr(story.bytes, "0 b p0 fault kind=mtu\n"));
    ck_assert_ptr_nonnull(strstr(story.bytes, "\n2000000 a p0 fault kind=down\n"));
    ck_assert_ptr_nonnull(strstr(story.bytes, "\n3000000 a p0 fault_end kind=down\n"));
    ck_assert_ptr_nonnull(strstr(story.bytes, "\n5000000 b p0 fault_end kind=mtu\n"));
}
END_TEST

static struct world_fault at_moment(enum world_moment_kind kind, weft_ns at_ns)
{
    return (struct world_fault){.moment = {.kind = kind, .row = 2, .bytes = 1000},
                                .at_ns = at_ns,
                                .kind = WORLD_FAULT_DOWN,
                                .has_port = true,
                                .for_ns = MS};
}

/* A fault acts once, at the exact nanosecond, and never before the caller has returned. */
START_TEST(faults_come_at_a_moment_of_the_job)
{
    faults[0] = at_moment(WORLD_MOMENT_JOBS, MS);
    faults[1] = at_moment(WORLD_MOMENT_ROW, 0);
    faults[1].kind = WORLD_FAULT_MTU;
    faults[1].size_bytes = 9000;
    spec.n_faults = 3;
    faults[2] = at_moment(WORLD_MOMENT_ROW, 0);
    faults[2].moment.row = 3;
    create();
    run(5 * MS + 7);
    ck_assert(netdev(0)->is_up);
    io_reached(env(1), IO_STAGE_JOBS, 0);
    run(5 * MS + 9);
    io_reached(env(0), IO_STAGE_JOBS, 0); /* only the first time counts */
    io_reached(env(0), IO_STAGE_ROW, 1);
    run(6 * MS + 6);
    ck_assert(netdev(0)->is_up);
    ck_assert_int_eq(backend_sim.fault_began(world, 0), WEFT_NEVER);
    run(6 * MS + 7);
    ck_assert(!netdev(0)->is_up);
    ck_assert_int_eq(backend_sim.fault_began(world, 0), 6 * MS + 7);
    ck_assert_ptr_nonnull(strstr(story.bytes, "6000007 a p0 fault kind=down\n"));
    run(8 * MS);
    ck_assert_ptr_nonnull(strstr(story.bytes, "\n7000007 a p0 fault_end kind=down\n"));
    ck_assert_uint_eq(netdev(0)->mtu_bytes, 1500);
    io_reached(env(0), IO_STAGE_ROW, 2);
    ck_assert_uint_eq(netdev(0)->mtu_bytes, 1500);
    ck_assert_int_eq(backend_sim.fault_began(world, 1), WEFT_NEVER);
    run(8 * MS + 1);
    ck_assert_uint_eq(netdev(0)->mtu_bytes, 9000);
    ck_assert_int_eq(backend_sim.fault_began(world, 1), 8 * MS);
    ck_assert_int_eq(backend_sim.fault_began(world, 2), WEFT_NEVER);
}
END_TEST

/* Counts what all processes of one host have sent, and no other host. */
START_TEST(faults_come_when_a_host_has_sent_so_much)
{
    faults[0] = at_moment(WORLD_MOMENT_SENT, MS);
    faults[0].moment.host = 1;
    spec.n_faults = 1;
    hosts[1].n_processes = 2;
    create();
    run(MS);
    io_reached(env(0), IO_STAGE_SENT, 5000);
    io_reached(env(1), IO_STAGE_SENT, 600);
    io_reached(backend_sim.host_env(world, 1, 1), IO_STAGE_SENT, 399);
    run(3 * MS);
    io_reached(backend_sim.host_env(world, 1, 1), IO_STAGE_SENT, 400);
    run(4 * MS);
    ck_assert(!netdev(0)->is_up);
    ck_assert_int_eq(backend_sim.fault_began(world, 0), 4 * MS);
}
END_TEST

/* Dials a TCP port on the cable. Returns the errno of the attempt; *out_took is its duration. */
static int dial(weft_ns *out_took)
{
    struct io_endpoint to = {.ip = io_ip_v4(10, 0, 0, 2), .port = 9};
    struct io_task task;
    struct io_stream *stream;
    io_task_init(&task, backend_sim.loop(world), 0, 0);
    weft_ns start_ns = backend_sim.now(world);
    ck_assert_int_eq(env(0)->oob->connect(env(0), NULL, &to, &task, &stream), 0);
    while (env(0)->oob->connected(stream) == EAGAIN &&
           backend_sim.step(world, start_ns + 60000 * MS) == WEFT_OK) {
        (void)io_loop_pop(backend_sim.loop(world));
    }
    int error = env(0)->oob->connected(stream);
    env(0)->oob->close(stream, true);
    io_task_fini(&task);
    *out_took = backend_sim.now(world) - start_ns;
    return error;
}

START_TEST(each_property_of_a_cable_changes_and_comes_back)
{
    static const struct {
        enum world_fault_kind kind;
        enum world_direction direction;
        uint32_t share_ppb;
        int error; /* of dialling a port without a listener; normally refused */
    } table[] = {
        {WORLD_FAULT_LOSS, WORLD_OUTWARDS, 1000000000, ETIMEDOUT},
        {WORLD_FAULT_LOSS, WORLD_INWARDS, 1000000000, ETIMEDOUT},
        {WORLD_FAULT_CORRUPT, WORLD_BOTH_WAYS, 1000000000, ETIMEDOUT},
        {WORLD_FAULT_DUPLICATE, WORLD_BOTH_WAYS, 1000000000, ECONNREFUSED},
        {WORLD_FAULT_REORDER, WORLD_BOTH_WAYS, 1, ECONNREFUSED},
        {WORLD_FAULT_ECN, WORLD_BOTH_WAYS, 1000000000, ECONNREFUSED},
        {WORLD_FAULT_DOWN, WORLD_BOTH_WAYS, 0, EHOSTUNREACH},
        {WORLD_FAULT_DELAY, WORLD_BOTH_WAYS, 0, ECONNREFUSED},
        {WORLD_FAULT_RATE, WORLD_BOTH_WAYS, 0, ECONNREFUSED},
        {WORLD_FAULT_PATH_LIMIT, WORLD_BOTH_WAYS, 0, ETIMEDOUT},
    };
    create();
    for (size_t i = 0; i < WEFT_LENGTH(table); i++) {
        weft_ns took, took_before;
        ck_assert_int_eq(dial(&took_before), ECONNREFUSED);
        struct world_fault fault = {.kind = table[i].kind,
                                    .for_ns = 40000 * MS,
                                    .direction = table[i].direction,
                                    .share_ppb = table[i].share_ppb,
                                    .delay_ns = 5 * MS,
                                    .rate_bps = 1000000,
                                    .size_bytes = 30};
        ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
        ck_assert_msg(dial(&took) == table[i].error, "row %zu", i);
        if (table[i].kind == WORLD_FAULT_DELAY) {
            ck_assert_int_ge(took, 10 * MS);
        }
        run(backend_sim.now(world) + 200000 * MS);
    }
}
END_TEST

START_TEST(faults_that_make_no_sense_say_so)
{
    create();
    struct world_fault fault = {.kind = WORLD_FAULT_RESTART};
    ck_assert_int_eq(backend_sim.inject(world, &fault), EOPNOTSUPP);
    fault = (struct world_fault){.kind = WORLD_FAULT_GID_DELETE};
    ck_assert_int_eq(backend_sim.inject(world, &fault), EINVAL); /* without a port */
    fault =
        (struct world_fault){.kind = WORLD_FAULT_VERB_ERROR, .call = WORLD_CALL_LISTEN};
    ck_assert_int_eq(backend_sim.inject(world, &fault), EINVAL);
    fault = (struct world_fault){.kind = WORLD_FAULT_MTU, .has_match = true};
    ck_assert_int_eq(backend_sim.inject(world, &fault), EINVAL);
    static const enum world_fault_kind matched[] = {
        WORLD_FAULT_DROP, WORLD_FAULT_CORRUPT, WORLD_FAULT_DUPLICATE, WORLD_FAULT_DELAY};
    for (size_t i = 0; i < WEFT_LENGTH(matched); i++) {
        fault = (struct world_fault){
            .kind = matched[i], .has_match = true, .has_port = true, .match_qp = 1};
        ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    }
}
END_TEST

START_TEST(gids_and_addresses_come_and_go)
{
    create();
    struct io_device *device = env(0)->devices[0];
    struct io_gid_entry entry;
    struct io_async_event event;
    struct world_fault fault = {.kind = WORLD_FAULT_GID_DELETE,
                                .has_port = true,
                                .for_ns = MS,
                                .address = addresses[0]};
    ck_assert_int_eq(device->ops->query_gid(device, 1, 3, &entry), 0);
    ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    ck_assert_int_eq(device->ops->query_gid(device, 1, 3, &entry), ENODATA);
    ck_assert_int_eq(device->ops->async_event(device, &event), 0);
    ck_assert_int_eq(event.type, IBV_EVENT_GID_CHANGE);
    run(2 * MS);
    ck_assert_int_eq(device->ops->query_gid(device, 1, 3, &entry), 0);

    struct io_prefix more = {.ip = io_ip_v4(10, 9, 0, 1), .prefix_len = 16};
    fault = (struct world_fault){
        .kind = WORLD_FAULT_ADDR_ADD, .has_port = true, .address = more};
    ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    ck_assert_uint_eq(netdev(0)->n_addresses, 2);
    ck_assert_int_eq(device->ops->query_gid(device, 1, 5, &entry), 0);
    fault.kind = WORLD_FAULT_ADDR_DEL;
    ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    ck_assert_uint_eq(netdev(0)->n_addresses, 1);
    fault.kind = WORLD_FAULT_GID_ADD;
    ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    ck_assert_int_eq(device->ops->query_gid(device, 1, 5, &entry), 0);
    ck_assert_uint_eq(netdev(0)->n_addresses, 1);
}
END_TEST

START_TEST(verbs_fail_or_take_longer_when_told)
{
    create();
    struct io_device *device = env(0)->devices[0];
    struct world_fault fault = {.kind = WORLD_FAULT_VERB_ERROR,
                                .call = WORLD_CALL_ALLOC_PD,
                                .nth = 2,
                                .error = ENOMEM};
    ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    fault = (struct world_fault){.kind = WORLD_FAULT_VERB_SLOW,
                                 .has_port = true,
                                 .call = WORLD_CALL_ALLOC_PD,
                                 .nth = 3,
                                 .by_ns = 50 * MS};
    ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    static const enum world_call calls[] = {WORLD_CALL_POST_SEND, WORLD_CALL_POST_RECV,
                                            WORLD_CALL_DESTROY_QP};
    for (size_t i = 0; i < WEFT_LENGTH(calls); i++) {
        fault.call = calls[i];
        ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    }
    for (int i = 1; i <= 3; i++) {
        struct io_op op = {.kind = IO_OP_ALLOC_PD};
        weft_ns start_ns = backend_sim.now(world);
        ck_assert_int_eq(device->ops->submit(device, &op), 0);
        run(start_ns + 49 * MS);
        ck_assert_int_eq(device->ops->poll(device, &op), i == 1   ? 0
                                                         : i == 2 ? ENOMEM
                                                                  : EINPROGRESS);
        run(start_ns + 60 * MS);
        ck_assert_int_eq(device->ops->poll(device, &op), i == 2 ? ENOMEM : 0);
    }
}
END_TEST

START_TEST(a_stopped_host_goes_on_later)
{
    struct io_task task;
    create();
    struct world_fault fault = {.kind = WORLD_FAULT_STOP, .host = 1, .for_ns = 10 * MS};
    io_task_init(&task, backend_sim.loop(world), 1, 0);
    io_task_deadline(&task, 3 * MS);
    ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    ck_assert(backend_sim.host_alive(world, 1));
    ck_assert_int_eq(backend_sim.step(world, 9 * MS), WEFT_AGAIN);
    ck_assert_int_eq(backend_sim.step(world, 20 * MS), WEFT_OK);
    ck_assert_int_eq(backend_sim.now(world), 10 * MS);
    ck_assert_ptr_eq(io_loop_pop(backend_sim.loop(world)), &task);
}
END_TEST

START_TEST(what_a_dead_host_waited_for_ends)
{
    create();
    struct io_device *device = env(0)->devices[0];
    struct io_gpu *gpu = env(0)->gpu;
    struct io_op op = {.kind = IO_OP_ALLOC_PD};
    int from = 1, to = 0;
    struct io_gpu_op copy = {
        .kind = IO_GPU_COPY, .out = &to, .a = &from, .count = sizeof to};
    ck_assert_int_eq(device->ops->submit(device, &op), 0);
    ck_assert_int_eq(gpu->ops->start(gpu, &copy), 0);
    ck_assert_int_eq(gpu->ops->poll(gpu, &copy), EINPROGRESS);
    struct world_fault fault = {.kind = WORLD_FAULT_KILL};
    ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    ck_assert_int_eq(backend_sim.inject(world, &fault), 0); /* dead already */
    ck_assert_int_eq(device->ops->poll(device, &op), EIO);
    ck_assert_int_eq(gpu->ops->poll(gpu, &copy), EIO);
    ck_assert_int_eq(to, 0);
    op = (struct io_op){.kind = IO_OP_ALLOC_PD};
    ck_assert_int_eq(device->ops->submit(device, &op), EIO);
    device->ops->abandon(device, &op);
    fault = (struct world_fault){.kind = WORLD_FAULT_STOP, .for_ns = MS};
    ck_assert_int_eq(backend_sim.inject(world, &fault), 0);
    run(10 * MS); /* the end of a stop does not revive the host */
    ck_assert(!backend_sim.host_alive(world, 0));
}
END_TEST

static int n_frames;

static void on_frame(void *context, const struct world_frame *frame)
{
    ck_assert_ptr_eq(context, &n_frames);
    ck_assert_uint_ge(frame->n_bytes, 54);
    ck_assert_uint_eq(frame->port, 0);
    n_frames++;
}

START_TEST(taps_see_both_ends_until_stopped)
{
    weft_ns took;
    create();
    n_frames = 0;
    ck_assert_int_eq(backend_sim.tap(world, on_frame, &n_frames), 0);
    ck_assert_int_eq(dial(&took), ECONNREFUSED);
    ck_assert_int_eq(n_frames, 8); /* ARP request and reply, SYN, RST: out and in */
    ck_assert_int_eq(backend_sim.tap(world, NULL, NULL), 0);
    ck_assert_int_eq(dial(&took), ECONNREFUSED);
    ck_assert_int_eq(n_frames, 8);
}
END_TEST

START_TEST(nothing_to_wait_for_is_not_waited_for)
{
    create();
    ck_assert_int_eq(backend_sim.step(world, WEFT_NEVER), WEFT_AGAIN);
    ck_assert_int_eq(backend_sim.now(world), 0);
}
END_TEST

START_TEST(the_same_seed_tells_the_same_story)
{
    char *first = NULL;
    for (int i = 0; i < 2; i++) {
        weft_ns took;
        start();
        cable.impairment.loss_ppb = 300000000;
        create();
        for (int j = 0; j < 20; j++) {
            (void)dial(&took);
        }
        if (i == 0) {
            first = weft_strdup(story.bytes);
            stop();
        }
    }
    ck_assert_str_eq(first, story.bytes);
    free(first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/sim");
    TCase *tcase = tcase_create("world");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, what_cannot_be_built_is_named);
    tcase_add_test(tcase, overrides_firewalls_and_limits_are_taken);
    tcase_add_test(tcase, two_ports_may_share_a_device);
    tcase_add_test(tcase, two_functions_of_one_root_differ);
    tcase_add_test(tcase, faults_begin_and_end);
    tcase_add_test(tcase, faults_come_at_a_moment_of_the_job);
    tcase_add_test(tcase, faults_come_when_a_host_has_sent_so_much);
    tcase_add_test(tcase, each_property_of_a_cable_changes_and_comes_back);
    tcase_add_test(tcase, faults_that_make_no_sense_say_so);
    tcase_add_test(tcase, gids_and_addresses_come_and_go);
    tcase_add_test(tcase, verbs_fail_or_take_longer_when_told);
    tcase_add_test(tcase, a_stopped_host_goes_on_later);
    tcase_add_test(tcase, what_a_dead_host_waited_for_ends);
    tcase_add_test(tcase, taps_see_both_ends_until_stopped);
    tcase_add_test(tcase, nothing_to_wait_for_is_not_waited_for);
    tcase_add_test(tcase, the_same_seed_tells_the_same_story);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

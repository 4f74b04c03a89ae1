#include "io/conformance_testing.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "io/gpu.h"

#define MS ((weft_ns)1000000)

struct conformance now_testing;

static const struct world_ops *backend;
static enum weft_profile device_profile;

/* ---- the world of all tests ---- */

static struct io_prefix addresses[2];
static struct world_port ports[2];
static struct world_host hosts[2];
static struct world_cable cable;
static struct world_spec spec;
static const struct world_setting settings[] = {{"WEFT_TEST", "a value"}};

static void describe(void)
{
    static const char *const names[2] = {"left", "right"};
    for (uint8_t i = 0; i < 2; i++) {
        addresses[i] = (struct io_prefix){.ip = io_ip_v4(10, 77, 0, (uint8_t)(i + 1)),
                                          .prefix_len = 24};
        ports[i] = (struct world_port){.name = "p0",
                                       .port = 1,
                                       .rate_bps = 100000000000,
                                       .mtu_bytes = 4200,
                                       .addresses = &addresses[i],
                                       .n_addresses = 1};
        hosts[i] =
            (struct world_host){.name = names[i],
                                .profile = device_profile,
                                .ports = &ports[i],
                                .n_ports = 1,
                                .n_gpus = 1,
                                .memlock_bytes = INT64_MAX,
                                .settings = settings,
                                .n_settings = i == LEFT ? 1 : 0,
                                .management_ip = io_ip_v4(10, 88, 0, (uint8_t)(i + 1))};
    }
    cable = (struct world_cable){.ends = {{.node = LEFT}, {.node = RIGHT}},
                                 .rate_bps = 100000000000,
                                 .delay_ps = 1000000,
                                 .up = true};
    spec = (struct world_spec){.seed = 1,
                               .hosts = hosts,
                               .n_hosts = 2,
                               .cables = &cable,
                               .n_cables = 1,
                               .management = {.exists = true,
                                              .prefix_len = 24,
                                              .rate_bps = 10000000000,
                                              .delay_ps = 50000000}};
}

void conformance_start(void)
{
    struct weft_error error = {.status = WEFT_OK};
    describe();
    memset(&now_testing, 0, sizeof now_testing);
    weft_status status = backend->create(&spec, &now_testing.world, &error);
    ck_assert_msg(status == WEFT_OK, "%s", error.message);
    now_testing.loop = backend->loop(now_testing.world);
    for (uint32_t i = 0; i < 2; i++) {
        now_testing.env[i] = backend->host_env(now_testing.world, i, 0);
        for (int j = 0; j < N_TASKS; j++) {
            io_task_init(&now_testing.task[i][j], now_testing.loop, i, j);
        }
    }
}

void conformance_stop(void)
{
    backend->destroy(now_testing.world);
    backend->destroy(NULL);
}

bool conformance_step(weft_ns until)
{
    struct io_task *task;
    weft_ns now = backend->now(now_testing.world);
    /* In slices, because some conditions wake no task. */
    weft_status status =
        backend->step(now_testing.world, now + MS < until ? now + MS : until);
    ck_assert(status == WEFT_OK || status == WEFT_AGAIN);
    while ((task = io_loop_pop(now_testing.loop)) != NULL) {
        now_testing.n_woken[task->host][task->kind]++;
    }
    return now < until;
}

/* ---- environment and world ---- */

START_TEST(hosts_know_themselves)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct io_env *env = now_testing.env[i];
        const struct io_hostinfo *info = env->ops->hostinfo(env);
        ck_assert_uint_eq(env->host, i);
        ck_assert_ptr_eq(env->loop, now_testing.loop);
        ck_assert_str_eq(env->name, hosts[i].name);
        ck_assert_str_eq(info->name, hosts[i].name);
        const struct io_netdev *data = NULL, *management = NULL;
        uint32_t last = 0;
        for (uint32_t j = 0; j < info->n_netdevs; j++) {
            const struct io_netdev *netdev = &info->netdevs[j];
            ck_assert_uint_gt(netdev->ifindex, last);
            last = netdev->ifindex;
            ck_assert_ptr_eq(io_hostinfo_netdev(info, netdev->ifindex), netdev);
            for (uint32_t k = 0; k < netdev->n_addresses; k++) {
                if (io_ip_equal(&netdev->addresses[k].ip, &addresses[i].ip)) {
                    data = netdev;
                    ck_assert_uint_eq(netdev->addresses[k].prefix_len, 24);
                }
                if (io_ip_equal(&netdev->addresses[k].ip, &hosts[i].management_ip)) {
                    management = netdev;
                }
            }
        }
        ck_assert_ptr_nonnull(data);
        ck_assert_ptr_nonnull(management);
        ck_assert_uint_eq(data->mtu_bytes, 4200);
        ck_assert(data->is_up && !data->is_management);
        ck_assert(management->is_up && management->is_management);
    }
    const struct io_hostinfo *left =
        now_testing.env[LEFT]->ops->hostinfo(now_testing.env[LEFT]);
    uint8_t id[16];
    memcpy(id, left->host_id, sizeof id);
    const struct io_hostinfo *right =
        now_testing.env[RIGHT]->ops->hostinfo(now_testing.env[RIGHT]);
    ck_assert_mem_ne(id, right->host_id, sizeof id);
}
END_TEST

START_TEST(settings_are_per_host)
{
    struct io_env *left = now_testing.env[LEFT], *right = now_testing.env[RIGHT];
    ck_assert_str_eq(left->ops->setting(left, "WEFT_TEST"), "a value");
    ck_assert_ptr_null(left->ops->setting(left, "WEFT_TES"));
    ck_assert_ptr_null(right->ops->setting(right, "WEFT_TEST"));
}
END_TEST

START_TEST(random_bytes_differ)
{
    uint8_t bytes[3][32] = {{0}};
    struct io_env *left = now_testing.env[LEFT], *right = now_testing.env[RIGHT];
    left->ops->random(left, bytes[0], 32);
    left->ops->random(left, bytes[1], 32);
    right->ops->random(right, bytes[2], 32);
    ck_assert_mem_ne(bytes[0], bytes[1], 32);
    ck_assert_mem_ne(bytes[0], bytes[2], 32);
    ck_assert_mem_ne(bytes[1], bytes[2], 32);
}
END_TEST

START_TEST(deadlines_wake_and_time_passes)
{
    struct io_task *first = &now_testing.task[RIGHT][TASK_OTHER];
    struct io_task *second = &now_testing.task[LEFT][TASK_OTHER];
    weft_ns start;
    weft_status early;
    bool was_woken;
    do {
        start = io_now(now_testing.env[LEFT]);
        io_task_deadline(first, start + 300 * MS);
        io_task_deadline(second, start + 400 * MS);
        early = backend->step(now_testing.world, start + 2 * MS);
        for (was_woken = false; io_loop_pop(now_testing.loop) != NULL;) {
            was_woken = true;
        }
        /* Repeat if the machine delayed this process for that long. */
    } while (io_now(now_testing.env[LEFT]) >= start + 300 * MS);
    ck_assert_int_eq(early, WEFT_AGAIN);
    ck_assert_int_ge(io_now(now_testing.env[LEFT]), start + 2 * MS);
    ck_assert(!was_woken);

    WAIT_FOR(now_testing.n_woken[RIGHT][TASK_OTHER] == 1);
    weft_ns at = io_now(now_testing.env[RIGHT]);
    ck_assert_int_ge(at, start + 300 * MS);
    /* All hosts have the same clock. */
    ck_assert_int_ge(backend->now(now_testing.world), at);
    WAIT_FOR(now_testing.n_woken[LEFT][TASK_OTHER] == 1);
    ck_assert_int_ge(io_now(now_testing.env[LEFT]), start + 400 * MS);
    /* A ready task is reported before time passes. */
    io_task_wake(first);
    ck_assert_int_eq(backend->step(now_testing.world, WEFT_NEVER), WEFT_OK);
    ck_assert_ptr_eq(io_loop_pop(now_testing.loop), first);
}
END_TEST

/* ---- memory and GPU operations ---- */

START_TEST(memory_is_aligned_and_zero)
{
    struct io_gpu *gpu = now_testing.env[LEFT]->gpu;
    void *memory;
    ck_assert_ptr_nonnull(gpu);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, 10000, &memory), 0);
    ck_assert_uint_eq((uintptr_t)memory % 4096, 0);
    const uint8_t *bytes = memory;
    for (int i = 0; i < 10000; i++) {
        ck_assert_uint_eq(bytes[i], 0);
    }
    int error = gpu->ops->fence(gpu, memory, 10000);
    ck_assert(error == 0 || error == EOPNOTSUPP);
    void *another;
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, 1, &another), 0);
    ck_assert_ptr_ne(another, memory);
    gpu->ops->free(gpu, memory);
    gpu->ops->free(gpu, another);
    gpu->ops->free(gpu, NULL);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, SIZE_MAX, &memory), ENOMEM);
}
END_TEST

START_TEST(gpu_work_ends_in_the_order_started)
{
    struct io_gpu *gpu = now_testing.env[LEFT]->gpu;
    static const int32_t a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40};
    int32_t got[4];
    void *memory[4];
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, sizeof a, &memory[i]), 0);
    }
    ck_assert_int_eq(gpu->ops->upload(gpu, memory[0], a, sizeof a), 0);
    ck_assert_int_eq(gpu->ops->upload(gpu, memory[1], b, sizeof b), 0);
    struct io_task *task = &now_testing.task[LEFT][TASK_OTHER];
    struct io_gpu_op sum = {.kind = IO_GPU_REDUCE,
                            .task = task,
                            .out = memory[2],
                            .a = memory[0],
                            .b = memory[1],
                            .count = 4,
                            .dtype = WEFT_INT32,
                            .redop = WEFT_SUM};
    struct io_gpu_op copy = {.kind = IO_GPU_COPY,
                             .task = task,
                             .out = memory[3],
                             .a = memory[2],
                             .count = sizeof a};
    ck_assert_int_eq(gpu->ops->start(gpu, &sum), 0);
    ck_assert_int_eq(gpu->ops->start(gpu, &copy), 0);
    WAIT_FOR(gpu->ops->poll(gpu, &copy) != EINPROGRESS);
    ck_assert_int_eq(gpu->ops->poll(gpu, &sum), 0);
    ck_assert(sum.done && copy.done && copy.error == 0);
    ck_assert_int_eq(gpu->ops->download(gpu, got, memory[3], sizeof got), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(got[i], a[i] + b[i]);
        gpu->ops->free(gpu, memory[i]);
    }
}
END_TEST

START_TEST(counters_end_and_cables_count)
{
    const char *name;
    uint64_t value;
    uint32_t n = 0;
    while (backend->counter(now_testing.world, n, &name, &value)) {
        ck_assert_ptr_nonnull(name);
        ck_assert_uint_lt(++n, 10000);
    }
    struct world_cable_stats stats;
    backend->cable_stats(now_testing.world, 0, &stats);
    ck_assert_uint_eq(stats.packets[0], 0);
    ck_assert_uint_eq(stats.bytes[1], 0);
}
END_TEST

START_TEST(killed_hosts_run_no_more)
{
    struct world_fault fault = {.kind = WORLD_FAULT_KILL, .host = RIGHT};
    ck_assert(backend->host_alive(now_testing.world, RIGHT));
    int error = backend->inject(now_testing.world, &fault);
    if (error == EOPNOTSUPP) {
        return;
    }
    ck_assert_int_eq(error, 0);
    ck_assert(!backend->host_alive(now_testing.world, RIGHT));
    ck_assert(backend->host_alive(now_testing.world, LEFT));
    io_task_wake(&now_testing.task[RIGHT][TASK_OTHER]);
    io_task_wake(&now_testing.task[LEFT][TASK_OTHER]);
    WAIT_FOR(now_testing.n_woken[LEFT][TASK_OTHER] == 1);
    ck_assert_uint_eq(now_testing.n_woken[RIGHT][TASK_OTHER], 0);
}
END_TEST

TCase *conformance_env(void)
{
    TCase *tcase = tcase_create("environment");
    tcase_add_test(tcase, hosts_know_themselves);
    tcase_add_test(tcase, settings_are_per_host);
    tcase_add_test(tcase, random_bytes_differ);
    tcase_add_test(tcase, deadlines_wake_and_time_passes);
    tcase_add_test(tcase, memory_is_aligned_and_zero);
    tcase_add_test(tcase, gpu_work_ends_in_the_order_started);
    tcase_add_test(tcase, counters_end_and_cables_count);
    tcase_add_test(tcase, killed_hosts_run_no_more);
    return tcase;
}

static void add(Suite *suite, TCase *tcase)
{
    tcase_add_checked_fixture(tcase, conformance_start, conformance_stop);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
}

void conformance_add_without_devices(Suite *suite, const struct world_ops *ops)
{
    backend = ops;
    add(suite, conformance_env());
    add(suite, conformance_streams());
    add(suite, conformance_announcements());
}

void conformance_add(Suite *suite, const struct world_ops *ops, enum weft_profile profile)
{
    conformance_add_without_devices(suite, ops);
    device_profile = profile;
    TCase *tcases[] = {conformance_objects(), conformance_data()};
    for (size_t i = 0; i < WEFT_LENGTH(tcases); i++) {
        add(suite, tcases[i]);
    }
}

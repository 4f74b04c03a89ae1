#include "plugin/engine_testing.h"

#include <check.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "sim/nic_objects.h"

#define SECOND INT64_C(1000000000)

static const char *const host_names[] = {"titanic", "iceberg", "carpathia",
                                         "californian"};
static const char *const port_names[] = {"p0", "p1", "p2", "p3"};

static void add_port(struct harness *harness, uint32_t host, uint32_t cable, uint32_t end)
{
    struct world_host *to = &harness->hosts[host];
    uint32_t p = to->n_ports++;

    weft_check(p < HARNESS_PORTS);
    harness->addresses[host][p] = (struct io_prefix){
        .ip = io_ip_v4(192, 168, (uint8_t)(101 + cable), (uint8_t)(host + 1)),
        .prefix_len = 24};
    harness->ports[host][p] =
        (struct world_port){.name = port_names[p],
                            .device = p,
                            .port = 1,
                            .rate_bps = UINT64_C(100000000000),
                            .mtu_bytes = 9000,
                            .addresses = &harness->addresses[host][p],
                            .n_addresses = 1};
    harness->cables[cable].ends[end] = (struct world_end){.node = host, .port = p};
}

static void add_cable(struct harness *harness, uint32_t a, uint32_t b)
{
    uint32_t cable = harness->spec.n_cables++;

    weft_check(cable < HARNESS_CABLES);
    harness->cables[cable] = (struct world_cable){
        .rate_bps = UINT64_C(100000000000), .delay_ps = 1000000, .up = true};
    add_port(harness, a, cable, 0);
    add_port(harness, b, cable, 1);
}

static void describe_hosts(struct harness *harness)
{
    for (uint32_t h = 0; h < harness->n_hosts; h++) {
        harness->hosts[h] =
            (struct world_host){.name = host_names[h],
                                .profile = WEFT_PROFILE_MLX5,
                                .ports = harness->ports[h],
                                .pcie_root_bps = &harness->root_bps,
                                .n_pcie_roots = 1,
                                .n_gpus = 1,
                                .forward_accept = true,
                                .memlock_bytes = INT64_MAX,
                                .management_ip = io_ip_v4(10, 0, 0, (uint8_t)(h + 1))};
    }
    harness->spec.seed = 7;
    harness->spec.hosts = harness->hosts;
    harness->spec.n_hosts = harness->n_hosts;
    harness->spec.cables = harness->cables;
}

static void describe(struct harness *harness, uint32_t n_rails)
{
    describe_hosts(harness);
    for (uint32_t a = 0; a < harness->n_hosts; a++) {
        for (uint32_t b = a + 1; b < harness->n_hosts; b++) {
            for (uint32_t rail = 0; rail < n_rails; rail++) {
                add_cable(harness, a, b);
            }
        }
    }
    harness->spec.management =
        (struct world_management){.exists = true,
                                  .prefix_len = 24,
                                  .rate_bps = UINT64_C(10000000000),
                                  .delay_ps = 50000000};
}

/* ---- functions of engine_config ---- */

/* The harness of the current test, used by the functions of its engines. */
static struct harness *current;
static harness_change *change;

void harness_with(harness_change *with)
{
    change = with;
}

static void wake(void *context)
{
    io_task_wake(engine_task(*(struct engine **)context));
}

static void wait_for(void *context, const _Atomic int *is_done)
{
    weft_ns until = harness_now(current) + 60 * SECOND;

    (void)context;
    while (*is_done == 0) {
        ck_assert_msg(harness_step(current, until), "a call does not end");
    }
}

static void done(void *context)
{
    (void)context;
}

uint32_t harness_objects(const struct harness *harness, uint32_t host)
{
    struct io_env *env = harness->world->ops->host_env(harness->world, host, 0);
    uint32_t n = 0;

    for (uint32_t d = 0; d < env->n_devices; d++) {
        const struct sim_nic *nic =
            weft_container_of(env->devices[d], struct sim_device, io)->nic;

        n += nic->n_pds + nic->n_cqs + nic->n_qps;
    }
    return n;
}

static void start(struct harness *harness, uint32_t n_hosts)
{
    memset(harness, 0, sizeof(*harness));
    current = harness;
    harness->n_hosts = n_hosts;
}

static void open_engines(struct harness *harness, const bool *relays_only)
{
    struct weft_error error = {0};
    uint32_t n_hosts = harness->n_hosts;

    for (uint32_t h = 0; h < n_hosts && change != NULL; h++) {
        struct engine_config unused;

        engine_config_default(&unused);
        /* Applied to the world before it is created. */
        change(h, &harness->hosts[h], &unused);
    }
    ck_assert_int_eq(backend_sim.create(&harness->spec, &harness->world, &error),
                     WEFT_OK);
    harness->loop = harness->world->ops->loop(harness->world);
    for (uint32_t h = 0; h < n_hosts; h++) {
        struct engine_config config;

        engine_config_default(&config);
        config.flow.failover_ns = SECOND; /* shorter, so that tests end sooner */
        config.world = harness->world;
        config.host = h;
        config.wake = wake;
        config.wait = wait_for;
        config.done = done;
        config.context = &harness->engines[h];
        config.is_dedicated = relays_only != NULL && relays_only[h];
        if (change != NULL) {
            change(h, &harness->hosts[h], &config);
        }
        harness->configs[h] = config;
        ck_assert_int_eq(engine_create(&config, &harness->engines[h], &error), WEFT_OK);
    }
    for (uint32_t h = 0; h < n_hosts; h++) {
        wait_for(NULL, engine_progress(harness->engines[h]));
        ck_assert_int_eq(*engine_progress(harness->engines[h]), ENGINE_READY);
        harness->idle_objects[h] = harness_objects(harness, h);
    }
}

void harness_open(struct harness *harness, uint32_t n_hosts, uint32_t n_rails)
{
    start(harness, n_hosts);
    describe(harness, n_rails);
    open_engines(harness, NULL);
}

void harness_open_cables(struct harness *harness, uint32_t n_hosts,
                         const struct harness_cable *cables, uint32_t n_cables,
                         const bool *relays_only)
{
    start(harness, n_hosts);
    describe_hosts(harness);
    harness->spec.management.exists = false;
    for (uint32_t i = 0; i < n_cables; i++) {
        add_cable(harness, cables[i].a, cables[i].b);
    }
    open_engines(harness, relays_only);
}

void harness_kill(struct harness *harness, uint32_t host)
{
    engine_destroy(harness->engines[host]);
    harness->engines[host] = NULL;
}

void harness_restart(struct harness *harness, uint32_t host)
{
    struct weft_error error = {0};

    ck_assert_int_eq(
        engine_create(&harness->configs[host], &harness->engines[host], &error), WEFT_OK);
    wait_for(NULL, engine_progress(harness->engines[host]));
    ck_assert_int_eq(*engine_progress(harness->engines[host]), ENGINE_READY);
}

weft_ns harness_now(const struct harness *harness)
{
    return harness->world->ops->now(harness->world);
}

void harness_hold(struct harness *harness, uint32_t host)
{
    harness->held |= 1u << host;
}

void harness_release(struct harness *harness, uint32_t host)
{
    uint32_t n = 0;

    harness->held &= ~(1u << host);
    for (uint32_t i = 0; i < harness->n_kept; i++) {
        if (harness->kept[i]->host == host) {
            io_task_wake(harness->kept[i]);
        } else {
            harness->kept[n++] = harness->kept[i];
        }
    }
    harness->n_kept = n;
}

static void keep(struct harness *harness, struct io_task *task)
{
    for (uint32_t i = 0; i < harness->n_kept; i++) {
        if (harness->kept[i] == task) {
            return;
        }
    }
    weft_check(harness->n_kept < HARNESS_HELD);
    harness->kept[harness->n_kept++] = task;
}

bool harness_step(struct harness *harness, weft_ns until)
{
    struct io_task *task = io_loop_pop(harness->loop);

    if (task == NULL) {
        return harness->world->ops->step(harness->world, until) == WEFT_OK;
    }
    for (; task != NULL; task = io_loop_pop(harness->loop)) {
        if ((harness->held >> task->host & 1) != 0) {
            keep(harness, task);
        } else if (harness->engines[task->host] != NULL) {
            engine_dispatch(harness->engines[task->host], task);
        }
    }
    return true;
}

void harness_run(struct harness *harness, weft_ns for_ns)
{
    weft_ns until = harness_now(harness) + for_ns;

    while (harness_step(harness, until)) {
    }
}

void harness_connect(struct harness *harness, uint32_t from, uint32_t to,
                     struct engine_comm **out_send, struct engine_comm **out_receive)
{
    weft_ns until = harness_now(harness) + 60 * SECOND;
    struct engine_listen *listen;
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES];

    *out_send = *out_receive = NULL;
    ck_assert_int_eq(engine_listen(harness->engines[to], handle, &listen, &error),
                     WEFT_OK);
    while (*out_send == NULL || *out_receive == NULL) {
        if (*out_send == NULL) {
            ck_assert_int_ge(
                engine_connect(harness->engines[from], handle, out_send, &error), 0);
        }
        if (*out_receive == NULL) {
            ck_assert_int_ge(engine_accept(listen, out_receive, &error), 0);
        }
        ck_assert_msg(harness_step(harness, until), "a connection does not come up");
    }
    engine_close_listen(listen);
}

weft_status harness_register(struct engine_comm *comm, void *addr, size_t length,
                             struct engine_memory **out, struct weft_error *error)
{
    const struct engine_region region = {.addr = addr, .length = length};

    return engine_register(comm, &region, out, error);
}

void harness_expect_idle(struct harness *harness)
{
    harness_run(harness, 10 * SECOND);
    for (uint32_t h = 0; h < harness->n_hosts; h++) {
        struct engine_counters counters;

        engine_counters(harness->engines[h], &counters);
        ck_assert_uint_eq(counters.n_comms, 0);
        ck_assert_uint_eq(counters.n_listens, 0);
        ck_assert_uint_eq(harness_objects(harness, h), harness->idle_objects[h]);
    }
}

void harness_close(struct harness *harness)
{
    for (uint32_t h = 0; h < harness->n_hosts; h++) {
        engine_destroy(harness->engines[h]);
    }
    harness->world->ops->destroy(harness->world);
    current = NULL;
    change = NULL;
}

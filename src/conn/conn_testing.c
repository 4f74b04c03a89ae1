#include "conn/conn_testing.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "sim/nic_objects.h"

/* The description of a world, which refers to it as long as it exists. */
struct bed_spec {
    struct world_spec spec;
    struct world_host hosts[BED_HOSTS_MAX];
    struct world_port ports[BED_HOSTS_MAX][BED_PORTS_MAX];
    struct io_prefix addresses[BED_HOSTS_MAX][BED_PORTS_MAX];
    struct world_cable cables[BED_CABLES_MAX];
    struct world_setting setting;
    uint64_t pcie_root_bps;
};

static const char *const host_names[] = {"titanic", "iceberg", "carpathia",
                                         "californian"};
static const char *const port_names[BED_PORTS_MAX] = {
    "p0",  "p1",  "p2",  "p3",  "p4",  "p5",  "p6",  "p7",  "p8",  "p9",
    "p10", "p11", "p12", "p13", "p14", "p15", "p16", "p17", "p18", "p19"};

/* Appends a trace line about a connection, a listener or a boot to the story, without its time and
 * with "c" instead of a connection's id. */
static void on_line(void *context, const char *line, size_t n_bytes)
{
    struct bed *bed = context;
    const char *at = memchr(line, ' ', n_bytes);
    const char *end = line + n_bytes;
    const char *object;

    weft_check(at != NULL);
    at++;
    object = memchr(at, ' ', (size_t)(end - at));
    weft_check(object != NULL);
    object++;
    if (strncmp(object, "conn:", 5) == 0) {
        weft_text_add_bytes(&bed->story, at, (size_t)(object - at));
        weft_text_add(&bed->story, "c");
        weft_text_add_bytes(&bed->story, object + 5 + 16,
                            (size_t)(end - object - 5 - 16));
    } else if (strncmp(object, "listener", 8) == 0 || strncmp(object, "boot", 4) == 0) {
        weft_text_add_bytes(&bed->story, at, (size_t)(end - at));
    }
}

/* ---- the description ---- */

/* Adds a port without an address. Returns its index. */
static uint32_t add_idle(struct bed_spec *spec, const struct bed_config *config,
                         uint32_t host)
{
    uint32_t p = spec->hosts[host].n_ports++;

    weft_check(p < BED_PORTS_MAX);
    spec->ports[host][p] = (struct world_port){
        .name = port_names[p],
        .device = p,
        .port = 1,
        .rate_bps = 100000000000,
        .mtu_bytes = config->mtu_bytes[host] != 0 ? config->mtu_bytes[host] : 9000,
    };
    return p;
}

static void add_port(struct bed_spec *spec, const struct bed_config *config,
                     uint32_t host, uint32_t cable, uint32_t end)
{
    uint32_t p = add_idle(spec, config, host);
    struct io_prefix *address = &spec->addresses[host][p];

    address->ip = io_ip_v4(192, 168, (uint8_t)(101 + cable), (uint8_t)(host + 1));
    address->prefix_len = 24;
    spec->ports[host][p].addresses = address;
    spec->ports[host][p].n_addresses = 1;
    spec->cables[cable].ends[end] = (struct world_end){.node = host, .port = p};
}

static void add_cable(struct bed_spec *spec, const struct bed_config *config, uint32_t a,
                      uint32_t b)
{
    uint32_t cable = spec->spec.n_cables++;

    spec->cables[cable] = (struct world_cable){
        .rate_bps = 100000000000,
        .delay_ps = 500000,
        .path_limit_bytes = config->path_limit_bytes,
        .up = true,
    };
    add_port(spec, config, a, cable, 0);
    add_port(spec, config, b, cable, 1);
}

static void describe(struct bed *bed)
{
    struct bed_spec *spec = bed->spec;
    const struct bed_config *config = &bed->config;

    for (uint32_t h = 0; h < config->n_hosts; h++) {
        spec->hosts[h] = (struct world_host){
            .name = host_names[h],
            .profile = config->profile,
            .overrides = config->overrides,
            .n_overrides = config->n_overrides,
            .ports = spec->ports[h],
            .pcie_root_bps = &spec->pcie_root_bps,
            .n_pcie_roots = 1,
            .n_gpus = 1,
            .forward_accept = true,
            .memlock_bytes = INT64_MAX,
        };
        if (!config->no_management) {
            spec->hosts[h].management_ip = io_ip_v4(10, 0, 0, (uint8_t)(h + 1));
        }
        if (config->tcp_chunk != NULL) {
            spec->setting = (struct world_setting){.name = "WEFT_SIM_TCP_CHUNK",
                                                   .value = config->tcp_chunk};
            spec->hosts[h].settings = &spec->setting;
            spec->hosts[h].n_settings = 1;
        }
    }
    for (uint32_t i = 0; i < config->n_hosts * config->n_idle; i++) {
        add_idle(spec, config, i % config->n_hosts);
    }
    for (uint32_t i = 0; i < config->n_cables; i++) {
        bool apart = config->triangle || config->line;

        add_cable(spec, config, apart ? i : 0, apart ? (i + 1) % 3 : 1);
    }
    spec->spec.seed = config->seed;
    spec->spec.hosts = spec->hosts;
    spec->spec.n_hosts = config->n_hosts;
    spec->spec.cables = spec->cables;
    spec->spec.management = (struct world_management){
        .exists = !config->no_management,
        .prefix_len = 24,
        .rate_bps = 10000000000,
        .delay_ps =
            config->management_delay_ps != 0 ? config->management_delay_ps : 50000000};
    spec->spec.faults = config->faults;
    spec->spec.n_faults = config->n_faults;
    spec->spec.trace = &bed->trace;
}

/* ---- running ---- */

weft_ns bed_now(const struct bed *bed)
{
    return bed->world->ops->now(bed->world);
}

static struct bed_host *host_of(struct bed *bed, const struct io_task *task)
{
    return &bed->hosts[task->host];
}

static void progress_listener(struct bed_host *host)
{
    struct conn *conn;

    if (host->listener == NULL) {
        return;
    }
    conn_listener_progress(host->listener);
    while ((conn = conn_accept(host->listener)) != NULL) {
        ck_assert_uint_lt(host->n_conns, BED_CONNS_MAX);
        host->conns[host->n_conns++] = conn;
    }
}

static void dispatch(struct bed *bed, struct io_task *task)
{
    struct bed_host *host = host_of(bed, task);
    struct weft_error error = {0};
    weft_status status = WEFT_OK;

    switch (task->kind) {
    case BED_KIND_RDMA:
        status = rdma_progress(host->rdma, &error);
        break;
    case BED_KIND_LISTENER:
        progress_listener(host);
        break;
    case BED_KIND_CONN:
        status = conn_progress(weft_container_of(task, struct conn, task));
        break;
    default:
        bed->on_task(bed, task);
        break;
    }
    /* A connection may fail, because the test checks its state. */
    ck_assert(status >= 0 || task->kind == BED_KIND_CONN);
}

bool bed_run(struct bed *bed, weft_ns for_ns, bool (*done)(const struct bed *bed))
{
    weft_ns until = bed_now(bed) + for_ns;

    for (;;) {
        struct io_task *task;

        while ((task = io_loop_pop(bed->loop)) != NULL) {
            if (bed->world->ops->host_alive(bed->world, task->host)) {
                dispatch(bed, task);
            }
        }
        if (done != NULL && done(bed)) {
            return true;
        }
        if (bed->world->ops->step(bed->world, until) != WEFT_OK) {
            return done == NULL;
        }
    }
}

static bool all_discovered(const struct bed *bed)
{
    for (uint32_t h = 0; h < bed->config.n_hosts; h++) {
        if (!bed->hosts[h].rdma->is_ready) {
            return false;
        }
    }
    return true;
}

static uint32_t count_objects(const struct bed *bed, uint32_t h)
{
    struct io_env *env = bed->hosts[h].env;
    uint32_t n = 0;

    for (uint32_t d = 0; d < env->n_devices; d++) {
        const struct sim_nic *nic =
            weft_container_of(env->devices[d], struct sim_device, io)->nic;

        n += nic->n_pds + nic->n_cqs + nic->n_mrs + nic->n_qps;
    }
    return n;
}

void bed_open(struct bed *bed, const struct bed_config *config)
{
    struct weft_error error = {0};
    char text[300];

    *bed = (struct bed){.config = *config};
    bed->spec = weft_calloc(1, sizeof(*bed->spec));
    bed->config.n_hosts = config->triangle || config->line ? 3 : 2;
    bed->config.n_cables = config->triangle        ? 3
                           : config->line          ? 2
                           : config->n_cables != 0 ? config->n_cables
                                                   : 1;
    weft_trace_init(&bed->trace, WEFT_TRACE_STORY, on_line, bed);
    conn_config_default(&bed->conn);
    describe(bed);
    if (backend_sim.create(&bed->spec->spec, &bed->world, &error) != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        ck_abort_msg("no world: %s", text);
    }
    bed->loop = bed->world->ops->loop(bed->world);
    for (uint32_t h = 0; h < bed->config.n_hosts; h++) {
        struct bed_host *host = &bed->hosts[h];

        host->env = bed->world->ops->host_env(bed->world, h, 0);
        io_task_init(&host->task, bed->loop, h, BED_KIND_RDMA);
        ck_assert_int_eq(rdma_open(host->env, &host->task, &host->rdma, &error), WEFT_OK);
    }
    ck_assert(bed_run(bed, 10 * BED_S, all_discovered));
    for (uint32_t h = 0; h < bed->config.n_hosts; h++) {
        bed->hosts[h].idle_objects = count_objects(bed, h);
    }
}

void bed_close(struct bed *bed)
{
    for (uint32_t h = 0; h < bed->config.n_hosts; h++) {
        struct bed_host *host = &bed->hosts[h];

        for (uint32_t i = 0; i < host->n_conns; i++) {
            conn_destroy(host->conns[i]);
        }
        conn_listener_close(host->listener);
        rdma_close(host->rdma);
        io_task_fini(&host->task);
    }
    bed->world->ops->destroy(bed->world);
    weft_text_fini(&bed->story);
    free(bed->spec);
}

void bed_listen(struct bed *bed, uint32_t h)
{
    struct bed_host *host = &bed->hosts[h];
    struct weft_error error = {0};

    ck_assert_int_eq(conn_listen(host->rdma, &bed->conn, BED_KIND_LISTENER, BED_KIND_CONN,
                                 host->handle, &host->listener, &error),
                     WEFT_OK);
}

struct conn *bed_connect(struct bed *bed, uint32_t from, uint32_t to)
{
    struct bed_host *host = &bed->hosts[from];
    struct weft_error error = {0};
    struct conn *conn;

    ck_assert_uint_lt(host->n_conns, BED_CONNS_MAX);
    ck_assert_int_eq(conn_connect(host->rdma, &bed->conn, bed->hosts[to].handle,
                                  BED_KIND_CONN, &conn, &error),
                     WEFT_OK);
    host->conns[host->n_conns++] = conn;
    return conn;
}

static bool all_in(const struct bed *bed, uint32_t states)
{
    uint32_t n = 0;

    for (uint32_t h = 0; h < bed->config.n_hosts; h++) {
        const struct bed_host *host = &bed->hosts[h];

        for (uint32_t i = 0; i < host->n_conns; i++) {
            if (host->conns[i] == NULL || !bed->world->ops->host_alive(bed->world, h)) {
                continue;
            }
            n++;
            if ((states & 1u << host->conns[i]->state) == 0) {
                return false;
            }
        }
    }
    return n > 0;
}

bool bed_all_up(const struct bed *bed)
{
    return all_in(bed, 1u << CONN_UP) && bed->hosts[0].n_conns > 0 &&
           bed->hosts[1].n_conns > 0;
}

bool bed_all_settled(const struct bed *bed)
{
    return all_in(bed, 1u << CONN_UP | 1u << CONN_CLOSED | 1u << CONN_FAILED);
}

int bed_objects(const struct bed *bed, uint32_t h)
{
    return (int)count_objects(bed, h) - (int)bed->hosts[h].idle_objects;
}

struct conn *bed_conn(const struct bed *bed, uint32_t h)
{
    ck_assert_uint_gt(bed->hosts[h].n_conns, 0);
    ck_assert_ptr_nonnull(bed->hosts[h].conns[0]);
    return bed->hosts[h].conns[0];
}

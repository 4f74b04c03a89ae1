#include "xfer/fabric_testing.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "io/gpu.h"
#include "sim/nic_objects.h"

/* The description of the test environment, which must exist as long as that does. */
struct fabric_spec {
    struct world_spec spec;
    struct world_host hosts[FABRIC_HOSTS_MAX];
    struct world_port ports[FABRIC_HOSTS_MAX][FABRIC_PORTS_MAX];
    struct io_prefix addresses[FABRIC_HOSTS_MAX][FABRIC_PORTS_MAX];
    struct world_cable cables[FABRIC_CABLES_MAX];
    uint64_t pcie_root_bps;
};

static const char *const host_names[FABRIC_HOSTS_MAX] = {
    "titanic", "iceberg", "carpathia", "californian",
    "olympic", "baltic",  "celtic",    "oceanic"};
static const char *const port_names[] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"};

static void add_port(struct fabric_spec *spec, uint32_t host, uint32_t cable,
                     uint32_t end)
{
    struct world_host *to = &spec->hosts[host];
    uint32_t p = to->n_ports++;

    weft_check(p < FABRIC_PORTS_MAX);
    spec->addresses[host][p] = (struct io_prefix){
        .ip = io_ip_v4(192, 168, (uint8_t)(101 + cable), (uint8_t)(host + 1)),
        .prefix_len = 24};
    spec->ports[host][p] = (struct world_port){.name = port_names[p],
                                               .device = p,
                                               .port = 1,
                                               .rate_bps = 100000000000,
                                               .mtu_bytes = 9000,
                                               .addresses = &spec->addresses[host][p],
                                               .n_addresses = 1};
    spec->cables[cable].ends[end] = (struct world_end){.node = host, .port = p};
}

static void add_cable(struct fabric_spec *spec, const struct fabric_config *config,
                      uint32_t a, uint32_t b)
{
    uint32_t cable = spec->spec.n_cables++;

    weft_check(cable < FABRIC_CABLES_MAX);
    spec->cables[cable] = (struct world_cable){.rate_bps = 100000000000,
                                               .delay_ps = config->delay_ps,
                                               .impairment = config->impairment,
                                               .up = true};
    add_port(spec, a, cable, 0);
    add_port(spec, b, cable, 1);
}

static void describe(struct fabric *fabric)
{
    struct fabric_spec *spec = fabric->spec;
    const struct fabric_config *config = &fabric->config;

    for (uint32_t h = 0; h < config->n_hosts; h++) {
        spec->hosts[h] =
            (struct world_host){.name = host_names[h],
                                .profile = config->profile,
                                .overrides = config->overrides,
                                .n_overrides = config->n_overrides,
                                .ports = spec->ports[h],
                                .pcie_root_bps = &spec->pcie_root_bps,
                                .n_pcie_roots = 1,
                                .n_gpus = 1,
                                .forward_accept = true,
                                .memlock_bytes = INT64_MAX,
                                .management_ip = io_ip_v4(10, 0, 0, (uint8_t)(h + 1))};
        if (config->no_management) {
            spec->hosts[h].management_ip = (struct io_ip){{0}};
        }
    }
    for (uint32_t i = 0; i < config->n_cables; i++) {
        add_cable(spec, config, config->cables[i].a, config->cables[i].b);
    }
    for (uint32_t a = 0; a < config->n_hosts && config->cables == NULL; a++) {
        for (uint32_t b = a + 1; b < config->n_hosts; b++) {
            for (uint32_t rail = 0; rail < config->n_rails; rail++) {
                add_cable(spec, config, a, b);
            }
        }
    }
    spec->pcie_root_bps = config->pcie_root_bps;
    spec->spec.seed = config->seed;
    spec->spec.hosts = spec->hosts;
    spec->spec.n_hosts = config->n_hosts;
    spec->spec.cables = spec->cables;
    spec->spec.management = (struct world_management){.exists = !config->no_management,
                                                      .prefix_len = 24,
                                                      .rate_bps = 10000000000,
                                                      .delay_ps = 50000000};
    spec->spec.faults = config->faults;
    spec->spec.n_faults = config->n_faults;
}

weft_ns fabric_now(const struct fabric *fabric)
{
    return fabric->world->ops->now(fabric->world);
}

/* ---- dispatch ---- */

static uint32_t host_called(const char *name)
{
    for (uint32_t h = 0; h < WEFT_LENGTH(host_names); h++) {
        if (strcmp(host_names[h], name) == 0) {
            return h;
        }
    }
    ck_abort_msg("a peer called %s", name);
    return 0;
}

static void accept_all(struct fabric *fabric, uint32_t host)
{
    struct conn_listener *listener = fabric->hosts[host].listener;
    struct conn *conn;

    if (listener == NULL) {
        return;
    }
    conn_listener_progress(listener);
    while ((conn = conn_accept(listener)) != NULL) {
        if (fabric->config.on_accept != NULL) {
            fabric->config.on_accept(fabric, host, conn);
            continue;
        }
        fabric->links[host_called(conn->peer.host)][host].receiver = conn;
        io_task_wake(&conn->task);
    }
}

/* Progresses one end of a connection: its set-up until it is up, and its transfer from then on.
 * Errors stay in conn->error and xfer_error(). */
static void progress_end(struct conn *conn, struct xfer **xfer)
{
    struct weft_error error = {0};
    weft_status status = conn_progress(conn);

    if (*xfer != NULL) {
        status = xfer_progress(*xfer);
    } else if (status == WEFT_OK && conn->state == CONN_UP) {
        ck_assert_int_eq(xfer_open(conn, xfer, &error), WEFT_OK);
    }
    (void)status;
}

static void dispatch_conn(struct fabric *fabric, struct io_task *task)
{
    struct conn *conn = weft_container_of(task, struct conn, task);

    if (fabric->config.on_conn != NULL) {
        fabric->config.on_conn(fabric, conn);
        return;
    }
    for (uint32_t a = 0; a < fabric->config.n_hosts; a++) {
        for (uint32_t b = 0; b < fabric->config.n_hosts; b++) {
            struct fabric_link *link = &fabric->links[a][b];

            if (link->sender == conn) {
                progress_end(conn, &link->out);
                return;
            }
            if (link->receiver == conn) {
                progress_end(conn, &link->in);
                return;
            }
        }
    }
}

static void dispatch(struct fabric *fabric, struct io_task *task)
{
    struct weft_error error = {0};

    switch (task->kind) {
    case FABRIC_RDMA:
        ck_assert_int_ge(rdma_progress(fabric->hosts[task->host].rdma, &error), 0);
        if (fabric->config.on_event != NULL && fabric->hosts[task->host].rdma->is_ready) {
            fabric->config.on_event(fabric, task->host);
        }
        break;
    case FABRIC_LISTENER:
        accept_all(fabric, task->host);
        break;
    case FABRIC_CONN:
        dispatch_conn(fabric, task);
        break;
    default:
        break;
    }
}

bool fabric_step(struct fabric *fabric, weft_ns until)
{
    struct io_task *task = io_loop_pop(fabric->loop);

    if (task == NULL) {
        return fabric->world->ops->step(fabric->world, until) == WEFT_OK;
    }
    for (; task != NULL; task = io_loop_pop(fabric->loop)) {
        fabric->woken |= 1u << task->host;
        dispatch(fabric, task);
    }
    return true;
}

void fabric_run(struct fabric *fabric, weft_ns for_ns)
{
    weft_ns until = fabric_now(fabric) + for_ns;

    while (fabric_step(fabric, until)) {
    }
}

/* ---- opening ---- */

static uint32_t count_objects(const struct fabric *fabric, uint32_t host)
{
    struct io_env *env = fabric->hosts[host].env;
    uint32_t n = 0;

    for (uint32_t d = 0; d < env->n_devices; d++) {
        const struct sim_nic *nic =
            weft_container_of(env->devices[d], struct sim_device, io)->nic;

        n += nic->n_pds + nic->n_cqs + nic->n_qps;
    }
    return n;
}

static bool all_ready(const struct fabric *fabric)
{
    for (uint32_t h = 0; h < fabric->config.n_hosts; h++) {
        if (!fabric->hosts[h].rdma->is_ready) {
            return false;
        }
    }
    return true;
}

static bool has_link(const struct fabric *fabric, uint32_t a, uint32_t b)
{
    return fabric->config.on_accept == NULL && a != b && a < fabric->config.n_hosts &&
           b < fabric->config.n_hosts && (!fabric->config.one_way || (a == 0 && b == 1));
}

static bool all_up(const struct fabric *fabric)
{
    for (uint32_t a = 0; a < FABRIC_HOSTS_MAX; a++) {
        for (uint32_t b = 0; b < FABRIC_HOSTS_MAX; b++) {
            const struct fabric_link *link = &fabric->links[a][b];

            if (has_link(fabric, a, b) && (link->out == NULL || link->in == NULL)) {
                ck_assert_msg(link->sender->state != CONN_FAILED, "%s: %s",
                              weft_phase_name(link->sender->error.phase),
                              link->sender->error.message);
                return false;
            }
        }
    }
    return true;
}

static void run_until(struct fabric *fabric, bool (*done)(const struct fabric *fabric))
{
    weft_ns until = fabric_now(fabric) + 20 * FABRIC_S;

    while (!done(fabric)) {
        ck_assert_msg(fabric_step(fabric, until), "the fabric does not come up");
    }
}

static void open_hosts(struct fabric *fabric)
{
    struct weft_error error = {0};

    for (uint32_t h = 0; h < fabric->config.n_hosts; h++) {
        struct fabric_host *host = &fabric->hosts[h];

        host->env = fabric->world->ops->host_env(fabric->world, h, 0);
        io_task_init(&host->rdma_task, fabric->loop, h, FABRIC_RDMA);
        io_task_init(&host->task, fabric->loop, h, FABRIC_USER);
        ck_assert_int_eq(rdma_open(host->env, &host->rdma_task, &host->rdma, &error),
                         WEFT_OK);
    }
    run_until(fabric, all_ready);
}

static void connect_all(struct fabric *fabric)
{
    struct weft_error error = {0};
    struct conn_config config;

    conn_config_default(&config);
    config.qps_per_rail = fabric->config.qps_per_rail;
    config.policy = fabric->config.policy;
    if (fabric->config.send_wr_max != 0) {
        config.send_wr_max = fabric->config.send_wr_max;
    }
    if (fabric->config.recv_wr_max != 0) {
        config.recv_wr_max = fabric->config.recv_wr_max;
    }
    for (uint32_t h = 0; h < fabric->config.n_hosts; h++) {
        struct fabric_host *host = &fabric->hosts[h];

        host->idle_objects = count_objects(fabric, h);
        ck_assert_int_eq(conn_listen(host->rdma, &config, FABRIC_LISTENER, FABRIC_CONN,
                                     host->handle, &host->listener, &error),
                         WEFT_OK);
    }
    for (uint32_t a = 0; a < fabric->config.n_hosts; a++) {
        for (uint32_t b = 0; b < fabric->config.n_hosts; b++) {
            if (has_link(fabric, a, b)) {
                ck_assert_int_eq(conn_connect(fabric->hosts[a].rdma, &config,
                                              fabric->hosts[b].handle, FABRIC_CONN,
                                              &fabric->links[a][b].sender, &error),
                                 WEFT_OK);
                io_task_wake(&fabric->links[a][b].sender->task);
            }
        }
    }
    run_until(fabric, all_up);
}

void fabric_open(struct fabric *fabric, const struct fabric_config *config)
{
    struct weft_error error = {0};

    *fabric = (struct fabric){.config = *config};
    fabric->config.n_rails = config->n_rails != 0 ? config->n_rails : 1;
    fabric->config.qps_per_rail = config->qps_per_rail != 0 ? config->qps_per_rail : 2;
    fabric->config.delay_ps = config->delay_ps != 0 ? config->delay_ps : 1000000;
    fabric->spec = weft_calloc(1, sizeof(*fabric->spec));
    describe(fabric);
    ck_assert_msg(backend_sim.create(&fabric->spec->spec, &fabric->world, &error) ==
                      WEFT_OK,
                  "no world: %s", error.message);
    fabric->loop = fabric->world->ops->loop(fabric->world);
    open_hosts(fabric);
    connect_all(fabric);
}

/* ---- closing ---- */

static void close_xfers(struct fabric_link *link)
{
    xfer_close(link->out);
    xfer_close(link->in);
    link->out = NULL;
    link->in = NULL;
}

static bool all_closed(const struct fabric *fabric)
{
    for (uint32_t a = 0; a < FABRIC_HOSTS_MAX; a++) {
        for (uint32_t b = 0; b < FABRIC_HOSTS_MAX; b++) {
            const struct fabric_link *link = &fabric->links[a][b];

            if (link->sender != NULL && (link->sender->state != CONN_CLOSED ||
                                         link->receiver->state != CONN_CLOSED)) {
                return false;
            }
        }
    }
    return true;
}

void fabric_close(struct fabric *fabric)
{
    for (uint32_t a = 0; a < FABRIC_HOSTS_MAX; a++) {
        for (uint32_t b = 0; b < FABRIC_HOSTS_MAX; b++) {
            struct fabric_link *link = &fabric->links[a][b];

            close_xfers(link);
            if (link->sender != NULL) {
                conn_close(link->sender);
                io_task_wake(&link->sender->task);
                conn_close(link->receiver);
                io_task_wake(&link->receiver->task);
            }
        }
    }
    run_until(fabric, all_closed);
    for (uint32_t h = 0; h < fabric->config.n_hosts; h++) {
        ck_assert_uint_eq(count_objects(fabric, h),
                          fabric->world->ops->host_alive(fabric->world, h)
                              ? fabric->hosts[h].idle_objects
                              : 0);
    }
    fabric_drop(fabric);
}

void fabric_drop(struct fabric *fabric)
{
    for (uint32_t a = 0; a < FABRIC_HOSTS_MAX; a++) {
        for (uint32_t b = 0; b < FABRIC_HOSTS_MAX; b++) {
            struct fabric_link *link = &fabric->links[a][b];

            close_xfers(link);
            conn_destroy(link->sender);
            conn_destroy(link->receiver);
        }
    }
    for (uint32_t h = 0; h < fabric->config.n_hosts; h++) {
        struct fabric_host *host = &fabric->hosts[h];

        conn_listener_close(host->listener);
        rdma_close(host->rdma);
        io_task_fini(&host->rdma_task);
        io_task_fini(&host->task);
    }
    fabric->world->ops->destroy(fabric->world);
    free(fabric->spec);
}

/* ---- memory ---- */

void fabric_memory_open(struct fabric *fabric, uint32_t host, struct xfer *xfer,
                        size_t n_bytes, struct fabric_memory *out)
{
    struct io_gpu *gpu = fabric->hosts[host].env->gpu;
    struct weft_error error = {0};
    void *memory;
    weft_status status;

    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, n_bytes, &memory), 0);
    *out = (struct fabric_memory){.bytes = memory, .n_bytes = n_bytes};
    ck_assert_int_eq(xfer_register(xfer, memory, n_bytes, &out->registered, &error),
                     WEFT_OK);
    while ((status = xfer_register_progress(xfer, &out->registered, &error)) ==
           WEFT_AGAIN) {
        ck_assert(fabric_step(fabric, fabric_now(fabric) + FABRIC_S));
    }
    ck_assert_int_eq(status, WEFT_OK);
}

void fabric_memory_close(struct fabric *fabric, uint32_t host, struct xfer *xfer,
                         struct fabric_memory *memory)
{
    struct io_gpu *gpu = fabric->hosts[host].env->gpu;

    xfer_deregister(xfer, &memory->registered);
    rdma_mr_invalidate(fabric->hosts[host].rdma->mrs, memory->bytes, memory->n_bytes);
    gpu->ops->free(gpu, memory->bytes);
}

weft_status fabric_isend(struct xfer *xfer, const void *data, size_t n_bytes,
                         uint32_t tag, const struct xfer_memory *memory,
                         struct xfer_request **out)
{
    struct xfer_cursor cursor = {0};
    const struct xfer_cts *grant = xfer_next_grant(xfer, &cursor);
    uint32_t oldest = cursor.group;

    while (grant != NULL && cursor.group == oldest && grant->tag != tag) {
        grant = xfer_next_grant(xfer, &cursor);
    }
    if (grant == NULL || cursor.group != oldest) {
        *out = NULL;
        return xfer_error(xfer)->status != WEFT_OK ? xfer_error(xfer)->status
                                                   : WEFT_AGAIN;
    }
    return xfer_isend(xfer, grant, data, n_bytes, memory, out);
}

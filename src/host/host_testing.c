#include "host/host_testing.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "backends/registry.h"
#include "coll/mesh_testing.h"

#define GBPS UINT64_C(1000000000)
#define RENDEZVOUS_PORT 29500

static const char *const host_names[] = {"a", "b", "c"};
static const char *const port_names[] = {"p0", "p1"};

/* Returns true if a line of the event log is kept; `object` points to its object. */
static bool is_kept(const char *object)
{
    const char *event = strchr(object, ' ') + 1;

    return strncmp(object, "rank", 4) == 0 || strncmp(object, "job", 3) == 0 ||
           strncmp(event, "waits_for_port", 14) == 0;
}

/* Keeps lines such as "a rank0 state from=new to=discover". */
static void take_line(void *context, const char *line, size_t n_bytes)
{
    struct mesh_test *test = context;
    const char *host = memchr(line, ' ', n_bytes);
    const char *object;

    ck_assert_ptr_nonnull(host);
    host++;
    object = strchr(host, ' ') + 1;
    if (is_kept(object)) {
        weft_text_add_bytes(&test->story, host, n_bytes - (size_t)(host - line));
    }
}

/* Lays cable i between port 0 of host i and port 1 of the next host. */
static void cable_up(struct mesh_test *test, uint32_t i, uint32_t n_hosts)
{
    uint32_t next = (i + 1) % n_hosts;

    test->addresses[i][0] =
        (struct io_prefix){.ip = io_ip_v4(10, (uint8_t)(i + 1), 0, 1), .prefix_len = 24};
    test->addresses[next][1] =
        (struct io_prefix){.ip = io_ip_v4(10, (uint8_t)(i + 1), 0, 2), .prefix_len = 24};
    test->ports[i][0].addresses = &test->addresses[i][0];
    test->ports[i][0].n_addresses = 1;
    test->ports[next][1].addresses = &test->addresses[next][1];
    test->ports[next][1].n_addresses = 1;
    test->cables[i] = (struct world_cable){
        .ends = {{.node = i, .port = 0}, {.node = next, .port = 1}},
        .rate_bps = 100 * GBPS,
        .delay_ps = 1000000,
        .up = true,
    };
}

static void equip(struct mesh_test *test, uint32_t i)
{
    for (uint32_t p = 0; p < 2; p++) {
        test->ports[i][p] = (struct world_port){.name = port_names[p],
                                                .device = p,
                                                .port = 1,
                                                .rate_bps = 100 * GBPS,
                                                .mtu_bytes = 9000};
    }
    test->machines[i] = (struct world_host){
        .name = host_names[i],
        .profile = WEFT_PROFILE_MLX5,
        .ports = test->ports[i],
        .n_ports = 2,
        .n_gpus = 1,
        .forward_accept = true,
        .memlock_bytes = INT64_MAX,
        .management_ip = io_ip_v4(10, 0, 0, (uint8_t)(i + 1)),
    };
}

void mesh_test_init(struct mesh_test *test, uint32_t n_hosts)
{
    uint32_t n_cables = n_hosts == 2 ? 1 : n_hosts;

    *test = (struct mesh_test){.spec = {.seed = 7}, .n_processes = 1};
    for (uint32_t i = 0; i < n_hosts; i++) {
        equip(test, i);
    }
    for (uint32_t i = 0; i < n_cables; i++) {
        cable_up(test, i, n_hosts);
    }
    test->spec.hosts = test->machines;
    test->spec.n_hosts = n_hosts;
    test->spec.cables = test->cables;
    test->spec.n_cables = n_cables;
    test->spec.faults = test->faults;
    test->spec.management = (struct world_management){
        .exists = true, .prefix_len = 24, .rate_bps = 10 * GBPS, .delay_ps = 50000000};
    test->rows[0] = (struct host_row){
        .coll = {.dtype = WEFT_FLOAT32, .op = WEFT_SUM, .count = 16384},
        .size_bytes = 65536,
        .repeat = 2,
        .limit_ns = 60000000000,
    };
    host_config_default(&test->config);
    test->config.n_ranks = n_hosts;
    test->config.n_members = n_hosts;
    test->config.rows = test->rows;
    test->config.n_rows = 1;
    test->config.seed = 7;
    test->config.conn.window_bytes = XFER_WINDOW_BYTES;
    coll_mesh_full(n_hosts, 100 * GBPS, 1000000, &test->coll_mesh);
    test->config.mesh = &test->coll_mesh;
    test->config.boot.rendezvous = (struct io_endpoint){
        .ip = test->machines[0].management_ip, .port = RENDEZVOUS_PORT};
}

void mesh_test_twin(struct mesh_test *test)
{
    ck_assert_uint_eq(test->spec.n_hosts, 2);
    cable_up(test, 1, 2);
    test->spec.n_cables = 2;
}

struct world_fault *mesh_test_fault(struct mesh_test *test, weft_ns at_ns,
                                    enum world_fault_kind kind, uint32_t host)
{
    struct world_fault *fault = &test->faults[test->spec.n_faults++];

    *fault = (struct world_fault){.at_ns = at_ns, .kind = kind, .host = host};
    return fault;
}

static uint32_t n_members(const struct mesh_test *test)
{
    return test->spec.n_hosts * test->n_processes;
}

void mesh_test_start(struct mesh_test *test)
{
    const struct world_ops *sim = backend_find("sim");
    struct weft_error error = {0};

    weft_trace_init(&test->trace, WEFT_TRACE_STORY, take_line, test);
    test->spec.trace = &test->trace;
    ck_assert_int_eq(sim->create(&test->spec, &test->world, &error), WEFT_OK);
    if (test->wrap != NULL) {
        test->world = test->wrap(test->world, &test->spec);
    }
    for (uint32_t i = 0; i < n_members(test); i++) {
        uint32_t host = i / test->n_processes;
        struct host_config config = test->config;

        config.rank = i;
        config.n_rows = i < config.n_ranks ? config.n_rows : 0;
        config.start_ns = test->machines[host].start_ns;
        test->hosts[i] = host_create(
            test->world->ops->host_env(test->world, host, i % test->n_processes),
            &config);
    }
}

weft_status mesh_test_run(struct mesh_test *test, weft_ns limit_ns,
                          struct weft_error *error)
{
    struct host_loop loop = {.world = test->world,
                             .hosts = test->hosts,
                             .n_hosts = n_members(test),
                             .limit_ns = limit_ns,
                             .reports_ends = test->reports_ends};

    weft_error_clear(error);
    return host_loop_run(&loop, error);
}

const char *mesh_test_states(struct mesh_test *test, char *out, size_t out_bytes)
{
    out[0] = '\0';
    for (uint32_t i = 0; i < n_members(test); i++) {
        size_t n = strlen(out);

        weft_format(out + n, out_bytes - n, "%s%s", i > 0 ? " " : "",
                    host_state_name(test->hosts[i]->state));
    }
    return out;
}

void mesh_test_fini(struct mesh_test *test)
{
    coll_mesh_fini(&test->coll_mesh);
    test->trace.sink = NULL;
    for (uint32_t i = 0; i < n_members(test); i++) {
        host_destroy(test->hosts[i]);
    }
    test->world->ops->destroy(test->world);
    weft_text_fini(&test->story);
}

#include "xfer/grid_testing.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static struct grid *grid_of(struct fabric *fabric)
{
    return fabric->config.user;
}

/* ---- dispatch ---- */

static void on_accept(struct fabric *fabric, uint32_t host, struct conn *conn)
{
    struct weft_error why = {0};
    struct grid *grid = grid_of(fabric);

    for (uint32_t i = 0; i < grid->n_flows; i++) {
        if (grid->flows[i].to == host && grid->flows[i].in != NULL &&
            flow_accept(grid->flows[i].in, conn)) {
            return;
        }
    }
    if (grid->relays[host] != NULL && relay_accept(grid->relays[host], conn)) {
        io_task_wake(&conn->task);
        return;
    }
    weft_fail(&why, WEFT_ERR_PROTOCOL, WEFT_PHASE_PURPOSE, "nobody here wants it");
    conn_refuse(conn, &why);
    conn_destroy(conn);
}

static void on_conn(struct fabric *fabric, struct conn *conn)
{
    struct grid *grid = grid_of(fabric);

    for (uint32_t i = 0; i < grid->n_flows; i++) {
        struct grid_flow *flow = &grid->flows[i];

        if (flow->out != NULL && flow_owns(flow->out, conn)) {
            flow->out_status = flow_progress(flow->out);
            grid_pump(flow);
            return;
        }
        if (flow->in != NULL && flow_owns(flow->in, conn)) {
            flow->in_status = flow_progress(flow->in);
            grid_pump(flow);
            return;
        }
    }
    for (uint32_t h = 0; h < FABRIC_HOSTS_MAX; h++) {
        if (grid->relays[h] != NULL && relay_owns(grid->relays[h], conn)) {
            relay_conn_progress(grid->relays[h], conn);
            return;
        }
    }
    /* A connection of grid_forge(), whose test checks its state. */
    if (conn_progress(conn) < 0) {
        ck_assert_int_eq(conn->state, CONN_FAILED);
    }
}

static void port_event(struct grid *grid, uint32_t host, uint32_t device,
                       const struct io_async_event *event)
{
    for (uint32_t i = 0; i < grid->n_flows; i++) {
        struct grid_flow *flow = &grid->flows[i];

        if (flow->from == host && flow->out != NULL) {
            flow_device_event(flow->out, device, event);
        }
        if (flow->to == host && flow->in != NULL) {
            flow_device_event(flow->in, device, event);
        }
    }
    if (grid->relays[host] != NULL) {
        relay_device_event(grid->relays[host], device, event);
    }
}

static void on_event(struct fabric *fabric, uint32_t host)
{
    struct grid *grid = grid_of(fabric);
    struct rdma *rdma = fabric->hosts[host].rdma;
    struct weft_error error = {0};
    struct io_async_event event;

    for (uint32_t d = 0; d < rdma->env->n_devices; d++) {
        struct io_device *device = rdma->env->devices[d];

        while (device->ops->async_event(device, &event) == 0) {
            if (event.port == 0) {
                continue;
            }
            ck_assert_int_eq(rdma_refresh(rdma, &error), WEFT_OK);
            if (!grid->no_port_events) {
                port_event(grid, host, d, &event);
            }
        }
    }
}

/* ---- opening ---- */

void grid_open(struct grid *grid, const struct fabric_config *config)
{
    struct fabric_config filled = *config;

    *grid = (struct grid){0};
    filled.on_accept = on_accept;
    filled.on_conn = on_conn;
    filled.on_event = on_event;
    filled.user = grid;
    fabric_open(&grid->fabric, &filled);
    for (uint32_t h = 0; h < config->n_hosts; h++) {
        struct rdma *rdma = grid->fabric.hosts[h].rdma;

        for (uint32_t d = 0; d < rdma->env->n_devices; d++) {
            rdma->env->devices[d]->async_task = &grid->fabric.hosts[h].rdma_task;
        }
    }
}

static const uint8_t *handle_of(void *context, uint32_t member)
{
    const struct grid *grid = context;

    return member < grid->fabric.config.n_hosts ? grid->fabric.hosts[member].handle
                                                : NULL;
}

static struct conn_config conn_config(const struct grid *grid)
{
    struct conn_config config;

    conn_config_default(&config);
    config.qps_per_rail = grid->fabric.config.qps_per_rail;
    if (grid->fabric.config.send_wr_max != 0) {
        config.send_wr_max = grid->fabric.config.send_wr_max;
    }
    if (grid->fabric.config.recv_wr_max != 0) {
        config.recv_wr_max = grid->fabric.config.recv_wr_max;
    }
    config.policy = grid->fabric.config.policy;
    return config;
}

void grid_relay(struct grid *grid, uint32_t host, uint64_t memory_max, uint32_t lanes_max)
{
    struct relay_config config = {.conn = conn_config(grid),
                                  .member = host,
                                  .memory_max = memory_max,
                                  .lanes_max = lanes_max,
                                  .task_kind = FABRIC_CONN,
                                  .handle_of = handle_of,
                                  .context = grid};
    struct weft_error error = {0};

    io_task_init(&grid->relay_tasks[host], grid->fabric.loop, host, FABRIC_USER);
    ck_assert_int_eq(relay_open(grid->fabric.hosts[host].rdma, &config,
                                &grid->relay_tasks[host], &grid->relays[host], &error),
                     WEFT_OK);
}

uint32_t grid_flow(struct grid *grid, uint32_t from, uint32_t to,
                   const struct flow_config *config)
{
    uint32_t index = grid->n_flows++;
    struct grid_flow *flow = &grid->flows[index];
    struct flow_config filled = *config;
    struct weft_error error = {0};

    weft_check(index < GRID_FLOWS_MAX);
    *flow = (struct grid_flow){.from = from, .to = to};
    filled.from = from;
    filled.to = to;
    filled.conn = conn_config(grid);
    filled.task_kind = FABRIC_CONN;
    if (config->conn.timeout != 0) {
        filled.conn.timeout = config->conn.timeout;
        filled.conn.retry_cnt = config->conn.retry_cnt;
    }
    if (config->conn.over_management) {
        filled.conn.over_management = true;
    }
    for (uint32_t i = 0; i < filled.n_lanes; i++) {
        uint32_t first = filled.lanes[i].n_via > 0 ? filled.lanes[i].via[0] : to;

        memcpy(filled.lanes[i].handle, grid->fabric.hosts[first].handle,
               CONN_HANDLE_BYTES);
    }
    io_task_init(&flow->out_task, grid->fabric.loop, from, FABRIC_USER);
    io_task_init(&flow->in_task, grid->fabric.loop, to, FABRIC_USER);
    filled.is_sender = false;
    ck_assert_int_eq(flow_open(grid->fabric.hosts[to].rdma, &filled, &flow->in_task,
                               &flow->in, &error),
                     WEFT_OK);
    filled.is_sender = true;
    ck_assert_int_eq(flow_open(grid->fabric.hosts[from].rdma, &filled, &flow->out_task,
                               &flow->out, &error),
                     WEFT_OK);
    return index;
}

uint32_t grid_route(struct grid *grid, uint32_t from, uint32_t to, uint32_t n_via,
                    const uint32_t *via, uint32_t relay_buffers)
{
    struct flow_config config = {.n_lanes = 1, .relay_buffers = relay_buffers};

    config.lanes[0].share = 65536;
    config.lanes[0].n_via = n_via;
    config.lanes[0].via = via;
    return grid_flow(grid, from, to, &config);
}

struct conn *grid_forge(struct grid *grid, uint32_t from, uint32_t to,
                        const struct flow_purpose *purpose)
{
    struct conn_config config = conn_config(grid);
    struct weft_error error = {0};
    struct conn *conn = NULL;

    flow_purpose_encode(purpose, config.purpose);
    config.wants_answer = true;
    ck_assert_int_eq(conn_connect(grid->fabric.hosts[from].rdma, &config,
                                  grid->fabric.hosts[to].handle, FABRIC_CONN, &conn,
                                  &error),
                     WEFT_OK);
    io_task_wake(&conn->task);
    return conn;
}

/* ---- running ---- */

static bool is_done(const struct grid *grid, bool (*done)(const struct grid_flow *flow))
{
    for (uint32_t i = 0; i < grid->n_flows; i++) {
        if (!done(&grid->flows[i])) {
            return false;
        }
    }
    return true;
}

static bool run(struct grid *grid, weft_ns for_ns,
                bool (*done)(const struct grid_flow *flow))
{
    weft_ns until = fabric_now(&grid->fabric) + for_ns;

    while (!is_done(grid, done)) {
        for (uint32_t i = 0; i < grid->n_flows; i++) {
            grid_pump(&grid->flows[i]);
        }
        if (!fabric_step(&grid->fabric, until)) {
            return is_done(grid, done);
        }
    }
    return true;
}

static bool has_all(const struct grid_flow *flow)
{
    const struct grid_traffic *t = &flow->traffic;

    ck_assert_msg(flow->out_status >= 0, "%u to %u, sender: %s: %s", flow->from, flow->to,
                  weft_phase_name(flow_error(flow->out)->phase),
                  flow_error(flow->out)->message);
    ck_assert_msg(flow->in_status >= 0, "%u to %u, receiver: %s: %s", flow->from,
                  flow->to, weft_phase_name(flow_error(flow->in)->phase),
                  flow_error(flow->in)->message);
    return t->n_send_done == t->n_messages &&
           t->n_received == t->n_messages / (t->n_group != 0 ? t->n_group : 1);
}

bool grid_run(struct grid *grid, weft_ns for_ns)
{
    return run(grid, for_ns, has_all);
}

static bool is_up(const struct grid_flow *flow)
{
    ck_assert_msg(flow->out_status >= 0, "%u to %u, sender: %s: %s", flow->from, flow->to,
                  weft_phase_name(flow_error(flow->out)->phase),
                  flow_error(flow->out)->message);
    return flow_is_up(flow->out) && flow_is_up(flow->in);
}

bool grid_run_until_up(struct grid *grid, weft_ns for_ns)
{
    return run(grid, for_ns, is_up);
}

static const struct flow *end_of(const struct grid *grid, uint32_t flow, bool is_sender)
{
    return is_sender ? grid->flows[flow].out : grid->flows[flow].in;
}

uint32_t grid_n_rails(const struct grid *grid, uint32_t flow, bool is_sender)
{
    const struct conn *conn = flow_lane_conn(end_of(grid, flow, is_sender), 0);

    return conn == NULL ? 0 : conn->n_rails;
}

static bool all_have_rails(const struct grid *grid, uint32_t n)
{
    for (uint32_t i = 0; i < grid->n_flows; i++) {
        if (grid_n_rails(grid, i, true) != n || grid_n_rails(grid, i, false) != n) {
            return false;
        }
    }
    return true;
}

bool grid_run_until_rails(struct grid *grid, uint32_t n, weft_ns for_ns)
{
    weft_ns until = fabric_now(&grid->fabric) + for_ns;

    while (!all_have_rails(grid, n) && fabric_now(&grid->fabric) < until) {
        grid_step_for(grid, FABRIC_MS);
    }
    return all_have_rails(grid, n);
}

struct flow_counters grid_counters(const struct grid *grid, uint32_t flow, bool is_sender)
{
    struct flow_counters counters;

    flow_counters(end_of(grid, flow, is_sender), &counters);
    return counters;
}

static bool never(const struct grid_flow *flow)
{
    (void)flow;
    return false;
}

void grid_step_for(struct grid *grid, weft_ns for_ns)
{
    run(grid, for_ns, never);
}

bool grid_run_until_dead(struct grid *grid, uint32_t index, weft_ns for_ns)
{
    weft_ns until = fabric_now(&grid->fabric) + for_ns;
    const struct grid_flow *flow = &grid->flows[index];

    while (flow->out_status >= 0 || flow->in_status >= 0) {
        for (uint32_t i = 0; i < grid->n_flows; i++) {
            grid_pump(&grid->flows[i]);
        }
        if (!fabric_step(&grid->fabric, until)) {
            break;
        }
    }
    return flow->out_status < 0 && flow->in_status < 0;
}

void grid_fault(struct grid *grid, const struct world_fault *fault)
{
    ck_assert_int_eq(grid->fabric.world->ops->inject(grid->fabric.world, fault), 0);
}

uint32_t grid_port(const struct grid *grid, uint32_t host, uint32_t to, uint32_t nth)
{
    const struct fabric_config *config = &grid->fabric.config;
    uint32_t port = 0;

    for (uint32_t i = 0; i < config->n_cables; i++) {
        const struct fabric_cable *cable = &config->cables[i];

        if (cable->a != host && cable->b != host) {
            continue;
        }
        if ((cable->a == to || cable->b == to) && nth-- == 0) {
            return port;
        }
        port++;
    }
    ck_abort_msg("no cable from %u to %u", host, to);
    return 0;
}

void grid_down(struct grid *grid, uint32_t host, uint32_t to, uint32_t nth,
               weft_ns for_ns)
{
    grid_fault(grid, &(struct world_fault){.kind = WORLD_FAULT_DOWN,
                                           .host = host,
                                           .has_port = true,
                                           .port = grid_port(grid, host, to, nth),
                                           .for_ns = for_ns});
}

/* ---- closing ---- */

static bool is_closed(const struct grid *grid)
{
    for (uint32_t i = 0; i < grid->n_flows; i++) {
        const struct grid_flow *flow = &grid->flows[i];

        if ((!grid->dead[flow->from] && !flow_is_closed(flow->out)) ||
            (!grid->dead[flow->to] && !flow_is_closed(flow->in))) {
            return false;
        }
    }
    return true;
}

static bool relays_are_closed(const struct grid *grid)
{
    for (uint32_t h = 0; h < FABRIC_HOSTS_MAX; h++) {
        if (grid->relays[h] != NULL && !grid->dead[h] &&
            !relay_is_closed(grid->relays[h])) {
            return false;
        }
    }
    return true;
}

static void wait_for(struct grid *grid, bool (*done)(const struct grid *grid))
{
    weft_ns until = fabric_now(&grid->fabric) + 10 * FABRIC_S;

    while (!done(grid)) {
        ck_assert_msg(fabric_step(&grid->fabric, until), "does not close");
    }
}

void grid_close(struct grid *grid)
{
    for (uint32_t i = 0; i < grid->n_flows; i++) {
        grid_free_traffic(grid, &grid->flows[i]);
        /* flow_close() polls queues, and those of a killed process do not exist any more. */
        if (!grid->dead[grid->flows[i].from]) {
            flow_close(grid->flows[i].out);
        }
        if (!grid->dead[grid->flows[i].to]) {
            flow_close(grid->flows[i].in);
        }
    }
    wait_for(grid, is_closed);
    for (uint32_t h = 0; h < FABRIC_HOSTS_MAX; h++) {
        if (grid->relays[h] != NULL) {
            relay_close(grid->relays[h]);
        }
    }
    wait_for(grid, relays_are_closed);
    for (uint32_t i = 0; i < grid->n_flows; i++) {
        flow_destroy(grid->flows[i].out);
        flow_destroy(grid->flows[i].in);
        io_task_fini(&grid->flows[i].out_task);
        io_task_fini(&grid->flows[i].in_task);
    }
    for (uint32_t h = 0; h < FABRIC_HOSTS_MAX; h++) {
        if (grid->relays[h] != NULL) {
            relay_destroy(grid->relays[h]);
            io_task_fini(&grid->relay_tasks[h]);
        }
    }
    fabric_close(&grid->fabric);
}

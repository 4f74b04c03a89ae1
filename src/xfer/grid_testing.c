#include "xfer/grid_testing.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "rdma/async.h"

static struct grid *grid_of(struct fabric *fabric)
{
    return fabric->config.user;
}

/* ---- traffic ---- */

/* The byte at `at` of message `number`. */
static uint8_t byte_of(const struct grid_traffic *traffic, uint32_t number, size_t at)
{
    uint64_t x = (uint64_t)number * 0x9e3779b97f4a7c15 + at / 8 + traffic->seed;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    return (uint8_t)(x >> (32 + at % 8 * 4));
}

static size_t size_of(const struct grid_traffic *traffic, uint32_t number)
{
    return traffic->size_of == NULL ? traffic->max_bytes : traffic->size_of(number);
}

static void check_message(const struct grid_traffic *traffic, uint32_t number,
                          const uint8_t *at, size_t n_bytes)
{
    ck_assert_uint_eq(n_bytes, size_of(traffic, number));
    for (size_t i = 0; i < n_bytes; i++) {
        if (at[i] != byte_of(traffic, number, i)) {
            ck_abort_msg("message %u of %zu bytes differs at %zu", number, n_bytes, i);
        }
    }
}

static uint8_t *place(const struct grid_traffic *traffic, uint8_t *base, uint32_t number)
{
    uint32_t slot = number % (traffic->slots * traffic->n_group);

    return base + (size_t)slot * traffic->max_bytes;
}

static void pump_sends(struct grid_flow *flow)
{
    struct grid_traffic *t = &flow->traffic;
    uint32_t room = t->slots * t->n_group;

    while (t->n_send_done < t->n_sent) {
        struct flow_request *request = t->sends[t->n_send_done % room];
        size_t n_bytes;

        if (flow_test(flow->out, request, &n_bytes) != WEFT_OK) {
            break;
        }
        ck_assert_uint_eq(n_bytes, size_of(t, t->n_send_done));
        t->n_send_done++;
    }
    while (t->n_sent < t->n_messages && t->n_sent - t->n_send_done < room) {
        uint8_t *at = place(t, t->sent, t->n_sent);
        size_t n_bytes = size_of(t, t->n_sent);
        struct flow_request *request;

        for (size_t i = 0; i < n_bytes; i++) {
            at[i] = byte_of(t, t->n_sent, i);
        }
        if (flow_isend(flow->out, at, n_bytes, t->n_sent % t->n_group,
                       n_bytes == 0 ? NULL : &t->sent_memory, &request) != WEFT_OK) {
            break;
        }
        t->sends[t->n_sent++ % room] = request;
    }
}

static bool post_group(struct grid_flow *flow)
{
    struct grid_traffic *t = &flow->traffic;
    void *data[XFER_MULTI_MAX];
    size_t sizes[XFER_MULTI_MAX];
    uint32_t tags[XFER_MULTI_MAX];
    const struct xfer_memory *memories[XFER_MULTI_MAX];

    for (uint32_t i = 0; i < t->n_group; i++) {
        data[i] = place(t, t->received, t->n_posted * t->n_group + i);
        sizes[i] = t->max_bytes;
        tags[i] = i;
        memories[i] = &t->received_memory;
        memset(data[i], 0xee, t->max_bytes);
    }
    return flow_irecv(flow->in, t->n_group, data, sizes, tags, memories,
                      &t->receives[t->n_posted % t->slots]) == WEFT_OK;
}

static void pump_receives(struct grid_flow *flow)
{
    struct grid_traffic *t = &flow->traffic;
    uint32_t n_groups = t->n_messages / t->n_group;

    while (t->n_received < t->n_posted) {
        size_t sizes[XFER_MULTI_MAX];

        if (flow_test(flow->in, t->receives[t->n_received % t->slots], sizes) !=
            WEFT_OK) {
            break;
        }
        for (uint32_t i = 0; i < t->n_group; i++) {
            uint32_t number = t->n_received * t->n_group + i;

            check_message(t, number, place(t, t->received, number), sizes[i]);
        }
        t->n_received++;
    }
    while (!t->is_stalled && t->n_posted < n_groups &&
           t->n_posted - t->n_received < t->slots && post_group(flow)) {
        t->n_posted++;
    }
}

static void pump(struct grid_flow *flow)
{
    struct grid_traffic *t = &flow->traffic;
    struct weft_error error = {0};

    if (t->n_messages == 0) {
        return;
    }
    if (!t->sent_ready && flow->out_status >= 0) {
        t->sent_ready =
            flow_register_progress(flow->out, &t->sent_memory, &error) == WEFT_OK;
    }
    if (!t->received_ready && flow->in_status >= 0) {
        t->received_ready =
            flow_register_progress(flow->in, &t->received_memory, &error) == WEFT_OK;
    }
    if (t->sent_ready && flow->out_status >= 0) {
        pump_sends(flow);
    }
    if (t->received_ready && flow->in_status >= 0) {
        pump_receives(flow);
    }
}

/* ---- dispatch ---- */

static void on_accept(struct fabric *fabric, uint32_t host, struct conn *conn)
{
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
    conn_destroy(conn);
}

static void on_conn(struct fabric *fabric, struct conn *conn)
{
    struct grid *grid = grid_of(fabric);

    for (uint32_t i = 0; i < grid->n_flows; i++) {
        struct grid_flow *flow = &grid->flows[i];

        if (flow->out != NULL && flow_owns(flow->out, conn)) {
            flow->out_status = flow_progress(flow->out);
            pump(flow);
            return;
        }
        if (flow->in != NULL && flow_owns(flow->in, conn)) {
            flow->in_status = flow_progress(flow->in);
            pump(flow);
            return;
        }
    }
    for (uint32_t h = 0; h < FABRIC_HOSTS_MAX; h++) {
        if (grid->relays[h] != NULL && relay_owns(grid->relays[h], conn)) {
            relay_progress(grid->relays[h]);
            return;
        }
    }
}

static void on_event(struct fabric *fabric, uint32_t host)
{
    struct grid *grid = grid_of(fabric);
    struct rdma *rdma = fabric->hosts[host].rdma;
    struct weft_error error = {0};
    struct rdma_async event;

    while (rdma_async_next(rdma, &event)) {
        if (event.scope != RDMA_ASYNC_PORT || event.port == NULL) {
            continue;
        }
        ck_assert_int_eq(rdma_refresh(rdma, &error), WEFT_OK);
        for (uint32_t i = 0; i < grid->n_flows && !grid->no_port_events; i++) {
            struct grid_flow *flow = &grid->flows[i];
            bool is_up = event.type == IBV_EVENT_PORT_ACTIVE;

            if (flow->from == host && flow->out != NULL) {
                flow_port_event(flow->out, event.device_index, event.port->port, is_up);
            }
            if (flow->to == host && flow->in != NULL) {
                flow_port_event(flow->in, event.device_index, event.port->port, is_up);
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
        rdma_async_start(grid->fabric.hosts[h].rdma, &grid->fabric.hosts[h].rdma_task);
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
    return config;
}

void grid_relay(struct grid *grid, uint32_t host, uint64_t memory_max, uint32_t lanes_max)
{
    struct relay_config config = {.conn = conn_config(grid),
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

static uint8_t *memory_of(struct grid *grid, uint32_t host, size_t n_bytes)
{
    struct io_gpu *gpu = grid->fabric.hosts[host].env->gpu;
    void *memory;

    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, n_bytes, &memory), 0);
    return memory;
}

void grid_send(struct grid *grid, uint32_t index, const struct grid_traffic *traffic)
{
    struct grid_flow *flow = &grid->flows[index];
    struct grid_traffic *t = &flow->traffic;
    struct weft_error error = {0};
    size_t n_bytes;

    ck_assert_uint_eq(t->n_messages, 0);
    *t = *traffic;
    t->n_group = t->n_group != 0 ? t->n_group : 1;
    t->slots = t->slots != 0 ? t->slots : GRID_SLOTS;
    t->seed += index * 1000003;
    n_bytes = (size_t)t->slots * t->n_group * t->max_bytes;
    n_bytes = n_bytes > 0 ? n_bytes : 1;
    t->sent = memory_of(grid, flow->from, n_bytes);
    t->received = memory_of(grid, flow->to, n_bytes);
    ck_assert_int_eq(flow_register(flow->out, t->sent, n_bytes, &t->sent_memory, &error),
                     WEFT_OK);
    ck_assert_int_eq(
        flow_register(flow->in, t->received, n_bytes, &t->received_memory, &error),
        WEFT_OK);
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
            pump(&grid->flows[i]);
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
                  flow_error(flow->out)->phase, flow_error(flow->out)->message);
    ck_assert_msg(flow->in_status >= 0, "%u to %u, receiver: %s: %s", flow->from,
                  flow->to, flow_error(flow->in)->phase, flow_error(flow->in)->message);
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
                  flow_error(flow->out)->phase, flow_error(flow->out)->message);
    return flow_is_up(flow->out) && flow_is_up(flow->in);
}

bool grid_run_until_up(struct grid *grid, weft_ns for_ns)
{
    return run(grid, for_ns, is_up);
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
            pump(&grid->flows[i]);
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

/* ---- closing ---- */

static bool is_closed(const struct grid *grid)
{
    for (uint32_t i = 0; i < grid->n_flows; i++) {
        if (!flow_is_closed(grid->flows[i].out) || !flow_is_closed(grid->flows[i].in)) {
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

static void free_traffic(struct grid *grid, struct grid_flow *flow)
{
    struct grid_traffic *t = &flow->traffic;
    struct io_gpu *from = grid->fabric.hosts[flow->from].env->gpu;
    struct io_gpu *to = grid->fabric.hosts[flow->to].env->gpu;

    if (t->sent == NULL) {
        return;
    }
    flow_deregister(flow->out, &t->sent_memory);
    flow_deregister(flow->in, &t->received_memory);
    flow_invalidate(flow->out, t->sent, 1);
    flow_invalidate(flow->in, t->received, 1);
    from->ops->free(from, t->sent);
    to->ops->free(to, t->received);
    t->n_messages = 0;
}

void grid_close(struct grid *grid)
{
    for (uint32_t i = 0; i < grid->n_flows; i++) {
        free_traffic(grid, &grid->flows[i]);
        flow_close(grid->flows[i].out);
        flow_close(grid->flows[i].in);
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

/* Tests rails that could not be used while a flow came up, and can be used later. */
#include <check.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "xfer/grid_testing.h"

static struct grid grid;
static const struct fabric_cable triplets[] = {{0, 1}, {0, 1}, {0, 1}};

#define FOR_GOOD 0

static void open_flow(void)
{
    static const uint32_t direct = UINT32_MAX;
    struct flow_config config = {
        .n_lanes = 1, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};

    /* A queue pair gives up after 8 tries of 8.4 ms. */
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    config.lanes[0].via = &direct;
    grid_flow(&grid, 0, 1, &config);
}

static size_t mixed(uint32_t number)
{
    static const size_t sizes[] = {0, 7, 65536, 131073, 300000, 4096};

    return sizes[number % WEFT_LENGTH(sizes)];
}

static void send_all(void)
{
    grid_send(&grid, 0,
              &(struct grid_traffic){
                  .n_messages = 60, .n_group = 1, .size_of = mixed, .max_bytes = 300000});
}

/* Drops all frames of a cable in both directions. Its ports stay up. */
static void black_hole(uint32_t nth, weft_ns for_ns)
{
    grid_fault(&grid, &(struct world_fault){.kind = WORLD_FAULT_LOSS,
                                            .host = 0,
                                            .has_port = true,
                                            .port = grid_port(&grid, 0, 1, nth),
                                            .share_ppb = 1000000000,
                                            .for_ns = for_ns});
}

/* One of two cables is down while the flow comes up. Once it is up, the flow tries it and then uses
 * it: 20 ms later if the flow was up by then, otherwise 1 s after set-up. It neither waits for a
 * cable that stays down nor tries it. */
START_TEST(a_rail_without_carrier_at_set_up_joins)
{
    static const weft_ns downs[] = {3 * FABRIC_S / 2, FABRIC_MS / 4, FOR_GOOD};
    weft_ns down = downs[_i % 3];
    uint32_t end = (uint32_t)_i / 3;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2, .cables = triplets, .n_cables = 2});
    grid_down(&grid, end, 1 - end, 1, down);
    grid_step_for(&grid, FABRIC_MS / 10);
    open_flow();
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    if (down == FOR_GOOD) {
        grid_step_for(&grid, 120 * FABRIC_S);
        ck_assert_uint_eq(grid_counters(&grid, 0, true).epochs, 1);
        ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    } else {
        weft_ns by = down > FABRIC_S ? down + 50 * FABRIC_MS : 1100 * FABRIC_MS;

        ck_assert(grid_run_until_rails(&grid, 2, by - fabric_now(&grid.fabric)));
        ck_assert_uint_eq(grid_counters(&grid, 0, true).returns, 1);
        ck_assert_uint_eq(grid_counters(&grid, 0, true).failovers, 0);
    }
    ck_assert_ptr_null(flow_left_out(grid.flows[0].out));
    send_all();
    ck_assert(grid_run(&grid, 5 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* Two of three cables drop all frames or are down while the flow comes up. Each is used once it
 * works, independently of the other. */
START_TEST(each_of_two_rails_comes_back_by_itself)
{
    bool is_dumb = _i % 2 == 0;
    uint32_t first = 1 + (uint32_t)_i / 2, last = 3 - first;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2, .cables = triplets, .n_cables = 3});
    if (is_dumb) {
        black_hole(first, 3 * FABRIC_S);
        black_hole(last, 40 * FABRIC_S);
    } else {
        grid_down(&grid, 0, 1, first, 3 * FABRIC_S);
        grid_down(&grid, 0, 1, last, 40 * FABRIC_S);
    }
    grid_step_for(&grid, FABRIC_MS / 10);
    open_flow();
    ck_assert(grid_run_until_up(&grid, 5 * FABRIC_S));
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    ck_assert(grid_run_until_rails(&grid, 2, 12 * FABRIC_S));
    ck_assert_uint_eq(grid_counters(&grid, 0, true).returns, 1);
    ck_assert(grid_run_until_rails(&grid, 3, 100 * FABRIC_S));
    ck_assert_uint_eq(grid_counters(&grid, 0, true).returns, 2);
    send_all();
    ck_assert(grid_run(&grid, 5 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

static void address(uint32_t host, enum world_fault_kind kind, const struct io_ip *ip)
{
    struct world_fault fault = {.kind = kind,
                                .host = host,
                                .has_port = true,
                                .port = grid_port(&grid, host, 1 - host, 1),
                                .address = {.ip = *ip, .prefix_len = 24}};

    grid_fault(&grid, &fault);
}

/* Returns the address that the fabric gave to the host's second port. */
static struct io_ip address_of(uint32_t host)
{
    const struct rdma *rdma = grid.fabric.hosts[host].rdma;
    const struct rdma_port *port = &rdma->ports[grid_port(&grid, host, 1 - host, 1)];

    for (uint32_t i = 0; i < port->n_gids; i++) {
        struct io_ip ip = rdma_gid_ip(&port->gids[i].gid);

        if (port->gids[i].prefix_len > 0 && !io_ip_is_link_local(&ip)) {
            return ip;
        }
    }
    ck_abort_msg("no address");
}

/* One of two cables lacks an address at the sender's end, at the receiver's or at both while the
 * flow comes up. The flow tries it once both ends have an address, and then uses it. */
START_TEST(a_rail_without_address_at_set_up_joins)
{
    bool is_late[2] = {_i != 1, _i != 0};
    struct io_ip ips[2];

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2, .cables = triplets, .n_cables = 2});
    for (uint32_t host = 0; host < 2; host++) {
        ips[host] = address_of(host);
        if (is_late[host]) {
            address(host, WORLD_FAULT_ADDR_DEL, &ips[host]);
        }
    }
    grid_step_for(&grid, FABRIC_MS);
    open_flow();
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    grid_step_for(&grid, 10 * FABRIC_S);
    /* The flow has not tried the cable. */
    ck_assert_uint_eq(grid_counters(&grid, 0, true).epochs, 1);
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    for (uint32_t host = 0; host < 2; host++) {
        if (is_late[host]) {
            address(host, WORLD_FAULT_ADDR_ADD, &ips[host]);
        }
    }
    ck_assert(grid_run_until_rails(&grid, 2, _i == 2 ? 3 * FABRIC_S : 50 * FABRIC_MS));
    ck_assert_uint_eq(grid_counters(&grid, 0, true).returns, 1);
    ck_assert_uint_eq(grid_counters(&grid, 0, true).failovers, 0);
    ck_assert_ptr_null(flow_left_out(grid.flows[0].out));
    send_all();
    ck_assert(grid_run(&grid, 5 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* An address in a subnet without the peer makes no rail. */
START_TEST(an_address_of_elsewhere_is_no_rail)
{
    struct io_ip ip;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2, .cables = triplets, .n_cables = 2});
    ip = address_of((uint32_t)_i);
    address((uint32_t)_i, WORLD_FAULT_ADDR_DEL, &ip);
    grid_step_for(&grid, FABRIC_MS);
    open_flow();
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    ip.bytes[12] = 77;
    address((uint32_t)_i, WORLD_FAULT_ADDR_ADD, &ip);
    grid_step_for(&grid, 60 * FABRIC_S);
    ck_assert_uint_eq(grid_counters(&grid, 0, true).epochs, 1);
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    send_all();
    ck_assert(grid_run(&grid, 5 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xfer/late rails");
    TCase *tcase = tcase_create("all");

    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, a_rail_without_carrier_at_set_up_joins, 0, 6);
    tcase_add_loop_test(tcase, each_of_two_rails_comes_back_by_itself, 0, 4);
    tcase_add_loop_test(tcase, a_rail_without_address_at_set_up_joins, 0, 3);
    tcase_add_loop_test(tcase, an_address_of_elsewhere_is_no_rail, 0, 2);
    return suite_run(suite);
}

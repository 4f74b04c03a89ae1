/* Tests flows whose only port, or one of two, goes down or loses its GID before they are up. */
#include <check.h>
#include <errno.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "xfer/flow_private.h"
#include "xfer/grid_testing.h"
#include "xfer/wire.h"

static struct grid grid;
static const struct fabric_cable twins[] = {{0, 1}, {0, 1}};

#define FOR_GOOD 0

static void open_cables(uint32_t n_cables)
{
    grid_open(&grid, &(struct fabric_config){
                         .n_hosts = 2, .cables = twins, .n_cables = n_cables});
}

/* Opens a flow from host 0 with one lane. `via` is its relay, or NULL if it is direct. `cables_ns`
 * is nonzero for a rank's flow. */
static void open_flow_of(uint32_t to, const uint32_t *via, weft_ns failover_ns,
                         weft_ns cables_ns)
{
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = failover_ns,
                                 .cables_ns = cables_ns};

    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    config.lanes[0].n_via = via != NULL ? 1 : 0;
    config.lanes[0].via = via;
    grid_flow(&grid, 0, to, &config);
}

static void open_flow(uint32_t to, const uint32_t *via, weft_ns failover_ns)
{
    open_flow_of(to, via, failover_ns, 0);
}

/* Checks that the flow comes up within `up_ns` and that messages arrive; then closes the grid. */
static void send_within(weft_ns up_ns)
{
    ck_assert(grid_run_until_up(&grid, up_ns));
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, 10 * FABRIC_S));
    grid_close(&grid);
}

/* One of two cables goes down at any moment of the set-up. The other one must be enough. */
START_TEST(a_twin_goes_down_during_setup)
{
    open_cables(2);
    open_flow(1, NULL, 10 * FABRIC_S);
    grid_step_for(&grid, _i * 15000);
    grid_down(&grid, 0, 1, (uint32_t)_i % 2, FOR_GOOD);
    send_within(10 * FABRIC_S);
}
END_TEST

/* At any moment of the set-up, both ends handle the events of their only port, which went down and
 * up long before. The set-up must go on. */
START_TEST(old_news_of_the_only_port_end_no_set_up)
{
    struct flow_purpose purpose;

    open_cables(1);
    open_flow(1, NULL, 10 * FABRIC_S);
    grid_step_for(&grid, _i * 15000);
    for (uint32_t i = 0; i < 2; i++) {
        flow_port_event(grid.flows[0].out, 0, 1, i == 1);
        flow_port_event(grid.flows[0].in, 0, 1, i == 1);
    }
    ck_assert(grid_run_until_up(&grid, 10 * FABRIC_S));
    /* No second attempt was made. */
    ck_assert(flow_purpose_decode(flow_lane_conn(grid.flows[0].out, 0)->config.purpose,
                                  &purpose));
    ck_assert_uint_eq(purpose.epoch, 1);
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, 10 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* Both ends handle the events of their only port when it is up again. The packets that the cable
 * lost before make the step to RTR fail. The flow must still come up. */
START_TEST(old_news_of_a_port_that_lost_frames_end_no_set_up)
{
    open_cables(1);
    open_flow(1, NULL, FABRIC_S);
    grid.no_port_events = true;
    grid_step_for(&grid, _i * 20000);
    grid_down(&grid, 0, 1, 0, 400 * FABRIC_MS);
    grid_step_for(&grid, 401 * FABRIC_MS);
    for (uint32_t i = 0; i < 2; i++) {
        flow_port_event(grid.flows[0].out, 0, 1, i == 1);
        flow_port_event(grid.flows[0].in, 0, 1, i == 1);
    }
    ck_assert(grid_run_until_up(&grid, 5 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* The only port goes down for some time at any moment of the set-up. HELLO, FACTS or META may be
 * sent then, or queue pairs connected or probed. 4 s must be survived by default
 * (docs/scenario.md); a flow with a longer timeout survives 25 s. */
START_TEST(the_only_port_goes_for_a_while_during_set_up)
{
    static const struct {
        weft_ns down_ns, failover_ns;
    } cases[] = {{FABRIC_MS / 50, FABRIC_S},
                 {400 * FABRIC_MS, FABRIC_S},
                 {4 * FABRIC_S, FABRIC_S},
                 {25 * FABRIC_S, 30 * FABRIC_S}};
    uint32_t host = (uint32_t)_i / 4 % 2;

    open_cables(1);
    open_flow(1, NULL, cases[_i % 4].failover_ns);
    grid_step_for(&grid, _i / 4 * 40000);
    grid_down(&grid, host, 1 - host, 0, cases[_i % 4].down_ns);
    ck_assert(grid_run_until_up(&grid, cases[_i % 4].down_ns + 2 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* A relay's only port to the sender or to the receiver goes down for 400 ms at any moment of the
 * set-up. The receiver may have been up before, so the limit is the shortest that a flow can have.
 * It is long enough for a second ARP request, 1 s after the first. */
START_TEST(a_relays_only_port_goes_for_a_while_during_set_up)
{
    static const struct fabric_cable line[] = {{0, 1}, {1, 2}};
    static const uint32_t via = 1;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = line, .n_cables = 2});
    grid_relay(&grid, 1, 0, 0);
    open_flow(2, &via, TIMER_CABLES_NS);
    grid_step_for(&grid, _i / 2 * 40000);
    grid_down(&grid, 1, _i % 2 == 0 ? 0 : 2, 0, 400 * FABRIC_MS);
    ck_assert(grid_run_until_up(&grid, 5 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* The only port goes down permanently during the set-up. Both ends must fail within the time that a
 * set-up may take. */
START_TEST(the_only_port_goes_for_good_during_set_up)
{
    weft_ns at;

    open_cables(1);
    open_flow(1, NULL, FABRIC_S);
    grid_step_for(&grid, (_i + 1) * 60000);
    grid_down(&grid, 0, 1, 0, FOR_GOOD);
    at = fabric_now(&grid.fabric);
    ck_assert(grid_run_until_dead(&grid, 0, 7 * FABRIC_S));
    ck_assert_int_lt(fabric_now(&grid.fabric) - at, 7 * FABRIC_S);
    grid_close(&grid);
}
END_TEST

/* Deletes the GID of the only port of `host`, or adds it again. */
static void change_gid(uint32_t host, enum world_fault_kind kind)
{
    struct io_prefix address = {.ip = io_ip_v4(192, 168, 101, (uint8_t)(host + 1)),
                                .prefix_len = 24};

    grid_fault(&grid,
               &(struct world_fault){
                   .kind = kind, .host = host, .has_port = true, .address = address});
}

/* Gives the only port of `host` an address that is in no subnet of the peer. */
static void add_another_address(uint32_t host)
{
    struct world_fault fault = {
        .kind = WORLD_FAULT_ADDR_ADD,
        .host = host,
        .has_port = true,
        .address = {.ip = io_ip_v4(10, 200, (uint8_t)host, 1), .prefix_len = 24}};

    grid_fault(&grid, &fault);
    grid_step_for(&grid, FABRIC_MS);
}

/* The GID of the only port is removed at either end, at any moment of the set-up. It comes back
 * before the timeout of a flow that was never up. In half of the cases the port has another GID. */
START_TEST(the_only_gid_goes_for_a_while_during_set_up)
{
    static const weft_ns gone_ns[] = {FABRIC_MS / 50, 100 * FABRIC_MS, 4 * FABRIC_S};
    uint32_t host = (uint32_t)_i / 3 % 2;

    open_cables(1);
    if (_i / 6 % 2 == 1) {
        add_another_address(host);
    }
    open_flow(1, NULL, FABRIC_S);
    grid_step_for(&grid, _i / 12 * 20000);
    change_gid(host, WORLD_FAULT_GID_DELETE);
    grid_step_for(&grid, gone_ns[_i % 3]);
    change_gid(host, WORLD_FAULT_GID_ADD);
    /* A GID that is back at once must not make a probe time out. */
    send_within(_i % 3 == 0 ? 20 * FABRIC_MS : 2 * FABRIC_S);
}
END_TEST

/* The only GID is missing when the flow is opened, as if the process has never seen it. It appears
 * before the timeout of a flow that was never up. */
START_TEST(the_only_gid_comes_late)
{
    uint32_t host = (uint32_t)_i % 2;
    struct rdma *rdma;

    open_cables(1);
    rdma = grid.fabric.hosts[host].rdma;
    change_gid(host, WORLD_FAULT_GID_DELETE);
    grid_step_for(&grid, FABRIC_MS);
    ck_assert_int_eq(rdma_refresh(rdma, NULL), WEFT_OK);
    ck_assert_int_ne(rdma->ports[0].gid_lost_ns, 0);
    rdma->ports[0].gid_lost_ns = 0;
    open_flow(1, NULL, FABRIC_S);
    grid_step_for(&grid, _i / 2 * 400 * FABRIC_MS);
    change_gid(host, WORLD_FAULT_GID_ADD);
    send_within(2 * FABRIC_S);
}
END_TEST

/* The only GID appears during the first attempt, which has reported the port without it. */
START_TEST(the_only_gid_comes_during_set_up)
{
    uint32_t host = (uint32_t)_i % 2;
    struct rdma *rdma;

    open_cables(1);
    rdma = grid.fabric.hosts[host].rdma;
    change_gid(host, WORLD_FAULT_GID_DELETE);
    grid_step_for(&grid, FABRIC_MS);
    ck_assert_int_eq(rdma_refresh(rdma, NULL), WEFT_OK);
    rdma->ports[0].gid_lost_ns = 0;
    open_flow(1, NULL, FABRIC_S);
    while (grid.flows[0].out->lanes[0].conn->state < CONN_AUTH) {
        grid_step_for(&grid, 1000);
    }
    grid_step_for(&grid, _i / 2 * 500);
    change_gid(host, WORLD_FAULT_GID_ADD);
    send_within(2 * FABRIC_S);
}
END_TEST

/* The GID that faces the peer appears late, at a port with another address, so that nothing shows
 * that an address is missing. The flow must wait for it as long as for a neighbour. */
START_TEST(the_facing_gid_comes_late)
{
    uint32_t host = (uint32_t)_i % 2;
    struct world_fault other = {
        .kind = WORLD_FAULT_ADDR_ADD,
        .host = host,
        .has_port = true,
        .address = {.ip = io_ip_v4(10, 200, 1, 1), .prefix_len = 24}};
    struct rdma *rdma;

    open_cables(1);
    rdma = grid.fabric.hosts[host].rdma;
    grid_fault(&grid, &other);
    change_gid(host, WORLD_FAULT_GID_DELETE);
    grid_step_for(&grid, FABRIC_MS);
    ck_assert_int_eq(rdma_refresh(rdma, NULL), WEFT_OK);
    rdma->ports[0].gid_lost_ns = 0;
    open_flow(1, NULL, FABRIC_S);
    grid_step_for(&grid, _i / 2 * 100 * FABRIC_MS);
    change_gid(host, WORLD_FAULT_GID_ADD);
    send_within(2 * FABRIC_S);
}
END_TEST

/* The only GID is removed permanently. The timeout must end the flow at both ends. */
START_TEST(the_only_gid_goes_for_good_during_set_up)
{
    open_cables(1);
    open_flow(1, NULL, FABRIC_S);
    change_gid((uint32_t)_i, WORLD_FAULT_GID_DELETE);
    ck_assert(grid_run_until_dead(&grid, 0, 7 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* The only GID is removed while a rank's flow is set up over cables only. The sender, which chooses
 * the ports, must fail within 2 s, because waiting does not help. A real process then exits. A
 * receiver whose peer stays silent must fail, too. A GID that comes back within 1 s is in time. */
START_TEST(the_only_gid_goes_between_neighbours_during_set_up)
{
    open_cables(1);
    open_flow_of(1, NULL, TIMER_FAILOVER_NS, TIMER_CABLES_NS);
    grid_step_for(&grid, _i / 4 * 20000);
    change_gid((uint32_t)_i % 2, WORLD_FAULT_GID_DELETE);
    if (_i / 2 % 2 == 0) {
        grid_step_for(&grid, FABRIC_S);
        change_gid((uint32_t)_i % 2, WORLD_FAULT_GID_ADD);
        send_within(2 * FABRIC_S);
        return;
    }
    grid_step_for(&grid, 2 * FABRIC_S);
    ck_assert_int_lt(grid.flows[0].out_status, 0);
    ck_assert(conn_lacks_address(flow_error(grid.flows[0].out)));
    ck_assert(grid_run_until_dead(&grid, 0, TIMER_RECOVERY_NS));
    grid_close(&grid);
}
END_TEST

/* Makes a port lose every frame for `for_ns`. */
static void silence(uint32_t host, uint32_t port, weft_ns for_ns)
{
    grid_fault(&grid, &(struct world_fault){.kind = WORLD_FAULT_LOSS,
                                            .host = host,
                                            .port = port,
                                            .has_port = true,
                                            .share_ppb = 1000000000,
                                            .for_ns = for_ns});
}

/* A cable has no carrier, or loses all frames, for less than the 4 s that must be survived. Then a
 * GID at either end is missing for less than the 1 s that must be survived. The first failure must
 * not shorten the time for the second one. If the GID stays missing, that must be reported, and not
 * the failure that is over. In a third of the cases the streams use the silent cable, so that the
 * end that lacks its GID cannot report that. */
START_TEST(a_gid_goes_after_another_failure)
{
    uint32_t host = (uint32_t)_i % 2;
    bool is_for_good = _i / 2 % 2 == 1;
    bool is_silent = _i / 4 % 3 != 0;
    bool over_cable = _i / 4 % 3 == 2;
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};

    open_cables(1);
    config.conn.over_management = !over_cable;
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, _i / 12 * 20000);
    if (is_silent) {
        silence(0, 0, 2 * FABRIC_S);
    } else {
        grid_down(&grid, 0, 1, 0, 2 * FABRIC_S);
    }
    grid_step_for(&grid, 2 * FABRIC_S - FABRIC_MS);
    change_gid(host, WORLD_FAULT_GID_DELETE);
    if (!is_for_good) {
        grid_step_for(&grid, 500 * FABRIC_MS);
        change_gid(host, WORLD_FAULT_GID_ADD);
        send_within(3 * FABRIC_S);
        return;
    }
    /* TCP may retransmit lost segments only 1.6 s after the silence, and learns of the end then. */
    grid_step_for(&grid, over_cable ? 4 * FABRIC_S : 2 * FABRIC_S);
    ck_assert_int_lt(grid.flows[0].out_status, 0);
    ck_assert(conn_lacks_address(flow_error(grid.flows[0].out)));
    ck_assert_ptr_null(
        weft_error_value(flow_error(grid.flows[0].out), WEFT_VALUE_LOCAL_INACTIVE));
    ck_assert_ptr_null(
        weft_error_value(flow_error(grid.flows[0].out), WEFT_VALUE_REMOTE_INACTIVE));
    grid_close(&grid);
}
END_TEST

/* The GID is missing, then the cable is silent, and then the GID is missing again. Each time it is
 * missing for less than the 1 s that must be survived. The first time must not shorten the
 * second. */
START_TEST(a_gid_goes_again_after_another_failure)
{
    uint32_t host = (uint32_t)_i % 2;
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};

    open_cables(1);
    config.conn.over_management = true;
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    change_gid(host, WORLD_FAULT_GID_DELETE);
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, (300 + _i / 2 * 10) * FABRIC_MS);
    silence(0, 0, 2 * FABRIC_S);
    change_gid(host, WORLD_FAULT_GID_ADD);
    grid_step_for(&grid, 2 * FABRIC_S - FABRIC_MS);
    change_gid(host, WORLD_FAULT_GID_DELETE);
    grid_step_for(&grid, 900 * FABRIC_MS);
    change_gid(host, WORLD_FAULT_GID_ADD);
    send_within(3 * FABRIC_S);
}
END_TEST

/* A port that goes down can lose its addresses, too (systemd-networkd, IPv6). The flow must wait as
 * long as for a port, and not only as long as for an address. */
START_TEST(a_port_goes_with_its_address_during_set_up)
{
    uint32_t host = (uint32_t)_i % 2;
    struct world_fault fault = {
        .kind = WORLD_FAULT_ADDR_DEL,
        .host = host,
        .has_port = true,
        .for_ns = _i / 2 % 2 == 0 ? 2 * FABRIC_S : 4 * FABRIC_S,
        .address = {.ip = io_ip_v4(192, 168, 101, (uint8_t)(host + 1)),
                    .prefix_len = 24}};

    open_cables(1);
    open_flow_of(1, NULL, TIMER_FAILOVER_NS, TIMER_CABLES_NS);
    grid_step_for(&grid, _i / 4 * 20000);
    grid_fault(&grid, &fault);
    grid_down(&grid, 0, 1, 0, fault.for_ns);
    send_within(fault.for_ns + 2 * FABRIC_S);
}
END_TEST

/* The only address of a leaf is missing for less than the 5 s that a mesh survives, or permanently.
 * The leaf knows that it has no other route. */
START_TEST(a_leafs_only_address_is_away_during_set_up)
{
    static const struct fabric_cable star[] = {{0, 2}, {2, 1}};
    static const uint32_t via = 2;
    uint32_t host = (uint32_t)_i % 2;
    struct world_fault fault = {
        .kind = WORLD_FAULT_ADDR_DEL,
        .host = host,
        .has_port = true,
        .for_ns = _i / 2 % 3 == 0   ? 2 * FABRIC_S
                  : _i / 2 % 3 == 1 ? 4900 * FABRIC_MS
                                    : 0,
        .address = {.ip = io_ip_v4(192, 168, (uint8_t)(101 + host), (uint8_t)(host + 1)),
                    .prefix_len = 24}};

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = star, .n_cables = 2});
    grid_relay(&grid, 2, 0, 0);
    open_flow_of(1, &via, TIMER_FAILOVER_NS, TIMER_CABLES_NS);
    grid_step_for(&grid, _i / 6 * 20000);
    grid_fault(&grid, &fault);
    if (fault.for_ns > 0) {
        send_within(fault.for_ns + TIMER_RECOVERY_NS);
        return;
    }
    if (host == 0) {
        /* A first SYN may wait for 5 s before anything fails. */
        grid_step_for(&grid, 11 * FABRIC_S);
        ck_assert_int_lt(grid.flows[0].out_status, 0);
        ck_assert(conn_lacks_address(flow_error(grid.flows[0].out)));
    }
    grid_close(&grid);
}
END_TEST

/* The only address at either end is missing for less than 1 s, and the flow must survive that. In
 * half of the cases its GID comes back before it, and no event follows when the address is back. */
START_TEST(the_only_address_is_away_during_set_up)
{
    static const weft_ns away_ns[] = {4 * FABRIC_MS, 300 * FABRIC_MS, 700 * FABRIC_MS,
                                      999 * FABRIC_MS};
    uint32_t host = (uint32_t)_i % 2;
    bool is_gid_first = _i / 2 % 2 == 1;
    struct world_fault fault = {
        .kind = WORLD_FAULT_ADDR_DEL,
        .host = host,
        .has_port = true,
        .for_ns = away_ns[_i / 4 % 4],
        .address = {.ip = io_ip_v4(192, 168, 101, (uint8_t)(host + 1)),
                    .prefix_len = 24}};

    open_cables(1);
    open_flow_of(1, NULL, TIMER_FAILOVER_NS, TIMER_CABLES_NS);
    grid_step_for(&grid, _i / 16 * 20000);
    grid_fault(&grid, &fault);
    if (is_gid_first) {
        grid_step_for(&grid, fault.for_ns / 4);
        change_gid(host, WORLD_FAULT_GID_ADD);
    }
    send_within(fault.for_ns + (is_gid_first ? TIMER_CABLES_NS : 3 * FABRIC_S));
}
END_TEST

/* The only cable loses everything before the first SYN, but its neighbour is known. The outage
 * counts from that SYN, and not from when the first attempt fails. Loop: all but the first have no
 * management network, so no stream ever comes up, but the peer is not waited for as if it might be
 * late. In the last, another cable of host 0 leads to a third host. */
START_TEST(a_cable_that_is_silent_from_the_first_syn_ends_a_flow_in_time)
{
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .redials = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};
    struct world_fault loss = {
        .kind = WORLD_FAULT_LOSS, .has_port = true, .share_ppb = 1000000000};
    static const struct fabric_cable fork[] = {{0, 1}, {0, 2}};
    const struct fabric_config hosts = {.n_hosts = _i == 2 ? 3 : 2,
                                        .cables = fork,
                                        .n_cables = _i == 2 ? 2 : 1,
                                        .no_management = _i > 0};

    grid_open(&grid, &hosts);
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    grid_flow(&grid, 1, 0, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_fault(&grid, &loss);
    grid_flow(&grid, 0, 1, &config);
    (void)grid_run_until_dead(&grid, 1, TIMER_AUTHENTICATE_NS);
    ck_assert_int_eq(grid.flows[1].out_status, WEFT_OK);
    (void)grid_run_until_dead(&grid, 1, TIMER_ATTEMPT_OF(TIMER_SET_UP_NS, 0));
    ck_assert_int_lt(grid.flows[1].out_status, 0);
    grid_close(&grid);
}
END_TEST

/* The only address goes for good, with its GID, while its stream waits for the peer's facts. The
 * flow must not wait until the peer counts as silent, because nothing can arrive. */
START_TEST(the_address_of_the_stream_goes_for_good)
{
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .redials = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};
    struct world_fault fault = {
        .kind = WORLD_FAULT_ADDR_DEL,
        .has_port = true,
        .address = {.ip = io_ip_v4(192, 168, 101, 1), .prefix_len = 24}};
    const struct conn *conn;

    open_cables(1);
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    conn = grid.flows[0].out->lanes[0].conn;
    for (uint32_t i = 0; i < 1000 && conn->state != CONN_AUTH; i++) {
        grid_step_for(&grid, FABRIC_MS / 1000);
        conn = grid.flows[0].out->lanes[0].conn;
    }
    ck_assert_int_eq(conn->state, CONN_AUTH);
    grid_fault(&grid, &fault);
    grid_step_for(&grid, 1500 * FABRIC_MS);
    ck_assert_int_lt(grid.flows[0].out_status, 0);
    ck_assert(conn_lacks_address(flow_error(grid.flows[0].out)));
    grid_close(&grid);
}
END_TEST

/* The only GID is missing for less than 1 s on a slow cable. An attempt that began without it can
 * end when it is back. Only an attempt that begins after 1 s may show that it stays missing. */
START_TEST(the_only_gid_is_away_behind_a_slow_cable)
{
    static const struct fabric_cable cables[] = {{0, 1}};
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2,
                                      .cables = cables,
                                      .n_cables = 1,
                                      .delay_ps = (_i / 2 + 10) * INT64_C(1000000000)});
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    change_gid((uint32_t)_i % 2, WORLD_FAULT_GID_DELETE);
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, 999 * FABRIC_MS);
    change_gid((uint32_t)_i % 2, WORLD_FAULT_GID_ADD);
    send_within(3 * FABRIC_S);
}
END_TEST

enum refused_flow { IS_UP, FAILS, WAITS };

/* A verb at one end (each row: the connector's, then the acceptor's) is refused each time, on every
 * lane, so that more attempts are useless and the end must fail. A single refusal must be survived.
 * The flow must also wait after errors that can pass soon. */
START_TEST(a_refused_verb_ends_every_lane)
{
    static const struct {
        enum world_call call;
        int error;
        uint32_t n_refused;
        enum refused_flow flow;
    } rows[] = {
        {WORLD_CALL_REG_MR, ENOMEM, 1, IS_UP},
        {WORLD_CALL_REG_MR, ENOMEM, 400, FAILS},
        {WORLD_CALL_CREATE_QP, ENOMEM, 1, IS_UP},
        {WORLD_CALL_CREATE_QP, ENOMEM, 400, FAILS},
        {WORLD_CALL_REG_MR, EINTR, 400, WAITS},
        {WORLD_CALL_REG_MR, EAGAIN, 400, WAITS},
        {WORLD_CALL_REG_MR, EIO, 400, WAITS},
        {WORLD_CALL_REG_MR, ETIMEDOUT, 400, WAITS},
    };
    static const struct fabric_cable triangle[] = {{0, 1}, {1, 2}, {2, 0}};
    static const uint32_t via = 2;
    uint32_t row = (uint32_t)_i / 2, end = (uint32_t)_i % 2;
    struct flow_config config = {.n_lanes = 2,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};
    struct world_fault fault = {.kind = WORLD_FAULT_VERB_ERROR,
                                .call = rows[row].call,
                                .host = end,
                                .error = rows[row].error};

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = triangle, .n_cables = 3});
    grid_relay(&grid, 2, 0, 0);
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 32768;
    config.lanes[1].share = 32768;
    config.lanes[1].n_via = 1;
    config.lanes[1].via = &via;
    for (fault.nth = 1; fault.nth <= rows[row].n_refused; fault.nth++) {
        grid_fault(&grid, &fault);
    }
    grid_flow(&grid, 0, 1, &config);
    if (rows[row].flow == IS_UP) {
        send_within(2 * FABRIC_S);
        return;
    }
    grid_step_for(&grid, 2 * FABRIC_S);
    ck_assert_int_eq((end == 0 ? grid.flows[0].out_status : grid.flows[0].in_status) < 0,
                     rows[row].flow == FAILS);
    grid_close(&grid);
}
END_TEST

/* The only relay is refused memory for its buffers, each time after both connections of the lane
 * came up. The ends must fail, although the flow was up. Two refusals must be
 * survived. */
START_TEST(a_relay_that_is_refused_memory_ends_its_flows)
{
    static const struct fabric_cable line[] = {{0, 1}, {1, 2}};
    static const uint32_t via = 1;
    static const uint32_t n_refused[] = {400, 2};
    struct world_fault fault = {.kind = WORLD_FAULT_VERB_ERROR,
                                .call = WORLD_CALL_REG_MR,
                                .host = 1,
                                .error = ENOMEM};
    const struct weft_error *error;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = line, .n_cables = 2});
    grid_relay(&grid, 1, 0, 0);
    for (uint32_t i = 0; i < n_refused[_i]; i++) {
        fault.nth = 4 * (i + 1); /* those of the connections come before */
        grid_fault(&grid, &fault);
    }
    open_flow_of(2, &via, TIMER_FAILOVER_NS, TIMER_CABLES_NS);
    if (n_refused[_i] == 2) {
        send_within(2 * FABRIC_S);
        return;
    }
    grid_step_for(&grid, 2 * FABRIC_S);
    error = flow_error(grid.flows[0].out);
    ck_assert_int_lt(grid.flows[0].out_status, 0);
    ck_assert_int_lt(grid.flows[0].in_status, 0);
    ck_assert(grid.flows[0].out->was_up);
    ck_assert_str_eq(weft_error_value(error, WEFT_VALUE_REASON)->text, "refused");
    grid_close(&grid);
}
END_TEST

/* Cables are silent for longer than the time for which a refused verb is tried again. Then a verb
 * is refused once for each lane. These are first refusals, so the flow must survive them. */
START_TEST(a_verb_is_refused_once_after_silence)
{
    static const struct fabric_cable triangle[] = {{0, 1}, {1, 2}, {2, 0}};
    static const uint32_t via = 2;
    struct flow_config config = {.n_lanes = 2,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};
    struct world_fault fault = {
        .kind = WORLD_FAULT_VERB_ERROR, .call = WORLD_CALL_CREATE_QP, .error = 12};

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = triangle, .n_cables = 3});
    grid_relay(&grid, 2, 0, 0);
    config.conn.over_management = true;
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 32768;
    config.lanes[1].share = 32768;
    config.lanes[1].n_via = 1;
    config.lanes[1].via = &via;
    for (uint32_t port = 0; port < 2; port++) {
        silence(0, port, 1500 * FABRIC_MS);
    }
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, (1200 + _i * 20) * FABRIC_MS);
    for (fault.nth = 1; fault.nth <= 2; fault.nth++) {
        grid_fault(&grid, &fault);
    }
    send_within(5 * FABRIC_S);
}
END_TEST

/* A cable loses every packet for some time during the set-up, while TCP uses the management
 * network. ARP requests of the step to RTR get no reply, or probes are lost. The longest time
 * exceeds that of an attempt. */
START_TEST(the_cable_is_silent_for_a_while_during_set_up)
{
    static const weft_ns silent_ns[] = {FABRIC_MS / 50, 100 * FABRIC_MS, 2 * FABRIC_S};
    struct world_fault silence = {.kind = WORLD_FAULT_LOSS,
                                  .has_port = true,
                                  .share_ppb = 1000000000,
                                  .for_ns = silent_ns[_i % 3]};
    struct flow_config config = {
        .n_lanes = 1, .may_fail_over = true, .failover_ns = 5 * FABRIC_S};

    open_cables(1);
    config.conn.over_management = true;
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, _i / 3 * 30000);
    grid_fault(&grid, &silence);
    send_within(silence.for_ns + 3 * FABRIC_S);
}
END_TEST

/* The only cable loses most of what one end sends, from a moment of the set-up on, so that a stream
 * is silent for long between two frames that arrive. Attempts that fail have ever longer limits,
 * but none keeps the flow for longer than the time for a first lane, and the silence that is
 * allowed once both ends have agreed on rails. */
START_TEST(a_stream_that_loses_most_frames_keeps_no_flow)
{
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .redials = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};
    struct world_fault loss = {.kind = WORLD_FAULT_LOSS,
                               .has_port = true,
                               .direction = _i % 2 == 0 ? WORLD_OUTWARDS : WORLD_INWARDS,
                               .share_ppb = 900000000};
    struct grid_flow *flow = &grid.flows[0];

    grid_open(&grid, &(struct fabric_config){.n_hosts = 2,
                                             .cables = twins,
                                             .n_cables = 1,
                                             .no_management = true,
                                             .seed = (uint64_t)_i + 1});
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, _i * 5000);
    grid_fault(&grid, &loss);
    for (uint32_t i = 0; i < 400 && flow->out_status >= 0; i++) {
        weft_ns since = flow->out->without_ns;

        grid_step_for(&grid, 100 * FABRIC_MS);
        ck_assert(flow->out_status < 0 || since == 0 || flow->out->without_ns != since ||
                  fabric_now(&grid.fabric) - since <=
                      TIMER_FIRST_LANE_NS + TIMER_SILENCE_NS + 100 * FABRIC_MS);
    }
    grid_close(&grid);
}
END_TEST

/* One of two cables carries nothing from some moment of the set-up on, although both of its ports
 * are up. A stream over it must be given up for one over the other cable. */
START_TEST(a_twin_is_silent_during_set_up)
{
    static const enum world_fault_kind kinds[] = {WORLD_FAULT_LOSS, WORLD_FAULT_PAUSE};
    struct world_fault silence = {.kind = kinds[_i % 2],
                                  .host = (uint32_t)_i / 2 % 2,
                                  .port = (uint32_t)_i / 4 % 2,
                                  .has_port = true,
                                  .share_ppb = 1000000000};
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .redials = true,
                                 .failover_ns = 5 * FABRIC_S};

    open_cables(2);
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, _i / 8 * 15000);
    grid_fault(&grid, &silence);
    send_within(15 * FABRIC_S);
}
END_TEST

/* The MTU of a port falls at any moment of the set-up. The path MTU on which both ends agreed can
 * be too large for the step to RTR. The next attempt must agree on a smaller one. */
START_TEST(the_mtu_falls_during_set_up)
{
    struct world_fault fault = {.kind = WORLD_FAULT_MTU,
                                .host = (uint32_t)_i % 2,
                                .has_port = true,
                                .for_ns = 10 * FABRIC_MS,
                                .size_bytes = 600};

    open_cables(1);
    open_flow(1, NULL, FABRIC_S);
    grid_step_for(&grid, _i / 2 * 15000);
    grid_fault(&grid, &fault);
    send_within(5 * FABRIC_S);
}
END_TEST

/* The only GID that faces the peer appears late, at a port that has another address. */
START_TEST(the_only_gid_comes_late_beside_another)
{
    uint32_t host = (uint32_t)_i % 2;
    struct rdma *rdma;

    open_cables(1);
    rdma = grid.fabric.hosts[host].rdma;
    add_another_address(host);
    change_gid(host, WORLD_FAULT_GID_DELETE);
    grid_step_for(&grid, FABRIC_MS);
    ck_assert_int_eq(rdma_refresh(rdma, NULL), WEFT_OK);
    rdma->ports[0].gid_lost_ns = 0;
    open_flow(1, NULL, FABRIC_S);
    grid_step_for(&grid, _i / 2 * 400 * FABRIC_MS);
    change_gid(host, WORLD_FAULT_GID_ADD);
    ck_assert(grid_run_until_up(&grid, 2 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* A port has no carrier for a moment of the set-up, which one end knows, and then a GID is missing
 * permanently. The port must not be reported, because it is up again. */
START_TEST(a_port_that_is_back_ends_no_flow)
{
    static const enum weft_value_name names[] = {WEFT_VALUE_LOCAL_INACTIVE,
                                                 WEFT_VALUE_REMOTE_INACTIVE};
    struct weft_error why = {0};
    const struct weft_error *error;

    open_cables(1);
    if (_i / 2 == 0) {
        grid_down(&grid, 0, 1, 0, 5 * FABRIC_MS);
        grid_step_for(&grid, FABRIC_MS);
        ck_assert_int_eq(rdma_refresh(grid.fabric.hosts[0].rdma, NULL), WEFT_OK);
        open_flow(1, NULL, FABRIC_S);
        grid_step_for(&grid, 2 * FABRIC_MS);
    } else {
        open_flow(1, NULL, FABRIC_S);
        weft_fail(&why, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE, "the peer's p0 is down");
        weft_error_text(&why, names[1], "p0");
        flow_lane_fail(grid.flows[0].out, &grid.flows[0].out->lanes[0], &why);
    }
    ck_assert_ptr_nonnull(
        weft_error_value(flow_trouble(grid.flows[0].out), names[_i / 2]));
    change_gid((uint32_t)_i % 2, WORLD_FAULT_GID_DELETE);
    ck_assert(grid_run_until_dead(&grid, 0, 20 * FABRIC_S));
    error = flow_error(grid.flows[0].out);
    ck_assert_ptr_null(weft_error_value(error, names[_i / 2]));
    grid_close(&grid);
}
END_TEST

/* A port goes down, or loses its GID, during an attempt, and comes back. Then the cable loses all
 * frames. The port must not be reported, because it is up again. */
START_TEST(a_port_that_went_and_is_back_ends_no_flow)
{
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};
    struct flow *flow;

    open_cables(1);
    config.conn.over_management = true;
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    flow = grid.flows[0].out;
    while (flow->lanes[0].conn->state < CONN_META) {
        grid_step_for(&grid, 1000);
    }
    if (_i == 0) {
        grid_down(&grid, 0, 1, 0, 3 * FABRIC_MS);
    } else {
        change_gid(0, WORLD_FAULT_GID_DELETE);
    }
    grid_step_for(&grid, FABRIC_MS);
    ck_assert_str_eq(weft_phase_name(flow_trouble(flow)->phase), "port");
    if (_i != 0) {
        change_gid(0, WORLD_FAULT_GID_ADD);
    }
    silence(0, 0, 60 * FABRIC_S);
    ck_assert(grid_run_until_dead(&grid, 0, 30 * FABRIC_S));
    ck_assert_str_ne(weft_phase_name(flow_error(flow)->phase), "port");
    grid_close(&grid);
}
END_TEST

/* The stream of a set-up is on a cable that fails, so that nothing comes. Afterwards the end of the
 * cable has no carrier, or a verb is refused. That must be reported, and not the silence before. A
 * port that is down must end the flow 4 s after it went down, and not after the silence. */
START_TEST(a_silence_hides_no_lack)
{
    static const enum weft_phase phases[] = {WEFT_PHASE_ROUTE, WEFT_PHASE_CREATE};
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .redials = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};
    struct flow *flow;

    open_cables(1);
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    flow = grid.flows[0].out;
    while (flow->lanes[0].conn->state < CONN_AUTH) {
        grid_step_for(&grid, 1000);
    }
    if (_i == 0) {
        grid_down(&grid, 0, 1, 0, 60 * FABRIC_S);
    } else {
        silence(0, 0, 2500 * FABRIC_MS);
        grid_fault(&grid, &(struct world_fault){.kind = WORLD_FAULT_VERB_ERROR,
                                                .host = 1,
                                                .call = WORLD_CALL_CREATE_QP,
                                                .error = 16,
                                                .nth = 1});
    }
    grid_step_for(&grid, 4500 * FABRIC_MS);
    ck_assert_str_eq(weft_phase_name(weft_error_first_phase(flow_error(flow))),
                     weft_phase_name(phases[_i]));
    grid_close(&grid);
}
END_TEST

/* A port is down until the peer has given up and refuses connections. The port must be reported,
 * and not the refused connections, which followed from it. */
START_TEST(a_peer_that_gave_up_hides_no_port)
{
    struct fabric_host *peer;
    struct weft_error why = {0};

    open_cables(1);
    peer = &grid.fabric.hosts[1];
    grid_down(&grid, 0, 1, 0, 300 * FABRIC_MS);
    grid_step_for(&grid, FABRIC_MS);
    ck_assert_int_eq(rdma_refresh(grid.fabric.hosts[0].rdma, NULL), WEFT_OK);
    open_flow_of(1, NULL, TIMER_FAILOVER_NS, TIMER_CABLES_NS);
    grid_step_for(&grid, (100 + _i * 7) * FABRIC_MS);
    weft_fail(&why, WEFT_ERR_CLOSED, WEFT_PHASE_PORT, "gives up");
    ck_assert_int_lt(flow_give_up(grid.flows[0].in, &why), 0);
    conn_listener_close(peer->listener);
    peer->listener = NULL;
    grid_step_for(&grid, 20 * FABRIC_S);
    ck_assert_int_lt(grid.flows[0].out_status, 0);
    ck_assert_ptr_nonnull(
        weft_error_value(flow_error(grid.flows[0].out), WEFT_VALUE_LOCAL_INACTIVE));
    grid_close(&grid);
}
END_TEST

/* A port that went down after an attempt began explains every failure of the attempt. */
START_TEST(a_port_that_flapped_answers_for_a_failure)
{
    struct weft_error why = {0};
    const struct conn *conn;
    struct flow *flow;

    open_cables(1);
    grid_step_for(&grid, FABRIC_MS);
    open_flow(1, NULL, FABRIC_S);
    flow = grid.flows[0].out;
    conn = flow->lanes[0].conn;
    weft_fail(&why, WEFT_ERR_NOMEM, WEFT_PHASE_CREATE_QP, "no memory");
    ck_assert(!suspects_wait_for_port(&flow->suspects, flow->rdma, conn, &why));
    flow->suspects.flapped_ns = conn->started_ns - 1;
    ck_assert(!suspects_wait_for_port(&flow->suspects, flow->rdma, conn, &why));
    flow->suspects.flapped_ns = conn->started_ns;
    ck_assert(suspects_wait_for_port(&flow->suspects, flow->rdma, conn, &why));
    send_within(FABRIC_S);
}
END_TEST

/* One of two cables carries nothing, and the other has no carrier for an instant of the set-up. An
 * attempt that began without the other cable must not try the silent one forever. */
START_TEST(the_other_twin_flaps_during_set_up)
{
    struct world_fault silence = {.kind = WORLD_FAULT_LOSS,
                                  .host = (uint32_t)_i % 2,
                                  .port = (uint32_t)_i / 2 % 2,
                                  .has_port = true,
                                  .share_ppb = 1000000000};
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .redials = true,
                                 .failover_ns = 5 * FABRIC_S};

    grid_open(&grid,
              &(struct fabric_config){
                  .n_hosts = 2, .cables = twins, .n_cables = 2, .no_management = true});
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, _i / 4 % 5 * 30000);
    grid_fault(&grid, &silence);
    grid_step_for(&grid, _i / 20 * 100000);
    grid_down(&grid, 0, 1, 1 - silence.port, 3000);
    send_within(15 * FABRIC_S);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/flow_set_up");

    tcase_set_timeout(tcase, 100);
    suite_add_sweep(tcase, a_twin_goes_down_during_setup, 0, 20);
    suite_add_sweep(tcase, old_news_of_the_only_port_end_no_set_up, 0, 20);
    suite_add_sweep(tcase, old_news_of_a_port_that_lost_frames_end_no_set_up, 0, 20);
    suite_add_sweep(tcase, the_only_port_goes_for_a_while_during_set_up, 0, 80);
    suite_add_sweep(tcase, a_relays_only_port_goes_for_a_while_during_set_up, 0, 40);
    tcase_add_loop_test(tcase, the_only_port_goes_for_good_during_set_up, 0, 3);
    suite_add_sweep(tcase, the_only_gid_goes_for_a_while_during_set_up, 0, 240);
    suite_add_sweep(tcase, the_only_gid_comes_during_set_up, 0, 80);
    suite_add_sweep(tcase, a_twin_is_silent_during_set_up, 0, 160);
    suite_add_sweep(tcase, the_other_twin_flaps_during_set_up, 0, 160);
    suite_add_sweep(tcase, the_mtu_falls_during_set_up, 0, 80);
    suite_add_sweep(tcase, the_only_gid_comes_late_beside_another, 0, 20);
    tcase_add_loop_test(tcase, the_only_gid_goes_for_good_during_set_up, 0, 2);
    suite_add_sweep(tcase, the_only_gid_goes_between_neighbours_during_set_up, 0, 64);
    suite_add_sweep(tcase, the_only_address_is_away_during_set_up, 0, 160);
    tcase_add_test(tcase, the_address_of_the_stream_goes_for_good);
    tcase_add_loop_test(
        tcase, a_cable_that_is_silent_from_the_first_syn_ends_a_flow_in_time, 0, 3);
    suite_add_sweep(tcase, the_only_gid_is_away_behind_a_slow_cable, 0, 60);
    suite_add_sweep(tcase, a_gid_goes_after_another_failure, 0, 192);
    suite_add_sweep(tcase, a_gid_goes_again_after_another_failure, 0, 40);
    suite_add_sweep(tcase, a_port_goes_with_its_address_during_set_up, 0, 64);
    suite_add_sweep(tcase, a_leafs_only_address_is_away_during_set_up, 0, 60);
    tcase_add_loop_test(tcase, a_refused_verb_ends_every_lane, 0, 16);
    tcase_add_loop_test(tcase, a_relay_that_is_refused_memory_ends_its_flows, 0, 2);
    suite_add_sweep(tcase, a_verb_is_refused_once_after_silence, 0, 20);
    suite_add_sweep(tcase, the_only_gid_comes_late, 0, 20);
    suite_add_sweep(tcase, the_facing_gid_comes_late, 0, 20);
    tcase_add_loop_test(tcase, a_port_that_is_back_ends_no_flow, 0, 4);
    tcase_add_loop_test(tcase, a_silence_hides_no_lack, 0, 2);
    tcase_add_loop_test(tcase, a_port_that_went_and_is_back_ends_no_flow, 0, 2);
    suite_add_sweep(tcase, a_peer_that_gave_up_hides_no_port, 0, 20);
    tcase_add_test(tcase, a_port_that_flapped_answers_for_a_failure);
    suite_add_sweep(tcase, the_cable_is_silent_for_a_while_during_set_up, 0, 120);
    suite_add_sweep(tcase, a_stream_that_loses_most_frames_keeps_no_flow, 0, 40);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

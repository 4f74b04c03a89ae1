/* Flows that are set up while a cable is dead beside another route. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "rdma/timers.h"
#include "xfer/grid_testing.h"

static struct grid grid;
static const struct fabric_cable square[] = {{0, 1}, {0, 2}, {2, 1},
                                             {0, 3}, {3, 1}, {3, 2}};

#define FOR_GOOD 0

/* The address that the fabric gave `host` on the cable from `a` to `b`. */
static struct io_prefix address_of(uint32_t a, uint32_t b, uint32_t host)
{
    uint8_t cable = 0;

    while (square[cable].a != a || square[cable].b != b) {
        cable++;
    }
    return (struct io_prefix){
        .ip = io_ip_v4(192, 168, (uint8_t)(101 + cable), (uint8_t)(host + 1)),
        .prefix_len = 24};
}

/* Makes a cable useless for `for_ns`, and returns in which way: without carrier, silent, paused by
 * one end, or without an address at one end. */
static enum world_fault_kind kill_cable(struct weft_rng *rng, uint32_t a, uint32_t b,
                                        weft_ns for_ns)
{
    static const enum world_fault_kind kinds[] = {
        WORLD_FAULT_DOWN, WORLD_FAULT_LOSS, WORLD_FAULT_PAUSE, WORLD_FAULT_ADDR_DEL};
    uint32_t host = weft_rng_below(rng, 2) == 0 ? a : b;
    struct world_fault fault = {.kind = kinds[weft_rng_below(rng, WEFT_LENGTH(kinds))],
                                .host = host,
                                .for_ns = for_ns};

    fault.has_port = true;
    fault.port = grid_port(&grid, host, host == a ? b : a, 0);
    fault.share_ppb = fault.kind == WORLD_FAULT_LOSS ? 1000000000 : 0;
    if (fault.kind == WORLD_FAULT_ADDR_DEL) {
        fault.address = address_of(a, b, host);
    }
    grid_fault(&grid, &fault);
    return fault.kind;
}

/* Kills one of the relay's cables; returns true if it is the one to the receiver. */
static bool kill_a_cable_of_2(struct weft_rng *rng, weft_ns for_ns)
{
    bool is_onward = weft_rng_below(rng, 2) == 1;

    (void)kill_cable(rng, is_onward ? 2 : 0, is_onward ? 1 : 2, for_ns);
    return is_onward;
}

/* A flow begins with a direct lane and a detour, or with a lane over each of two relays. One of its
 * cables is dead from any moment of the set-up on: the flow goes over the other lane, and the
 * data arrives. That no ports face each other is said only of a cable without carrier or address,
 * not of one that an attempt left out because nothing passes it. */
START_TEST(a_dead_cable_beside_another_route_is_not_waited_for)
{
    static const uint32_t via_2[] = {2}, via_3[] = {3};
    struct flow_config config = {
        .n_lanes = 2, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};
    bool is_relayed = _i % 2 == 1, shows_no_way = false;
    const struct weft_error *why;
    struct weft_rng rng;

    weft_rng_init(&rng, (uint64_t)_i, "set-up");
    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    grid_relay(&grid, 2, 0, 0);
    grid_relay(&grid, 3, 0, 0);
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = is_relayed ? 32768 : 65536;
    config.lanes[0].n_via = is_relayed ? 1 : 0;
    config.lanes[0].via = via_2;
    config.lanes[1].share = is_relayed ? 32768 : 0;
    config.lanes[1].n_via = 1;
    config.lanes[1].via = via_3;
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, (weft_ns)weft_rng_below(&rng, 300) * 1000);
    if (is_relayed) {
        (void)kill_a_cable_of_2(&rng, FOR_GOOD);
    } else {
        enum world_fault_kind kind = kill_cable(&rng, 0, 1, FOR_GOOD);

        shows_no_way = kind == WORLD_FAULT_DOWN || kind == WORLD_FAULT_ADDR_DEL;
    }
    ck_assert(grid_run_until_up(&grid, 15 * FABRIC_S));
    why = flow_left_out(grid.flows[0].out);
    ck_assert(why == NULL || strcmp(why->phase, "route") != 0 || shows_no_way);
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, 20 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* No ports of the two ends face each other, which both learn at the first attempt: the flow goes on
 * over the other lane without the pause for one that may be late, and says what it goes without. */
START_TEST(a_lane_that_no_ports_face_for_is_not_waited_for)
{
    static const struct fabric_cable cables[] = {{0, 2}, {2, 1}};
    static const uint32_t via_2[] = {2};
    struct flow_config config = {
        .n_lanes = 2, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};
    bool has_share = _i % 2 == 1; /* the detour is for need alone, or to carry half */
    const struct weft_error *why;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = cables, .n_cables = 2});
    grid_relay(&grid, 2, 0, 0);
    config.lanes[0].share = has_share ? 32768 : 65536;
    config.lanes[1].share = has_share ? 32768 : 0;
    config.lanes[1].n_via = 1;
    config.lanes[1].via = via_2;
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, TIMER_FIRST_LANES_NS / 100));
    why = flow_left_out(grid.flows[0].out);
    ck_assert_ptr_nonnull(why);
    ck_assert_str_eq(why->phase, "route");
    ck_assert_ptr_null(flow_trouble(grid.flows[0].out));
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, 20 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

static bool may_turn;

static weft_status reroute(void *user, uint32_t lane, uint8_t handle[CONN_HANDLE_BYTES],
                           uint32_t *via, uint32_t *out_n_via)
{
    static const uint32_t only[] = {2}, others[] = {3, 2};
    uint32_t *n_asked = user;

    (void)lane;
    via[0] = may_turn ? others[(*n_asked)++ % 2] : only[0];
    *out_n_via = 1;
    memcpy(handle, grid.fabric.hosts[via[0]].handle, CONN_HANDLE_BYTES);
    return WEFT_OK;
}

/* A flow begins with one lane over a relay, and there is no management network. A cable of the
 * relay is dead from any moment of the set-up on, for good if there is another relay, else for up
 * to the outage that is always survived. */
START_TEST(a_relay_that_is_cut_off_at_set_up_ends_no_flow)
{
    static const uint32_t via_2[] = {2};
    uint32_t n_asked = 0;
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .reroute = reroute,
                                 .user = &n_asked};
    weft_ns for_ns = FOR_GOOD, up_ns = TIMER_RECOVERY_NS;
    struct weft_rng rng;

    weft_rng_init(&rng, (uint64_t)_i, "relay");
    may_turn = _i % 2 == 0;
    if (!may_turn) {
        for_ns =
            1 + (weft_ns)weft_rng_below(&rng, (uint32_t)(TIMER_OUTAGE_NS / 1000)) * 1000;
    }
    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    grid_relay(&grid, 2, 0, 0);
    grid_relay(&grid, 3, 0, 0);
    config.lanes[0].share = 65536;
    config.lanes[0].n_via = 1;
    config.lanes[0].via = via_2;
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, (weft_ns)weft_rng_below(&rng, 300) * 1000);
    /* A relay answers before the sender gives its attempt up. */
    if (kill_a_cable_of_2(&rng, for_ns) && may_turn) {
        up_ns = TIMER_ATTEMPT_OF(TIMER_SET_UP_STALL_NS, 0) + TIMER_RETRY_NS;
    }
    ck_assert(grid_run_until_up(&grid, for_ns + up_ns));
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, for_ns + TIMER_RECOVERY_NS));
    grid_close(&grid);
}
END_TEST

static weft_status reroute_to_3(void *user, uint32_t lane,
                                uint8_t handle[CONN_HANDLE_BYTES], uint32_t *via,
                                uint32_t *out_n_via)
{
    (void)user;
    (void)lane;
    via[0] = 3;
    *out_n_via = 1;
    memcpy(handle, grid.fabric.hosts[3].handle, CONN_HANDLE_BYTES);
    return WEFT_OK;
}

/* A flow begins with one lane over a relay, or over two. The process of the last relay dies at any
 * moment of the set-up, which breaks the flow's stream or that of the relay before it. */
START_TEST(a_relay_that_dies_at_set_up_ends_no_flow)
{
    static const uint32_t via[] = {3, 2};
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .reroute = reroute_to_3};
    uint32_t n_via = 1 + (uint32_t)_i % 2;
    struct weft_rng rng;

    weft_rng_init(&rng, (uint64_t)_i, "dies");
    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 6});
    grid_relay(&grid, 2, 0, 0);
    grid_relay(&grid, 3, 0, 0);
    config.lanes[0].share = 65536;
    config.lanes[0].n_via = n_via;
    config.lanes[0].via = via + 2 - n_via;
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, (weft_ns)weft_rng_below(&rng, 300) * 1000);
    grid.dead[2] = true;
    grid_fault(&grid, &(struct world_fault){.kind = WORLD_FAULT_KILL, .host = 2});
    ck_assert(grid_run_until_up(&grid, TIMER_RECOVERY_NS));
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, TIMER_RECOVERY_NS));
    grid_close(&grid);
}
END_TEST

/* Pause frames hold one of the ports on the only lane's way at any moment while data flows, so
 * that no queue pair fails there. The sender or the relay notices, and the lane takes the other
 * route. */
START_TEST(a_port_held_while_data_flows_ends_no_flow)
{
    static const uint32_t via_2[] = {2};
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .reroute = reroute_to_3};
    struct world_fault hold = {.kind = WORLD_FAULT_PAUSE, .has_port = true};
    bool is_onward = _i % 2 == 1;
    struct weft_rng rng;

    weft_rng_init(&rng, (uint64_t)_i, "held");
    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    grid_relay(&grid, 2, 0, 0);
    grid_relay(&grid, 3, 0, 0);
    config.lanes[0].share = 65536;
    config.lanes[0].n_via = 1;
    config.lanes[0].via = via_2;
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, (weft_ns)weft_rng_below(&rng, 400) * 1000);
    hold.host = is_onward ? 2 : 0;
    hold.port = grid_port(&grid, hold.host, is_onward ? 1 : 2, 0);
    grid_fault(&grid, &hold);
    ck_assert(grid_run(&grid, TIMER_DETECT_STALL_NS + TIMER_RECOVERY_NS));
    grid_close(&grid);
}
END_TEST

/* The same for the direct lane of two, without a management network: what the sender says of the
 * lane that it gives up is held with it, so that the receiver has to notice by itself. */
START_TEST(a_direct_cable_held_while_data_flows_ends_no_flow)
{
    static const uint32_t via_2[] = {2};
    struct flow_config config = {
        .n_lanes = 2, .may_fail_over = true, .failover_ns = TIMER_FAILOVER_NS};
    struct world_fault hold = {
        .kind = WORLD_FAULT_PAUSE, .host = (uint32_t)_i % 2, .has_port = true};
    struct weft_rng rng;

    weft_rng_init(&rng, (uint64_t)_i, "direct");
    grid_open(&grid,
              &(struct fabric_config){
                  .n_hosts = 4, .cables = square, .n_cables = 5, .no_management = true});
    grid_relay(&grid, 2, 0, 0);
    config.lanes[0].share = 65536;
    config.lanes[1].n_via = 1;
    config.lanes[1].via = via_2;
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, (weft_ns)weft_rng_below(&rng, 400) * 1000);
    hold.port = grid_port(&grid, hold.host, 1 - hold.host, 0);
    grid_fault(&grid, &hold);
    ck_assert(grid_run(&grid, 2 * TIMER_DETECT_STALL_NS + TIMER_RECOVERY_NS));
    grid_close(&grid);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/detour");

    tcase_set_timeout(tcase, 100);
    suite_add_sweep(tcase, a_dead_cable_beside_another_route_is_not_waited_for, 0, 60);
    tcase_add_loop_test(tcase, a_lane_that_no_ports_face_for_is_not_waited_for, 0, 2);
    suite_add_sweep(tcase, a_relay_that_is_cut_off_at_set_up_ends_no_flow, 0, 120);
    suite_add_sweep(tcase, a_relay_that_dies_at_set_up_ends_no_flow, 0, 120);
    suite_add_sweep(tcase, a_port_held_while_data_flows_ends_no_flow, 0, 60);
    suite_add_sweep(tcase, a_direct_cable_held_while_data_flows_ends_no_flow, 0, 60);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

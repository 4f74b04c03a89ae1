/* Tests flows with two routes, or with one cable, of which a cable fails during set-up or later. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "rdma/timers.h"
#include "xfer/flow_private.h"
#include "xfer/grid_testing.h"
#include "xfer/private.h"

static struct grid grid;
static const struct fabric_cable square[] = {{0, 1}, {0, 2}, {2, 1},
                                             {0, 3}, {3, 1}, {3, 2}};

#define FOR_GOOD 0

/* Returns the address that the fabric gave `host` on the cable from `a` to `b`. */
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

/* Makes a cable unusable for `for_ns` and returns the kind of fault. The cable is down, drops all
 * frames, is held by pause frames of one end, or lacks an address at one end. */
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

/* Makes one of the cables of relay 2 unusable. Returns true if it is the one to the receiver. */
static bool kill_a_cable_of_2(struct weft_rng *rng, weft_ns for_ns)
{
    bool is_onward = weft_rng_below(rng, 2) == 1;

    (void)kill_cable(rng, is_onward ? 2 : 0, is_onward ? 1 : 2, for_ns);
    return is_onward;
}

/* A flow begins with a direct lane and an alternate over a relay, or with a lane over each of two
 * relays. A cable fails for good at a random moment of the set-up. The flow uses the other lane,
 * and the data arrives. flow_left_out() then reports a direct cable that never carried data, with
 * the number of relays that replaced it. It reports phase "route" only for a cable that is down or
 * lacks an address, not for one that an attempt left out. */
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
    ck_assert(why == NULL || why->phase != WEFT_PHASE_ROUTE || shows_no_way);
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, 20 * FABRIC_S));
    if (!is_relayed && !grid.flows[0].out->lanes[0].was_up) {
        flow_note_unconnected(grid.flows[0].out);
        why = flow_left_out(grid.flows[0].out);
        ck_assert_ptr_nonnull(why);
        ck_assert(why->phase != WEFT_PHASE_ROUTE || shows_no_way);
        ck_assert_int_eq(weft_error_value(why, WEFT_VALUE_STOOD_IN_RELAYS)->number, 1);
    }
    grid_close(&grid);
}
END_TEST

/* flow_left_out() reports the lasting reason why a cable never came up, not a port that was down
 * for 3 ms. It counts each relay that replaced the cable once. */
START_TEST(a_cable_that_never_came_up_is_reported_by_what_lasts)
{
    static const uint32_t via_2[] = {2}, via_3[] = {3};
    struct flow_config config = {.n_lanes = 2 + (uint32_t)_i % 2,
                                 .may_fail_over = true,
                                 .failover_ns = 10 * FABRIC_S};
    struct world_fault silence = {
        .kind = WORLD_FAULT_LOSS, .has_port = true, .share_ppb = 1000000000};
    const struct weft_error *why;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    grid_relay(&grid, 2, 0, 0);
    grid_relay(&grid, 3, 0, 0);
    silence.port = grid_port(&grid, 0, 1, 0);
    grid_down(&grid, 0, 1, 0, 3 * FABRIC_MS);
    grid_step_for(&grid, FABRIC_MS);
    ck_assert_int_eq(rdma_refresh(grid.fabric.hosts[0].rdma, NULL), WEFT_OK);
    ck_assert_int_eq(rdma_refresh(grid.fabric.hosts[1].rdma, NULL), WEFT_OK);
    config.conn.over_management = true;
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 32768;
    config.lanes[1].share = 16384;
    config.lanes[1].n_via = 1;
    config.lanes[1].via = via_2;
    config.lanes[2].share = 16384;
    config.lanes[2].n_via = 1;
    config.lanes[2].via = via_3;
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, FABRIC_MS);
    ck_assert_ptr_nonnull(grid.flows[0].out->lanes[0].why);
    ck_assert_str_eq(weft_phase_name(grid.flows[0].out->lanes[0].why->phase), "route");
    grid_fault(&grid, &silence);
    ck_assert(grid_run_until_up(&grid, 15 * FABRIC_S));
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, 20 * FABRIC_S));
    flow_note_unconnected(grid.flows[0].out);
    why = flow_left_out(grid.flows[0].out);
    ck_assert_ptr_nonnull(why);
    ck_assert_str_ne(weft_phase_name(why->phase), "route");
    ck_assert_ptr_null(weft_error_value(why, WEFT_VALUE_LOCAL_INACTIVE));
    ck_assert_int_eq(weft_error_value(why, WEFT_VALUE_STOOD_IN_RELAYS)->number,
                     config.n_lanes - 1);
    grid_close(&grid);
}
END_TEST

/* A failure of the cable itself replaces an earlier one in which it had no route or which the peer
 * reported. Other failures do not replace an earlier one. */
START_TEST(what_a_cable_did_replaces_that_there_was_none)
{
    static const struct {
        const char *first, *then;
        weft_status status;
        bool is_replaced;
    } cases[] = {{"route", "rtr", WEFT_ERR_SYSTEM, true},
                 {"route", "probe", WEFT_ERR_COMPLETION, true},
                 {"route", "data", WEFT_ERR_COMPLETION, true},
                 {"route", "peer", WEFT_ERR_CLOSED, false},
                 {"route", "tcp", WEFT_ERR_SYSTEM, false},
                 {"route", "epoch", WEFT_ERR_CLOSED, false},
                 {"rtr", "probe", WEFT_ERR_COMPLETION, false},
                 {"rtr", "route", WEFT_ERR_ROUTE, false},
                 {"peer", "rtr", WEFT_ERR_SYSTEM, true},
                 {"peer", "route", WEFT_ERR_ROUTE, false}};
    static const uint32_t via_2[] = {2};
    struct flow_config config = {
        .n_lanes = 2, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};
    struct weft_error why = {0};
    struct flow_lane *lane;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    grid_relay(&grid, 2, 0, 0);
    config.lanes[0].share = config.lanes[1].share = 32768;
    config.lanes[1].n_via = 1;
    config.lanes[1].via = via_2;
    grid_flow(&grid, 0, 1, &config);
    lane = &grid.flows[0].out->lanes[0];
    weft_fail(&why,
              strcmp(cases[_i].first, "route") == 0 ? WEFT_ERR_ROUTE : WEFT_ERR_SYSTEM,
              weft_phase_find(cases[_i].first), "before");
    flow_lane_fail(grid.flows[0].out, lane, &why);
    ck_assert_str_eq(weft_phase_name(lane->why->phase), cases[_i].first);
    why = (struct weft_error){0};
    weft_fail(&why, cases[_i].status, weft_phase_find(cases[_i].then), "after");
    flow_lane_fail(grid.flows[0].out, lane, &why);
    ck_assert_str_eq(weft_phase_name(lane->why->phase),
                     cases[_i].is_replaced ? cases[_i].then : cases[_i].first);
    grid_close(&grid);
}
END_TEST

/* No ports of the two ends face each other, which both ends detect at the first attempt. The flow
 * uses the other lane without waiting for the first, and flow_left_out() reports the reason. */
START_TEST(a_lane_that_no_ports_face_for_is_not_waited_for)
{
    static const struct fabric_cable cables[] = {{0, 2}, {2, 1}};
    static const uint32_t via_2[] = {2};
    struct flow_config config = {
        .n_lanes = 2, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};
    bool has_share = _i % 2 == 1; /* the relayed lane carries half; false: an alternate */
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
    ck_assert_str_eq(weft_phase_name(why->phase), "route");
    ck_assert_ptr_null(flow_trouble(grid.flows[0].out));
    why = flow_why(grid.flows[0].in);
    ck_assert_ptr_nonnull(why);
    ck_assert_int_eq(weft_error_first_phase(why), WEFT_PHASE_ROUTE);
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

/* A flow begins with one lane over a relay. A cable of the relay fails at a random moment of the
 * set-up. It fails for good if the flow can use another relay, otherwise for up to TIMER_OUTAGE_NS,
 * which a flow always survives. */
START_TEST(a_relay_that_is_cut_off_at_set_up_ends_no_flow)
{
    static const uint32_t via_2[] = {2};
    uint32_t n_asked = 0;
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS,
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
              &(struct fabric_config){
                  .n_hosts = 4, .cables = square, .n_cables = 5, .no_management = true});
    grid_relay(&grid, 2, 0, 0);
    grid_relay(&grid, 3, 0, 0);
    config.lanes[0].share = 65536;
    config.lanes[0].n_via = 1;
    config.lanes[0].via = via_2;
    grid_flow(&grid, 0, 1, &config);
    grid_step_for(&grid, (weft_ns)weft_rng_below(&rng, 300) * 1000);
    /* A relay that cannot reach the receiver answers before the sender's attempt times out. */
    if (kill_a_cable_of_2(&rng, for_ns) && may_turn) {
        up_ns = TIMER_ATTEMPT_OF(TIMER_SET_UP_STALL_NS, 0) + TIMER_RETRY_NS;
    }
    ck_assert(grid_run_until_up(&grid, for_ns + up_ns));
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, for_ns + TIMER_RECOVERY_NS));
    grid_close(&grid);
}
END_TEST

/* The same flow, whose relays are cut off from the receiver for good. It ends after one more
 * attempt over every route, each of which began when an outage of TIMER_OUTAGE_NS was over. */
START_TEST(relays_that_are_cut_off_at_set_up_end_a_flow_in_time)
{
    static const uint32_t via_2[] = {2};
    uint32_t n_asked = 0;
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS,
                                 .reroute = reroute,
                                 .user = &n_asked};
    struct world_fault loss = {
        .kind = WORLD_FAULT_LOSS, .has_port = true, .share_ppb = 1000000000};
    uint32_t n_routes = 1 + (uint32_t)_i % 2;

    may_turn = n_routes == 2;
    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    for (uint32_t relay = 2; relay <= 3; relay++) {
        grid_relay(&grid, relay, 0, 0);
        loss.host = relay;
        loss.port = grid_port(&grid, relay, 1, 0);
        grid_fault(&grid, &loss);
    }
    config.lanes[0].share = 65536;
    config.lanes[0].n_via = 1;
    config.lanes[0].via = via_2;
    grid_flow(&grid, 0, 1, &config);
    (void)grid_run_until_dead(&grid, 0, TIMER_FIRST_LANE_NS);
    ck_assert_int_eq(grid.flows[0].out_status, WEFT_OK);
    (void)grid_run_until_dead(&grid, 0,
                              (1 + n_routes) * TIMER_ATTEMPT_OF(TIMER_SET_UP_NS, 0));
    ck_assert_int_lt(grid.flows[0].out_status, 0);
    ck_assert_str_eq(weft_phase_name(flow_error(grid.flows[0].out)->phase), "relay");
    grid_close(&grid);
}
END_TEST

/* Opens a flow from host 0 to host 1 over relay 2, or over relays 2 and 3 by turns, with data. */
static void open_relayed(uint32_t n_routes, uint32_t *n_asked)
{
    static const uint32_t via_2[] = {2};
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS,
                                 .reroute = reroute,
                                 .user = n_asked};

    may_turn = n_routes == 2;
    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    grid_relay(&grid, 2, 0, 0);
    grid_relay(&grid, 3, 0, 0);
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    config.lanes[0].n_via = 1;
    config.lanes[0].via = via_2;
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 200 * 1000);
}

/* While data is sent, all relays are cut off from the receiver, for good or for 5 s, which a flow
 * survives. A flow that is cut off for good ends after one more attempt over every route. */
START_TEST(relays_that_are_cut_off_end_a_flow_with_data_in_time)
{
    uint32_t n_routes = 1 + (uint32_t)_i % 2, n_asked = 0;
    bool is_for_good = _i / 2 % 2 == 0;
    struct world_fault loss = {.kind = WORLD_FAULT_LOSS,
                               .has_port = true,
                               .share_ppb = 1000000000,
                               .for_ns = is_for_good ? 0 : TIMER_OUTAGE_NS};

    open_relayed(n_routes, &n_asked);
    for (uint32_t relay = 2; relay <= 3; relay++) {
        loss.host = relay;
        loss.port = grid_port(&grid, relay, 1, 0);
        grid_fault(&grid, &loss);
    }
    if (is_for_good) {
        (void)grid_run_until_dead(&grid, 0, TIMER_OUTAGE_NS);
        ck_assert_int_eq(grid.flows[0].out_status, WEFT_OK);
        (void)grid_run_until_dead(&grid, 0,
                                  TIMER_DETECT_NS + (1 + n_routes) * TIMER_SET_UP_NS);
        ck_assert_int_lt(grid.flows[0].out_status, 0);
    } else {
        ck_assert(grid_run(&grid, TIMER_OUTAGE_NS + TIMER_RECOVERY_NS));
    }
    grid_close(&grid);
}
END_TEST

static void lose_relays_device(uint32_t relay, bool is_lost)
{
    struct rdma *rdma = grid.fabric.hosts[relay].rdma;
    uint32_t device = rdma->ports[grid_port(&grid, relay, 1, 0)].device_index;

    if (is_lost) {
        rdma_lose_device(rdma, device);
        relay_device_event(
            grid.relays[relay], device,
            &(struct io_async_event){.type = IBV_EVENT_DEVICE_FATAL, .port = 0});
    } else {
        rdma->is_lost[device] = false; /* so that its objects can be destroyed */
    }
}

/* Relays lose their devices to the receiver, which do not come back. A flow that still has a route
 * goes on. One that has none ends at once, and not when an outage would be over. */
START_TEST(relays_that_lose_their_devices_end_a_flow_at_once)
{
    uint32_t n_routes = 1 + (uint32_t)_i % 2, n_lost = 1 + (uint32_t)_i / 2, n_asked = 0;

    open_relayed(n_routes, &n_asked);
    for (uint32_t relay = 2; relay < 2 + n_lost; relay++) {
        lose_relays_device(relay, true);
    }
    if (n_lost < n_routes) {
        ck_assert(grid_run(&grid, FABRIC_S));
    } else {
        (void)grid_run_until_dead(&grid, 0, FABRIC_S);
        ck_assert_int_lt(grid.flows[0].out_status, 0);
        ck_assert_str_eq(weft_phase_name(flow_error(grid.flows[0].out)->phase), "relay");
    }
    for (uint32_t relay = 2; relay < 2 + n_lost; relay++) {
        lose_relays_device(relay, false);
    }
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

/* A flow begins with one lane over one relay or two. The last relay is killed at a random moment of
 * the set-up, which ends the stream of the sender or of the relay before. */
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

/* Pause frames hold a port on the route of the only lane from a random moment on while data is
 * sent. No queue pair fails there. The sender or the relay detects it, and the lane takes the other
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

/* Pause frames hold a port of the direct lane, and there is no management network. The sender's
 * ABORT of that lane is held as well, so that the receiver must detect the failure by itself. The
 * flow goes on over its other lane. */
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

/* Pause frames hold a port of the only cable of a flow, for 1 s, which the flow survives, or for
 * good. No queue pair fails. The end that detects it fails without waiting for
 * TIMER_FAILOVER_NS. */
START_TEST(the_only_cable_held_while_data_flows_ends_in_time)
{
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_CABLES_NS};
    struct world_fault hold = {.kind = WORLD_FAULT_PAUSE,
                               .host = (uint32_t)_i % 2,
                               .has_port = true,
                               .for_ns = _i / 2 % 2 == 0 ? FABRIC_S : 0};
    struct weft_rng rng;

    weft_rng_init(&rng, (uint64_t)_i, "only");
    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, (weft_ns)weft_rng_below(&rng, 400) * 1000);
    hold.port = grid_port(&grid, hold.host, 1 - hold.host, 0);
    grid_fault(&grid, &hold);
    if (hold.for_ns > 0) {
        ck_assert(grid_run(&grid, 5 * FABRIC_S));
    } else {
        ck_assert(grid_run_until_dead(&grid, 0, 7 * FABRIC_S));
        ck_assert_int_eq(flow_error(grid.flows[0].out)->status, WEFT_ERR_TIMEOUT);
        ck_assert_str_eq(weft_phase_name(flow_error(grid.flows[0].out)->phase), "data");
        ck_assert_ptr_nonnull(
            weft_error_value(flow_error(grid.flows[0].out), WEFT_VALUE_REMOTE_GID_TYPE));
    }
    grid_close(&grid);
}
END_TEST

static size_t whole(uint32_t number)
{
    (void)number;
    return GRID_MIXED_MAX;
}

/* The only cable is so slow that each lane stalls before its first message is complete. The flow
 * fails instead of starting again and again (before, 49 to 65 times in two minutes). */
START_TEST(the_only_cable_that_crawls_ends_in_time)
{
    struct flow_config config = {.n_lanes = 1,
                                 .may_fail_over = true,
                                 .failover_ns = TIMER_FAILOVER_NS,
                                 .cables_ns = TIMER_FAILOVER_NS};
    struct world_fault slow = {.kind = WORLD_FAULT_RATE,
                               .has_port = true,
                               .rate_bps = 100000 * (1 + (uint64_t)_i)};

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_fault(&grid, &slow);
    grid_send_all(&grid, 8, whole, GRID_MIXED_MAX);
    grid_step_for(&grid, 30 * FABRIC_S);
    ck_assert(grid.flows[0].out_status < 0 || grid.flows[0].in_status < 0);
    ck_assert_uint_le(grid_counters(&grid, 0, true).epochs, 3);
    grid_close(&grid);
}
END_TEST

static const struct io_device_ops *real_ops;
static uint32_t n_notices;
static uint32_t n_until_refused; /* notices, until one is refused; 0: none is */

static int refuse_a_notice(struct ibv_qp *qp, struct ibv_send_wr *wr,
                           struct ibv_send_wr **bad)
{
    n_notices += wr->wr_id >> 56 == XFER_WR_NOTICE;
    if (wr->wr_id >> 56 == XFER_WR_NOTICE && n_until_refused > 0 &&
        --n_until_refused == 0) {
        *bad = wr;
        return ENOMEM;
    }
    return real_ops->post_send(qp, wr, bad);
}

/* The receiver's device refuses a notice on the first of two lanes, while either lane is handled.
 * That lane fails and comes back, and the data arrives. */
START_TEST(a_notice_that_is_refused_fails_its_lane_only)
{
    static const uint32_t via_2[] = {2}, via_3[] = {3};
    struct flow_config config = {
        .n_lanes = 2, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};
    struct io_device_ops refusing;
    struct io_device *device;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    grid_relay(&grid, 2, 0, 0);
    grid_relay(&grid, 3, 0, 0);
    config.lanes[0].share = config.lanes[1].share = 32768;
    config.lanes[0].n_via = config.lanes[1].n_via = 1;
    config.lanes[0].via = via_2;
    config.lanes[1].via = via_3;
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    device = grid.fabric.hosts[1].rdma->ports[grid_port(&grid, 1, 2, 0)].device;
    real_ops = device->ops;
    refusing = *real_ops;
    refusing.post_send = refuse_a_notice;
    device->ops = &refusing;
    n_until_refused = 1 + (uint32_t)_i;
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, 20 * FABRIC_S));
    device->ops = real_ops;
    ck_assert_uint_eq(n_until_refused, 0);
    ck_assert_uint_gt(grid_counters(&grid, 0, false).failovers, 0);
    grid_close(&grid);
}
END_TEST

/* A lane that stands in and has never been needed costs no message a notice. */
START_TEST(a_stand_in_costs_nothing_until_it_is_used)
{
    static const uint32_t via_2[] = {2};
    struct flow_config config = {
        .n_lanes = 2, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};
    struct io_device_ops counting;
    struct io_device *device;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = square, .n_cables = 5});
    grid_relay(&grid, 2, 0, 0);
    config.lanes[0].share = FLOW_SHARE_WHOLE;
    config.lanes[1].n_via = 1;
    config.lanes[1].via = via_2;
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    device = grid.fabric.hosts[1].rdma->ports[grid_port(&grid, 1, 0, 0)].device;
    real_ops = device->ops;
    counting = *real_ops;
    counting.post_send = refuse_a_notice;
    device->ops = &counting;
    n_notices = n_until_refused = 0;
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, 20 * FABRIC_S));
    device->ops = real_ops;
    ck_assert_uint_eq(n_notices, 0);
    grid_close(&grid);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/detour");

    tcase_set_timeout(tcase, 100);
    suite_add_sweep(tcase, a_dead_cable_beside_another_route_is_not_waited_for, 0, 60);
    tcase_add_loop_test(tcase, a_cable_that_never_came_up_is_reported_by_what_lasts, 0,
                        2);
    tcase_add_loop_test(tcase, what_a_cable_did_replaces_that_there_was_none, 0, 10);
    tcase_add_loop_test(tcase, the_only_cable_that_crawls_ends_in_time, 0, 8);
    tcase_add_loop_test(tcase, a_lane_that_no_ports_face_for_is_not_waited_for, 0, 2);
    suite_add_sweep(tcase, a_relay_that_is_cut_off_at_set_up_ends_no_flow, 0, 120);
    suite_add_sweep(tcase, relays_that_are_cut_off_at_set_up_end_a_flow_in_time, 0, 2);
    tcase_add_loop_test(tcase, relays_that_are_cut_off_end_a_flow_with_data_in_time, 0,
                        4);
    tcase_add_loop_test(tcase, relays_that_lose_their_devices_end_a_flow_at_once, 0, 4);
    suite_add_sweep(tcase, a_relay_that_dies_at_set_up_ends_no_flow, 0, 120);
    suite_add_sweep(tcase, a_port_held_while_data_flows_ends_no_flow, 0, 60);
    suite_add_sweep(tcase, a_direct_cable_held_while_data_flows_ends_no_flow, 0, 60);
    suite_add_sweep(tcase, the_only_cable_held_while_data_flows_ends_in_time, 0, 40);
    tcase_add_loop_test(tcase, a_notice_that_is_refused_fails_its_lane_only, 0, 8);
    tcase_add_test(tcase, a_stand_in_costs_nothing_until_it_is_used);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

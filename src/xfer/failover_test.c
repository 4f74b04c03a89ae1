/* Tests flows whose cables, relays and peers fail. Every message arrives once, in order and
 * complete, or both ends get an error within their limits. */
#include <check.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "rdma/timers.h"
#include "xfer/flow_private.h"
#include "xfer/grid_testing.h"

static struct grid grid;
static const struct fabric_cable twins[] = {{0, 1}, {0, 1}};
/* 0 and 1 share a cable; 2 and 3 are next to both. */
static const struct fabric_cable diamond[] = {{0, 1}, {0, 2}, {2, 1}, {0, 3}, {3, 1}};

#define FOR_GOOD 0

/* Drops all frames of a cable in both directions. Its ports stay up. */
static void black_hole(uint32_t host, uint32_t to, uint32_t nth, weft_ns for_ns)
{
    grid_fault(&grid, &(struct world_fault){.kind = WORLD_FAULT_LOSS,
                                            .host = host,
                                            .has_port = true,
                                            .port = grid_port(&grid, host, to, nth),
                                            .share_ppb = 1000000000,
                                            .for_ns = for_ns});
}

/* Drops all frames that the cable carries from `host` to `to`. */
static void mute(uint32_t host, uint32_t to, weft_ns for_ns)
{
    grid_fault(&grid, &(struct world_fault){.kind = WORLD_FAULT_LOSS,
                                            .host = host,
                                            .has_port = true,
                                            .port = grid_port(&grid, host, to, 0),
                                            .direction = WORLD_OUTWARDS,
                                            .share_ppb = 1000000000,
                                            .for_ns = for_ns});
}

static void kill_host(uint32_t host)
{
    grid.dead[host] = true;
    grid_fault(&grid, &(struct world_fault){.kind = WORLD_FAULT_KILL, .host = host});
}

static uint32_t open_flow(uint32_t from, uint32_t to, uint32_t n_lanes,
                          const uint32_t *vias, const uint32_t *shares,
                          weft_ns failover_ns)
{
    struct flow_config config = {
        .n_lanes = n_lanes, .may_fail_over = true, .failover_ns = failover_ns};

    /* A queue pair gives up after 8 tries of 8.4 ms. */
    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    for (uint32_t i = 0; i < n_lanes; i++) {
        config.lanes[i].share = shares[i];
        config.lanes[i].n_via = vias[i] != UINT32_MAX ? 1 : 0;
        config.lanes[i].via = &vias[i];
    }
    return grid_flow(&grid, from, to, &config);
}

static void open_twins(uint32_t n_flows)
{
    static const uint32_t direct = UINT32_MAX, share = 65536;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2, .cables = twins, .n_cables = 2});
    for (uint32_t i = 0; i < n_flows; i++) {
        open_flow(i % 2, 1 - i % 2, 1, &direct, &share, 10 * FABRIC_S);
    }
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
}

/* One of two cables goes down while messages are sent, and comes up again. The flow detects it by
 * port events, or without these by failed work requests. */
START_TEST(a_twin_goes_down_and_comes_back)
{
    bool is_told = _i % 2 == 0;

    open_twins(2);
    grid.no_port_events = !is_told;
    grid_send_all(&grid, 400, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    grid_down(&grid, (uint32_t)_i / 2, 1 - (uint32_t)_i / 2, 1,
              is_told ? 500 * FABRIC_MS : 3 * FABRIC_S);
    ck_assert(grid_run(&grid, 5 * FABRIC_S));
    for (uint32_t i = 0; i < 2; i++) {
        struct flow_counters counters = grid_counters(&grid, i, true);

        ck_assert_uint_ge(counters.failovers, 1);
        if (is_told) {
            ck_assert_int_eq(counters.without_lane_ns, 0); /* the other rail goes on */
        } else {
            ck_assert_int_gt(counters.without_lane_ns, 0);
            ck_assert_int_lt(counters.without_lane_ns, 2 * FABRIC_S);
        }
    }
    ck_assert(grid_run_until_rails(&grid, 2, 20 * FABRIC_S));
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_ge(grid_counters(&grid, i, true).returns, 1);
    }
    grid_close(&grid);
}
END_TEST

/* A cable that failed once is used again after the shortest hold, also soon after the clock's
 * start. It is held for longer if it failed twice in a minute. */
START_TEST(a_flap_is_held_by_the_flaps_before)
{
    open_twins(1);
    for (weft_ns hold = TIMER_HOLD_NS; hold <= 4 * TIMER_HOLD_NS; hold *= 2) {
        weft_ns up_ns = fabric_now(&grid.fabric) + 100 * FABRIC_MS;

        grid_down(&grid, 0, 1, 1, 100 * FABRIC_MS);
        grid_step_for(&grid, 50 * FABRIC_MS);
        ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
        ck_assert(grid_run_until_rails(&grid, 2, FABRIC_S));
        ck_assert_int_ge(fabric_now(&grid.fabric) - up_ns, hold);
        ck_assert_int_lt(fabric_now(&grid.fabric) - up_ns, hold + TIMER_HOLD_NS);
    }
    grid_close(&grid);
}
END_TEST

/* Limits for one address after 0 to 4 failures in succession. */
static const weft_ns address_limits[] = {TIMER_ADDRESS_FIRST_NS, TIMER_ADDRESS_FIRST_NS,
                                         2 * TIMER_ADDRESS_FIRST_NS, TIMER_ADDRESS_NS,
                                         TIMER_ADDRESS_NS};

START_TEST(the_first_address_leaves_time_for_another)
{
    struct conn_config config;
    struct flow_lane *lane;
    struct flow *flow;

    open_twins(1);
    flow = grid.flows[0].out;
    lane = &flow->lanes[0];
    config = flow->config.conn;
    flow->without_ns = fabric_now(&grid.fabric);
    lane->tries = (uint32_t)_i;
    flow_failover_config(flow, lane, &config);
    ck_assert_int_eq(config.authenticate_ns, address_limits[_i]);
    flow->without_ns = 0;
    lane->tries = 0;
    grid_close(&grid);
}
END_TEST

/* A cable drops all frames for 6 s while its ports stay up, so that only failed work requests show
 * it. The flow goes on with one rail, and has two again later. */
START_TEST(a_rail_swallows_everything)
{
    open_twins(2);
    grid_send_all(&grid, 400, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    black_hole((uint32_t)_i, 1 - (uint32_t)_i, 0, 6 * FABRIC_S);
    ck_assert(grid_run(&grid, 10 * FABRIC_S));
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    ck_assert(grid_run_until_rails(&grid, 2, 60 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* One of two cables drops all frames while the flow comes up, so that set-up leaves it out. The
 * flow tries it again, and uses it once frames pass. */
START_TEST(a_rail_that_set_up_left_out_comes_back)
{
    static const uint32_t direct = UINT32_MAX, share = 65536;
    bool comes_back = _i % 2 == 0;
    uint32_t dumb = (uint32_t)_i / 2;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2, .cables = twins, .n_cables = 2});
    black_hole(dumb, 1 - dumb, 1, comes_back ? 3 * FABRIC_S / 2 : FOR_GOOD);
    open_flow(0, 1, 1, &direct, &share, 10 * FABRIC_S);
    ck_assert(grid_run_until_up(&grid, 5 * FABRIC_S));
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    ck_assert_ptr_nonnull(flow_left_out(grid.flows[0].out));
    if (comes_back) {
        ck_assert(grid_run_until_rails(&grid, 2, 5 * FABRIC_S));
        ck_assert_ptr_null(flow_left_out(grid.flows[0].out));
        ck_assert_uint_eq(grid_counters(&grid, 0, true).returns, 1);
    } else {
        grid_step_for(&grid, 120 * FABRIC_S);
        ck_assert_uint_eq(grid_counters(&grid, 0, true).epochs, 1);
        ck_assert_ptr_nonnull(flow_left_out(grid.flows[0].out));
    }
    grid_send_all(&grid, 400, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, 5 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* A cable goes down and up ten times a second for 3 s. The flow changes its rails no more often
 * than the growing pauses allow, and has both rails afterwards. */
START_TEST(a_cable_flaps)
{
    open_twins(2);
    grid_send_all(&grid, 4000, grid_mixed, GRID_MIXED_MAX);
    for (uint32_t i = 0; i < 30; i++) {
        grid_down(&grid, 0, 1, 0, 50 * FABRIC_MS);
        grid_step_for(&grid, 100 * FABRIC_MS);
    }
    ck_assert(grid_run(&grid, 20 * FABRIC_S));
    ck_assert(grid_run_until_rails(&grid, 2, 20 * FABRIC_S));
    ck_assert_uint_le(grid_counters(&grid, 0, true).returns, 6);
    ck_assert_uint_le(grid_counters(&grid, 0, true).failovers, 12);
    grid_close(&grid);
}
END_TEST

/* All cables of two flows go down for good. Both ends of each flow fail within its limit. */
START_TEST(nothing_is_left)
{
    weft_ns at;

    open_twins(2);
    grid_send_all(&grid, 4000, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    grid_down(&grid, 0, 1, 0, FOR_GOOD);
    grid_down(&grid, 0, 1, 1, FOR_GOOD);
    at = fabric_now(&grid.fabric);
    ck_assert(grid_run_until_dead(&grid, 0, 13 * FABRIC_S));
    ck_assert(grid_run_until_dead(&grid, 1, 3 * FABRIC_S));
    ck_assert_int_ge(fabric_now(&grid.fabric) - at, 10 * FABRIC_S);
    for (uint32_t i = 0; i < 2; i++) {
        const struct weft_error *error = flow_error(grid.flows[i].out);

        /* The error has the first failure, and how long the flow was without a lane. */
        ck_assert_int_eq(error->status, WEFT_ERR_CLOSED);
        ck_assert_str_eq(weft_phase_name(error->phase), "port");
        ck_assert_int_eq(weft_error_value(error, WEFT_VALUE_FAILOVER_NS)->number,
                         10 * FABRIC_S);
        ck_assert_int_eq(weft_error_value(error, WEFT_VALUE_FROM)->number,
                         grid.flows[i].from);
        ck_assert_int_eq(weft_error_value(error, WEFT_VALUE_TO)->number,
                         grid.flows[i].to);
        ck_assert_ptr_nonnull(
            weft_error_value(flow_error(grid.flows[i].in), WEFT_VALUE_FAILOVER_NS));
    }
    grid_close(&grid);
}
END_TEST

/* All cables go down. In the first case no end has a software device. In the others the sender or
 * the receiver has one, which can need longer to connect again on a busy machine. Both ends then
 * wait at least 3 s. */
START_TEST(software_is_waited_for)
{
    weft_ns least = (_i == 0 ? 1 : 3) * FABRIC_S;
    uint32_t flow;
    weft_ns at;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2, .cables = twins, .n_cables = 2});
    for (uint32_t d = 0; d < 2 && _i > 0; d++) {
        grid.fabric.hosts[_i - 1].rdma->attrs[d].may_stall = true;
    }
    flow = open_flow(0, 1, 1, &(uint32_t){UINT32_MAX}, &(uint32_t){65536}, FABRIC_S);
    grid_send_all(&grid, 4000, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    grid_down(&grid, 0, 1, 0, FOR_GOOD);
    grid_down(&grid, 0, 1, 1, FOR_GOOD);
    at = fabric_now(&grid.fabric);
    ck_assert(grid_run_until_dead(&grid, flow, 5 * FABRIC_S));
    ck_assert_int_ge(fabric_now(&grid.fabric) - at, least);
    ck_assert_int_lt(fabric_now(&grid.fabric) - at, least + FABRIC_S);
    ck_assert_int_eq(
        weft_error_value(flow_error(grid.flows[flow].out), WEFT_VALUE_FAILOVER_NS)
            ->number,
        least);
    ck_assert_int_eq(
        weft_error_value(flow_error(grid.flows[flow].in), WEFT_VALUE_FAILOVER_NS)->number,
        least);
    grid_close(&grid);
}
END_TEST

/* A process is stopped while its cable drops the frames of one direction for 300 ms, which ends the
 * last lane at the peer. The peer waits longer than 3 s, because the kernel of the stopped process
 * still acknowledges. A process that is stopped for 40 s is given up after TIMER_STILL_NS. Stops
 * the receiver in even cases and the sender in odd ones. */
START_TEST(a_process_that_stands_still_is_waited_for)
{
    static const uint32_t direct = UINT32_MAX, share = 65536;
    uint32_t still = (uint32_t)_i % 2 == 0 ? 1 : 0, flow;
    bool is_for_good = _i >= 2;
    weft_ns at;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2, .cables = twins, .n_cables = 1});
    grid.fabric.hosts[still].rdma->attrs[0].may_stall = true;
    flow = open_flow(0, 1, 1, &direct, &share, FABRIC_S);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send_all(&grid, 4000, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    mute(1, 0, 300 * FABRIC_MS);
    grid_step_for(&grid, FABRIC_MS);
    grid_fault(&grid, &(struct world_fault){.kind = WORLD_FAULT_STOP,
                                            .host = still,
                                            .for_ns = (is_for_good ? 40 : 8) * FABRIC_S});
    at = fabric_now(&grid.fabric);
    if (!is_for_good) {
        ck_assert(grid_run(&grid, 12 * FABRIC_S));
        ck_assert_int_ge(fabric_now(&grid.fabric) - at, 8 * FABRIC_S);
    } else {
        const struct flow *alive;

        grid_step_for(&grid, TIMER_STILL_NS - FABRIC_S);
        alive = still == 1 ? grid.flows[flow].out : grid.flows[flow].in;
        ck_assert_int_eq(flow_error(alive)->status, WEFT_OK);
        grid_step_for(&grid, TIMER_DETECT_STALL_NS + 2 * FABRIC_S);
        ck_assert_int_lt(flow_error(alive)->status, 0);
        ck_assert_ptr_nonnull(weft_error_value(flow_error(alive), WEFT_VALUE_STILL_NS));
        grid_step_for(&grid, 15 * FABRIC_S);
    }
    grid_close(&grid);
}
END_TEST

/* The receiver detects that a lane has failed, but its ABORT is lost with the cable. The sender,
 * which only waits for a clear-to-send, must detect the failure by itself. */
START_TEST(a_quiet_sender_notices)
{
    static const uint32_t direct = UINT32_MAX, share = 65536;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2, .cables = twins, .n_cables = 2});
    open_flow(0, 1, 1, &direct, &share, 10 * FABRIC_S);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid.no_port_events = true;
    black_hole(0, 1, 0, FOR_GOOD);
    black_hole(1, 0, 0, FOR_GOOD);
    grid_send_all(&grid, 50, grid_mixed, GRID_MIXED_MAX);
    ck_assert(grid_run(&grid, 8 * FABRIC_S));
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    ck_assert_uint_ge(grid_counters(&grid, 0, true).failovers, 1);
    grid_close(&grid);
}
END_TEST

/* Nothing arrives from the sender any more, neither data nor its ABORT. The receiver detects this
 * by probing its only lane, and both ends fail. */
START_TEST(a_receiver_that_is_cut_off_notices)
{
    static const uint32_t direct = UINT32_MAX, share = 65536;
    uint32_t flow;
    weft_ns at;

    grid_open(&grid,
              &(struct fabric_config){
                  .n_hosts = 2, .cables = twins, .n_cables = 1, .no_management = true});
    flow = open_flow(0, 1, 1, &direct, &share, FABRIC_S);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send_all(&grid, 4000, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    mute(0, 1, FOR_GOOD);
    at = fabric_now(&grid.fabric);
    ck_assert(grid_run_until_dead(&grid, flow, 5 * FABRIC_S));
    ck_assert_int_le(fabric_now(&grid.fabric) - at, 2 * TIMER_BEAT_NS + 2 * FABRIC_S);
    grid_close(&grid);
}
END_TEST

static void open_diamond(weft_ns failover_ns, uint32_t n_lanes, const uint32_t *vias,
                         const uint32_t *shares)
{
    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = diamond, .n_cables = 5});
    grid_relay(&grid, 2, 0, 0);
    grid_relay(&grid, 3, 0, 0);
    open_flow(0, 1, n_lanes, vias, shares, failover_ns);
    open_flow(1, 0, n_lanes, vias, shares, failover_ns);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
}

/* The cable goes down, and data takes the relayed route. Once the cable is up again, the flow uses
 * it. */
START_TEST(an_alternate_stands_in)
{
    static const uint32_t vias[] = {UINT32_MAX, 2}, shares[] = {65536, 0};
    struct relay_counters counters;

    open_diamond(10 * FABRIC_S, 2, vias, shares);
    grid.no_port_events = _i == 1;
    grid_send_all(&grid, 600, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    grid_down(&grid, 0, 1, 0, 2 * FABRIC_S);
    ck_assert(grid_run(&grid, 10 * FABRIC_S));
    relay_counters(grid.relays[2], &counters);
    ck_assert_uint_gt(counters.messages, 0);
    ck_assert(grid_run_until_rails(&grid, 1, 20 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* Two relays share the data, and one is killed while it holds some. */
START_TEST(a_relay_dies)
{
    static const uint32_t vias[] = {2, 3}, shares[] = {32768, 32768};
    struct relay_counters counters;

    open_diamond(10 * FABRIC_S, 2, vias, shares);
    grid_send_all(&grid, 400, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    relay_counters(grid.relays[2], &counters);
    ck_assert_uint_gt(counters.messages, 0);
    kill_host(2);
    ck_assert(grid_run(&grid, 10 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

START_TEST(the_only_relay_dies)
{
    static const uint32_t via = 2, share = 65536;

    open_diamond(3 * FABRIC_S, 1, &via, &share);
    grid_send_all(&grid, 400, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    kill_host(2);
    ck_assert(grid_run_until_dead(&grid, 0, 5 * FABRIC_S));
    ck_assert_str_eq(weft_phase_name(flow_error(grid.flows[0].out)->phase), "stream");
    ck_assert_ptr_nonnull(
        weft_error_value(flow_error(grid.flows[0].out), WEFT_VALUE_FAILOVER_NS));
    ck_assert_ptr_nonnull(
        weft_error_value(flow_error(grid.flows[0].in), WEFT_VALUE_FAILOVER_NS));
    grid_close(&grid);
}
END_TEST

/* The flow does not wait for a peer that was killed, on a direct lane or behind a relay. Kills the
 * receiver of flow 0 in cases 0 and 1, and its sender in the others. */
START_TEST(a_dead_peer_is_no_failover)
{
    static const uint32_t vias[] = {UINT32_MAX, 2}, share = 65536;

    open_diamond(10 * FABRIC_S, 1, &vias[_i % 2], &share);
    grid_send_all(&grid, 400, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    kill_host(_i / 2 == 0 ? 1 : 0);
    for (uint32_t i = 0; i < 3000; i++) {
        grid_step_for(&grid, FABRIC_MS);
        if (_i / 2 == 0 ? grid.flows[0].out_status < 0 && grid.flows[1].in_status < 0
                        : grid.flows[0].in_status < 0 && grid.flows[1].out_status < 0) {
            break;
        }
        ck_assert_uint_lt(i, 2999);
    }
    if (_i % 2 == 1) { /* the relay has seen the killed process end */
        uint32_t member;

        ck_assert_ptr_nonnull(relay_trouble(grid.relays[2], &member));
        ck_assert_uint_eq(member, _i / 2 == 0 ? 1 : 0);
    }
    grid_close(&grid);
}
END_TEST

/* relay_trouble() returns a failure until a lane between the same ranks is up again. */
START_TEST(a_relay_forgets_what_is_mended)
{
    static const uint32_t via = 2, share = 65536;
    const struct weft_error *why = NULL;
    uint32_t member;

    open_diamond(10 * FABRIC_S, 1, &via, &share);
    ck_assert_ptr_null(relay_trouble(grid.relays[2], &member));
    grid_send_all(&grid, 400, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 2 * FABRIC_MS);
    grid_down(&grid, 2, 1, 0, 500 * FABRIC_MS);
    for (uint32_t i = 0; i < 1000 && why == NULL; i++) {
        grid_step_for(&grid, FABRIC_MS);
        why = relay_trouble(grid.relays[2], &member);
    }
    ck_assert_ptr_nonnull(why);
    ck_assert_uint_eq(member, 1);
    ck_assert_int_eq(weft_error_value(why, WEFT_VALUE_FROM)->number, 0);
    ck_assert_int_eq(weft_error_value(why, WEFT_VALUE_TO)->number, 1);
    ck_assert(grid_run(&grid, 10 * FABRIC_S));
    ck_assert_ptr_null(relay_trouble(grid.relays[2], &member));
    grid_close(&grid);
}
END_TEST

/* Random cables go down or drop all frames, for random times. */
START_TEST(every_message_comes_once)
{
    static const uint32_t vias[3][3] = {
        {UINT32_MAX, 2, 3}, {2, 3, UINT32_MAX}, {2, 3, 2}};
    static const uint32_t shares[3][3] = {
        {65536, 0, 0}, {32768, 32768, 0}, {40000, 25536, 0}};
    struct weft_rng rng;
    uint32_t kind = (uint32_t)_i % 3;

    weft_rng_init(&rng, (uint64_t)_i, "failover");
    open_diamond(30 * FABRIC_S, 2 + (uint32_t)_i / 3 % 2, vias[kind], shares[kind]);
    grid.no_port_events = _i % 2 == 1;
    grid_send_all(&grid, 1200, grid_mixed, GRID_MIXED_MAX);
    for (uint32_t i = 0; i < 12; i++) {
        const struct fabric_cable *cable = &diamond[weft_rng_below(&rng, 5)];
        weft_ns for_ns = (weft_ns)weft_rng_below(&rng, 400) * FABRIC_MS + FABRIC_MS;

        if (weft_rng_below(&rng, 3) == 0) {
            black_hole(cable->a, cable->b, 0, for_ns);
        } else {
            grid_down(&grid, cable->b, cable->a, 0, for_ns);
        }
        grid_step_for(&grid, (weft_ns)weft_rng_below(&rng, 100) * FABRIC_MS);
    }
    ck_assert(grid_run(&grid, 60 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* Sets the number of the next message at both ends of the first flow, as if all messages before it
 * were complete. */
static void start_at(uint32_t number)
{
    struct flow *out = grid.flows[0].out, *in = grid.flows[0].in;

    out->next_number = in->next_number = in->base = number & XFER_MESSAGE_MASK;
}

/* The only cable of a flow goes down after half a million messages, which its sender completed by
 * ACKs. What the receiver then reports is believed, however far it is from the first message. */
START_TEST(a_cable_may_fail_after_any_number_of_messages)
{
    static const uint32_t direct = UINT32_MAX, share = 65536;
    static const uint32_t numbers[] = {300000, 600000, 900000};

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2, .cables = twins, .n_cables = 1});
    open_flow(0, 1, 1, &direct, &share, 10 * FABRIC_S);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    start_at(numbers[_i]);
    grid_send_all(&grid, 100, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, FABRIC_MS / 2);
    grid_down(&grid, 0, 1, 0, 300 * FABRIC_MS);
    ck_assert(grid_run(&grid, 5 * FABRIC_S));
    ck_assert_uint_ge(grid_counters(&grid, 0, true).failovers, 1);
    grid_close(&grid);
}
END_TEST

/* A notice came over the second lane while the first was down. Half a million messages later it is
 * not taken for one about messages to come: no send is done before its receive. */
START_TEST(an_old_notice_stays_old)
{
    static const uint32_t vias[] = {2, 3}, shares[] = {32768, 32768};
    struct grid_flow *flow = &grid.flows[0];
    uint32_t first;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = diamond, .n_cables = 5});
    grid_relay(&grid, 2, 0, 0);
    grid_relay(&grid, 3, 0, 0);
    open_flow(0, 1, 2, vias, shares, 10 * FABRIC_S);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_down(&grid, 0, 2, 0, 500 * FABRIC_MS);
    grid_step_for(&grid, 200 * FABRIC_MS);
    grid_send_all(&grid, 50, NULL, 70000);
    ck_assert(grid_run(&grid, 5 * FABRIC_S));
    grid_step_for(&grid, 5 * FABRIC_S);
    ck_assert_ptr_nonnull(flow_lane_conn(flow->out, 0));
    ck_assert(flow->out->lanes[1].has_heard);
    first = flow->in->base + (UINT32_C(1) << 19) + 1;
    start_at(first);
    flow->in->noticed = flow->in->base;
    grid_free_traffic(&grid, flow);
    grid_send_all(&grid, 50, NULL, 70000);
    while (flow->traffic.n_received < 50) {
        grid_step_for(&grid, 10000);
        ck_assert_int_le((int32_t)flow->traffic.n_send_done,
                         flow_distance(flow->in->base, first));
    }
    grid_close(&grid);
}
END_TEST

/* The sender refuses a clear-to-send, which the receiver repeats on each new connection. The sender
 * ends the flow with its reason, although every connection comes up. A message that is refused once
 * is moved on the next connection. */
START_TEST(what_is_refused_again_ends_the_flow)
{
    static const bool is_once[] = {false, true};
    struct flow *out;

    open_twins(1);
    out = grid.flows[0].out;
    grid_send_all(&grid, 50, NULL, 70000);
    grid_step_for(&grid, FABRIC_MS / 10);
    ck_assert_uint_gt(out->next_number, 0);
    out->next_number += 10000;
    grid_step_for(&grid, FABRIC_MS / 10);
    if (is_once[_i]) {
        out->next_number -= 10000;
        ck_assert(grid_run(&grid, FABRIC_S));
        ck_assert_uint_eq(grid_counters(&grid, 0, true).failovers, 1);
    } else {
        grid_step_for(&grid, FABRIC_S);
        ck_assert_int_eq(grid.flows[0].out_status, WEFT_ERR_PROTOCOL);
        ck_assert_ptr_nonnull(weft_error_value(flow_error(out), WEFT_VALUE_FIELD));
        ck_assert(grid_run_until_dead(&grid, 0, 10 * FABRIC_S));
    }
    grid_close(&grid);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/failover");

    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, a_twin_goes_down_and_comes_back, 0, 4);
    tcase_add_test(tcase, a_flap_is_held_by_the_flaps_before);
    tcase_add_loop_test(tcase, the_first_address_leaves_time_for_another, 0,
                        WEFT_LENGTH(address_limits));
    tcase_add_loop_test(tcase, a_rail_swallows_everything, 0, 2);
    tcase_add_loop_test(tcase, a_rail_that_set_up_left_out_comes_back, 0, 4);
    suite_add_sweep(tcase, a_cable_flaps, 0, 1);
    tcase_add_test(tcase, nothing_is_left);
    tcase_add_loop_test(tcase, software_is_waited_for, 0, 3);
    suite_add_sweep(tcase, a_process_that_stands_still_is_waited_for, 0, 4);
    tcase_add_test(tcase, a_quiet_sender_notices);
    tcase_add_test(tcase, a_receiver_that_is_cut_off_notices);
    tcase_add_loop_test(tcase, an_alternate_stands_in, 0, 2);
    tcase_add_test(tcase, a_relay_dies);
    tcase_add_test(tcase, the_only_relay_dies);
    tcase_add_loop_test(tcase, a_dead_peer_is_no_failover, 0, 4);
    tcase_add_test(tcase, a_relay_forgets_what_is_mended);
    tcase_add_loop_test(tcase, a_cable_may_fail_after_any_number_of_messages, 0, 3);
    tcase_add_test(tcase, an_old_notice_stays_old);
    tcase_add_loop_test(tcase, what_is_refused_again_ends_the_flow, 0, 2);
    suite_add_sweep(tcase, every_message_comes_once, 0, SWEEP(12));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

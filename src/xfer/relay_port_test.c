/* Tests relays whose ports go down, come back or are held by pause frames, with and without
 * parallel cables. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "rdma/timers.h"
#include "xfer/flow_private.h"
#include "xfer/grid_testing.h"

static struct grid grid;
static const uint32_t via_1[] = {1};

static size_t large(uint32_t number)
{
    return 100000 + number % 7 * 50000;
}

static void open_flow(uint32_t from, uint32_t to, uint32_t n_via, const uint32_t *via,
                      weft_ns failover_ns)
{
    struct flow_config config = {
        .n_lanes = 1, .may_fail_over = true, .failover_ns = failover_ns};

    config.lanes[0].share = 65536;
    config.lanes[0].n_via = n_via;
    config.lanes[0].via = via;
    grid_flow(&grid, from, to, &config);
}

static void open_cables(uint32_t n_hosts, const struct fabric_cable *cables,
                        uint32_t n_cables)
{
    grid_open(&grid, &(struct fabric_config){
                         .n_hosts = n_hosts, .cables = cables, .n_cables = n_cables});
    for (uint32_t h = 1; h + 1 < n_hosts; h++) {
        grid_relay(&grid, h, 0, 0);
    }
}

static void send_some(uint32_t flow, uint32_t n_messages)
{
    grid_send(&grid, flow,
              &(struct grid_traffic){
                  .n_messages = n_messages, .size_of = large, .max_bytes = 400000});
}

/* One of two cables between a relay and a host goes down while data is sent in both directions. The
 * other cable carries all data at once. The relay waits neither for a queue pair to give up (0.54
 * s) nor for an address of the cable that is down. */
START_TEST(a_twin_of_a_relay_goes_down)
{
    static const struct fabric_cable cables[] = {{0, 1}, {1, 2}, {1, 2}};
    weft_ns for_ns = _i % 3 == 0 ? 0 : _i % 3 * 25 * FABRIC_MS;

    open_cables(3, cables, 3);
    open_flow(0, 2, 1, via_1, FABRIC_S);
    open_flow(2, 0, 1, via_1, FABRIC_S);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    send_some(0, 300);
    send_some(1, 300);
    grid_step_for(&grid, _i * 150000);
    grid_down(&grid, 1, 2, (uint32_t)_i % 2, for_ns);
    ck_assert(grid_run(&grid, 300 * FABRIC_MS));
    grid_close(&grid);
}
END_TEST

/* One of seven parallel cables of a relay goes down at some moment of the set-up. */
START_TEST(one_of_seven_goes_down_during_set_up)
{
    static const struct fabric_cable cables[] = {{0, 1}, {1, 2}, {1, 2}, {1, 2},
                                                 {1, 2}, {1, 2}, {1, 2}, {1, 2}};

    open_cables(3, cables, 8);
    open_flow(0, 2, 1, via_1, FABRIC_S);
    open_flow(2, 0, 1, via_1, FABRIC_S);
    grid_step_for(&grid, _i * 30000);
    grid_down(&grid, 1, 2, (uint32_t)_i % 7, _i % 3 * 6 * FABRIC_MS);
    ck_assert(grid_run_until_up(&grid, 5 * FABRIC_S));
    send_some(0, 20);
    send_some(1, 20);
    ck_assert(grid_run(&grid, FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* The only cable to the next member of the first relay or the second goes down at some moment of
 * the set-up. It is down for less or more time than a relay waits. */
START_TEST(the_only_port_onwards_goes_down_during_set_up)
{
    static const struct fabric_cable cables[] = {{0, 1}, {1, 2}, {2, 3}};
    static const uint32_t via[] = {1, 2};
    uint32_t at = 1 + (uint32_t)_i % 2;

    open_cables(4, cables, 3);
    open_flow(0, 3, 2, via, 5 * FABRIC_S);
    grid_step_for(&grid, _i / 4 * 60000);
    grid_down(&grid, at, at + 1, 0, _i / 2 % 2 == 0 ? 30 * FABRIC_MS : 2 * FABRIC_S);
    ck_assert(grid_run_until_up(&grid, 6 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* The port to the receiver is down when the flow starts. The lane comes up as soon as the port
 * does. */
START_TEST(a_lane_waits_for_a_port)
{
    static const struct fabric_cable cables[] = {{0, 1}, {1, 2}};
    weft_ns before;

    open_cables(3, cables, 2);
    grid_down(&grid, 1, 2, 0, 70 * FABRIC_MS);
    grid_step_for(&grid, FABRIC_MS);
    before = fabric_now(&grid.fabric);
    open_flow(0, 2, 1, via_1, FABRIC_S);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    ck_assert_int_lt(fabric_now(&grid.fabric) - before, 80 * FABRIC_MS);
    grid_close(&grid);
}
END_TEST

/* A port that stays down ends the flow, and relay_trouble() names it. */
START_TEST(a_port_that_stays_down_is_named)
{
    static const struct fabric_cable cables[] = {{0, 1}, {1, 2}};
    const struct weft_error *why;
    uint32_t member = 0;

    open_cables(3, cables, 2);
    open_flow(0, 2, 1, via_1, FABRIC_S);
    grid_step_for(&grid, _i * 100000);
    grid_down(&grid, 1, 2, 0, 0);
    if (_i > 10) {
        send_some(0, 20);
    }
    grid_step_for(&grid, 9 * FABRIC_S);
    ck_assert_int_lt(grid.flows[0].out_status, 0);
    why = relay_trouble(grid.relays[1], &member);
    ck_assert_ptr_nonnull(why);
    ck_assert_uint_eq(member, 2);
    ck_assert_ptr_nonnull(weft_error_value(why, WEFT_VALUE_LOCAL_PORT));
    ck_assert_ptr_nonnull(weft_error_value(why, WEFT_VALUE_REMOTE_GID));
    grid_close(&grid);
}
END_TEST

/* The device of the only port to the receiver is lost before the lane starts. */
START_TEST(a_device_that_is_lost_before_the_lane_starts_is_named)
{
    static const struct fabric_cable cables[] = {{0, 1}, {1, 2}};
    const struct weft_error *why;
    struct rdma *rdma;
    uint32_t device, member = 0;

    open_cables(3, cables, 2);
    rdma = grid.fabric.hosts[1].rdma;
    device = rdma->ports[grid_port(&grid, 1, 2, 0)].device_index;
    rdma_lose_device(rdma, device);
    open_flow(0, 2, 1, via_1, FABRIC_S);
    grid_step_for(&grid, 9 * FABRIC_S);
    ck_assert_int_lt(grid.flows[0].out_status, 0);
    why = relay_trouble(grid.relays[1], &member);
    ck_assert_ptr_nonnull(why);
    ck_assert_uint_eq(member, 2);
    ck_assert_str_eq(weft_phase_name(why->phase), "device");
    rdma->is_lost[device] = false; /* its objects still exist */
    grid_close(&grid);
}
END_TEST

/* relay_trouble() does not name a port that is up again if another failure, such as a cable that
 * drops all frames, then keeps the lane down. A sender that gives up is not another failure. */
START_TEST(a_port_that_is_back_is_not_named)
{
    static const struct fabric_cable cables[] = {{0, 1}, {1, 2}};
    bool is_silent = _i % 2 == 0;
    struct world_fault silence = {
        .kind = WORLD_FAULT_LOSS, .host = 1, .has_port = true, .share_ppb = 1000000000};
    const struct weft_error *why;
    struct weft_error end = {0};
    uint32_t member = 0;

    open_cables(3, cables, 2);
    silence.port = grid_port(&grid, 1, 2, 0);
    grid_down(&grid, 1, 2, 0, 800 * FABRIC_MS);
    grid_step_for(&grid, FABRIC_MS);
    open_flow(0, 2, 1, via_1, TIMER_FAILOVER_NS);
    grid_step_for(&grid, (400 + _i * 10) * FABRIC_MS);
    why = relay_trouble(grid.relays[1], &member);
    ck_assert_ptr_nonnull(why);
    ck_assert_str_eq(weft_phase_name(why->phase), "port");
    if (is_silent) {
        grid_fault(&grid, &silence);
    } else {
        weft_fail(&end, WEFT_ERR_CLOSED, WEFT_PHASE_PORT, "gives up");
        ck_assert_int_lt(flow_give_up(grid.flows[0].out, &end), 0);
    }
    grid_step_for(&grid, 25 * FABRIC_S);
    why = relay_trouble(grid.relays[1], &member);
    /* `why` can be NULL if the receiver has detected the other failure, and reports it. */
    ck_assert((why != NULL && why->phase == WEFT_PHASE_PORT) != is_silent);
    grid_close(&grid);
}
END_TEST

/* Holds one end of a random cable by pause frames, for good or for up to 10 s. */
static void hold(struct weft_rng *rng, const struct fabric_cable *cables,
                 uint32_t n_cables)
{
    uint32_t cable = (uint32_t)weft_rng_below(rng, n_cables), nth = 0;
    bool is_far = weft_rng_below(rng, 2) == 1;
    struct world_fault fault = {.kind = WORLD_FAULT_PAUSE, .has_port = true};

    for (uint32_t i = 0; i < cable; i++) {
        nth += cables[i].a == cables[cable].a && cables[i].b == cables[cable].b;
    }
    fault.host = is_far ? cables[cable].b : cables[cable].a;
    fault.port =
        grid_port(&grid, fault.host, is_far ? cables[cable].a : cables[cable].b, nth);
    if (weft_rng_below(rng, 3) == 0) {
        fault.for_ns = 1000 + (weft_ns)weft_rng_below(rng, 10000) * FABRIC_MS;
    }
    grid_fault(&grid, &fault);
}

/* Messages pass one relay or two in both directions, with two cables per hop, when pause frames
 * hold a port of any hop. The port transmits nothing, and the timers of its NIC do not run. The
 * lane goes on over the other cable while the port is held. */
START_TEST(a_held_port_of_a_relay_is_left)
{
    static const struct fabric_cable cables[] = {{0, 1}, {0, 1}, {1, 2},
                                                 {1, 2}, {2, 3}, {2, 3}};
    static const uint32_t there[] = {1, 2}, back[] = {2, 1};
    uint32_t n_via = 1 + (uint32_t)_i % 2;
    struct weft_rng rng;

    weft_rng_init(&rng, (uint64_t)_i, "held");
    open_cables(n_via + 2, cables, 2 * (n_via + 1));
    open_flow(0, n_via + 1, n_via, there, TIMER_FAILOVER_NS);
    open_flow(n_via + 1, 0, n_via, back + 2 - n_via, TIMER_FAILOVER_NS);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    send_some(0, 100);
    send_some(1, 100);
    grid_step_for(&grid, 1000 * (weft_ns)weft_rng_below(&rng, 2000));
    hold(&rng, cables, 2 * (n_via + 1));
    ck_assert(grid_run(&grid, TIMER_DETECT_STALL_NS + TIMER_RECOVERY_VIA(n_via)));
    grid_close(&grid);
}
END_TEST

/* Two lanes of a flow pass one relay each, and every hop has one cable. Pause frames hold a port of
 * any hop. The flow goes on over the other relay. */
START_TEST(a_held_port_of_one_of_two_relays_is_left)
{
    static const struct fabric_cable cables[] = {{0, 1}, {1, 3}, {0, 2}, {2, 3}};
    static const uint32_t via_2[] = {2};
    struct flow_config config = {
        .n_lanes = 2, .may_fail_over = true, .failover_ns = TIMER_FAILOVER_NS};
    struct weft_rng rng;

    weft_rng_init(&rng, (uint64_t)_i, "two relays");
    config.lanes[0].share = _i % 2 == 0 ? 32768 : 65536;
    config.lanes[0].n_via = 1;
    config.lanes[0].via = via_1;
    config.lanes[1].share = 65536 - config.lanes[0].share;
    config.lanes[1].n_via = 1;
    config.lanes[1].via = via_2;
    open_cables(4, cables, 4);
    grid_flow(&grid, 0, 3, &config);
    grid_flow(&grid, 3, 0, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    send_some(0, 100);
    send_some(1, 100);
    grid_step_for(&grid, 1000 * (weft_ns)weft_rng_below(&rng, 2000));
    hold(&rng, cables, 4);
    ck_assert(grid_run(&grid, TIMER_DETECT_STALL_NS + TIMER_RECOVERY_VIA(1)));
    grid_close(&grid);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/relay_port");

    tcase_set_timeout(tcase, 100);
    suite_add_sweep(tcase, a_twin_of_a_relay_goes_down, 0, 24);
    suite_add_sweep(tcase, one_of_seven_goes_down_during_set_up, 0, 42);
    suite_add_sweep(tcase, the_only_port_onwards_goes_down_during_set_up, 0, 80);
    tcase_add_test(tcase, a_lane_waits_for_a_port);
    tcase_add_test(tcase, a_device_that_is_lost_before_the_lane_starts_is_named);
    suite_add_sweep(tcase, a_port_that_stays_down_is_named, 0, 20);
    suite_add_sweep(tcase, a_port_that_is_back_is_not_named, 0, 20);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("held");
    tcase_set_timeout(tcase, 100);
    suite_add_sweep(tcase, a_held_port_of_a_relay_is_left, 0, SWEEP(60));
    suite_add_sweep(tcase, a_held_port_of_one_of_two_relays_is_left, 0, SWEEP(40));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* Flows whose only port, or one of two, goes down at any moment before they are up. */
#include <check.h>

#include "base/check.h"
#include "base/suite_testing.h"
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

/* From host 0, by one lane; `via`: its relay, or NULL. */
static void open_flow(uint32_t to, const uint32_t *via, weft_ns failover_ns)
{
    struct flow_config config = {
        .n_lanes = 1, .may_fail_over = true, .failover_ns = failover_ns};

    config.conn.timeout = 11;
    config.conn.retry_cnt = 7;
    config.lanes[0].share = 65536;
    config.lanes[0].n_via = via != NULL ? 1 : 0;
    config.lanes[0].via = via;
    grid_flow(&grid, 0, to, &config);
}

static size_t mixed(uint32_t number)
{
    static const size_t sizes[] = {0, 7, 65536, 131073, 1000000};

    return sizes[number % WEFT_LENGTH(sizes)];
}

static void send_some(void)
{
    grid_send(
        &grid, 0,
        &(struct grid_traffic){
            .n_messages = 50, .n_group = 1, .size_of = mixed, .max_bytes = 1000000});
}

/* One of two cables goes down at any moment of the set-up: the other is enough. */
START_TEST(a_twin_goes_down_during_setup)
{
    open_cables(2);
    open_flow(1, NULL, 10 * FABRIC_S);
    grid_step_for(&grid, _i * 15000);
    grid_down(&grid, 0, 1, (uint32_t)_i % 2, FOR_GOOD);
    ck_assert(grid_run_until_up(&grid, 10 * FABRIC_S));
    send_some();
    ck_assert(grid_run(&grid, 10 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* A host that is slow learns that its only port went down when that is over. */
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
    /* Nothing began again. */
    ck_assert(flow_purpose_decode(flow_lane_conn(grid.flows[0].out, 0)->config.purpose,
                                  &purpose));
    ck_assert_uint_eq(purpose.epoch, 1);
    send_some();
    ck_assert(grid_run(&grid, 10 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* ... and by then what the cable lost ends RTR. */
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

/* ... or is really down for a while, at any moment of the set-up: while HELLO, FACTS or META are
 * told, queue pairs connect, or are probed. The longest is what is promised (docs/scenario.md), and
 * with more patience more. */
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

/* ... or that of a relay, on either side. */
START_TEST(a_relays_only_port_goes_for_a_while_during_set_up)
{
    static const struct fabric_cable line[] = {{0, 1}, {1, 2}};
    static const uint32_t via = 1;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = line, .n_cables = 2});
    grid_relay(&grid, 1, 0, 0);
    open_flow(2, &via, FABRIC_S);
    grid_step_for(&grid, _i / 2 * 40000);
    grid_down(&grid, 1, _i % 2 == 0 ? 0 : 2, 0, 400 * FABRIC_MS);
    ck_assert(grid_run_until_up(&grid, 5 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* ... or for good: both ends say so, within what a set-up is waited for. */
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

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/flow_set_up");

    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, a_twin_goes_down_during_setup, 0, 20);
    tcase_add_loop_test(tcase, old_news_of_the_only_port_end_no_set_up, 0, 20);
    tcase_add_loop_test(tcase, old_news_of_a_port_that_lost_frames_end_no_set_up, 0, 20);
    tcase_add_loop_test(tcase, the_only_port_goes_for_a_while_during_set_up, 0, 80);
    tcase_add_loop_test(tcase, a_relays_only_port_goes_for_a_while_during_set_up, 0, 40);
    tcase_add_loop_test(tcase, the_only_port_goes_for_good_during_set_up, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* Tests direct lanes that lose some of their cables during traffic, and get them back. */
#include <check.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "xfer/grid_testing.h"

#define DRAWS 60

static struct grid grid;
static const struct fabric_cable cables[] = {{0, 1}, {0, 1}, {0, 1}, {0, 1}};

static size_t large(uint32_t number)
{
    (void)number;
    return 262144;
}

static void open_flow(uint32_t from, uint32_t to)
{
    struct flow_config config = {
        .n_lanes = 1, .may_fail_over = true, .failover_ns = 20 * FABRIC_S};

    config.lanes[0].share = 65536;
    config.conn.timeout = 11; /* a queue pair fails after about 8 x 8.4 ms */
    config.conn.retry_cnt = 7;
    grid_flow(&grid, from, to, &config);
}

/* One or more cables of a pair go down for random times that may overlap, while messages of all
 * sizes are sent in both directions. Every message must arrive once, in order and complete. In the
 * end every flow must have all its rails again. */
START_TEST(cables_flap_while_others_carry)
{
    struct weft_rng rng;
    uint32_t n_cables, n_faults;

    weft_rng_init(&rng, (uint64_t)_i, "rails");
    n_cables = 2 + (uint32_t)weft_rng_below(&rng, 3);
    grid_open(&grid, &(struct fabric_config){
                         .n_hosts = 2,
                         .cables = cables,
                         .n_cables = n_cables,
                         .qps_per_rail = 1 + (uint32_t)weft_rng_below(&rng, 4),
                         .send_wr_max = weft_rng_below(&rng, 3) == 0 ? 4 : 0,
                         .recv_wr_max = weft_rng_below(&rng, 3) == 0 ? 32 : 0,
                         .seed = (uint64_t)_i,
                     });
    open_flow(0, 1);
    open_flow(1, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send_all(&grid, 100, grid_mixed, GRID_MIXED_MAX);
    n_faults = 1 + (uint32_t)weft_rng_below(&rng, 4);
    for (uint32_t i = 0; i < n_faults; i++) {
        uint32_t end = (uint32_t)weft_rng_below(&rng, 2);

        grid_step_for(&grid, (weft_ns)weft_rng_below(&rng, 2000000));
        grid_down(&grid, end, 1 - end, (uint32_t)weft_rng_below(&rng, n_cables),
                  1000 + (weft_ns)weft_rng_below(&rng, 4000000));
    }
    ck_assert(grid_run(&grid, 60 * FABRIC_S));
    ck_assert(grid_run_until_rails(&grid, n_cables, 60 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

static uint64_t received_by(uint32_t flow)
{
    return grid_counters(&grid, flow, false).xfer.bytes_received;
}

/* One of two cables goes down at a random moment of a transfer, for 20 ms. From that moment on, the
 * other one must carry data at its full rate (in virtual time). That includes the set-up of the
 * connection that replaces the first, and the handover to it. When the cable is back, the flow must
 * get both rails without having been without a lane. */
START_TEST(the_other_cable_goes_on_at_its_rate)
{
    struct weft_rng rng;
    uint64_t before, message = 262144;

    weft_rng_init(&rng, (uint64_t)_i, "pause");
    grid_open(&grid,
              &(struct fabric_config){
                  .n_hosts = 2, .cables = cables, .n_cables = 2, .seed = (uint64_t)_i});
    open_flow(0, 1);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send_all(&grid, 250, large, (uint32_t)message);
    grid_step_for(&grid, FABRIC_MS + (weft_ns)weft_rng_below(&rng, 300000));
    grid_down(&grid, (uint32_t)_i % 2, 1 - (uint32_t)_i % 2, (uint32_t)_i / 2 % 2,
              20 * FABRIC_MS);
    for (uint32_t k = 0; k < 20; k++) {
        /* 100 us at 100 Gbit/s are 1.25 MB. A message is counted when it is complete. */
        before = received_by(0);
        grid_step_for(&grid, 100000);
        ck_assert_uint_ge(received_by(0) - before, 1250000 * 9 / 10 - message);
    }
    ck_assert(grid_run_until_rails(&grid, 1, 2 * FABRIC_MS));
    ck_assert(grid_run(&grid, 60 * FABRIC_S));
    ck_assert(grid_run_until_rails(&grid, 2, 60 * FABRIC_S));
    ck_assert_int_eq(grid_counters(&grid, 0, true).without_lane_ns, 0);
    ck_assert_int_eq(grid_counters(&grid, 0, false).without_lane_ns, 0);
    ck_assert_uint_eq(grid_counters(&grid, 0, true).failovers, 1);
    ck_assert_uint_eq(grid_counters(&grid, 0, true).returns, 1);
    grid_close(&grid);
}
END_TEST

/* One of two ports is held by pause frames during traffic, for 10 s or permanently. It transmits
 * nothing, no timer of the NIC runs, and no queue pair fails. The other port must carry all
 * data. */
START_TEST(a_port_that_is_held_is_left)
{
    bool is_for_good = _i % 2 == 0;
    uint32_t end = (uint32_t)_i / 2 % 2;

    grid_open(&grid,
              &(struct fabric_config){
                  .n_hosts = 2, .cables = cables, .n_cables = 2, .seed = (uint64_t)_i});
    open_flow(0, 1);
    open_flow(1, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send_all(&grid, 100, grid_mixed, GRID_MIXED_MAX);
    grid_step_for(&grid, 100000 + 50000 * _i);
    grid_fault(&grid, &(struct world_fault){
                          .kind = WORLD_FAULT_PAUSE,
                          .host = end,
                          .has_port = true,
                          .port = grid_port(&grid, end, 1 - end, (uint32_t)_i / 4 % 2),
                          .for_ns = is_for_good ? 0 : 10 * FABRIC_S});
    ck_assert(grid_run(&grid, 20 * FABRIC_S));
    if (!is_for_good) {
        ck_assert(grid_run_until_rails(&grid, 2, 60 * FABRIC_S));
    }
    grid_close(&grid);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/rail");

    tcase_set_timeout(tcase, 200);
    suite_add_sweep(tcase, cables_flap_while_others_carry, 0, DRAWS);
    suite_add_sweep(tcase, the_other_cable_goes_on_at_its_rate, 0, 8);
    suite_add_sweep(tcase, a_port_that_is_held_is_left, 0, 16);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

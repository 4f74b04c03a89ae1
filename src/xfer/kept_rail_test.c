/* Tests rails that fail and come back under the policy of NCCL's port recovery. It uses the GID
 * slots that the rails had before, without looking them up, and limits the number of attempts. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "xfer/grid_testing.h"

static struct grid grid;
static const struct fabric_cable twins[] = {{0, 1}, {0, 1}};

#define STEP_NS (4 * FABRIC_S) /* between attempts */

static void open_flow(enum weft_policy policy)
{
    static const uint32_t direct = UINT32_MAX;
    struct flow_config config = {
        .n_lanes = 1, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};

    config.lanes[0].share = 65536;
    config.lanes[0].via = &direct;
    grid_open(&grid, &(struct fabric_config){
                         .n_hosts = 2, .cables = twins, .n_cables = 2, .policy = policy});
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
}

static size_t mixed(uint32_t number)
{
    static const size_t sizes[] = {0, 7, 65536, 131073, 300000, 4096};

    return sizes[number % WEFT_LENGTH(sizes)];
}

static void move_data(void)
{
    grid_send(&grid, 0,
              &(struct grid_traffic){
                  .n_messages = 60, .n_group = 1, .size_of = mixed, .max_bytes = 300000});
    ck_assert(grid_run(&grid, 5 * FABRIC_S));
    grid_free_traffic(&grid, &grid.flows[0]);
}

static void change_address(uint32_t host, enum world_fault_kind kind, uint8_t third)
{
    grid_fault(&grid,
               &(struct world_fault){
                   .kind = kind,
                   .host = host,
                   .has_port = true,
                   .port = grid_port(&grid, host, 1 - host, 0),
                   .address = {.ip = io_ip_v4(192, 168, third, (uint8_t)(host + 1)),
                               .prefix_len = 24}});
}

/* Takes the first cable down for 100 ms and moves the GID of its port on `host` to another slot.
 * Slot 3, where it was, then holds another GID (`is_taken`) or none. */
static void flap_and_move(uint32_t host, bool is_taken)
{
    grid_down(&grid, 0, 1, 0, 100 * FABRIC_MS);
    grid_step_for(&grid, 20 * FABRIC_MS);
    change_address(host, WORLD_FAULT_ADDR_DEL, 101);
    change_address(host, WORLD_FAULT_ADDR_ADD, 7);
    change_address(host, WORLD_FAULT_ADDR_ADD, 101);
    if (!is_taken) {
        change_address(host, WORLD_FAULT_ADDR_DEL, 7);
    }
}

static int64_t reported(enum weft_value_name name)
{
    const struct weft_error *why = flow_left_out(grid.flows[0].out);
    const struct weft_value *value;

    ck_assert_ptr_nonnull(why);
    value = weft_error_value(why, name);
    ck_assert_msg(value != NULL, "no number %s", weft_value_name(name));
    return value->number;
}

/* A rail whose GIDs are still in their slots is used again 200 ms after the failure. */
START_TEST(a_rail_comes_back_as_it_was)
{
    open_flow(WEFT_POLICY_NCCL_2_29_PORT_RECOVERY);
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 2);
    grid_down(&grid, 0, 1, 0, 100 * FABRIC_MS);
    grid_step_for(&grid, 180 * FABRIC_MS);
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    move_data();
    grid_step_for(&grid, 100 * FABRIC_MS);
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 2);
    ck_assert_uint_eq(grid_counters(&grid, 0, true).returns, 1);
    ck_assert_uint_eq(grid_counters(&grid, 0, true).failovers, 1);
    ck_assert_ptr_null(flow_left_out(grid.flows[0].out));
    move_data();
    grid_close(&grid);
}
END_TEST

/* The GID of a rail has moved, at either end. Five attempts fail, and no other follows, although
 * the port is active again. Data moves over the other rail. Policy weft looks the slot up and uses
 * the rail again. */
START_TEST(a_rail_whose_slot_moved_is_given_up)
{
    uint32_t host = (uint32_t)_i % 2;
    bool is_taken = _i / 2 % 2 == 0, is_weft = _i >= 4;
    const struct weft_error *why;

    open_flow(is_weft ? WEFT_POLICY_WEFT : WEFT_POLICY_NCCL_2_29_PORT_RECOVERY);
    flap_and_move(host, is_taken);
    grid_step_for(&grid, STEP_NS);
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), is_weft ? 2 : 1);
    ck_assert_ptr_null(flow_left_out(grid.flows[0].out));
    move_data();
    if (!is_weft) {
        grid_step_for(&grid, 2 * STEP_NS);
        ck_assert_ptr_null(flow_left_out(grid.flows[0].out));
        grid_step_for(&grid, 3 * STEP_NS);
        why = flow_left_out(grid.flows[0].out);
        ck_assert_int_eq(reported(WEFT_VALUE_ATTEMPTS), 5);
        ck_assert_int_eq(reported(WEFT_VALUE_LOCAL_KEPT_INDEX), 3);
        ck_assert_int_eq(reported(WEFT_VALUE_REMOTE_KEPT_INDEX), 3);
        ck_assert_str_eq(weft_phase_name(why->phase), "recovery");
        ck_assert_str_eq(weft_error_value(why, WEFT_VALUE_LOCAL_PORT)->text, "p0");
        ck_assert_str_eq(weft_error_value(why, WEFT_VALUE_LOCAL_GID)->text,
                         "192.168.101.1");
        ck_assert_str_eq(weft_error_value(why, WEFT_VALUE_REMOTE_GID)->text,
                         "192.168.101.2");
        grid_step_for(&grid, 120 * FABRIC_S);
        ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
        move_data();
    }
    ck_assert_uint_eq(grid_counters(&grid, 0, true).returns, is_weft ? 1 : 0);
    grid_close(&grid);
}
END_TEST

/* Attempts also count while the cable is down, but flow_left_out() does not report a rail for which
 * these were used up. */
START_TEST(a_cable_that_is_away_costs_attempts)
{
    bool is_back_in_time = _i == 0;

    open_flow(WEFT_POLICY_NCCL_2_29_PORT_RECOVERY);
    grid_down(&grid, 0, 1, 0, is_back_in_time ? 10 * FABRIC_S : 30 * FABRIC_S);
    grid_step_for(&grid, 11 * FABRIC_S);
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), 1);
    grid_step_for(&grid, 60 * FABRIC_S);
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), is_back_in_time ? 2 : 1);
    ck_assert_ptr_null(flow_left_out(grid.flows[0].out));
    move_data();
    grid_close(&grid);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xfer/kept_rail");
    TCase *tests = tcase_create("kept_rail");

    tcase_add_test(tests, a_rail_comes_back_as_it_was);
    tcase_add_loop_test(tests, a_rail_whose_slot_moved_is_given_up, 0, 8);
    tcase_add_loop_test(tests, a_cable_that_is_away_costs_attempts, 0, 2);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

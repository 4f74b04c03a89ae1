/* Tests flows over direct connections: messages of all sizes, in groups, in both directions. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "xfer/flow_private.h"
#include "xfer/grid_testing.h"

static struct grid grid;
static const struct fabric_cable pair[] = {{0, 1}};
static const struct fabric_cable twins[] = {{0, 1}, {0, 1}};

static void open_pair(bool is_twin)
{
    grid_open(&grid, &(struct fabric_config){.n_hosts = 2,
                                             .cables = is_twin ? twins : pair,
                                             .n_cables = is_twin ? 2 : 1});
}

static size_t mixed(uint32_t number)
{
    static const size_t sizes[] = {0, 1, 7, 4096, 32768, 32769, 131072, 131073, 400000};

    return sizes[number % WEFT_LENGTH(sizes)];
}

START_TEST(messages_of_all_sizes_come_in_order)
{
    struct flow_counters counters;

    open_pair(_i == 1);
    grid_route(&grid, 0, 1, 0, NULL, 0);
    grid_route(&grid, 1, 0, 0, NULL, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    for (uint32_t i = 0; i < 2; i++) {
        grid_send(&grid, i,
                  &(struct grid_traffic){
                      .n_messages = 200, .size_of = mixed, .max_bytes = 400000});
    }
    ck_assert(grid_run(&grid, FABRIC_S));
    flow_counters(grid.flows[0].out, &counters);
    ck_assert_uint_eq(counters.xfer.messages_sent, 200);
    ck_assert_uint_eq(counters.epochs, 1);
    ck_assert_uint_eq(counters.failovers, 0);
    flow_close(grid.flows[0].out);
    flow_counters(grid.flows[0].out, &counters);
    ck_assert_uint_eq(counters.xfer.messages_sent, 200);
    grid_close(&grid);
}
END_TEST

START_TEST(groups_are_matched_by_tag)
{
    open_pair(true);
    grid_route(&grid, 0, 1, 0, NULL, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send(
        &grid, 0,
        &(struct grid_traffic){
            .n_messages = 720, .n_group = 8, .size_of = mixed, .max_bytes = 400000});
    ck_assert(grid_run(&grid, FABRIC_S));
    grid_close(&grid);
}
END_TEST

static uint64_t world_counter(const char *wanted)
{
    const struct world *world = grid.fabric.world;
    const char *name;
    uint64_t value;

    for (uint32_t i = 0; world->ops->counter(world, i, &name, &value); i++) {
        if (strcmp(name, wanted) == 0) {
            return value;
        }
    }
    ck_abort_msg("no counter %s", wanted);
    return 0;
}

/* A device may accept fewer than 33 receives per queue pair. Fewer buffers are then open at a time,
 * and there must still be no RNR NAK. Profile minimal has the shortest queues. */
START_TEST(short_queues_will_do)
{
    static const uint32_t receives[] = {8, 9, 15, 31, 32, 33, 0};

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 2,
                                      .cables = pair,
                                      .n_cables = 1,
                                      .recv_wr_max = receives[_i],
                                      .profile = receives[_i] == 0 ? WEFT_PROFILE_MINIMAL
                                                                   : WEFT_PROFILE_MLX5});
    grid_route(&grid, 0, 1, 0, NULL, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send(
        &grid, 0,
        &(struct grid_traffic){
            .n_messages = 720, .n_group = 1, .size_of = mixed, .max_bytes = 400000});
    ck_assert(grid_run(&grid, FABRIC_S));
    ck_assert_uint_eq(world_counter("rnr_naks_sent"), 0);
    grid_close(&grid);
}
END_TEST

/* Sets the number of an end's next message, as if it had completed all messages before. */
static void start_at(struct flow *flow, uint32_t number)
{
    flow->next_number = flow->base = flow->noticed = number;
}

/* Message numbers wrap at 2^20. Groups of 8 begin exactly there; a group of 7 straddles it. */
START_TEST(numbers_wrap)
{
    uint32_t first = XFER_MESSAGE_MASK + 1 - 2000;
    struct flow_counters counters;

    open_pair(false);
    grid_route(&grid, 0, 1, 0, NULL, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    start_at(grid.flows[0].out, first);
    start_at(grid.flows[0].in, first);
    grid_send(&grid, 0,
              &(struct grid_traffic){.n_messages = 4032, .n_group = _i == 0 ? 8 : 7});
    ck_assert(grid_run(&grid, 100 * FABRIC_S));
    flow_counters(grid.flows[0].out, &counters);
    ck_assert_uint_eq(counters.xfer.messages_sent, 4032);
    ck_assert_uint_eq(grid.flows[0].in->next_number, 2032);
    grid_close(&grid);
}
END_TEST

/* A sender connects once per epoch. A second connection of an epoch must be refused. It arrives
 * while the first one waits until the lane has stopped, or when the first one is up. */
START_TEST(a_second_connection_of_an_epoch_is_refused)
{
    struct flow_config config = {
        .n_lanes = 1, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};
    struct flow_purpose purpose = {
        .kind = FLOW_DELIVER,
        .to = 1,
        .epoch = 1000000, /* higher than any epoch of the flow itself */
        .share = 65536,
        .fragment_bytes = FLOW_FRAGMENT_BYTES,
        .relay_buffers = 8};
    struct conn *first, *second = NULL;

    open_pair(false);
    config.lanes[0].share = 65536;
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    first = grid_forge(&grid, 0, 1, &purpose);
    for (int i = 0; i < 20000 && (second == NULL || second->state < CONN_UP); i++) {
        /* Connect at once, or when the first one is up. */
        if (second == NULL && (_i == 0 || first->state == CONN_UP)) {
            second = grid_forge(&grid, 0, 1, &purpose);
        }
        grid_step_for(&grid, 10000);
        ck_assert_msg(first->state <= CONN_UP, "%s", first->error.message);
    }
    ck_assert_ptr_nonnull(second);
    ck_assert_int_eq(second->state, CONN_FAILED);
    conn_destroy(first);
    conn_destroy(second);
    grid_close(&grid);
}
END_TEST

static weft_status receive_nothing(struct flow_request **out)
{
    const struct xfer_memory *memory = NULL;
    uint32_t tag = 0;
    void *data = NULL;
    size_t size = 0;

    return flow_irecv(grid.flows[0].in, 1, &data, &size, &tag, &memory, out);
}

/* Flushes and receives have limits of their own, so that as many flushes as possible leave room for
 * as many receives as possible. */
START_TEST(flushes_leave_requests_for_receives)
{
    struct flow_request *flushes[FLOW_FLUSHES], *request;
    struct grid_traffic *t;
    struct flow *flow;

    open_pair(false);
    grid_route(&grid, 0, 1, 0, NULL, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send(
        &grid, 0,
        &(struct grid_traffic){
            .n_messages = 1, .max_bytes = 100, .size_of = mixed, .is_stalled = true});
    grid_step_for(&grid, FABRIC_MS);
    flow = grid.flows[0].in;
    t = &grid.flows[0].traffic;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < FLOW_FLUSHES; i++) {
            ck_assert_int_eq(
                flow_iflush(flow, t->received, 8, &t->received_memory, &flushes[i]),
                WEFT_OK);
        }
        ck_assert_int_eq(flow_iflush(flow, t->received, 8, &t->received_memory, &request),
                         WEFT_AGAIN);
        for (uint32_t i = 0; i < FLOW_RECEIVES && round == 1; i++) {
            ck_assert_int_eq(receive_nothing(&request), WEFT_OK);
        }
        grid_step_for(&grid, FABRIC_MS);
        for (uint32_t i = 0; i < FLOW_FLUSHES; i++) {
            ck_assert_int_eq(flow_test(flow, flushes[i], NULL), WEFT_OK);
        }
    }
    ck_assert_int_eq(receive_nothing(&request), WEFT_AGAIN);
    grid_close(&grid);
}
END_TEST

/* Returns the number of bytes that the receiver of a flow over host 2 sends in 100 ms. */
static uint64_t bytes_to_relay(void)
{
    struct world_cable_stats before, after;

    grid.fabric.world->ops->cable_stats(grid.fabric.world, 2, &before);
    grid_step_for(&grid, 100 * FABRIC_MS);
    grid.fabric.world->ops->cable_stats(grid.fabric.world, 2, &after);
    return after.bytes[0] + after.bytes[1] - before.bytes[0] - before.bytes[1];
}

/* A port that could add a rail cannot be reported while only a relayed lane is up, and is not
 * reported on that again and again. */
START_TEST(a_late_port_waits_for_a_direct_lane)
{
    static const struct fabric_cable triangle[] = {{0, 1}, {0, 2}, {1, 2}};
    static const uint32_t via[] = {2};
    struct flow_config config = {
        .n_lanes = 2, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};
    uint64_t quiet;
    struct flow *flow;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = triangle, .n_cables = 3});
    grid_relay(&grid, 2, 0, 0);
    config.lanes[0].share = config.lanes[1].share = FLOW_SHARE_WHOLE / 2;
    config.lanes[1].n_via = 1;
    config.lanes[1].via = via;
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_down(&grid, 0, 1, 0, 0);
    grid_step_for(&grid, 2 * FABRIC_S);
    flow = grid.flows[0].in;
    ck_assert_ptr_null(flow_lane_conn(flow, 0));
    ck_assert_ptr_nonnull(flow_lane_conn(flow, 1));
    quiet = bytes_to_relay();
    flow->must_tell_late = true;
    io_task_wake(&flow->lanes[1].conn->task);
    ck_assert_uint_le(bytes_to_relay(), 2 * quiet + 1000);
    ck_assert(flow->must_tell_late);
    grid_close(&grid);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/flow");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, messages_of_all_sizes_come_in_order, 0, 2);
    tcase_add_test(tcase, groups_are_matched_by_tag);
    tcase_add_loop_test(tcase, short_queues_will_do, 0, 7);
    tcase_add_loop_test(tcase, a_second_connection_of_an_epoch_is_refused, 0, 2);
    tcase_add_loop_test(tcase, numbers_wrap, 0, 2);
    tcase_add_test(tcase, flushes_leave_requests_for_receives);
    tcase_add_test(tcase, a_late_port_waits_for_a_direct_lane);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* Tests flows over relays on lines and rings, the limits at which relays refuse lanes, and the
 * buffers that they reserve. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "xfer/grid_testing.h"

static struct grid grid;
static const struct fabric_cable line[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
static const struct fabric_cable ring[] = {{0, 1}, {1, 2}, {2, 3},
                                           {3, 4}, {4, 5}, {5, 0}};

static void open_line(uint32_t n_hosts)
{
    grid_open(&grid, &(struct fabric_config){
                         .n_hosts = n_hosts, .cables = line, .n_cables = n_hosts - 1});
    for (uint32_t h = 1; h + 1 < n_hosts; h++) {
        grid_relay(&grid, h, 0, 0);
    }
}

/* Stores the members between two hosts of a line, in order, and returns their number. */
static uint32_t between(uint32_t from, uint32_t to, uint32_t *out)
{
    uint32_t n = 0;

    for (uint32_t at = from; at != to;) {
        at = from < to ? at + 1 : at - 1;
        if (at != to) {
            out[n++] = at;
        }
    }
    return n;
}

static uint32_t route(uint32_t from, uint32_t to, uint32_t relay_buffers)
{
    uint32_t via[8];

    return grid_route(&grid, from, to, between(from, to, via), via, relay_buffers);
}

static size_t mixed(uint32_t number)
{
    static const size_t sizes[] = {0, 1, 7, 4096, 131072, 131073, 262144, 1000000};

    return sizes[number % WEFT_LENGTH(sizes)];
}

static void send_mixed(uint32_t flow, uint32_t n_messages)
{
    grid_send(&grid, flow,
              &(struct grid_traffic){
                  .n_messages = n_messages, .size_of = mixed, .max_bytes = 1000000});
}

/* Messages pass one to three relays, with 1 or 8 buffers each, in both directions at once. */
START_TEST(messages_of_all_sizes_pass_relays)
{
    static const struct {
        uint32_t n_relays, n_buffers;
    } rows[] = {{1, 1}, {1, 8}, {2, 1}, {2, 8}, {3, 1}, {3, 8}};
    uint32_t n_hosts = rows[_i].n_relays + 2;
    uint32_t n_buffers = rows[_i].n_buffers;
    struct relay_counters counters;

    open_line(n_hosts);
    route(0, n_hosts - 1, n_buffers);
    route(n_hosts - 1, 0, n_buffers);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    send_mixed(0, 80);
    send_mixed(1, 80);
    ck_assert(grid_run(&grid, FABRIC_S));
    relay_counters(grid.relays[1], &counters);
    ck_assert_uint_eq(counters.lanes, 2);
    ck_assert_uint_eq(counters.refused + counters.failed, 0);
    /* Each posted buffer has eight fragments, whatever the size of the message. */
    ck_assert_uint_eq(counters.messages, 2 * 80 * 8);
    ck_assert_uint_eq(counters.bytes,
                      2 * 10 * (0 + 1 + 7 + 4096 + 131072 + 131073 + 262144 + 1000000));
    ck_assert_uint_eq(counters.memory, 2 * n_buffers * (uint64_t)FLOW_FRAGMENT_BYTES);
    grid_close(&grid);
}
END_TEST

START_TEST(groups_pass_relays)
{
    open_line(3);
    route(0, 2, 2);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send(
        &grid, 0,
        &(struct grid_traffic){
            .n_messages = 240, .n_group = 8, .size_of = mixed, .max_bytes = 1000000});
    ck_assert(grid_run(&grid, FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* Each host of a ring sends to every other, by the shorter route or in mixed directions. Every
 * relay has one buffer for each lane. All messages arrive. */
START_TEST(rings_do_not_deadlock)
{
    static const struct {
        const char *route;
        bool alternates; /* the direction, whatever the shorter route is */
    } rows[] = {{"the shorter one", false}, {"in mixed directions", true}};
    uint32_t n = 6;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = n, .cables = ring, .n_cables = n});
    for (uint32_t h = 0; h < n; h++) {
        grid_relay(&grid, h, 0, 0);
    }
    for (uint32_t from = 0; from < n; from++) {
        for (uint32_t d = 1; d < n; d++) {
            uint32_t via[8];
            bool up = rows[_i].alternates ? (from + d) % 2 == 0 : d <= n / 2;
            uint32_t n_via = (up ? d : n - d) - 1;

            for (uint32_t k = 0; k < n_via; k++) {
                via[k] = (up ? from + 1 + k : from + n - 1 - k) % n;
            }
            grid_route(&grid, from, (from + d) % n, n_via, via, 1);
        }
    }
    ck_assert(grid_run_until_up(&grid, 5 * FABRIC_S));
    for (uint32_t i = 0; i < grid.n_flows; i++) {
        grid_send(&grid, i,
                  &(struct grid_traffic){.n_messages = 12, .max_bytes = 400000});
    }
    ck_assert(grid_run(&grid, 5 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* If a receiver posts no buffers, its sender sends nothing, so that no relay holds its data. */
START_TEST(a_stalled_receiver_fills_no_relay)
{
    struct relay_counters counters;

    open_line(3);
    route(0, 2, 4);
    route(2, 0, 4);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send(&grid, 0,
              &(struct grid_traffic){
                  .n_messages = 10, .max_bytes = 1000000, .is_stalled = true});
    send_mixed(1, 40);
    grid_step_for(&grid, 100 * FABRIC_MS);
    relay_counters(grid.relays[1], &counters);
    ck_assert_uint_eq(counters.messages, 40 * 8);
    ck_assert_uint_eq(counters.memory_peak, 8 * (uint64_t)FLOW_FRAGMENT_BYTES);
    ck_assert_uint_eq(grid.flows[0].traffic.n_sent, 0);
    grid.flows[0].traffic.is_stalled = false;
    ck_assert(grid_run(&grid, FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* The message begins with `text`. */
static void check_refused(uint32_t flow, const char *reason, int64_t member,
                          const char *text)
{
    const struct weft_error *error = flow_error(grid.flows[flow].out);

    ck_assert_int_lt(grid.flows[flow].out_status, 0);
    ck_assert_int_eq(error->status, WEFT_ERR_ROUTE);
    ck_assert_str_eq(weft_phase_name(error->phase), "relay");
    ck_assert_str_eq(weft_error_value(error, WEFT_VALUE_REASON)->text, reason);
    ck_assert_msg(strncmp(error->message, text, strlen(text)) == 0, "%s", error->message);
    ck_assert_int_eq(weft_error_value(error, WEFT_VALUE_RELAY)->number, member);
    ck_assert_ptr_nonnull(weft_error_value(error, WEFT_VALUE_FROM));
    ck_assert_ptr_nonnull(weft_error_value(error, WEFT_VALUE_TO));
}

static void wait_for_refusal(uint32_t flow)
{
    for (uint32_t i = 0; i < 1000 && grid.flows[flow].out_status >= 0; i++) {
        grid_step_for(&grid, FABRIC_MS);
    }
}

/* A lane that exceeds a limit of the first relay or the second is refused, and the error names the
 * relay and the reason. The lane that was admitted before goes on. */
START_TEST(relays_refuse_what_exceeds_them)
{
    static const struct {
        const char *reason;
        uint32_t relay; /* with the limit */
        uint64_t memory_max;
        uint32_t lanes_max;
        uint32_t n_admitted; /* fragments of the lane before */
        const char *text;
    } rows[] = {
        {"memory", 1, FLOW_FRAGMENT_BYTES, 0, 1,
         "a relay gives up: memory: its lanes (1) hold 128 of 128 KiB, this needs 128"},
        {"memory", 2, FLOW_FRAGMENT_BYTES, 0, 1,
         "a relay gives up: memory: its lanes (1) hold 128 of 128 KiB, this needs 128"},
        {"lanes", 1, 0, 1, 8,
         "a relay gives up: lanes: it forwards 1 of at most 1 lanes"},
        {"lanes", 2, 0, 1, 8,
         "a relay gives up: lanes: it forwards 1 of at most 1 lanes"}};
    uint32_t at = rows[_i].relay;
    struct relay_counters counters;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 4, .cables = line, .n_cables = 3});
    for (uint32_t h = 1; h <= 2; h++) {
        grid_relay(&grid, h, h == at ? rows[_i].memory_max : 0,
                   h == at ? rows[_i].lanes_max : 0);
    }
    route(0, 3, 8);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    route(3, 0, 8);
    wait_for_refusal(1);
    check_refused(1, rows[_i].reason, at, rows[_i].text);
    relay_counters(grid.relays[at], &counters);
    ck_assert_uint_eq(counters.refused, 1);
    ck_assert_uint_eq(counters.lanes, 1);
    ck_assert_uint_eq(counters.memory,
                      rows[_i].n_admitted * (uint64_t)FLOW_FRAGMENT_BYTES);
    send_mixed(0, 40);
    for (uint32_t i = 0; grid.flows[0].traffic.n_received < 40; i++) {
        ck_assert_uint_lt(i, 1000);
        grid_step_for(&grid, FABRIC_MS);
    }
    grid_close(&grid);
}
END_TEST

/* Each of two lanes requests all the memory of the relay. The first gets half of it and the second
 * one buffer, and both carry messages. */
START_TEST(lanes_share_the_memory)
{
    struct relay_counters counters;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = line, .n_cables = 2});
    grid_relay(&grid, 1, 8 * (uint64_t)FLOW_FRAGMENT_BYTES, 0);
    route(0, 2, 8);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    route(2, 0, 8);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    send_mixed(0, 40);
    send_mixed(1, 40);
    ck_assert(grid_run(&grid, FABRIC_S));
    relay_counters(grid.relays[1], &counters);
    ck_assert_uint_eq(counters.lanes, 2);
    ck_assert_uint_eq(counters.refused, 0);
    ck_assert_uint_eq(counters.memory, 5 * (uint64_t)FLOW_FRAGMENT_BYTES);
    grid_close(&grid);
}
END_TEST

struct awaited {
    uint32_t n, member;
};

static void note_awaited(void *context, uint32_t member)
{
    struct awaited *awaited = context;

    awaited->n++;
    awaited->member = member;
}

static struct awaited awaited_by(uint32_t relay)
{
    struct awaited awaited = {0};

    relay_awaited(grid.relays[relay], note_awaited, &awaited);
    return awaited;
}

/* Relays wait for the next member while they connect to it, and while it takes no data from a
 * buffer. They wait for none while nothing moves. */
START_TEST(a_relay_waits_for_the_next_member)
{
    bool has_waited = false;

    open_line(4);
    route(0, 3, 8);
    for (uint32_t i = 0; i < 1000 && !has_waited; i++) {
        grid_step_for(&grid, FABRIC_MS / 100);
        has_waited = awaited_by(2).n > 0;
    }
    ck_assert(has_waited);
    ck_assert_uint_eq(awaited_by(2).member, 3);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_step_for(&grid, FABRIC_MS);
    ck_assert_uint_eq(awaited_by(1).n, 0);
    ck_assert_uint_eq(awaited_by(2).n, 0);
    send_mixed(0, 40);
    grid_step_for(&grid, FABRIC_MS / 5);
    grid_down(&grid, 2, 3, 0, 100 * FABRIC_MS);
    grid_step_for(&grid, 10 * FABRIC_MS);
    ck_assert_uint_eq(awaited_by(1).n, 0);
    ck_assert_uint_eq(awaited_by(2).n, 1);
    ck_assert_uint_eq(awaited_by(2).member, 3);
    for (uint32_t i = 0; grid.flows[0].traffic.n_received < 40; i++) {
        ck_assert_uint_lt(i, 2000);
        grid_step_for(&grid, FABRIC_MS);
    }
    grid_step_for(&grid, FABRIC_MS);
    ck_assert_uint_eq(awaited_by(2).n, 0);
    grid_close(&grid);
}
END_TEST

static uint64_t lane_id(uint32_t flow, uint32_t lane)
{
    const struct conn *conn = flow_lane_conn(grid.flows[flow].out, lane);

    return conn != NULL && conn->state == CONN_UP ? conn->id : 0;
}

/* One lane of two connects again before the relay has detected that its connection failed. The
 * other lane and the flow in the other direction go on. A connection whose epoch is not newer
 * replaces nothing. */
START_TEST(a_new_epoch_replaces_its_own_lane_only)
{
    static const struct {
        uint8_t lane;
        uint32_t epoch;
        bool is_newer;
    } rows[] = {{0, 9, true}, {1, 9, true}, {0, 1, false}, {1, 1, false}};
    static const uint32_t via[] = {1};
    struct flow_config config = {.n_lanes = 2,
                                 .relay_buffers = 4,
                                 .may_fail_over = true,
                                 .failover_ns = 10 * FABRIC_S};
    struct flow_purpose purpose = {.kind = FLOW_FORWARD,
                                   .lane = rows[_i].lane,
                                   .to = 2,
                                   .epoch = rows[_i].epoch,
                                   .share = 65536,
                                   .fragment_bytes = FLOW_FRAGMENT_BYTES,
                                   .relay_buffers = 4};
    uint64_t ids[2][2];
    struct conn *forged;

    open_line(3);
    for (uint32_t i = 0; i < 2; i++) {
        config.lanes[i].share = 32768;
        config.lanes[i].n_via = 1;
        config.lanes[i].via = via;
    }
    grid_flow(&grid, 0, 2, &config);
    grid_flow(&grid, 2, 0, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_step_for(&grid, 100 * FABRIC_MS);
    for (uint32_t i = 0; i < 4; i++) {
        ids[i / 2][i % 2] = lane_id(i / 2, i % 2);
        ck_assert_uint_ne(ids[i / 2][i % 2], 0);
    }
    forged = grid_forge(&grid, 0, 1, &purpose);
    grid_step_for(&grid, 100 * FABRIC_MS);
    for (uint32_t i = 0; i < 4; i++) {
        bool is_replaced = rows[_i].is_newer && i == rows[_i].lane;

        ck_assert_int_eq(lane_id(i / 2, i % 2) != ids[i / 2][i % 2], is_replaced);
    }
    conn_destroy(forged);
    grid_close(&grid);
}
END_TEST

/* The relay has room for one lane. The next epoch of this lane is admitted while the relay still
 * closes the one before. */
START_TEST(a_new_epoch_needs_no_room_beside_the_last)
{
    static const struct {
        uint64_t memory_max;
        uint32_t lanes_max;
    } rows[] = {{FLOW_FRAGMENT_BYTES, 0}, {0, 1}};
    struct flow_purpose purpose = {.kind = FLOW_FORWARD,
                                   .to = 2,
                                   .epoch = 9,
                                   .share = FLOW_SHARE_WHOLE,
                                   .fragment_bytes = FLOW_FRAGMENT_BYTES,
                                   .relay_buffers = 4};
    struct relay_counters counters;
    struct conn *forged;

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = line, .n_cables = 2});
    grid_relay(&grid, 1, rows[_i].memory_max, rows[_i].lanes_max);
    route(0, 2, 4);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    forged = grid_forge(&grid, 0, 1, &purpose);
    wait_for_refusal(0); /* the first epoch ends */
    relay_counters(grid.relays[1], &counters);
    ck_assert_uint_eq(counters.refused, 0);
    ck_assert_uint_eq(counters.lanes_peak, 2);
    grid_step_for(&grid, 100 * FABRIC_MS);
    relay_counters(grid.relays[1], &counters);
    ck_assert_uint_eq(counters.refused, 0);
    ck_assert_uint_le(counters.memory, FLOW_FRAGMENT_BYTES);
    conn_destroy(forged);
    grid_close(&grid);
}
END_TEST

static int refuse_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                            struct ibv_send_wr **bad)
{
    (void)qp;
    *bad = wr;
    return ENOMEM;
}

/* The relay cannot post on the connection from the sender, or on that to the receiver, and names
 * the member at the other end of it. */
START_TEST(the_member_at_the_failed_end_is_named)
{
    static const uint32_t ends[] = {0, 2}; /* the sender, the receiver */
    struct io_device *device;
    const struct io_device_ops *real;
    struct io_device_ops refusing;
    uint32_t member = 77;

    open_line(3);
    route(0, 2, 4);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    device = grid.fabric.hosts[1].rdma->ports[grid_port(&grid, 1, ends[_i], 0)].device;
    real = device->ops;
    refusing = *real;
    refusing.post_send = refuse_post_send;
    device->ops = &refusing;
    send_mixed(0, 10);
    wait_for_refusal(0);
    device->ops = real;
    ck_assert_ptr_nonnull(relay_trouble(grid.relays[1], &member));
    ck_assert_uint_eq(member, ends[_i]);
    check_refused(0, "lost", member, "a relay gives up: lost: ");
    grid_close(&grid);
}
END_TEST

START_TEST(an_unknown_member_is_named)
{
    static const uint32_t via[] = {1, 77};

    open_line(3);
    grid_route(&grid, 0, 2, 2, via, 8);
    wait_for_refusal(0);
    check_refused(0, "host", 77, "a relay gives up: host: it does not know member 77");
    grid_close(&grid);
}
END_TEST

/* A lane has the maximum number of relays. The first reports that it does not know the second. */
START_TEST(the_longest_way_is_told_whole)
{
    uint32_t via[FLOW_VIA_MAX] = {1};

    for (uint32_t i = 1; i < FLOW_VIA_MAX; i++) {
        via[i] = 76 + i;
    }
    open_line(3);
    grid_route(&grid, 0, 2, FLOW_VIA_MAX, via, 8);
    wait_for_refusal(0);
    check_refused(0, "host", 77, "a relay gives up: host: it does not know member 77");
    grid_close(&grid);
}
END_TEST

/* Host 1 runs no relay, so that it refuses the connection. */
START_TEST(a_host_without_a_relay_ends_the_flow)
{
    static const uint32_t via[] = {1};

    grid_open(&grid,
              &(struct fabric_config){.n_hosts = 3, .cables = line, .n_cables = 2});
    grid_route(&grid, 0, 2, 1, via, 8);
    wait_for_refusal(0);
    ck_assert_int_eq(grid.flows[0].out_status, WEFT_ERR_CLOSED);
    grid_close(&grid);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/relay");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, messages_of_all_sizes_pass_relays, 0, 6);
    tcase_add_test(tcase, groups_pass_relays);
    tcase_add_loop_test(tcase, rings_do_not_deadlock, 0, 2);
    tcase_add_test(tcase, a_stalled_receiver_fills_no_relay);
    tcase_add_loop_test(tcase, relays_refuse_what_exceeds_them, 0, 4);
    tcase_add_test(tcase, lanes_share_the_memory);
    tcase_add_test(tcase, a_relay_waits_for_the_next_member);
    tcase_add_loop_test(tcase, a_new_epoch_replaces_its_own_lane_only, 0, 4);
    tcase_add_loop_test(tcase, a_new_epoch_needs_no_room_beside_the_last, 0, 2);
    tcase_add_loop_test(tcase, the_member_at_the_failed_end_is_named, 0, 2);
    tcase_add_test(tcase, an_unknown_member_is_named);
    tcase_add_test(tcase, the_longest_way_is_told_whole);
    tcase_add_test(tcase, a_host_without_a_relay_ends_the_flow);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* Tests flows that lose a device: during a trial, and after the peer has closed. */
#include <check.h>
#include <errno.h>

#include "base/suite_testing.h"
#include "xfer/flow_private.h"
#include "xfer/grid_testing.h"

static struct grid grid;
static const struct fabric_cable triplets[] = {{0, 1}, {0, 1}, {0, 1}};

static void open_flow(uint32_t n_cables)
{
    struct flow_config config = {
        .n_lanes = 1, .may_fail_over = true, .failover_ns = 10 * FABRIC_S};

    config.lanes[0].share = FLOW_SHARE_WHOLE;
    grid_open(&grid, &(struct fabric_config){
                         .n_hosts = 2, .cables = triplets, .n_cables = n_cables});
    grid_flow(&grid, 0, 1, &config);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    ck_assert_uint_eq(grid_n_rails(&grid, 0, true), n_cables);
}

static const struct rdma_port *port_of(uint32_t host, uint32_t nth)
{
    return &grid.fabric.hosts[host].rdma->ports[grid_port(&grid, host, 1 - host, nth)];
}

/* Loses the device of the host's nth port. */
static void lose_device(uint32_t host, uint32_t nth)
{
    uint32_t device = port_of(host, nth)->device_index;

    rdma_lose_device(grid.fabric.hosts[host].rdma, device);
    flow_device_lost(host == 0 ? grid.flows[0].out : grid.flows[0].in, device);
}

/* Closes the grid after the device has been made usable again, because its objects still exist. */
static void close_grid(uint32_t host, uint32_t nth)
{
    grid.fabric.hosts[host].rdma->is_lost[port_of(host, nth)->device_index] = false;
    grid_close(&grid);
}

static void move_data(void)
{
    grid_send(&grid, 0, &(struct grid_traffic){.n_messages = 20, .max_bytes = 100000});
    ck_assert(grid_run(&grid, FABRIC_S));
}

/* Two of three cables were down. One of the two devices is lost during the trial of both, and the
 * next trial gets back the other one. */
START_TEST(a_trial_that_loses_a_device_is_not_the_last)
{
    const struct flow *flow;

    open_flow(3);
    flow = grid.flows[0].out;
    grid_down(&grid, 0, 1, 1, 100 * FABRIC_MS);
    grid_down(&grid, 0, 1, 2, 100 * FABRIC_MS);
    ck_assert(grid_run_until_rails(&grid, 1, 90 * FABRIC_MS));
    for (int i = 0; i < 100000 && (flow->trial == NULL || flow->trial->n_rails < 2);
         i++) {
        grid_step_for(&grid, 10000);
    }
    ck_assert_ptr_nonnull(flow->trial);
    ck_assert_uint_eq(flow->trial->n_rails, 2);
    lose_device(0, 1);
    ck_assert(grid_run_until_rails(&grid, 2, 10 * FABRIC_S));
    close_grid(0, 1);
}
END_TEST

/* The sender loses its only device while it drains its lane, because the receiver has closed. The
 * flow ends as the receiver closed it. */
START_TEST(a_device_that_goes_after_the_peer_has_closed_changes_nothing)
{
    const struct flow *flow;

    open_flow(1);
    flow = grid.flows[0].out;
    move_data();
    flow_close(grid.flows[0].in);
    for (int i = 0; i < 10000 && !flow->peer_closed; i++) {
        grid_step_for(&grid, 1000);
    }
    ck_assert(flow->peer_closed);
    ck_assert_int_eq(flow->lanes[0].state, FLOW_LANE_STOPPING);
    lose_device(0, 0);
    ck_assert_int_eq(flow_error(flow)->status, WEFT_OK);
    for (int i = 0; i < 1000 && grid.flows[0].out_status >= 0; i++) {
        grid_step_for(&grid, FABRIC_MS);
    }
    ck_assert(flow_peer_has_closed(flow));
    ck_assert_int_eq(flow_error(flow)->status, WEFT_ERR_CLOSED);
    close_grid(0, 0);
}
END_TEST

static int fail_submit(struct io_device *device, struct io_op *op)
{
    (void)device;
    (void)op;
    return EIO;
}

static int fail_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                          struct ibv_send_wr **bad)
{
    (void)qp;
    *bad = wr;
    return EIO;
}

/* The peer has closed, and one of two devices is lost before a flush begins or while its queue
 * pairs connect. The flush completes on the other one, and fails if that is lost, too. */
START_TEST(a_flush_does_not_wait_for_a_lost_device)
{
    struct weft_error error = {0};
    struct grid_flow *flow = &grid.flows[0];
    struct flow_request *flush = NULL;
    struct io_device *device;
    const struct io_device_ops *real;
    struct io_device_ops dead;
    weft_status status = WEFT_AGAIN;

    open_flow(2);
    move_data();
    flow_close(flow->out);
    for (int i = 0; i < 1000 && !flow_peer_has_closed(flow->in); i++) {
        grid_step_for(&grid, FABRIC_MS);
    }
    ck_assert_int_eq(flow_iflush(flow->in, flow->traffic.received, 8,
                                 &flow->traffic.received_memory, &flush),
                     WEFT_OK);
    if (_i % 2 == 1) {
        ck_assert_int_eq(flow_flush_after_close(flow->in, &error), WEFT_AGAIN);
    }
    device = port_of(1, 0)->device;
    real = device->ops;
    dead = *real;
    dead.submit = fail_submit;
    dead.post_send = fail_post_send;
    device->ops = &dead;
    lose_device(1, 0);
    if (_i >= 2) {
        lose_device(1, 1);
    }
    for (int i = 0; i < 1000 && status == WEFT_AGAIN; i++) {
        status = flow_flush_after_close(flow->in, &error);
        grid_step_for(&grid, 10000);
    }
    if (_i >= 2) {
        ck_assert_int_eq(status, WEFT_ERR_SYSTEM);
        ck_assert_str_eq(weft_phase_name(error.phase), "flush");
    } else {
        ck_assert_msg(status == WEFT_OK, "%s: %s", weft_phase_name(error.phase),
                      error.message);
        ck_assert_int_eq(flow_test(flow->in, flush, NULL), WEFT_OK);
    }
    device->ops = real;
    close_grid(1, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xfer/flow_device");
    TCase *tcase = tcase_create("all");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_trial_that_loses_a_device_is_not_the_last);
    tcase_add_test(tcase, a_device_that_goes_after_the_peer_has_closed_changes_nothing);
    tcase_add_loop_test(tcase, a_flush_does_not_wait_for_a_lost_device, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

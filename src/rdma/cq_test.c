#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"
#include "rdma/async.h"
#include "rdma/cq.h"
#include "rdma/rdma_testing.h"

static struct fake_host host;
static struct rdma *rdma;
static struct rdma_cq cq;
static struct weft_error error;
static struct ibv_wc wc;
static uint32_t owner;

static void setup(void)
{
    fake_host_init(&host);
    fake_device_add(&host, "p0", 1);
    fake_device_add(&host, "p1", 2);
    rdma = fake_open(&host);
    weft_error_clear(&error);
    memset(&cq, 0, sizeof(cq));
}

static void teardown(void)
{
    rdma_cq_close(&cq);
    rdma_close(rdma);
    ck_assert_int_eq(host.n_live, 0);
    ck_assert_uint_eq(host.n_running, 0);
    fake_host_fini(&host);
}

static void open_cq(void)
{
    ck_assert_int_eq(rdma_cq_open(&cq, rdma, 0, 100, NULL, &error), WEFT_OK);
    ck_assert_int_eq(rdma_cq_progress(&cq, &error), WEFT_OK);
}

static void complete(struct fake_host *on, uint32_t qpn, uint64_t wr_id)
{
    ck_assert_int_lt(on->n_wcs, FAKE_WCS_MAX);
    on->wcs[on->n_wcs++] = (struct ibv_wc){.wr_id = wr_id, .qp_num = qpn};
}

static void expect_next(uint64_t wr_id, uint32_t index)
{
    ck_assert_int_eq(rdma_cq_next(&cq, &wc, &owner, &error), WEFT_OK);
    ck_assert_uint_eq(wc.wr_id, wr_id);
    ck_assert_uint_eq(owner, index);
}

static void expect_empty(void)
{
    ck_assert_int_eq(rdma_cq_next(&cq, &wc, &owner, &error), WEFT_AGAIN);
    ck_assert(cq.is_armed);
}

START_TEST(completions_find_their_owner)
{
    open_cq();
    /* Not sorted, and more than the table has room for at first. */
    static const uint32_t qpns[] = {40, 10, 30, 20, 60, 50, 90, 80, 70, 0xffffff};
    for (uint32_t i = 0; i < 10; i++) {
        rdma_cq_route(&cq, qpns[i], i);
    }
    for (uint32_t i = 0; i < 10; i++) {
        complete(&host, qpns[i], 100 + i);
    }
    for (uint32_t i = 0; i < 10; i++) {
        expect_next(100 + i, i);
    }
    expect_empty();
    /* Completions of a number without a route are strays, until the number has a route again. */
    rdma_cq_unroute(&cq, 30);
    rdma_cq_unroute(&cq, 30);
    complete(&host, 30, 1);
    complete(&host, 35, 2);
    complete(&host, 40, 3);
    expect_next(3, 0);
    ck_assert_uint_eq(cq.n_strays, 2);
    rdma_cq_route(&cq, 30, 77);
    complete(&host, 30, 4);
    expect_next(4, 77);
    complete(&host, 30, 5);
    rdma_cq_unroute(&cq, 30);
    expect_empty();
    ck_assert_uint_eq(cq.n_strays, 3);
}
END_TEST

/* A completion that arrives during arming wakes no task. Only the poll after arming finds it. */
static void complete_while_arming(struct fake_host *on)
{
    on->on_arm = NULL;
    complete(on, 17, 42);
}

START_TEST(nothing_is_slept_over)
{
    open_cq();
    rdma_cq_route(&cq, 17, 5);
    host.on_arm = complete_while_arming;
    expect_next(42, 5);
    ck_assert_uint_eq(host.n_armed, 1);
    ck_assert(!cq.is_armed);
    expect_empty();
    ck_assert_uint_eq(host.n_armed, 2);
    /* A wake-up without a completion leaves the CQ armed, so that it is not armed again. */
    expect_empty();
    ck_assert_uint_eq(host.n_armed, 2);
}
END_TEST

START_TEST(bursts_longer_than_a_batch_come_in_order)
{
    open_cq();
    rdma_cq_route(&cq, 17, 0);
    for (uint64_t i = 0; i < 50; i++) {
        complete(&host, 17, i);
    }
    for (uint64_t i = 0; i < 50; i++) {
        expect_next(i, 0);
    }
    expect_empty();
    /* Four polls for 50, an empty one, and one after arming. */
    ck_assert_uint_eq(host.n_polled, 6);
    ck_assert_uint_eq(host.n_armed, 1);
}
END_TEST

/* Adds `n` completions. Every other one, beginning with the first, has GENERAL_ERR. */
static void complete_with_noise(int n)
{
    for (int i = 0; i < n; i++) {
        complete(&host, 17, (uint64_t)i);
        host.wcs[host.n_wcs - 1].status =
            i % 2 == 0 ? IBV_WC_GENERAL_ERR : IBV_WC_SUCCESS;
    }
}

START_TEST(harmless_errors_are_dropped_and_others_are_not)
{
    struct ibv_wc wcs[RDMA_CQ_BATCH];
    int n;
    open_cq();
    rdma_cq_route(&cq, 17, 5);
    rdma->attrs[0].general_err_is_harmless = true;
    complete_with_noise(40);
    for (uint64_t i = 1; i < 40; i += 2) {
        expect_next(i, 5);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    }
    expect_empty();
    /* Fewer than requested means that the CQ is empty, even if some were dropped. */
    complete_with_noise(34);
    ck_assert_int_eq(rdma_poll(rdma, 0, cq.cq, RDMA_CQ_BATCH, wcs, &n), 0);
    ck_assert_int_eq(n, RDMA_CQ_BATCH);
    ck_assert_uint_eq(wcs[15].wr_id, 31);
    ck_assert_int_eq(rdma_poll(rdma, 0, cq.cq, RDMA_CQ_BATCH, wcs, &n), 0);
    ck_assert_int_eq(n, 1);
    ck_assert_uint_eq(wcs[0].wr_id, 33);
    /* On other devices the status is returned, because the queue pair is lost. */
    rdma->attrs[0].general_err_is_harmless = false;
    complete_with_noise(1);
    expect_next(0, 5);
    ck_assert_int_eq(wc.status, IBV_WC_GENERAL_ERR);
}
END_TEST

/* A completion that is dropped can have used up the arming, like any other. */
START_TEST(a_dropped_completion_does_not_leave_the_queue_unarmed)
{
    uint64_t n_armed;

    open_cq();
    rdma_cq_route(&cq, 17, 5);
    rdma->attrs[0].general_err_is_harmless = true;
    expect_empty();
    n_armed = host.n_armed;
    complete_with_noise(1);
    expect_empty();
    ck_assert_uint_eq(host.n_armed, n_armed + 1);
    expect_empty();
    ck_assert_uint_eq(host.n_armed, n_armed + 1);
}
END_TEST

START_TEST(creation_may_be_slow_fail_or_be_given_up)
{
    fake_rule_add(&host, IO_OP_CREATE_CQ, 1, 0, false, 1);
    fake_rule_add(&host, IO_OP_CREATE_CQ, 2, ENOMEM, false, 0);
    fake_rule_add(&host, IO_OP_CREATE_CQ, 3, EINVAL, true, 0);
    /* Lowered to the device's maximum. */
    ck_assert_int_eq(rdma_cq_open(&cq, rdma, 0, 1 << 20, NULL, &error), WEFT_OK);
    ck_assert_int_eq(rdma_cq_progress(&cq, &error), WEFT_AGAIN);
    ck_assert_int_eq(rdma_cq_progress(&cq, &error), WEFT_OK);
    ck_assert_int_eq(rdma_cq_progress(&cq, &error), WEFT_OK);
    ck_assert_int_eq(cq.cq->cqe, 4096);
    rdma_cq_close(&cq);
    ck_assert_int_eq(rdma_cq_open(&cq, rdma, 0, 10, NULL, &error), WEFT_OK);
    ck_assert_int_eq(rdma_cq_progress(&cq, &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, ENOMEM);
    ck_assert_str_eq(weft_phase_name(error.phase), "create_cq");
    ck_assert_str_eq(error.object, "titanic:p0");
    rdma_cq_close(&cq);
    weft_error_clear(&error);
    ck_assert_int_eq(rdma_cq_open(&cq, rdma, 1, 10, NULL, &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, EINVAL);
    rdma_cq_close(&cq);
    fake_rule_add(&host, IO_OP_CREATE_CQ, 4, 0, false, 5);
    ck_assert_int_eq(rdma_cq_open(&cq, rdma, 0, 10, NULL, &error), WEFT_OK);
    ck_assert_int_eq(rdma_cq_progress(&cq, &error), WEFT_AGAIN);
    rdma_cq_close(&cq);
    rdma_cq_close(&cq);
}
END_TEST

START_TEST(an_overrun_is_an_error)
{
    open_cq();
    host.poll_failure = EIO;
    ck_assert_int_eq(rdma_cq_next(&cq, &wc, &owner, &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, EIO);
    ck_assert_str_eq(weft_phase_name(error.phase), "poll_cq");
    weft_error_clear(&error);
    host.poll_failure = 0;
    host.notify_failure = EINVAL;
    ck_assert_int_eq(rdma_cq_next(&cq, &wc, &owner, &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, EINVAL);
}
END_TEST

/* ---- async events ---- */

START_TEST(events_are_told_apart)
{
    struct ibv_qp qp = {.qp_num = 4711};
    struct io_task task;
    rdma_async_start(rdma, &task);
    ck_assert_ptr_eq(host.devices[0].device.async_task, &task);
    ck_assert_ptr_eq(host.devices[1].device.async_task, &task);
    fake_event_add(&host.devices[1], IBV_EVENT_PORT_ERR, 2, NULL);
    fake_event_add(&host.devices[1], IBV_EVENT_GID_CHANGE, 1, NULL);
    fake_event_add(&host.devices[0], IBV_EVENT_QP_FATAL, 0, &qp);
    fake_event_add(&host.devices[0], IBV_EVENT_COMM_EST, 0, &qp);
    fake_event_add(&host.devices[0], IBV_EVENT_DEVICE_FATAL, 0, NULL);
    fake_event_add(&host.devices[0], IBV_EVENT_CQ_ERR, 0, NULL);
    fake_event_add(&host.devices[0], IBV_EVENT_SM_CHANGE, 1, NULL);
    fake_event_add(&host.devices[0], (enum ibv_event_type)77, 0, NULL);
    static const struct {
        enum rdma_async_scope scope;
        bool is_fatal;
        const char *port;
        uint32_t qpn;
    } expected[] = {
        {RDMA_ASYNC_QP, true, NULL, 4711},   {RDMA_ASYNC_QP, false, NULL, 4711},
        {RDMA_ASYNC_DEVICE, true, NULL, 0},  {RDMA_ASYNC_CQ, true, NULL, 0},
        {RDMA_ASYNC_OTHER, false, "p0", 0},  {RDMA_ASYNC_OTHER, false, NULL, 0},
        {RDMA_ASYNC_PORT, false, "p1/2", 0}, {RDMA_ASYNC_GIDS, false, "p1", 0},
    };
    struct rdma_async event;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        ck_assert(rdma_async_next(rdma, &event));
        ck_assert_int_eq((int)event.scope, (int)expected[i].scope);
        ck_assert_int_eq(event.is_fatal, expected[i].is_fatal);
        ck_assert_uint_eq(event.qpn, expected[i].qpn);
        if (expected[i].port != NULL) {
            ck_assert_str_eq(event.port->name, expected[i].port);
        } else {
            ck_assert_ptr_null(event.port);
        }
    }
    ck_assert(!rdma_async_next(rdma, &event));
    rdma_async_start(rdma, NULL);
    ck_assert_ptr_null(host.devices[0].device.async_task);
    ck_assert_str_eq(host.story.bytes, "0 titanic async:p0 QP_FATAL qpn=4711\n"
                                       "0 titanic async:p0 COMM_EST qpn=4711\n"
                                       "0 titanic async:p0 DEVICE_FATAL\n"
                                       "0 titanic async:p0 CQ_ERR\n"
                                       "0 titanic async:p0 SM_CHANGE\n"
                                       "0 titanic async:p0 ?\n"
                                       "0 titanic async:p1/2 PORT_ERR\n"
                                       "0 titanic async:p1 GID_CHANGE\n");
}
END_TEST

START_TEST(events_are_silent_without_a_story)
{
    struct rdma_async event;
    host.trace.level = WEFT_TRACE_OFF;
    fake_event_add(&host.devices[0], IBV_EVENT_PORT_ACTIVE, 1, NULL);
    ck_assert(rdma_async_next(rdma, &event));
    ck_assert_str_eq(rdma_async_name(event.type), "PORT_ACTIVE");
    ck_assert_str_eq(host.story.bytes, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma/cq");
    TCase *tests = tcase_create("cq");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, completions_find_their_owner);
    tcase_add_test(tests, nothing_is_slept_over);
    tcase_add_test(tests, bursts_longer_than_a_batch_come_in_order);
    tcase_add_test(tests, harmless_errors_are_dropped_and_others_are_not);
    tcase_add_test(tests, a_dropped_completion_does_not_leave_the_queue_unarmed);
    tcase_add_test(tests, creation_may_be_slow_fail_or_be_given_up);
    tcase_add_test(tests, an_overrun_is_an_error);
    tcase_add_test(tests, events_are_told_apart);
    tcase_add_test(tests, events_are_silent_without_a_story);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

/* When a CQ is armed in the kernel, and how completions polled meanwhile are delivered. */
#define _GNU_SOURCE
#include <check.h>
#include <errno.h>

#include "backends/verbs/bed_testing.h"
#include "backends/verbs/fake_testing.h"
#include "base/suite_testing.h"

#define S ((weft_ns)1000000000)

static struct ibv_cq *cq;

static void setup(void)
{
    struct weft_error error = {.status = WEFT_OK};
    struct io_hostinfo info = {.n_netdevs = 0};
    fake_reset();
    fake.n_devices = 1;
    fake.devices[0] = (struct fake_device){.name = "rxe_ab", .max_msg_bytes = 1u << 23};
    verbs_bed_setup();
    ck_assert_int_eq(verbs_bed_open(&info, "/sys", &error), WEFT_OK);
    cq = verbs_bed_cq();
}

static void teardown(void)
{
    verbs_bed_unmake(NULL, cq, NULL);
    verbs_bed_teardown();
}

static int ask(void)
{
    return verbs_bed.device->io.ops->req_notify(cq, 0);
}

/* Polls for up to `n_max` completions and expects `n`, numbered from `first`. */
static void polled(int n_max, uint64_t first, int n)
{
    struct ibv_wc wc[2 * VERBS_STASH];
    int n_polled;
    ck_assert_int_eq(verbs_bed.device->io.ops->poll_cq(cq, n_max, wc, &n_polled), 0);
    ck_assert_int_eq(n_polled, n);
    for (int i = 0; i < n; i++) {
        ck_assert_uint_eq(wc[i].wr_id, FAKE_FIRST_WR + first + (uint64_t)i);
    }
}

START_TEST(what_is_there_already_costs_no_system_call)
{
    ck_assert_int_eq(ask(), 0);
    fake_complete(cq);
    verbs_bed_step(60 * S);
    ck_assert_uint_eq(verbs_bed.n_woken[VERBS_BED_CQ], 1);
    ck_assert_uint_eq(fake.n_arms, 0);
    /* No further wake-up without another request. */
    fake_complete(cq);
    verbs_bed_step(0);
    ck_assert_uint_eq(verbs_bed.n_woken[VERBS_BED_CQ], 1);
    polled(2 * VERBS_STASH, 0, 2);
    polled(1, 0, 0);
}
END_TEST

START_TEST(before_sleeping_the_kernel_is_asked_once)
{
    verbs_bed_step(S / 100);
    ck_assert_uint_eq(fake.n_arms, 0); /* no wake-up requested */
    ck_assert_int_eq(ask(), 0);
    verbs_bed_step(0);
    ck_assert_uint_eq(fake.n_arms, 0); /* it did not sleep */
    verbs_bed_step(S / 100);
    ck_assert_uint_eq(fake.n_arms, 1);
    ck_assert_int_eq(ask(), 0);
    verbs_bed_step(S / 100);
    ck_assert_uint_eq(fake.n_arms, 1); /* the event is still pending */
    ck_assert_uint_eq(verbs_bed.n_woken[VERBS_BED_CQ], 0);
    fake_complete(cq);
    verbs_bed_step(60 * S);
    ck_assert_uint_eq(verbs_bed.n_woken[VERBS_BED_CQ], 1);
    polled(1, 0, 1);
    /* An event for a completion that the user has already seen causes at most one wake-up, and is
     * then consumed. */
    verbs_bed_step(S / 100);
    ck_assert_int_eq(ask(), 0);
    verbs_bed_step(S / 100);
    ck_assert_int_eq(ask(), 0);
    verbs_bed_step(S / 100);
    ck_assert_uint_eq(fake.n_arms, 2);
    ck_assert_uint_eq(verbs_bed.device->n_armed, 1);
}
END_TEST

START_TEST(what_comes_while_arming_is_not_slept_over)
{
    verbs_bed_step(S / 100); /* otherwise something else could end the sleep */
    ck_assert_int_eq(ask(), 0);
    fake.completes_before_arming = 1;
    verbs_bed_step(5 * S);
    ck_assert_uint_eq(verbs_bed.n_woken[VERBS_BED_CQ], 1);
    ck_assert_uint_eq(fake.n_arms, 1);
    polled(1, 0, 1);
}
END_TEST

START_TEST(completions_keep_their_order)
{
    const int n = VERBS_STASH + 5;
    ck_assert_int_eq(ask(), 0);
    for (int i = 0; i < n; i++) {
        fake_complete(cq);
    }
    verbs_bed_step(60 * S); /* polls as many as the stash holds */
    polled(3, 0, 3);
    ck_assert_int_eq(ask(), 0); /* more completions are pending, so it wakes at once */
    verbs_bed_step(60 * S);
    ck_assert_uint_eq(verbs_bed.n_woken[VERBS_BED_CQ], 2);
    ck_assert_uint_eq(fake.n_arms, 0);
    polled(2 * VERBS_STASH, 3, n - 3); /* first the stash, then the queue */
    polled(2 * VERBS_STASH, 0, 0);
}
END_TEST

START_TEST(an_arming_that_fails_is_told_to_who_asks_next)
{
    fake.arming_result = EIO;
    ck_assert_int_eq(ask(), 0);
    verbs_bed_step(60 * S);
    ck_assert_uint_eq(verbs_bed.n_woken[VERBS_BED_CQ], 1);
    ck_assert_int_eq(ask(), EIO);
    fake.arming_result = 0;
    ck_assert_int_eq(ask(), 0);
    verbs_bed_step(S / 100);
    ck_assert_uint_eq(fake.n_arms, 2);
    fake_complete(cq);
    verbs_bed_step(60 * S);
    ck_assert_uint_eq(verbs_bed.n_woken[VERBS_BED_CQ], 2);
}
END_TEST

START_TEST(a_broken_queue_wakes_its_user_who_sees_that)
{
    struct ibv_wc wc;
    int n;
    ck_assert_int_eq(ask(), 0);
    fake.poll_cq_fails = true;
    verbs_bed_step(60 * S);
    ck_assert_uint_eq(verbs_bed.n_woken[VERBS_BED_CQ], 1);
    ck_assert_int_eq(verbs_bed.device->io.ops->poll_cq(cq, 1, &wc, &n), EIO);
    ck_assert_int_eq(n, 0);
}
END_TEST

/* A worker may be destroying the CQ. */
START_TEST(a_queue_on_its_way_out_is_not_looked_at)
{
    struct io_op op = {.kind = IO_OP_DESTROY_CQ, .arg.destroy_cq = cq};
    ck_assert_int_eq(ask(), 0);
    verbs_bed_step(S / 100);
    ck_assert_uint_eq(verbs_bed.device->n_armed, 1);
    ck_assert_int_eq(verbs_bed_run(&op), 0);
    ck_assert_uint_eq(verbs_bed.device->n_armed, 0);
    verbs_bed_step(S / 100);
    ck_assert_uint_eq(verbs_bed.n_woken[VERBS_BED_CQ], 0);
    ck_assert_uint_eq(fake.n_arms, 1);
    cq = NULL;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verbs cq");
    TCase *tcase = tcase_create("cq");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, what_is_there_already_costs_no_system_call);
    tcase_add_test(tcase, before_sleeping_the_kernel_is_asked_once);
    tcase_add_test(tcase, what_comes_while_arming_is_not_slept_over);
    tcase_add_test(tcase, completions_keep_their_order);
    tcase_add_test(tcase, an_arming_that_fails_is_told_to_who_asks_next);
    tcase_add_test(tcase, a_broken_queue_wakes_its_user_who_sees_that);
    tcase_add_test(tcase, a_queue_on_its_way_out_is_not_looked_at);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

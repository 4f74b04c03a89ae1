/* What is flushed after an error, when, and how it is reported. */
#include <check.h>
#include <errno.h>

#include "base/suite_testing.h"
#include "sim/rc_testing.h"

/* Posts a WRITE with a key that the peer does not know. */
static void fail_at_the_peer(struct rc_pair *pair)
{
    struct ibv_sge sge = {.addr = (uintptr_t)pair->ends[0].memory,
                          .length = 100,
                          .lkey = pair->ends[0].mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad = NULL;
    wr.wr.rdma.remote_addr = (uintptr_t)pair->ends[1].memory;
    wr.wr.rdma.rkey = pair->ends[1].mr->rkey ^ 1;
    ck_assert_int_eq(sim_nic_post_send(pair->ends[0].qp, &wr, &bad), 0);
}

START_TEST(posts_after_the_error_flush_too)
{
    struct rc_pair pair;
    rc_pair_init(&pair, NULL);
    ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_ERR), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, 3, 0, 10, 0), 0);
    ck_assert_int_eq(rc_post_recv(&pair, 0, 4, 0, 10), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_WR_FLUSH_ERR);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(hip08_flushes_only_when_the_error_was_polled)
{
    struct rc_pair pair;
    struct ibv_wc wc[4];
    rc_pair_init(&pair, &(struct rc_options){.profile = "hns-hip08"});
    fail_at_the_peer(&pair);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 0, 64, 0), 0);
    rc_run(&pair, RC_PS_PER_S);
    ck_assert_uint_eq(rc_times_told(&pair, "opcode=RDMA_WRITE status="), 1);
    ck_assert_int_eq(rc_poll(&pair, 0, wc, 4), 1);
    ck_assert_int_eq(wc[0].status, IBV_WC_REM_ACCESS_ERR);
    rc_run(&pair, RC_PS_PER_US);
    ck_assert_int_eq(rc_poll(&pair, 0, wc, 4), 1);
    ck_assert_int_eq(wc[0].status, IBV_WC_WR_FLUSH_ERR);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(hip08_flushes_when_the_user_says_so)
{
    struct rc_pair pair;
    struct ibv_wc wc[4];
    rc_pair_init(&pair, &(struct rc_options){.profile = "hns-hip08"});
    fail_at_the_peer(&pair);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 0, 64, 0), 0);
    rc_run(&pair, RC_PS_PER_S);
    ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_ERR), 0);
    rc_run(&pair, RC_PS_PER_US);
    ck_assert_int_eq(rc_poll(&pair, 0, wc, 4), 2);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(the_responder_tells_its_user)
{
    struct rc_pair pair;
    struct ibv_async_event event;
    rc_pair_init(&pair, NULL);
    ck_assert_int_eq(sim_nic_async_event(pair.ends[1].nic, 0, &event), EAGAIN);
    fail_at_the_peer(&pair);
    rc_run(&pair, RC_PS_PER_S);
    ck_assert_int_eq(pair.ends[1].n_async_wakes, 1);
    ck_assert_int_eq(sim_nic_async_event(pair.ends[1].nic, 0, &event), 0);
    ck_assert_int_eq(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    ck_assert_ptr_eq(event.element.qp, pair.ends[1].qp);
    ck_assert_int_eq(sim_nic_async_event(pair.ends[1].nic, 0, &event), EAGAIN);
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_flush");
    TCase *all = tcase_create("all");
    tcase_add_test(all, posts_after_the_error_flush_too);
    tcase_add_test(all, hip08_flushes_only_when_the_error_was_polled);
    tcase_add_test(all, hip08_flushes_when_the_user_says_so);
    tcase_add_test(all, the_responder_tells_its_user);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}

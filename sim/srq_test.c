/* Shared receive queues: two QPs at end b use one queue. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/rc_testing.h"

static struct rc_pair pair;
static struct ibv_srq *srq;

static int create_srq(uint32_t max_wr, uint32_t max_sge,
                      struct ibv_srq_init_attr *granted)
{
    struct sim_request request = {.verb = SIM_VERB_CREATE_SRQ};
    request.arg.create_srq.pd = pair.ends[1].pd;
    request.arg.create_srq.init.attr =
        (struct ibv_srq_attr){.max_wr = max_wr, .max_sge = max_sge};
    int error = rc_verb(&pair, 1, &request);
    srq = request.out.srq;
    *granted = request.arg.create_srq.init;
    return error;
}

static int modify_srq(struct ibv_srq *queue, uint32_t max_wr, uint32_t limit, int mask)
{
    struct sim_request request = {.verb = SIM_VERB_MODIFY_SRQ};
    request.arg.modify_srq.srq = queue;
    request.arg.modify_srq.attr =
        (struct ibv_srq_attr){.max_wr = max_wr, .srq_limit = limit};
    request.arg.modify_srq.mask = mask;
    return rc_verb(&pair, 1, &request);
}

static int destroy_srq(struct ibv_srq *queue)
{
    struct sim_request request = {.verb = SIM_VERB_DESTROY_SRQ, .arg.srq = queue};
    return rc_verb(&pair, 1, &request);
}

static struct ibv_qp *make_qp(struct ibv_srq *queue)
{
    struct sim_request request = {.verb = SIM_VERB_CREATE_QP};
    request.arg.create_qp.pd = pair.ends[1].pd;
    request.arg.create_qp.init = (struct ibv_qp_init_attr){
        .send_cq = pair.ends[1].cq,
        .recv_cq = pair.ends[1].cq,
        .srq = queue,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = 99999999},
    };
    ck_assert_int_eq(rc_verb(&pair, 1, &request), 0);
    ck_assert_uint_eq(request.arg.create_qp.init.cap.max_recv_wr, 0);
    ck_assert_ptr_eq(request.out.qp->srq, queue);
    return request.out.qp;
}

static int post(uint64_t wr_id, uint32_t bytes)
{
    struct ibv_sge sge = {(uintptr_t)pair.ends[1].memory + 4096 * wr_id, bytes,
                          pair.ends[1].mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad = NULL;
    int error = sim_nic_post_srq_recv(srq, &wr, &bad);
    ck_assert_ptr_eq(bad, error != 0 ? &wr : NULL);
    return error;
}

/* Starts both ends again, end b's QP with an SRQ of `depth`. */
static void start(const struct rc_options *options, uint32_t depth)
{
    struct ibv_srq_init_attr granted;
    rc_pair_init(&pair, options);
    rc_destroy_qp(&pair, 1, pair.ends[1].qp);
    ck_assert_int_eq(create_srq(depth, 1, &granted), 0);
    pair.ends[1].qp = make_qp(srq);
    ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_RESET), 0);
    rc_connect(&pair, 0, pair.ends[0].qp, pair.ends[1].qp->qp_num);
    rc_connect(&pair, 1, pair.ends[1].qp, pair.ends[0].qp->qp_num);
    rc_clear_story(&pair);
}

static void expect_event(enum ibv_event_type type)
{
    struct ibv_async_event event;
    ck_assert_int_eq(sim_nic_async_event(pair.ends[1].nic, 0, &event), 0);
    ck_assert_int_eq(event.event_type, type);
    if (type == IBV_EVENT_SRQ_LIMIT_REACHED) {
        ck_assert_ptr_eq(event.element.srq, srq);
    }
}

static void expect_no_event(void)
{
    struct ibv_async_event event;
    ck_assert_int_eq(sim_nic_async_event(pair.ends[1].nic, 0, &event), EAGAIN);
}

static void send_bytes(uint64_t wr_id, uint32_t bytes)
{
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, wr_id, 0, bytes, 0), 0);
}

START_TEST(two_queue_pairs_share)
{
    struct ibv_wc wc;
    start(NULL, 8);
    rc_fill(&pair);
    struct ibv_qp *here = rc_make_qp(&pair, 0);
    struct ibv_qp *there = make_qp(srq);
    struct ibv_qp *first = pair.ends[0].qp;
    rc_connect(&pair, 0, here, there->qp_num);
    rc_connect(&pair, 1, there, here->qp_num);
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_int_eq(post(i, 4096), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pair.ends[0].qp = i % 2 == 0 ? first : here;
        send_bytes(i, 100 + i);
        wc = rc_wait(&pair, 1);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        /* in the order of posting, whichever QP takes it */
        ck_assert_uint_eq(wc.wr_id, i);
        ck_assert_uint_eq(wc.byte_len, 100 + i);
        ck_assert_uint_eq(wc.qp_num,
                          i % 2 == 0 ? pair.ends[1].qp->qp_num : there->qp_num);
        ck_assert_mem_eq(pair.ends[1].memory + (size_t)4096 * i, pair.ends[0].memory,
                         100 + i);
    }
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(it_is_not_ready_only_when_it_is_empty)
{
    start(NULL, 8);
    send_bytes(1, 10);
    rc_run(&pair, 100 * RC_PS_PER_US);
    ck_assert_uint_ge(rc_counters(&pair, 1).rnr_naks_sent, 1);
    ck_assert_int_eq(post(3, 4096), 0);
    ck_assert_uint_eq(rc_wait(&pair, 1).wr_id, 3);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(the_limit_is_told_once)
{
    struct ibv_srq_attr attr;
    start(NULL, 8);
    for (uint64_t i = 0; i < 6; i++) {
        ck_assert_int_eq(post(i, 4096), 0);
    }
    ck_assert_int_eq(modify_srq(srq, 0, 5, IBV_SRQ_LIMIT), 0);
    expect_no_event();
    send_bytes(0, 10);
    rc_run(&pair, RC_PS_PER_MS);
    expect_no_event(); /* 5 are left, which is not below the limit */
    send_bytes(1, 10);
    rc_run(&pair, RC_PS_PER_MS);
    expect_event(IBV_EVENT_SRQ_LIMIT_REACHED);
    ck_assert_int_eq(sim_nic_query_srq(srq, &attr), 0);
    ck_assert_uint_eq(attr.srq_limit, 0);
    ck_assert_uint_eq(attr.max_wr, 8);
    send_bytes(2, 10);
    rc_run(&pair, RC_PS_PER_MS);
    expect_no_event(); /* disarmed */
    /* The queue is already below the limit, so the event is raised at once. */
    ck_assert_int_eq(modify_srq(srq, 0, 4, IBV_SRQ_LIMIT), 0);
    expect_event(IBV_EVENT_SRQ_LIMIT_REACHED);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(an_error_flushes_the_one_in_hand_alone)
{
    static const uint8_t bytes[4096] = {0};
    const struct sim_frame first = {.opcode = RC_SEND_FIRST,
                                    .psn = 0x100,
                                    .payload = bytes,
                                    .n_payload = sizeof(bytes)};
    struct ibv_wc wc[4];
    start(NULL, 8);
    for (uint64_t i = 0; i < 3; i++) {
        ck_assert_int_eq(post(i, 65536), 0);
    }
    rc_inject(&pair, 1, &first); /* takes the oldest WR, and never ends */
    ck_assert_int_eq(rc_to_state(&pair, 1, pair.ends[1].qp, IBV_QPS_ERR), 0);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_int_eq(rc_poll(&pair, 1, wc, 4), 1);
    ck_assert_int_eq(wc[0].status, IBV_WC_WR_FLUSH_ERR);
    ck_assert_uint_eq(wc[0].wr_id, 0);
    expect_event(IBV_EVENT_QP_LAST_WQE_REACHED);
    expect_no_event();
    /* Other QPs can still use the remaining WRs. */
    struct ibv_qp *next = make_qp(srq);
    rc_destroy_qp(&pair, 1, pair.ends[1].qp);
    pair.ends[1].qp = next;
    ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_RESET), 0);
    rc_connect(&pair, 0, pair.ends[0].qp, next->qp_num);
    rc_connect(&pair, 1, next, pair.ends[0].qp->qp_num);
    send_bytes(7, 10);
    ck_assert_uint_eq(rc_wait(&pair, 1).wr_id, 1);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(what_is_asked_wrongly_is_refused)
{
    struct ibv_srq_init_attr granted;
    struct ibv_recv_wr *bad = NULL;
    struct ibv_recv_wr wr = {.wr_id = 1, .num_sge = 2};
    start(NULL, 5);
    struct ibv_srq *used = srq;
    ck_assert_int_eq(sim_nic_post_recv(pair.ends[1].qp, &wr, &bad), EINVAL);
    ck_assert_int_eq(sim_nic_post_srq_recv(srq, &wr, &bad), EINVAL);
    for (uint64_t i = 0; i < 8; i++) { /* mlx5 rounds 5 up */
        ck_assert_int_eq(post(i, 8), 0);
    }
    ck_assert_int_eq(post(8, 8), ENOMEM);
    ck_assert_int_eq(modify_srq(used, 0, 9, IBV_SRQ_LIMIT), EINVAL);
    /* mlx5 cannot resize */
    ck_assert_int_eq(modify_srq(used, 16, 0, IBV_SRQ_MAX_WR), EINVAL);
    ck_assert_int_eq(destroy_srq(used), EBUSY);
    ck_assert_int_eq(create_srq(0, 1, &granted), EINVAL);
    ck_assert_int_eq(create_srq(pair.profile.max_srq_wr + 1, 1, &granted), EINVAL);
    ck_assert_int_eq(create_srq(1, pair.profile.max_srq_sge + 1, &granted), EINVAL);
    rc_destroy_qp(&pair, 1, pair.ends[1].qp);
    ck_assert_int_eq(destroy_srq(used), 0);
    rc_pair_fini(&pair);
}
END_TEST

/* A profile without SRQs refuses them, and no profile permits more SGEs than a WR can
 * count. */
START_TEST(profiles_do_not_promise_too_much)
{
    struct ibv_srq_init_attr granted;
    struct sim_request request = {.verb = SIM_VERB_CREATE_QP};
    rc_pair_init(&pair, &(struct rc_options){
                            .overrides = {{"max_srq_wr", "0"}, {"max_sge", "300"}}});
    ck_assert_int_eq(create_srq(8, 1, &granted), EOPNOTSUPP);
    ck_assert_ptr_null(srq);
    request.arg.create_qp.pd = pair.ends[1].pd;
    request.arg.create_qp.init = (struct ibv_qp_init_attr){
        .send_cq = pair.ends[1].cq,
        .recv_cq = pair.ends[1].cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_send_sge = 257},
    };
    ck_assert_int_eq(rc_verb(&pair, 1, &request), EINVAL);
    request.arg.create_qp.init.cap.max_send_sge = 256;
    ck_assert_int_eq(rc_verb(&pair, 1, &request), 0);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(rxe_resizes)
{
    struct ibv_srq_attr attr;
    start(&(struct rc_options){.profile = "rxe"}, 4);
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_int_eq(post(i, 4096), 0);
    }
    send_bytes(0, 10);
    ck_assert_uint_eq(rc_wait(&pair, 1).wr_id, 0);
    ck_assert_int_eq(post(4, 4096), 0);
    ck_assert_int_eq(post(5, 4096), ENOMEM);
    ck_assert_int_eq(modify_srq(srq, 3, 0, IBV_SRQ_MAX_WR), EINVAL); /* 4 are posted */
    ck_assert_int_eq(modify_srq(srq, 9, 2, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
    ck_assert_int_eq(post(5, 4096), 0);
    ck_assert_int_eq(sim_nic_query_srq(srq, &attr), 0);
    ck_assert_uint_eq(attr.max_wr, 9);
    ck_assert_uint_eq(attr.srq_limit, 2);
    for (uint64_t i = 1; i < 6; i++) {
        send_bytes(i, 10);
        ck_assert_uint_eq(rc_wait(&pair, 1).wr_id, i);
    }
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("srq");
    TCase *all = tcase_create("all");
    tcase_add_test(all, two_queue_pairs_share);
    tcase_add_test(all, it_is_not_ready_only_when_it_is_empty);
    tcase_add_test(all, the_limit_is_told_once);
    tcase_add_test(all, an_error_flushes_the_one_in_hand_alone);
    tcase_add_test(all, what_is_asked_wrongly_is_refused);
    tcase_add_test(all, profiles_do_not_promise_too_much);
    tcase_add_test(all, rxe_resizes);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}

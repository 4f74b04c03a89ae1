/* modify_qp: time, PSNs and quirks of devices. The tables are in qp_transition_test.c and
 * qp_errno_test.c. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/rc_testing.h"

static struct rc_pair pair;

static void setup(void)
{
    rc_pair_init(&pair, &(struct rc_options){.is_unconnected = true});
}

static void teardown(void)
{
    rc_pair_fini(&pair);
}

START_TEST(resolution_spends_its_second)
{
    struct ibv_qp *qp = rc_make_qp_in(&pair, 0, IBV_QPS_INIT);
    struct ibv_qp_attr attr = rc_all_attrs(&pair, 0, IBV_QPS_RTR);
    attr.ah_attr.grh.dgid.raw[15] = 99;
    weft_ps before = sim_now(pair.engine);
    ck_assert_int_eq(rc_modify(&pair, 0, qp, &attr, rc_rtr_mask), ETIMEDOUT);
    weft_ps spent = sim_now(pair.engine) - before;
    ck_assert_int_ge(spent, RC_PS_PER_S);
    ck_assert_int_lt(spent, RC_PS_PER_S + RC_PS_PER_MS);
}
END_TEST

START_TEST(a_modify_can_be_abandoned_while_it_resolves)
{
    struct ibv_qp *qp = rc_make_qp_in(&pair, 0, IBV_QPS_INIT);
    struct sim_request request = {.verb = SIM_VERB_MODIFY_QP};
    request.arg.modify_qp.qp = qp;
    request.arg.modify_qp.attr = rc_all_attrs(&pair, 0, IBV_QPS_RTR);
    request.arg.modify_qp.attr.ah_attr.grh.dgid.raw[15] = 99;
    request.arg.modify_qp.mask = rc_rtr_mask;
    ck_assert_int_eq(sim_nic_submit(pair.ends[0].nic, &request), 0);
    rc_run(&pair, 100 * RC_PS_PER_MS);
    ck_assert(!request.is_done);
    /* It cannot be destroyed meanwhile. */
    struct sim_request other = {.verb = SIM_VERB_DESTROY_QP, .arg.qp = qp};
    ck_assert_int_eq(rc_verb(&pair, 0, &other), EBUSY);
    sim_nic_cancel(pair.ends[0].nic, &request);
    sim_nic_cancel(pair.ends[0].nic, &request);
    rc_run(&pair, 5 * RC_PS_PER_S);
    ck_assert(!request.is_done);
    ck_assert_int_eq(qp->state, IBV_QPS_INIT);
    rc_destroy_qp(&pair, 0, qp);
}
END_TEST

START_TEST(psns_are_masked_and_read_back)
{
    struct ibv_qp *qp = rc_make_qp_in(&pair, 0, IBV_QPS_INIT);
    struct ibv_qp_attr rtr = rc_all_attrs(&pair, 0, IBV_QPS_RTR);
    struct ibv_qp_attr rts = rc_all_attrs(&pair, 0, IBV_QPS_RTS);
    struct ibv_qp_attr seen;
    rtr.rq_psn = 0xab000001;
    rts.sq_psn = 0xcd000002;
    ck_assert_int_eq(rc_modify(&pair, 0, qp, &rtr, rc_rtr_mask), 0);
    ck_assert_int_eq(rc_modify(&pair, 0, qp, &rts, rc_rts_mask), 0);
    ck_assert_int_eq(sim_nic_query_qp(qp, &seen), 0);
    ck_assert_uint_eq(seen.rq_psn, 1);
    ck_assert_uint_eq(seen.sq_psn, 2);
    ck_assert_int_eq(seen.qp_state, IBV_QPS_RTS);
    ck_assert_int_eq(seen.path_mtu, IBV_MTU_4096);
    ck_assert_uint_eq(seen.timeout, 14);
    ck_assert_uint_eq(seen.cap.max_send_wr, 64);
}
END_TEST

START_TEST(hip08_has_its_own_mind)
{
    struct rc_pair hns;
    rc_pair_init(&hns, &(struct rc_options){
                           .profile = "hns-hip08", .timeout = 21, .min_rnr_timer = 20});
    struct ibv_qp_attr seen;
    struct ibv_qp_attr claim = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD};
    ck_assert_int_eq(sim_nic_query_qp(hns.ends[0].qp, &seen), 0);
    ck_assert_uint_eq(seen.timeout, 0);       /* 21 was ignored, with success */
    ck_assert_uint_eq(seen.min_rnr_timer, 1); /* whatever was requested */
    ck_assert_uint_eq(seen.cap.max_send_wr, 64);
    ck_assert_int_eq(rc_to_state(&hns, 0, hns.ends[0].qp, IBV_QPS_SQD), EINVAL);
    ck_assert_int_eq(
        rc_modify(&hns, 0, hns.ends[0].qp, &claim, IBV_QP_STATE | IBV_QP_CUR_STATE),
        EINVAL);
    rc_pair_fini(&hns);
}
END_TEST

START_TEST(a_slot_beyond_the_table_is_invalid)
{
    struct rc_pair hns;
    rc_pair_init(&hns,
                 &(struct rc_options){.profile = "hns-hip08", .is_unconnected = true});
    struct ibv_qp_attr init = rc_init_attr(&hns);
    struct ibv_qp_attr rtr = rc_rtr_attr(&hns, 0, hns.ends[1].qp->qp_num);
    ck_assert_int_eq(rc_modify(&hns, 0, hns.ends[0].qp, &init, rc_init_mask), 0);
    rtr.ah_attr.grh.sgid_index = 16;
    ck_assert_int_eq(rc_modify(&hns, 0, hns.ends[0].qp, &rtr, rc_rtr_mask), EINVAL);
    rtr.ah_attr.grh.sgid_index = 15;
    ck_assert_int_eq(rc_modify(&hns, 0, hns.ends[0].qp, &rtr, rc_rtr_mask), ENODATA);
    rc_pair_fini(&hns);
}
END_TEST

START_TEST(hns_refuses_a_path_mtu_above_the_active_one)
{
    struct rc_pair hns;
    rc_pair_init(&hns, &(struct rc_options){.profile = "hns-hip09",
                                            .mtu_bytes = 1500,
                                            .is_unconnected = true});
    struct ibv_qp_attr init = rc_init_attr(&hns);
    struct ibv_qp_attr rtr = rc_rtr_attr(&hns, 0, hns.ends[1].qp->qp_num);
    ck_assert_int_eq(rc_modify(&hns, 0, hns.ends[0].qp, &init, rc_init_mask), 0);
    rtr.path_mtu = IBV_MTU_2048;
    ck_assert_int_eq(rc_modify(&hns, 0, hns.ends[0].qp, &rtr, rc_rtr_mask), EINVAL);
    rtr.path_mtu = IBV_MTU_1024;
    ck_assert_int_eq(rc_modify(&hns, 0, hns.ends[0].qp, &rtr, rc_rtr_mask), 0);
    rc_pair_fini(&hns);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("qp_modify");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, resolution_spends_its_second);
    tcase_add_test(all, a_modify_can_be_abandoned_while_it_resolves);
    tcase_add_test(all, psns_are_masked_and_read_back);
    tcase_add_test(all, hip08_has_its_own_mind);
    tcase_add_test(all, a_slot_beyond_the_table_is_invalid);
    tcase_add_test(all, hns_refuses_a_path_mtu_above_the_active_one);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}

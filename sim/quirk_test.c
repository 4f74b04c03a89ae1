/* Quirks of devices with their times, on one queue pair or one verb; scenarios/nic shows
 * them in whole jobs. */
#include <check.h>
#include <errno.h>

#include "base/suite_testing.h"
#include "sim/rc_testing.h"

static weft_ps now(const struct rc_pair *pair)
{
    return sim_now(pair->engine);
}

/* ---- commands ---- */

static struct ibv_cq *last_cq;

/* Creates a CQ. Returns how long that took, in microseconds. */
static weft_ps make_cq_us(struct rc_pair *pair, int *error)
{
    struct sim_request request = {.verb = SIM_VERB_CREATE_CQ};
    weft_ps began = now(pair);
    request.arg.create_cq.cqe = 64;
    *error = rc_verb(pair, 0, &request);
    last_cq = request.out.cq;
    return (now(pair) - began) / RC_PS_PER_US;
}

START_TEST(every_nth_command_stalls)
{
    struct rc_pair pair;
    int error;
    rc_pair_init(&pair, &(struct rc_options){.profile = "hns-hip08",
                                             .overrides = {{"mailbox_stall_nth", "3"},
                                                           {"mailbox_stall", "35ms"},
                                                           {"create_cq", "30us"}}});
    uint64_t stalls = rc_counters(&pair, 0).mailbox_stalls;
    weft_ps sum_us = 0;
    for (unsigned i = 0; i < 6; i++) {
        sum_us += make_cq_us(&pair, &error);
        ck_assert_int_eq(error, 0);
    }
    ck_assert_int_eq(sum_us, 6 * 30 + 2 * 35000);
    ck_assert_uint_eq(rc_counters(&pair, 0).mailbox_stalls, stalls + 2);
    /* A PD is a number of the driver, without a command, so it does not stall. */
    for (unsigned i = 0; i < 6; i++) {
        struct sim_request request = {.verb = SIM_VERB_ALLOC_PD};
        ck_assert_int_eq(rc_verb(&pair, 0, &request), 0);
    }
    ck_assert_uint_eq(rc_counters(&pair, 0).mailbox_stalls, stalls + 2);
    rc_pair_fini(&pair);
}
END_TEST

/* After ten seconds the driver gives up: objects are not created, but they are
 * destroyed. */
START_TEST(a_command_without_an_answer_is_given_up)
{
    struct rc_pair pair;
    unsigned n_refused = 0;
    unsigned n_gone = 0;
    int error;
    /* An odd number, so that creations and destructions of CQs stall alternately. */
    rc_pair_init(&pair, &(struct rc_options){.profile = "hns-hip09",
                                             .overrides = {{"mailbox_stall_nth", "51"},
                                                           {"mailbox_stall", "11s"},
                                                           {"create_cq", "30us"},
                                                           {"destroy_cq", "20us"}}});
    for (unsigned i = 0; i < 102; i++) {
        weft_ps took_us = make_cq_us(&pair, &error);
        n_refused += error == EBUSY;
        ck_assert_int_eq(took_us, error == EBUSY ? 10000030 : 30);
        if (error != 0) {
            ck_assert_int_eq(error, EBUSY);
            continue;
        }
        struct sim_request request = {.verb = SIM_VERB_DESTROY_CQ, .arg.cq = last_cq};
        weft_ps began = now(&pair);
        ck_assert_int_eq(rc_verb(&pair, 0, &request), 0);
        took_us = (now(&pair) - began) / RC_PS_PER_US;
        n_gone += took_us == 10000020;
        ck_assert(took_us == 10000020 || took_us == 20);
    }
    ck_assert_uint_ge(n_refused, 1);
    ck_assert_uint_ge(n_gone, 1);
    rc_pair_fini(&pair);
}
END_TEST

/* ---- deregistration ---- */

static struct ibv_mr *make_mr(struct rc_pair *pair)
{
    struct sim_request request = {.verb = SIM_VERB_REG_MR};
    request.arg.reg_mr.pd = pair->ends[0].pd;
    request.arg.reg_mr.addr = pair->ends[0].memory;
    request.arg.reg_mr.length = 4096;
    ck_assert_int_eq(rc_verb(pair, 0, &request), 0);
    return request.out.mr;
}

/* Deregisters two regions at once. Returns after how many us both are deregistered. */
static weft_ps dereg_two_us(const char *profile)
{
    struct rc_pair pair;
    struct sim_request requests[2] = {{.verb = SIM_VERB_DEREG_MR},
                                      {.verb = SIM_VERB_DEREG_MR}};
    rc_pair_init(&pair, &(struct rc_options){.profile = profile,
                                             .overrides = {{"dereg_mr", "400us"}}});
    for (unsigned i = 0; i < 2; i++) {
        requests[i].arg.mr = make_mr(&pair);
    }
    weft_ps began = now(&pair);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(sim_nic_submit(pair.ends[0].nic, &requests[i]), 0);
    }
    while (!requests[0].is_done || !requests[1].is_done) {
        rc_run(&pair, 10 * RC_PS_PER_US);
    }
    weft_ps took = (now(&pair) - began) / RC_PS_PER_US;
    rc_pair_fini(&pair);
    return took;
}

START_TEST(hip08_deregisters_one_after_another)
{
    ck_assert_int_eq(dereg_two_us("hns-hip08"), 800);
    ck_assert_int_eq(dereg_two_us("hns-hip09"), 400);
}
END_TEST

/* ---- completions ---- */

START_TEST(general_errors_come_between_and_mean_nothing)
{
    struct rc_pair pair;
    rc_pair_init(&pair, &(struct rc_options){.profile = "hns-hip08",
                                             .overrides = {{"general_err_nth", "2"}}});
    for (uint64_t i = 0; i < 64; i++) { /* as many as the queue has slots */
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, i, 0, 8, 0), 0);
    }
    for (uint64_t i = 0; i < 64; i++) {
        struct ibv_wc wc;
        if (i % 2 == 1) {
            wc = rc_wait(&pair, 0);
            ck_assert_int_eq(wc.status, IBV_WC_GENERAL_ERR);
            ck_assert_uint_eq(wc.wr_id, i);
            ck_assert_uint_eq(wc.vendor_err, 0x23);
        }
        wc = rc_wait(&pair, 0);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        ck_assert_uint_eq(wc.wr_id, i);
    }
    ck_assert_int_eq(pair.ends[0].qp->state, IBV_QPS_RTS);
    ck_assert_uint_eq(rc_counters(&pair, 0).general_errs, 32);
    rc_pair_fini(&pair);
}
END_TEST

/* Returns how many RNR NAKs a receive draws that the NIC reads 1 ms late, with the timer
 * of `profile`. */
static uint64_t rnr_naks(const char *profile)
{
    struct rc_pair pair;
    rc_pair_init(&pair, &(struct rc_options){.profile = profile, .min_rnr_timer = 12});
    sim_nic_fault_verb(pair.ends[1].nic, SIM_VERB_POST_RECV, 1, 0, RC_PS_PER_MS);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 7, 0, 64), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, 8, 0, 64, 0), 0);
    ck_assert_int_eq(rc_wait(&pair, 1).status, IBV_WC_SUCCESS);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    uint64_t naks = rc_counters(&pair, 1).rnr_naks_sent;
    rc_pair_fini(&pair);
    return naks;
}

START_TEST(a_late_receive_makes_a_storm_on_hip08_only)
{
    ck_assert_uint_eq(rnr_naks("hns-hip09"), 2);  /* 0.64 ms each */
    ck_assert_uint_ge(rnr_naks("hns-hip08"), 50); /* 10 us plus the round trip */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quirk");
    TCase *all = tcase_create("all");
    tcase_add_test(all, every_nth_command_stalls);
    tcase_add_test(all, a_command_without_an_answer_is_given_up);
    tcase_add_test(all, hip08_deregisters_one_after_another);
    tcase_add_test(all, general_errors_come_between_and_mean_nothing);
    tcase_add_test(all, a_late_receive_makes_a_storm_on_hip08_only);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}

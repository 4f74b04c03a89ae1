/* The model of an hns NIC against values computed by hand from public rules: CQN = id <<
 * 2 | bank, QPN = id << 3 | bank, a doorbell record is 4 bytes of a page of 4096, depths
 * are powers of two and at least 64, contexts are written by mailbox commands 0x16 and
 * 0x19 onwards. */
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/nic_model.h"
#include "sim/rc_testing.h"

/* Returns the facts of the `nth` step (from 0) called `what`, or "" if there is none. */
static const char *facts_of(const struct nic_account *account, const char *what,
                            unsigned nth)
{
    for (unsigned i = 0; i < account->n_steps; i++) {
        if (strcmp(account->steps[i].what, what) == 0 && nth-- == 0) {
            return account->steps[i].facts;
        }
    }
    return "";
}

static bool has(const struct nic_account *account, const char *what, unsigned nth,
                const char *fact)
{
    char padded[NIC_FACTS_BYTES + 2];
    char wanted[128];
    (void)snprintf(padded, sizeof(padded), " %s ", facts_of(account, what, nth));
    (void)snprintf(wanted, sizeof(wanted), " %s ", fact);
    return strstr(padded, wanted) != NULL;
}

#define assert_fact(account, what, nth, fact)                                            \
    ck_assert_msg(has(account, what, nth, fact), "%s: no %s in '%s'", what, fact,        \
                  facts_of(account, what, nth))

static struct nic_account account_of(struct nic_model *model, const struct nic_verb *verb)
{
    struct nic_account account;
    nic_model_verb(model, verb, &account);
    return account;
}

static struct nic_verb cq_verb(uint32_t cqn, uint32_t cqe)
{
    return (struct nic_verb){.verb = SIM_VERB_CREATE_CQ,
                             .began = 1000000,
                             .ended = 31000000,
                             .number = cqn,
                             .asked_cqe = cqe,
                             .cqe = cqe};
}

START_TEST(a_cq_is_a_buffer_a_record_and_a_context)
{
    struct nic_model *hip08 = nic_model_create(sim_profile_find("hns-hip08"));
    struct nic_model *hip09 = nic_model_create(sim_profile_find("hns-hip09"));
    struct nic_verb verb = cq_verb(6, 128);
    verb.asked_cqe = 65;
    struct nic_account account = account_of(hip08, &verb);
    ck_assert_str_eq(account.verb, "create_cq");
    ck_assert_str_eq(account.object, "CQ 6");
    ck_assert_int_eq(account.ended - account.began, 30000000);
    /* 128 entries of 32 bytes fill one page, of 64 bytes two. */
    assert_fact(&account, "buffer", 0, "asked=65");
    assert_fact(&account, "buffer", 0, "entries=128");
    assert_fact(&account, "buffer", 0, "bytes=4096");
    assert_fact(&account, "buffer", 0, "pages=1");
    assert_fact(&account, "doorbell record", 0, "slots_per_page=1024");
    assert_fact(&account, "doorbell record", 0, "offset=0x0");
    assert_fact(&account, "CQN", 0, "id=1");
    assert_fact(&account, "CQN", 0, "bank=2");
    assert_fact(&account, "CQC", 0, "shift=7");
    assert_fact(&account, "CQC", 0, "state=VALID");
    assert_fact(&account, "mailbox", 0, "op=0x16");
    assert_fact(&account, "mailbox", 0, "post=0x8504");
    assert_fact(&account, "mailbox", 0, "buffer=4096");
    assert_fact(&account, "mailbox", 0, "within_ns=30000");
    account = account_of(hip09, &verb);
    assert_fact(&account, "buffer", 0, "cqe_bytes=64");
    assert_fact(&account, "buffer", 0, "bytes=8192");
    assert_fact(&account, "buffer", 0, "pages=2");
    nic_model_destroy(hip08);
    nic_model_destroy(hip09);
}
END_TEST

START_TEST(doorbell_records_fill_page_after_page_and_holes_first)
{
    struct nic_model *model = nic_model_create(sim_profile_find("hns-hip08"));
    struct nic_account account;
    struct nic_verb verb;
    for (uint32_t i = 0; i <= 1024; i++) {
        verb = cq_verb(i, 64);
        account = account_of(model, &verb);
        if (i == 1023) {
            assert_fact(&account, "doorbell record", 0, "page=0");
            assert_fact(&account, "doorbell record", 0, "offset=0xffc");
        }
    }
    assert_fact(&account, "doorbell record", 0, "page=1");
    assert_fact(&account, "doorbell record", 0, "slot=0");
    verb = (struct nic_verb){.verb = SIM_VERB_DESTROY_CQ, .number = 5};
    account = account_of(model, &verb);
    assert_fact(&account, "buffer", 0, "doorbell_records=1");
    verb = cq_verb(5, 64);
    account = account_of(model, &verb);
    assert_fact(&account, "doorbell record", 0, "page=0");
    assert_fact(&account, "doorbell record", 0, "slot=5");
    /* Another process has its own pages, and queue pairs have their own list. */
    verb.user = 1;
    verb.number = 4096;
    account = account_of(model, &verb);
    assert_fact(&account, "doorbell record", 0, "slot=0");
    verb = (struct nic_verb){.verb = SIM_VERB_CREATE_QP,
                             .number = 8,
                             .granted = {.max_send_wr = 64, .max_recv_wr = 64}};
    account = account_of(model, &verb);
    assert_fact(&account, "SQ doorbell record", 0, "slot=0");
    assert_fact(&account, "RQ doorbell record", 0, "slot=1");
    assert_fact(&account, "RQ doorbell record", 0, "offset=0x4");
    nic_model_destroy(model);
}
END_TEST

START_TEST(a_queue_pair_has_regions_and_no_context_yet)
{
    struct nic_model *model = nic_model_create(sim_profile_find("hns-hip08"));
    /* HIP08 reserves one receive SGE: 3 granted are 4 of 16 bytes. */
    struct nic_verb verb = {.verb = SIM_VERB_CREATE_QP,
                            .number = 12 << 3 | 5,
                            .send_cqn = 3 << 2 | 2,
                            .granted = {.max_send_wr = 512,
                                        .max_recv_wr = 128,
                                        .max_send_sge = 6,
                                        .max_recv_sge = 3}};
    struct nic_account account = account_of(model, &verb);
    assert_fact(&account, "QPN", 0, "id=12");
    assert_fact(&account, "QPN", 0, "bank=5");
    assert_fact(&account, "QPN", 0, "cq_bank=2");
    /* 512 * 64 = 32768; 512 * 4 external SGEs = 2048, times 16 = 32768; 128 * 64 =
     * 8192. */
    assert_fact(&account, "MTR", 0, "region=sq");
    assert_fact(&account, "MTR", 0, "hops=2");
    assert_fact(&account, "MTR", 0, "pages=8");
    assert_fact(&account, "MTR", 1, "region=ext_sge");
    assert_fact(&account, "MTR", 1, "hops=1");
    assert_fact(&account, "MTR", 1, "bytes=32768");
    assert_fact(&account, "MTR", 2, "region=rq");
    assert_fact(&account, "MTR", 2, "bytes=8192");
    assert_fact(&account, "MTR", 2, "pages=2");
    assert_fact(&account, "buffer", 0, "pages=18");
    assert_fact(&account, "buffer", 0, "ext_sges=2048");
    assert_fact(&account, "QPC", 0, "bytes=0");
    ck_assert_str_eq(facts_of(&account, "mailbox", 0), "");
    nic_model_destroy(model);
}
END_TEST

START_TEST(every_change_of_state_writes_the_context_by_its_own_command)
{
    static const struct {
        enum ibv_qp_state from, to;
        const char *op;
        const char *field;
    } steps[] = {
        {IBV_QPS_RESET, IBV_QPS_INIT, "op=0x19", "pdn"},
        {IBV_QPS_INIT, IBV_QPS_RTR, "op=0x1a", "dqpn"},
        {IBV_QPS_RTR, IBV_QPS_RTS, "op=0x1b", "sq_mtr"},
        {IBV_QPS_RTS, IBV_QPS_RTS, "op=0x1c", "state"},
        {IBV_QPS_RTS, IBV_QPS_ERR, "op=0x1e", "state"},
        {IBV_QPS_ERR, IBV_QPS_RESET, "op=0x21", "state"},
    };
    struct nic_model *hip08 = nic_model_create(sim_profile_find("hns-hip08"));
    struct nic_model *hip09 = nic_model_create(sim_profile_find("hns-hip09"));
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct nic_verb verb = {.verb = SIM_VERB_MODIFY_QP,
                                .number = 96,
                                .mask = IBV_QP_STATE | IBV_QP_PORT,
                                .from = steps[i].from,
                                .to = steps[i].to};
        struct nic_account account = account_of(hip08, &verb);
        assert_fact(&account, "mailbox", 0, steps[i].op);
        assert_fact(&account, "mailbox", 0, "context=512");
        assert_fact(&account, "QPC", 0, "mask_bytes=256");
        assert_fact(&account, "QPC", 0, "asked=port");
        ck_assert_ptr_nonnull(strstr(facts_of(&account, "QPC", 0), steps[i].field));
        account = account_of(hip09, &verb);
        assert_fact(&account, "mailbox", 0, "context=1024");
    }
    nic_model_destroy(hip08);
    nic_model_destroy(hip09);
}
END_TEST

START_TEST(what_hip08_does_otherwise_than_asked_is_told)
{
    struct nic_model *model = nic_model_create(sim_profile_find("hns-hip08"));
    struct nic_verb verb = {.verb = SIM_VERB_MODIFY_QP,
                            .number = 96,
                            .attr = {.timeout = 22, .min_rnr_timer = 12},
                            .mask = IBV_QP_TIMEOUT | IBV_QP_MIN_RNR_TIMER,
                            .from = IBV_QPS_RTR,
                            .to = IBV_QPS_RTS};
    struct nic_account account = account_of(model, &verb);
    assert_fact(&account, "timeout", 0, "asked=22");
    assert_fact(&account, "timeout", 0, "most=20");
    assert_fact(&account, "min_rnr_timer", 0, "written=1");
    verb.waited = 300 * RC_PS_PER_MS;
    verb.attr.timeout = 20;
    account = account_of(model, &verb);
    ck_assert_str_eq(facts_of(&account, "timeout", 0), "");
    assert_fact(&account, "waited", 0, "ns=300000000");
    verb = (struct nic_verb){.verb = SIM_VERB_DEREG_MR, .number = 0x178};
    account = account_of(model, &verb);
    assert_fact(&account, "loopback", 0, "qps=8");
    assert_fact(&account, "loopback", 0, "limit_ms=4500");
    nic_model_destroy(model);
}
END_TEST

START_TEST(a_region_counts_the_pages_it_touches)
{
    struct nic_model *model = nic_model_create(sim_profile_find("hns-hip08"));
    struct nic_verb verb = {.verb = SIM_VERB_REG_MR,
                            .number = 7 << 8 | 0x5c,
                            .pdn = 3,
                            .addr = 0x1ff0,
                            .length = 0x20,
                            .access = IBV_ACCESS_LOCAL_WRITE};
    struct nic_account account = account_of(model, &verb);
    ck_assert_str_eq(account.object, "MR 0x75c");
    assert_fact(&account, "MTR", 0, "region=pbl");
    assert_fact(&account, "MTR", 0, "hops=2");
    assert_fact(&account, "MTR", 0, "pages=2");
    assert_fact(&account, "MPT", 0, "index=7");
    assert_fact(&account, "MPT", 0, "rkey=0x75c");
    assert_fact(&account, "MPT", 0, "pdn=3");
    /* 513 pages need two pages of 512 addresses, and one page that refers to those. */
    verb.addr = 0x100000;
    verb.length = 513 * 4096;
    account = account_of(model, &verb);
    assert_fact(&account, "MTR", 0, "pages=513");
    assert_fact(&account, "MTR", 0, "address_pages=3");
    nic_model_destroy(model);
}
END_TEST

START_TEST(what_failed_made_nothing)
{
    struct nic_model *model = nic_model_create(sim_profile_find("hns-hip08"));
    struct nic_verb verb = cq_verb(0, 64);
    verb.error = EBUSY;
    struct nic_account account = account_of(model, &verb);
    ck_assert_str_eq(account.object, "CQ");
    ck_assert_uint_eq(account.n_steps, 1);
    assert_fact(&account, "refused", 0, "errno=16");
    verb.error = 0;
    account = account_of(model, &verb);
    assert_fact(&account, "doorbell record", 0, "slot=0");
    nic_model_destroy(model);
}
END_TEST

/* ---- the NIC's own numbers ---- */

START_TEST(pd_numbers_are_the_lowest_that_are_free)
{
    struct rc_pair pair;
    struct ibv_pd *pds[3];
    rc_pair_init(&pair, &(struct rc_options){.profile = "hns-hip08"});
    ck_assert_uint_eq(pair.ends[0].pd->handle, 0);
    for (unsigned i = 0; i < 3; i++) {
        struct sim_request request = {.verb = SIM_VERB_ALLOC_PD};
        ck_assert_int_eq(rc_verb(&pair, 0, &request), 0);
        pds[i] = request.out.pd;
        ck_assert_uint_eq(pds[i]->handle, i + 1);
    }
    struct sim_request gone = {.verb = SIM_VERB_DEALLOC_PD, .arg.pd = pds[1]};
    ck_assert_int_eq(rc_verb(&pair, 0, &gone), 0);
    struct sim_request again = {.verb = SIM_VERB_ALLOC_PD};
    ck_assert_int_eq(rc_verb(&pair, 0, &again), 0);
    ck_assert_uint_eq(again.out.pd->handle, 2);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(cq_numbers_go_to_the_least_loaded_bank)
{
    struct rc_pair pair;
    struct ibv_cq *cqs[5];
    rc_pair_init(&pair, &(struct rc_options){.profile = "hns-hip08"});
    ck_assert_uint_eq(pair.ends[0].cq->handle, 0); /* bank 0 */
    for (unsigned i = 0; i < 5; i++) {
        cqs[i] = rc_make_cq(&pair, 0, 64);
        ck_assert_uint_eq(cqs[i]->handle, i + 1); /* banks 1 2 3, then id 1 in 0 and 1 */
    }
    /* Bank 2 is now the least loaded, and its id 0 is free again. */
    struct sim_request gone = {.verb = SIM_VERB_DESTROY_CQ, .arg.cq = cqs[1]};
    ck_assert_int_eq(rc_verb(&pair, 0, &gone), 0);
    ck_assert_uint_eq(rc_make_cq(&pair, 0, 64)->handle, 0 << 2 | 2);
    ck_assert_uint_eq(rc_make_cq(&pair, 0, 64)->handle, 1 << 2 | 2);
    rc_pair_fini(&pair);
}
END_TEST

static void hear(void *context, const struct nic_verb *verb)
{
    *(struct nic_verb *)context = *verb;
}

START_TEST(queue_pairs_take_turns_in_the_banks_of_their_cq)
{
    struct rc_pair pair;
    struct nic_verb heard = {.number = 0};
    rc_pair_init(&pair, &(struct rc_options){.profile = "hns-hip08"});
    uint32_t first = pair.ends[0].qp->qp_num;
    ck_assert_uint_eq(first & 7, 0); /* CQ 0 is in bank 0, which has QP banks 0 and 1 */
    sim_nic_watch(pair.ends[0].nic, hear, &heard);
    ck_assert_uint_eq(rc_make_qp(&pair, 0)->qp_num, first + 1);
    ck_assert_int_eq(heard.verb, SIM_VERB_CREATE_QP);
    ck_assert_uint_eq(heard.number, first + 1);
    ck_assert_uint_eq(heard.send_cqn, 0);
    ck_assert_uint_eq(rc_make_qp(&pair, 0)->qp_num, first + 8); /* id + 1, bank 0 */
    ck_assert_uint_eq(rc_make_qp(&pair, 0)->qp_num, first + 9);
    /* A CQ in bank 2 has QP banks 4 and 5. Numbers in a bank are not reused at once. */
    (void)rc_make_cq(&pair, 0, 64);
    pair.ends[0].cq = rc_make_cq(&pair, 0, 64);
    ck_assert_uint_eq(pair.ends[0].cq->handle, 2);
    struct ibv_qp *qp = rc_make_qp(&pair, 0);
    ck_assert_uint_eq(qp->qp_num, (first & ~7u) | 4);
    struct sim_request gone = {.verb = SIM_VERB_DESTROY_QP, .arg.qp = qp};
    ck_assert_int_eq(rc_verb(&pair, 0, &gone), 0);
    ck_assert_int_eq(heard.verb, SIM_VERB_DESTROY_QP);
    ck_assert_int_eq(heard.from, IBV_QPS_RESET);
    ck_assert_uint_eq(rc_make_qp(&pair, 0)->qp_num, ((first & ~7u) + 8) | 4);
    rc_pair_fini(&pair);
}
END_TEST

static void add_tests(TCase *all)
{
    tcase_add_test(all, a_cq_is_a_buffer_a_record_and_a_context);
    tcase_add_test(all, doorbell_records_fill_page_after_page_and_holes_first);
    tcase_add_test(all, a_queue_pair_has_regions_and_no_context_yet);
    tcase_add_test(all, every_change_of_state_writes_the_context_by_its_own_command);
    tcase_add_test(all, what_hip08_does_otherwise_than_asked_is_told);
    tcase_add_test(all, a_region_counts_the_pages_it_touches);
    tcase_add_test(all, what_failed_made_nothing);
    tcase_add_test(all, pd_numbers_are_the_lowest_that_are_free);
    tcase_add_test(all, cq_numbers_go_to_the_least_loaded_bank);
    tcase_add_test(all, queue_pairs_take_turns_in_the_banks_of_their_cq);
}

int main(void)
{
    Suite *suite = suite_create("nic_model");
    TCase *all = tcase_create("all");
    add_tests(all);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}

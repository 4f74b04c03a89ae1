/* Which objects can be destroyed while others exist: sim/rules/objects.csv. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/rc_testing.h"
#include "sim/rules_testing.h"

static struct rc_pair pair;

static struct sim_request victim;
static struct ibv_async_event got;
static struct sim_request other; /* another verb in progress */

static void the_pd(void)
{
    victim.arg.pd = pair.ends[0].pd;
}
static void destroy(enum sim_verb verb, void *object)
{
    struct sim_request request = {.verb = verb};
    request.arg.qp = object; /* any object: all members are pointers */
    ck_assert_int_eq(rc_verb(&pair, 0, &request), 0);
}
static void it_has_an_mr(void)
{
    destroy(SIM_VERB_DESTROY_QP, pair.ends[0].qp);
    the_pd();
}
static void it_has_a_qp(void)
{
    destroy(SIM_VERB_DEREG_MR, pair.ends[0].mr);
    the_pd();
}
static struct ibv_srq *make_srq(void)
{
    struct sim_request request = {.verb = SIM_VERB_CREATE_SRQ};
    request.arg.create_srq.pd = pair.ends[0].pd;
    request.arg.create_srq.init.attr = (struct ibv_srq_attr){.max_wr = 4, .max_sge = 1};
    ck_assert_int_eq(rc_verb(&pair, 0, &request), 0);
    return request.out.srq;
}
static void it_is_empty(void)
{
    destroy(SIM_VERB_DESTROY_QP, pair.ends[0].qp);
    destroy(SIM_VERB_DEREG_MR, pair.ends[0].mr);
    the_pd();
}
static void it_has_an_srq(void)
{
    it_is_empty();
    (void)make_srq();
}
static struct ibv_qp *make_qp(struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
                              struct ibv_srq *srq)
{
    struct sim_request request = {.verb = SIM_VERB_CREATE_QP};
    request.arg.create_qp.pd = pair.ends[0].pd;
    request.arg.create_qp.init = (struct ibv_qp_init_attr){
        .send_cq = send_cq, .recv_cq = recv_cq, .srq = srq, .qp_type = IBV_QPT_RC};
    ck_assert_int_eq(rc_verb(&pair, 0, &request), 0);
    return request.out.qp;
}
static void a_qp_sends_to_it(void)
{
    victim.arg.cq = rc_make_cq(&pair, 0, 4);
    (void)make_qp(victim.arg.cq, pair.ends[0].cq, NULL);
}
static void a_qp_receives_to_it(void)
{
    victim.arg.cq = rc_make_cq(&pair, 0, 4);
    (void)make_qp(pair.ends[0].cq, victim.arg.cq, NULL);
}
static void write_some(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, i, 0, 8, 0), 0);
    }
    rc_run(&pair, RC_PS_PER_MS);
}
static void it_holds_completions(void)
{
    write_some(2);
    destroy(SIM_VERB_DESTROY_QP, pair.ends[0].qp);
    victim.arg.cq = pair.ends[0].cq;
}
/* Replaces end 0's QP by one on a CQ whose wakes must be acknowledged. */
static void its_wake_is_unacknowledged(void)
{
    struct sim_request request = {.verb = SIM_VERB_CREATE_CQ};
    request.arg.create_cq.cqe = 4;
    request.arg.create_cq.acks_events = true;
    ck_assert_int_eq(rc_verb(&pair, 0, &request), 0);
    destroy(SIM_VERB_DESTROY_QP, pair.ends[0].qp);
    pair.ends[0].cq = request.out.cq;
    pair.ends[0].qp = rc_make_qp(&pair, 0);
    rc_connect(&pair, 0, pair.ends[0].qp, pair.ends[1].qp->qp_num);
    ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_ERR), 0);
    ck_assert_int_eq(sim_nic_req_notify(request.out.cq, false), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 8, 0), 0);
    rc_run(&pair, RC_PS_PER_MS);
    destroy(SIM_VERB_DESTROY_QP, pair.ends[0].qp);
    victim.arg.cq = request.out.cq;
}
static void get_event(enum ibv_event_type type)
{
    do {
        ck_assert_int_eq(sim_nic_get_async_event(pair.ends[0].nic, 0, &got), 0);
        if (got.event_type != type) {
            sim_nic_ack_async_event(pair.ends[0].nic, &got);
        }
    } while (got.event_type != type);
}
static void its_error_is_unacknowledged(void)
{
    write_some((unsigned)pair.ends[0].cq->cqe + 1);
    get_event(IBV_EVENT_CQ_ERR);
    destroy(SIM_VERB_DESTROY_QP, pair.ends[0].qp);
    victim.arg.cq = pair.ends[0].cq;
}
static void a_qp_takes_from_it(void)
{
    victim.arg.srq = make_srq();
    (void)make_qp(pair.ends[0].cq, pair.ends[0].cq, victim.arg.srq);
}
static void it_holds_receives(void)
{
    struct ibv_recv_wr wr = {.wr_id = 1};
    struct ibv_recv_wr *bad = NULL;
    victim.arg.srq = make_srq();
    ck_assert_int_eq(sim_nic_post_srq_recv(victim.arg.srq, &wr, &bad), 0);
}
static void its_limit_is_unacknowledged(void)
{
    struct sim_request request = {.verb = SIM_VERB_MODIFY_SRQ};
    victim.arg.srq = make_srq();
    request.arg.modify_srq.srq = victim.arg.srq;
    request.arg.modify_srq.attr.srq_limit = 2;
    request.arg.modify_srq.mask = IBV_SRQ_LIMIT;
    /* it is empty, so the limit is reached at once */
    ck_assert_int_eq(rc_verb(&pair, 0, &request), 0);
    get_event(IBV_EVENT_SRQ_LIMIT_REACHED);
}
static void work_is_posted(void)
{
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100000, 0), 0);
    victim.arg.qp = pair.ends[0].qp;
}
static void its_event_was_not_got(void)
{
    write_some((unsigned)pair.ends[0].cq->cqe + 1);
    victim.arg.qp = pair.ends[0].qp;
}
static void its_event_is_unacknowledged(void)
{
    write_some((unsigned)pair.ends[0].cq->cqe + 1);
    get_event(IBV_EVENT_QP_FATAL);
    victim.arg.qp = pair.ends[0].qp;
}
static void it_is_being_modified(void)
{
    struct ibv_qp *qp = rc_make_qp(&pair, 0);
    struct ibv_qp_attr init = rc_init_attr(&pair);
    ck_assert_int_eq(rc_modify(&pair, 0, qp, &init, rc_init_mask), 0);
    other = (struct sim_request){.verb = SIM_VERB_MODIFY_QP};
    other.arg.modify_qp.qp = qp;
    other.arg.modify_qp.attr = rc_rtr_attr(&pair, 0, 1);
    other.arg.modify_qp.attr.ah_attr.grh.dgid.raw[15] = 99; /* no such host */
    other.arg.modify_qp.mask = rc_rtr_mask;
    ck_assert_int_eq(sim_nic_submit(pair.ends[0].nic, &other), 0);
    victim.arg.qp = qp;
}
static void work_refers_to_it(void)
{
    work_is_posted();
    victim.arg.mr = pair.ends[0].mr;
}

#define CASE(name)                                                                       \
    {                                                                                    \
#name, name                                                                      \
    }

static const struct {
    const char *name;
    void (*make)(void);
} obstacles[] = {
    CASE(it_has_an_mr),
    CASE(it_has_a_qp),
    CASE(it_has_an_srq),
    CASE(it_is_empty),
    CASE(a_qp_sends_to_it),
    CASE(a_qp_receives_to_it),
    CASE(it_holds_completions),
    CASE(its_wake_is_unacknowledged),
    CASE(its_error_is_unacknowledged),
    CASE(a_qp_takes_from_it),
    CASE(it_holds_receives),
    CASE(its_limit_is_unacknowledged),
    CASE(work_is_posted),
    CASE(its_event_was_not_got),
    CASE(its_event_is_unacknowledged),
    CASE(it_is_being_modified),
    CASE(work_refers_to_it),
};

static void make_obstacle(const char *name)
{
    for (size_t i = 0; i < WEFT_LENGTH(obstacles); i++) {
        if (strcmp(obstacles[i].name, name) == 0) {
            obstacles[i].make();
            return;
        }
    }
    ck_abort_msg("what is %s?", name);
}

static enum sim_verb verb_of(const char *name)
{
    static const struct {
        const char *name;
        enum sim_verb verb;
    } verbs[] = {
        {"dealloc_pd", SIM_VERB_DEALLOC_PD},   {"destroy_cq", SIM_VERB_DESTROY_CQ},
        {"destroy_srq", SIM_VERB_DESTROY_SRQ}, {"destroy_qp", SIM_VERB_DESTROY_QP},
        {"dereg_mr", SIM_VERB_DEREG_MR},
    };
    for (size_t i = 0; i < WEFT_LENGTH(verbs); i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return verbs[i].verb;
        }
    }
    ck_abort_msg("what verb is %s?", name);
    return SIM_N_VERBS;
}

/* Checks that the verb ends only when the event is acknowledged. */
static void check_wait(bool is_wake)
{
    ck_assert_int_eq(sim_nic_submit(pair.ends[0].nic, &victim), 0);
    rc_run(&pair, 10 * RC_PS_PER_S);
    ck_assert(!victim.is_done);
    if (is_wake) {
        sim_nic_ack_cq_events(victim.arg.cq, 1);
    } else {
        sim_nic_ack_async_event(pair.ends[0].nic, &got);
    }
    ck_assert(victim.is_done);
    ck_assert_int_eq(victim.error, 0);
}

START_TEST(objects_go_or_stay)
{
    struct rules rules;
    unsigned row = (unsigned)_i;
    rules_read(&rules, "objects");
    const char *obstacle = rules_cell(&rules, row, "while");
    const char *result = rules_cell(&rules, row, "result");
    rc_pair_init(&pair, &(struct rc_options){.cqe = 4});
    victim = (struct sim_request){.verb = verb_of(rules_cell(&rules, row, "verb"))};
    make_obstacle(obstacle);
    if (strcmp(result, "waits") == 0) {
        check_wait(strcmp(obstacle, "its_wake_is_unacknowledged") == 0);
    } else {
        int error = rc_verb(&pair, 0, &victim);
        ck_assert_msg(error == rules_errno(result), "%s: %d", obstacle, error);
    }
    rc_run(&pair, 10 * RC_PS_PER_S);
    rc_pair_fini(&pair);
    rules_fini(&rules);
}
END_TEST

/* A cancelled destruction does not wait for acknowledgements. */
START_TEST(a_destruction_that_waits_can_be_abandoned)
{
    rc_pair_init(&pair, &(struct rc_options){.cqe = 4});
    its_event_is_unacknowledged();
    victim.verb = SIM_VERB_DESTROY_QP;
    ck_assert_int_eq(sim_nic_submit(pair.ends[0].nic, &victim), 0);
    rc_run(&pair, RC_PS_PER_MS);
    sim_nic_cancel(pair.ends[0].nic, &victim);
    destroy(SIM_VERB_DEREG_MR, pair.ends[0].mr);
    destroy(SIM_VERB_DEALLOC_PD, pair.ends[0].pd);
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("object");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, objects_go_or_stay, 0, rules_count("objects"));
    tcase_add_test(all, a_destruction_that_waits_can_be_abandoned);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}

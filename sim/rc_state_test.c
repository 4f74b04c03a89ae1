/* How the states handle posts and packets (sim/rules/posts.csv), all of SQD, and how long
 * a requester waits for a receive (sim/rules/rnr.csv). */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/rc_testing.h"
#include "sim/rules_testing.h"

static struct rc_pair pair;

/* Moves end a's QP from RESET to `state`. */
static void bring_to(enum ibv_qp_state state)
{
    struct ibv_qp *qp = pair.ends[0].qp;
    struct ibv_qp_attr init = rc_init_attr(&pair);
    struct ibv_qp_attr rtr = rc_rtr_attr(&pair, 0, pair.ends[1].qp->qp_num);
    if (state == IBV_QPS_RESET) {
        return;
    }
    if (state != IBV_QPS_INIT && state != IBV_QPS_RTR) {
        rc_connect(&pair, 0, qp, pair.ends[1].qp->qp_num);
        return;
    }
    ck_assert_int_eq(rc_modify(&pair, 0, qp, &init, rc_init_mask), 0);
    if (state == IBV_QPS_RTR) {
        ck_assert_int_eq(rc_modify(&pair, 0, qp, &rtr, rc_rtr_mask), 0);
    }
}

/* Checks the result of a post, and that `n_polled` completions of it arrived. */
static void check_post(const char *what, const char *expected, int error, int n_polled,
                       const struct ibv_wc *wc)
{
    if (strcmp(expected, "EINVAL") == 0) {
        ck_assert_msg(error == EINVAL, "%s: %d", what, error);
        ck_assert_int_eq(n_polled, 0);
        return;
    }
    ck_assert_msg(error == 0, "%s: %d", what, error);
    bool is_flushed = strcmp(expected, "flushed") == 0;
    ck_assert_msg(n_polled == (is_flushed ? 1 : 0), "%s: %d", what, n_polled);
    if (is_flushed) {
        ck_assert_int_eq(wc->status, IBV_WC_WR_FLUSH_ERR);
    }
}

static void check_posts(const struct rules *rules, unsigned row)
{
    struct ibv_wc wc;
    const char *state = rules_cell(rules, row, "state");
    uint64_t before = rc_counters(&pair, 0).tx_packets;
    int error = rc_post_recv(&pair, 0, 1, 4096, 64);
    rc_run(&pair, RC_PS_PER_MS);
    int n = rc_poll(&pair, 0, &wc, 1);
    check_post(state, rules_cell(rules, row, "post_recv"), error, n, &wc);
    error = rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 0, 8, 0);
    rc_run(&pair, RC_PS_PER_MS);
    n = rc_poll(&pair, 0, &wc, 1);
    const char *expected = rules_cell(rules, row, "post_send");
    check_post(state, expected, error, n, &wc);
    bool is_sent = rc_counters(&pair, 0).tx_packets > before;
    ck_assert_msg(is_sent == (strcmp(expected, "sent") == 0), "%s", state);
}

static bool takes_request(void)
{
    static const uint8_t bytes[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    struct sim_frame frame = {.opcode = RC_WRITE_ONLY,
                              .psn = pair.options.sq_psn[1],
                              .payload = bytes,
                              .n_payload = sizeof(bytes),
                              .dma_bytes = sizeof(bytes),
                              .va = (uintptr_t)pair.ends[0].memory + 1000,
                              .rkey = pair.ends[0].mr->rkey};
    rc_inject(&pair, 0, &frame);
    rc_run(&pair, RC_PS_PER_US);
    return pair.ends[0].memory[1000] == 9;
}

static bool takes_response(void)
{
    struct ibv_wc wc;
    struct sim_frame frame = {.opcode = RC_ACK,
                              .psn = pair.options.sq_psn[0],
                              .syndrome = RC_SYNDROME_ACK,
                              .msn = 1};
    rc_inject(&pair, 0, &frame);
    rc_run(&pair, RC_PS_PER_MS);
    int n = rc_poll(&pair, 0, &wc, 1);
    ck_assert(n == 0 || wc.status == IBV_WC_SUCCESS);
    return n == 1;
}

START_TEST(each_state_has_its_rules)
{
    struct rules rules;
    unsigned row = (unsigned)_i;
    rules_read(&rules, "posts");
    enum ibv_qp_state state = rules_state(rules_cell(&rules, row, "state"));
    bool is_strict = strcmp(rules_cell(&rules, row, "check"), "strict") == 0;
    rc_pair_init(&pair,
                 &(struct rc_options){
                     .is_unconnected = true,
                     .overrides = {{"post_check_strict", is_strict ? "true" : "false"}}});
    bring_to(state);
    sim_port_set_path_limit(pair.ends[0].port, 40); /* the peer receives nothing */
    if (state == IBV_QPS_SQD) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 7, 0, 8, 0), 0);
        rc_run(&pair, RC_PS_PER_US);
    }
    if (state == IBV_QPS_SQD || state == IBV_QPS_ERR) {
        ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, state), 0);
    }
    bool request = strcmp(rules_cell(&rules, row, "request"), "processed") == 0;
    bool response = strcmp(rules_cell(&rules, row, "response"), "processed") == 0;
    ck_assert_int_eq(takes_request(), request);
    rc_run(&pair, RC_PS_PER_MS); /* its reply has left */
    check_posts(&rules, row);
    ck_assert_int_eq(takes_response(), response);
    ck_assert_int_eq(pair.ends[0].qp->state, state);
    ck_assert(!rc_told(&pair, "b p0/")); /* the peer must not have seen any packet */
    rc_pair_fini(&pair);
    rules_fini(&rules);
}
END_TEST

/* Work that a device without state checks accepted early is sent as soon as possible. */
START_TEST(what_was_kept_from_reset_on_is_sent)
{
    rc_pair_init(&pair,
                 &(struct rc_options){.is_unconnected = true,
                                      .overrides = {{"post_check_strict", "false"}}});
    rc_connect(&pair, 1, pair.ends[1].qp, pair.ends[0].qp->qp_num);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 5, 0, 9000, 0), 0);
    rc_connect(&pair, 0, pair.ends[0].qp, pair.ends[1].qp->qp_num);
    struct ibv_wc wc = rc_wait(&pair, 0);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(wc.wr_id, 5);
    rc_pair_fini(&pair);
}
END_TEST

/* Unpolled completions: mlx5 and hns remove them with the QP, rxe keeps them. */
START_TEST(reset_and_destroy_purge_where_the_library_does)
{
    static const struct {
        const char *profile;
        int n;
    } rows[] = {{"mlx5", 0}, {"hns-hip08", 0}, {"hns-hip09", 0}, {"rxe", 1}};
    for (size_t i = 0; i < 2 * WEFT_LENGTH(rows); i++) {
        struct ibv_wc wc;
        rc_pair_init(&pair, &(struct rc_options){.profile = rows[i / 2].profile});
        struct ibv_qp *other = rc_make_qp(&pair, 0);
        rc_connect(&pair, 0, other, 0x777);
        ck_assert_int_eq(rc_to_state(&pair, 0, other, IBV_QPS_ERR), 0);
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 8, 0), 0);
        rc_run(&pair, RC_PS_PER_MS);
        struct sim_request destroy = {.verb = SIM_VERB_DESTROY_QP,
                                      .arg.qp = pair.ends[0].qp};
        struct ibv_recv_wr recv = {.wr_id = 2};
        struct ibv_recv_wr *bad = NULL;
        ck_assert_int_eq(sim_nic_post_recv(other, &recv, &bad), 0); /* flushed */
        if (i % 2 == 0) {
            ck_assert_int_eq(rc_verb(&pair, 0, &destroy), 0);
        } else {
            ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_RESET), 0);
        }
        rc_run(&pair, RC_PS_PER_MS);
        if (rows[i / 2].n == 1) {
            ck_assert_int_eq(rc_poll(&pair, 0, &wc, 1), 1);
            ck_assert_uint_eq(wc.wr_id, 1);
        }
        ck_assert_int_eq(rc_poll(&pair, 0, &wc, 1), 1); /* the other QP's remains */
        ck_assert_uint_eq(wc.wr_id, 2);
        ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
        ck_assert_uint_eq(wc.qp_num, other->qp_num);
        ck_assert_int_ne(wc.opcode, IBV_WC_RECV); /* undefined in an error completion */
        ck_assert_int_eq(rc_poll(&pair, 0, &wc, 1), 0);
        rc_pair_fini(&pair);
    }
}
END_TEST

/* ---- SQD ---- */

static int modify_sqd(struct ibv_qp_attr attr, int mask)
{
    attr.qp_state = IBV_QPS_SQD;
    return rc_modify(&pair, 0, pair.ends[0].qp, &attr, mask | IBV_QP_STATE);
}

static bool is_drained(void)
{
    struct ibv_async_event event;
    bool is_told = sim_nic_async_event(pair.ends[0].nic, 0, &event) == 0;
    return is_told && event.event_type == IBV_EVENT_SQ_DRAINED;
}

START_TEST(an_idle_queue_is_drained_at_once)
{
    struct ibv_qp_attr notify = {.en_sqd_async_notify = 1};
    rc_pair_init(&pair, NULL);
    ck_assert_int_eq(modify_sqd(notify, IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    ck_assert(is_drained());
    ck_assert(!is_drained()); /* once */
    ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_RTS), 0);
    /* Without a request there is no event. */
    ck_assert_int_eq(modify_sqd(notify, 0), 0);
    ck_assert(!is_drained());
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(what_began_is_retried_in_sqd)
{
    struct ibv_qp_attr notify = {.en_sqd_async_notify = 1};
    struct ibv_wc wc;
    rc_pair_init(&pair, NULL);
    sim_port_set_path_limit(pair.ends[0].port, 40);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 8, 0), 0);
    rc_run(&pair, RC_PS_PER_US);
    ck_assert_int_eq(modify_sqd(notify, IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 0, 8, 0), 0);
    rc_run(&pair, 100 * RC_PS_PER_MS); /* one timeout */
    ck_assert(!is_drained());
    sim_port_set_path_limit(pair.ends[0].port, 0);
    rc_run(&pair, 100 * RC_PS_PER_MS); /* another timeout: it succeeds */
    ck_assert_int_eq(rc_poll(&pair, 0, &wc, 1), 1);
    ck_assert_uint_eq(wc.wr_id, 1);
    ck_assert(is_drained());
    ck_assert_int_eq(rc_poll(&pair, 0, &wc, 1), 0);
    ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_RTS), 0);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 2);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(rxe_does_not_leave_sqd_while_it_drains)
{
    rc_pair_init(&pair, &(struct rc_options){.profile = "rxe"});
    struct ibv_qp *qp = pair.ends[0].qp;
    sim_port_set_path_limit(pair.ends[0].port, 40);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 8, 0), 0);
    rc_run(&pair, 20 * RC_PS_PER_US);
    ck_assert_int_eq(rc_to_state(&pair, 0, qp, IBV_QPS_SQD), 0);
    ck_assert_int_eq(rc_to_state(&pair, 0, qp, IBV_QPS_RTS), EINVAL);
    ck_assert_int_eq(rc_to_state(&pair, 0, qp, IBV_QPS_SQD), EINVAL);
    ck_assert_int_eq(rc_to_state(&pair, 0, qp, IBV_QPS_RESET), EINVAL);
    sim_port_set_path_limit(pair.ends[0].port, 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_int_eq(rc_to_state(&pair, 0, qp, IBV_QPS_RTS), 0);
    sim_port_set_path_limit(pair.ends[0].port, 40);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 8, 0), 0);
    rc_run(&pair, 20 * RC_PS_PER_US);
    ck_assert_int_eq(rc_to_state(&pair, 0, qp, IBV_QPS_SQD), 0);
    ck_assert_int_eq(rc_to_state(&pair, 0, qp, IBV_QPS_ERR), 0);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(attributes_change_in_sqd)
{
    struct ibv_qp_attr seen;
    rc_pair_init(&pair, &(struct rc_options){.max_dest_rd_atomic = 2});
    struct ibv_qp *qp = pair.ends[0].qp;
    struct ibv_qp_attr attr = rc_rtr_attr(&pair, 0, pair.ends[1].qp->qp_num);
    attr.timeout = 9;
    attr.retry_cnt = 2;
    attr.rnr_retry = 3;
    attr.max_rd_atomic = 4;
    attr.max_dest_rd_atomic = 8;
    attr.min_rnr_timer = 5;
    attr.ah_attr.grh.traffic_class = 0x68;
    ck_assert_int_eq(rc_to_state(&pair, 0, qp, IBV_QPS_SQD), 0);
    ck_assert_int_eq(modify_sqd(attr, IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                                          IBV_QP_MAX_DEST_RD_ATOMIC |
                                          IBV_QP_MIN_RNR_TIMER),
                     0);
    ck_assert_int_eq(sim_nic_query_qp(qp, &seen), 0);
    ck_assert_uint_eq(seen.timeout, 9);
    ck_assert_uint_eq(seen.retry_cnt, 2);
    ck_assert_uint_eq(seen.rnr_retry, 3);
    ck_assert_uint_eq(seen.max_rd_atomic, 4);
    ck_assert_uint_eq(seen.max_dest_rd_atomic, 8);
    ck_assert_uint_eq(seen.min_rnr_timer, 5);
    ck_assert_uint_eq(seen.ah_attr.grh.traffic_class, 0x68);
    ck_assert_int_eq(rc_to_state(&pair, 0, qp, IBV_QPS_RTS), 0);
    /* More concurrent READs than it could answer before. */
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_int_eq(rc_post(&pair, 1, IBV_WR_RDMA_READ, i, 0, 50000, 0), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_int_eq(rc_wait(&pair, 1).status, IBV_WC_SUCCESS);
    }
    rc_pair_fini(&pair);
}
END_TEST

/* A message is under way at the first port when the QP moves to the second, which has no
 * cable. */
START_TEST(frames_that_wait_move_to_the_new_port)
{
    struct ibv_qp_attr second = {.port_num = 2};
    rc_pair_init(&pair, &(struct rc_options){.profile = "synth2port"});
    struct rc_end *end = &pair.ends[0];
    struct sim_request destroy = {.verb = SIM_VERB_DESTROY_QP, .arg.qp = end->qp};
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, RC_MEMORY_BYTES, 0), 0);
    ck_assert_int_eq(modify_sqd((struct ibv_qp_attr){.port_num = 1}, 0), 0);
    ck_assert_int_eq(modify_sqd(second, IBV_QP_PORT), 0);
    uint64_t before = sim_port_sent(end->port).packets;
    ck_assert_uint_gt(before, 1);
    ck_assert_uint_lt(before, RC_MEMORY_BYTES / 4096); /* not yet all */
    memset(end->memory, 0x77, RC_MEMORY_BYTES); /* packets on the wire have a copy */
    rc_run(&pair, 10 * RC_PS_PER_US);
    ck_assert_uint_eq(sim_port_sent(end->port).packets, before);
    ck_assert_uint_gt(sim_port_sent(end->second).packets, 0);
    ck_assert_int_eq(rc_verb(&pair, 0, &destroy), 0);
    rc_run(&pair, RC_PS_PER_MS);
    rc_pair_fini(&pair);
}
END_TEST

/* rxe and hns round up to powers of two. */
START_TEST(read_limits_are_kept_as_the_device_keeps_them)
{
    static const struct {
        const char *profile;
        uint8_t asked, kept;
    } rows[] = {{"mlx5", 3, 3},      {"rxe", 3, 4},       {"rxe", 5, 8},
                {"rxe", 128, 128},   {"hns-hip08", 5, 8}, {"hns-hip09", 17, 32},
                {"rxe", RC_NONE, 0}, {"mlx5", RC_NONE, 0}};
    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        struct ibv_qp_attr seen;
        rc_pair_init(&pair, &(struct rc_options){.profile = rows[i].profile,
                                                 .max_rd_atomic = rows[i].asked,
                                                 .max_dest_rd_atomic = rows[i].asked});
        ck_assert_int_eq(sim_nic_query_qp(pair.ends[0].qp, &seen), 0);
        ck_assert_uint_eq(seen.max_rd_atomic, rows[i].kept);
        ck_assert_uint_eq(seen.max_dest_rd_atomic, rows[i].kept);
        rc_pair_fini(&pair);
    }
}
END_TEST

/* ---- RNR ---- */

START_TEST(the_wait_is_that_of_the_table)
{
    struct rules rules;
    unsigned row = (unsigned)_i;
    rules_read(&rules, "rnr");
    unsigned code = rules_number(rules_cell(&rules, row, "code"));
    weft_ps us = rules_number(rules_cell(&rules, row, "us"));
    ck_assert_uint_eq(code, row);
    rc_pair_init(&pair, &(struct rc_options){.min_rnr_timer =
                                                 code == 0 ? RC_NONE : (uint8_t)code});
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, 1, 0, 100, 0), 0);
    while (rc_counters(&pair, 1).rnr_naks_sent < 1) {
        ck_assert(sim_step(pair.engine, SIM_NEVER));
    }
    weft_ps start = sim_now(pair.engine);
    while (rc_counters(&pair, 1).rnr_naks_sent < 2) {
        ck_assert(sim_step(pair.engine, SIM_NEVER));
    }
    weft_ps spent = sim_now(pair.engine) - start;
    ck_assert_int_ge(spent, us * RC_PS_PER_US);
    ck_assert_int_lt(spent, (us + 5) * RC_PS_PER_US);
    rc_pair_fini(&pair);
    rules_fini(&rules);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_state");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, each_state_has_its_rules, 0, rules_count("posts"));
    tcase_add_test(all, what_was_kept_from_reset_on_is_sent);
    tcase_add_test(all, reset_and_destroy_purge_where_the_library_does);
    tcase_add_test(all, an_idle_queue_is_drained_at_once);
    tcase_add_test(all, what_began_is_retried_in_sqd);
    tcase_add_test(all, rxe_does_not_leave_sqd_while_it_drains);
    tcase_add_test(all, attributes_change_in_sqd);
    tcase_add_test(all, frames_that_wait_move_to_the_new_port);
    tcase_add_test(all, read_limits_are_kept_as_the_device_keeps_them);
    tcase_add_loop_test(all, the_wait_is_that_of_the_table, 0, 32);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}

/* Lost, duplicated, reordered and corrupt packets, and how a connection recovers. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/link.h"
#include "sim/rc_testing.h"

static struct rc_pair pair;

static void setup(void)
{
    rc_pair_init(&pair, NULL);
    rc_fill(&pair);
}

static void restart(const struct rc_options *options)
{
    rc_pair_fini(&pair);
    rc_pair_init(&pair, options);
    rc_fill(&pair);
}

static void teardown(void)
{
    rc_pair_fini(&pair);
}

static void match(unsigned end, enum sim_match_action action, uint32_t psn,
                  uint32_t iteration)
{
    struct sim_match match = {.action = action,
                              .qp = 1,
                              .psn = psn,
                              .iteration = iteration,
                              .delay_ps = 5 * RC_PS_PER_US};
    sim_port_add_match(pair.ends[end].port, &match);
}

/* Writes 64 KiB, 16 packets. Fails the test unless they arrive exactly once. */
static void write_16(void)
{
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 0, 0), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 65536, 65536),
                     0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_int_eq(rc_wait(&pair, 1).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory + 65536, 65536);
    struct ibv_wc wc[2];
    rc_run(&pair, RC_PS_PER_S);
    ck_assert_int_eq(rc_poll(&pair, 0, wc, 2), 0);
    ck_assert_int_eq(rc_poll(&pair, 1, wc, 2), 0);
}

START_TEST(one_lost_packet_draws_one_nak_and_a_go_back)
{
    match(0, SIM_MATCH_DROP, 7, 0);
    write_16();
    ck_assert(rc_told(&pair, "a p0 drop why=match opcode=WRITE_MIDDLE"));
    ck_assert_uint_eq(rc_times_told(&pair, "nak_sequence psn=263"), 1);
    ck_assert_uint_eq(rc_times_told(&pair, "retransmit"), 1);
    ck_assert(rc_told(&pair, "retransmit psn=263"));
    ck_assert(rc_told(&pair, "why=nak"));
    ck_assert_uint_eq(rc_counters(&pair, 1).naks_sent, 1);
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, 0);
}
END_TEST

START_TEST(a_packet_lost_twice_waits_for_the_timer)
{
    match(0, SIM_MATCH_DROP, 7, 0);
    match(0, SIM_MATCH_DROP, 7, 1);
    weft_ps start = sim_now(pair.engine);
    write_16();
    /* One NAK per gap: the second loss is not reported, so 4.096 us * 2^14 pass. */
    ck_assert_uint_eq(rc_counters(&pair, 1).naks_sent, 1);
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, 1);
    ck_assert(rc_told(&pair, "timeout psn=263 retries_left=6"));
    ck_assert_int_gt(sim_now(pair.engine) - start, 67 * RC_PS_PER_MS);
}
END_TEST

START_TEST(the_last_packet_lost_waits_for_the_timer)
{
    match(0, SIM_MATCH_DROP, 15, 0);
    write_16();
    ck_assert_uint_eq(rc_counters(&pair, 1).naks_sent, 0);
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, 1);
}
END_TEST

START_TEST(a_corrupt_packet_is_a_lost_packet)
{
    match(0, SIM_MATCH_CORRUPT, 7, 0);
    write_16();
    ck_assert(rc_told(&pair, "b p0 drop why=icrc"));
    ck_assert_uint_eq(rc_counters(&pair, 1).icrc_errors, 1);
    ck_assert_uint_eq(rc_counters(&pair, 1).naks_sent, 1);
}
END_TEST

START_TEST(a_duplicate_is_not_executed_again)
{
    match(0, SIM_MATCH_DUPLICATE, 15, 0);
    write_16();
    ck_assert_uint_eq(rc_counters(&pair, 1).duplicates, 1);
    ck_assert_uint_eq(rc_times_told(&pair, "retransmit"), 0);
}
END_TEST

START_TEST(a_delayed_packet_is_a_gap_and_then_a_duplicate)
{
    match(0, SIM_MATCH_DELAY, 3, 0);
    write_16();
    ck_assert_uint_eq(rc_counters(&pair, 1).naks_sent, 1);
    ck_assert_uint_ge(rc_counters(&pair, 1).duplicates, 1);
}
END_TEST

/* The cable has no impairment any more, but delayed frames are still on it. */
START_TEST(what_was_held_back_is_overtaken_when_the_fault_is_over)
{
    struct sim_impairment late = {.reorder_ppb = 1000000000};
    struct sim_impairment none = {0};
    sim_port_set_impairment(pair.ends[0].port, true, false, &late);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 65536, 65536), 0);
    while (pair.ends[0].port->out.n < 2) {
        ck_assert(sim_step(pair.engine, SIM_NEVER));
    }
    sim_port_set_impairment(pair.ends[0].port, true, false, &none);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(pair.ends[1].memory + 65536, pair.ends[0].memory, 65536);
    /* One NAK for the first gap, and two for the gaps that the delayed frames cause when
     * they arrive. */
    ck_assert_uint_eq(rc_counters(&pair, 1).naks_sent, 3);
    ck_assert(rc_told(&pair, "retransmit psn=256 packets="));
}
END_TEST

START_TEST(a_lost_ack_is_asked_for_again)
{
    struct sim_impairment all = {.loss_ppb = 1000000000};
    struct sim_impairment none = {0};
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 0, 0), 0);
    sim_port_set_impairment(pair.ends[0].port, false, true, &all);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 100, 65536), 0);
    rc_run(&pair, 10 * RC_PS_PER_US);
    sim_port_set_impairment(pair.ends[0].port, false, true, &none);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(rc_counters(&pair, 1).duplicates, 1);
    ck_assert_uint_eq(rc_times_told(&pair, "opcode=RECV_RDMA_WITH_IMM"), 1);
    ck_assert(rc_told(&pair, "b p0 drop why=loss opcode=ACK"));
}
END_TEST

START_TEST(a_lost_read_response_is_asked_for_from_there)
{
    match(1, SIM_MATCH_DROP, 5, 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, 1, 0, 65536, 65536), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory + 65536, 65536);
    ck_assert(rc_told(&pair, "retransmit psn=261 packets=11 why=implied_nak"));
    ck_assert_uint_eq(rc_counters(&pair, 1).duplicates, 1);
}
END_TEST

START_TEST(a_lost_last_read_response_waits_for_the_timer)
{
    match(1, SIM_MATCH_DROP, 15, 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, 1, 0, 65536, 65536), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory + 65536, 65536);
    ck_assert(rc_told(&pair, "retransmit psn=271 packets=1 why=timeout"));
}
END_TEST

START_TEST(an_ack_beyond_a_read_implies_its_loss)
{
    match(1, SIM_MATCH_DROP, 0, 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, 1, 0, 8, 65536), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 100, 8, 100), 0);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 1);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 2);
    ck_assert(rc_told(&pair, "why=implied_nak"));
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, 0);
}
END_TEST

START_TEST(an_atomic_is_executed_once_however_often_asked)
{
    uint64_t value = 10;
    uint64_t found;
    memcpy(pair.ends[1].memory, &value, 8);
    match(1, SIM_MATCH_DROP, 0, 0);
    match(1, SIM_MATCH_DROP, 0, 1);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 64, 8, 0), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    memcpy(&found, pair.ends[0].memory + 64, 8);
    memcpy(&value, pair.ends[1].memory, 8);
    ck_assert_uint_eq(found, 10);
    ck_assert_uint_eq(value, 15);
    ck_assert_uint_eq(rc_counters(&pair, 1).duplicates, 2);
}
END_TEST

START_TEST(rnr_waits_and_comes_back)
{
    /* min_rnr_timer 12: 0.64 ms. */
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, 1, 0, 100, 0), 0);
    weft_ps start = sim_now(pair.engine);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_uint_eq(rc_counters(&pair, 1).rnr_naks_sent, 2);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 0, 100), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_int_gt(sim_now(pair.engine) - start, 2 * 640 * RC_PS_PER_US);
    ck_assert_int_lt(sim_now(pair.engine) - start, 1300 * RC_PS_PER_US);
    ck_assert(rc_told(&pair, "rnr_nak psn=256 code=12"));
    ck_assert(rc_told(&pair, "rnr_wait psn=256 code=12"));
    ck_assert(rc_told(&pair, "retransmit psn=256 packets=1 why=rnr"));
}
END_TEST

START_TEST(rnr_wait_outlasts_the_ack_timer)
{
    struct rc_options options = {.min_rnr_timer = RC_NONE, .timeout = 10, .retry_cnt = 1};
    restart(&options); /* code 0: 655.36 ms; timeout 4.2 ms */
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, 1, 0, 100, 0), 0);
    rc_run(&pair, 600 * RC_PS_PER_MS);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 0, 100), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, 0);
    ck_assert_uint_eq(rc_counters(&pair, 1).rnr_naks_sent, 1);
}
END_TEST

START_TEST(rnr_acknowledges_what_came_before)
{
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 0, 100), 0);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, i, 0, 100, 0), 0);
    }
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 0);
    rc_run(&pair, 100 * RC_PS_PER_US);
    /* The third SEND arrived out of sequence, but drew no NAK. */
    ck_assert_uint_eq(rc_counters(&pair, 1).naks_sent, 0);
    for (unsigned i = 1; i < 3; i++) {
        ck_assert_int_eq(rc_post_recv(&pair, 1, i, 0, 100), 0);
    }
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 1);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 2);
}
END_TEST

/* retry_cnt r: one transmission and r retries, each after the timeout; then RETRY_EXC. */
START_TEST(retries_are_counted)
{
    struct rc_options options = {.timeout = 10, .retry_cnt = (uint8_t)(_i + 1)};
    weft_ps timeout = (weft_ps)4096000 << 10;
    restart(&options);
    sim_port_set_down(pair.ends[0].port, true, true, true);
    weft_ps start = sim_now(pair.engine);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_RETRY_EXC_ERR);
    weft_ps spent = sim_now(pair.engine) - start;
    ck_assert_int_ge(spent, (_i + 2) * timeout);
    ck_assert_int_lt(spent, (_i + 2) * timeout + 2 * RC_PS_PER_US);
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, (unsigned)_i + 2);
    ck_assert_uint_eq(rc_times_told(&pair, "why=no_carrier"), 1);
}
END_TEST

START_TEST(no_timeout_means_never)
{
    struct ibv_wc wc;
    restart(&(struct rc_options){.timeout = RC_NONE});
    sim_port_set_down(pair.ends[0].port, true, true, true);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0), 0);
    rc_run(&pair, 1000 * RC_PS_PER_S);
    ck_assert_int_eq(rc_poll(&pair, 0, &wc, 1), 0);
}
END_TEST

START_TEST(seven_retries_never_end_on_rxe)
{
    struct ibv_wc wc;
    restart(&(struct rc_options){.profile = "rxe", .timeout = 10});
    sim_port_set_down(pair.ends[0].port, true, true, true);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0), 0);
    rc_run(&pair, RC_PS_PER_S);
    ck_assert_int_eq(rc_poll(&pair, 0, &wc, 1), 0);
    ck_assert_uint_gt(rc_counters(&pair, 0).timeouts, 200);
    sim_port_set_down(pair.ends[0].port, true, true, false);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
}
END_TEST

START_TEST(progress_refills_the_retries)
{
    struct rc_options options = {.timeout = 10, .retry_cnt = 1};
    restart(&options);
    for (unsigned i = 0; i < 5; i++) {
        match(0, SIM_MATCH_DROP, i, 0);
    }
    /* Each message loses its only packet once: five timeouts with a retry_cnt of one. */
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, i, 0, 100, 0), 0);
        ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    }
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, 5);
}
END_TEST

START_TEST(a_short_cut_is_survived)
{
    struct ibv_async_event event;
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 0, 0), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 800000, 0), 0);
    rc_run(&pair, 20 * RC_PS_PER_US);
    sim_port_set_down(pair.ends[0].port, true, true, true);
    ck_assert(!sim_port_is_up(pair.ends[0].port));
    ck_assert(!sim_port_is_up(pair.ends[1].port));
    rc_run(&pair, 500 * RC_PS_PER_US);
    sim_port_set_down(pair.ends[0].port, true, true, false);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory, 800000);
    ck_assert(rc_told(&pair, "a p0 port_down in_flight_lost="));
    ck_assert(rc_told(&pair, "b p0 port_up"));
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(sim_nic_async_event(pair.ends[i].nic, 0, &event), 0);
        ck_assert_int_eq(event.event_type, IBV_EVENT_PORT_ERR);
        ck_assert_int_eq(event.element.port_num, 1);
        ck_assert_int_eq(sim_nic_async_event(pair.ends[i].nic, 0, &event), 0);
        ck_assert_int_eq(event.event_type, IBV_EVENT_PORT_ACTIVE);
    }
}
END_TEST

START_TEST(frames_do_not_outlive_what_they_refer_to)
{
    /* The sender's process dies while its packets are in flight. The payload check at the
     * receiver would detect any change. */
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 800000, 0), 0);
    rc_run(&pair, 5 * RC_PS_PER_US);
    sim_nic_reset(pair.ends[0].nic);
    memset(pair.ends[0].memory, 0xff, RC_MEMORY_BYTES);
    rc_run(&pair, RC_PS_PER_S);
    struct ibv_wc wc;
    ck_assert_int_eq(rc_poll(&pair, 1, &wc, 1), 0);
    ck_assert_int_eq(pair.ends[1].qp->state, IBV_QPS_RTS);
}
END_TEST

START_TEST(flushed_memory_is_the_users_again)
{
    struct ibv_wc wc[2];
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 800000, 0), 0);
    rc_run(&pair, 5 * RC_PS_PER_US);
    ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_ERR), 0);
    rc_run(&pair, 200 * 1000);
    ck_assert_int_eq(rc_poll(&pair, 0, wc, 2), 1);
    memset(pair.ends[0].memory, 0xff, RC_MEMORY_BYTES);
    rc_run(&pair, RC_PS_PER_S);
}
END_TEST

START_TEST(a_stranger_is_not_heard)
{
    /* The QP number exists, but is connected to another QP. */
    struct ibv_qp *other = rc_make_qp(&pair, 1);
    struct ibv_qp_attr init = rc_init_attr(&pair);
    struct ibv_qp_attr rtr = rc_rtr_attr(&pair, 1, 0x777);
    rtr.ah_attr.grh.dgid.raw[15] = 2; /* its own address, not end 0's */
    ck_assert_int_eq(rc_modify(&pair, 1, other, &init, rc_init_mask), 0);
    ck_assert_int_eq(rc_modify(&pair, 1, other, &rtr, rc_rtr_mask), 0);
    struct ibv_qp *mine = rc_make_qp(&pair, 0);
    rc_connect(&pair, 0, mine, other->qp_num);
    pair.ends[0].qp = mine;
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0), 0);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert(rc_told(&pair, "b p0 drop why=address"));
    ck_assert_uint_eq(rc_counters(&pair, 1).dropped_unknown_qp, 1);
}
END_TEST

START_TEST(an_unknown_queue_pair_is_silent)
{
    struct ibv_qp *mine = rc_make_qp(&pair, 0);
    rc_connect(&pair, 0, mine, 0xabcdef);
    pair.ends[0].qp = mine;
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0), 0);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert(rc_told(&pair, "b p0 drop why=unknown_qp"));
}
END_TEST

/* The port asks the QP, which then has nothing to send; the host's packet is next. */
START_TEST(a_request_that_fails_here_does_not_hold_the_port)
{
    struct sim_packet *packet = weft_calloc(1, sizeof(*packet));
    uint64_t n_sent = sim_port_sent(pair.ends[0].port).packets;
    uint32_t lkey = pair.ends[0].mr->lkey;
    packet->kind = SIM_FRAME_PAUSE;
    packet->wire_bytes = 64;
    rc_run(&pair, RC_PS_PER_MS);
    pair.ends[0].mr->lkey = lkey + 1;
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0), 0);
    pair.ends[0].mr->lkey = lkey;
    ck_assert(sim_step(pair.engine, SIM_NEVER)); /* the doorbell */
    sim_port_send(pair.ends[0].port, packet);
    struct ibv_wc wc = rc_wait(&pair, 0);
    ck_assert_int_eq(wc.status, IBV_WC_LOC_PROT_ERR);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_uint_eq(sim_port_sent(pair.ends[0].port).packets, n_sent + 1);
}
END_TEST

START_TEST(marked_packets_are_still_packets)
{
    struct sim_impairment marked = {.ecn_ppb = 1000000000};
    sim_port_set_impairment(pair.ends[0].port, true, true, &marked);
    write_16();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_fault");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 30);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, one_lost_packet_draws_one_nak_and_a_go_back);
    tcase_add_test(all, a_packet_lost_twice_waits_for_the_timer);
    tcase_add_test(all, the_last_packet_lost_waits_for_the_timer);
    tcase_add_test(all, a_corrupt_packet_is_a_lost_packet);
    tcase_add_test(all, what_was_held_back_is_overtaken_when_the_fault_is_over);
    tcase_add_test(all, a_duplicate_is_not_executed_again);
    tcase_add_test(all, a_delayed_packet_is_a_gap_and_then_a_duplicate);
    tcase_add_test(all, a_lost_ack_is_asked_for_again);
    tcase_add_test(all, a_lost_read_response_is_asked_for_from_there);
    tcase_add_test(all, a_lost_last_read_response_waits_for_the_timer);
    tcase_add_test(all, an_ack_beyond_a_read_implies_its_loss);
    tcase_add_test(all, an_atomic_is_executed_once_however_often_asked);
    tcase_add_test(all, rnr_waits_and_comes_back);
    tcase_add_test(all, rnr_wait_outlasts_the_ack_timer);
    tcase_add_test(all, rnr_acknowledges_what_came_before);
    tcase_add_loop_test(all, retries_are_counted, 0, 7);
    tcase_add_test(all, no_timeout_means_never);
    tcase_add_test(all, seven_retries_never_end_on_rxe);
    tcase_add_test(all, progress_refills_the_retries);
    tcase_add_test(all, a_short_cut_is_survived);
    tcase_add_test(all, frames_do_not_outlive_what_they_refer_to);
    tcase_add_test(all, flushed_memory_is_the_users_again);
    tcase_add_test(all, a_stranger_is_not_heard);
    tcase_add_test(all, an_unknown_queue_pair_is_silent);
    tcase_add_test(all, a_request_that_fails_here_does_not_hold_the_port);
    tcase_add_test(all, marked_packets_are_still_packets);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}

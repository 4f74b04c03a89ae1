/* Profile rxe as requester, row by row as a user-space endpoint observed the kernel's
 * (Linux 7.2.13). Times are those of the tables; a kernel with 100 jiffies per second
 * only adds to them. */
#include <check.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/wire_testing.h"

enum { SQ = WIRE_SQ_PSN };
#define ACK_TIME(timeout) ((weft_ps)4096000 << (timeout))

static struct wire wire;

static void set_up(void)
{
    static const struct rc_options options = {.timeout = 14, .retry_cnt = 3};
    wire_init(&wire, &options);
}

static void tear_down(void)
{
    wire_fini(&wire);
}

static void post_writes(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        wire_post(&wire, IBV_WR_RDMA_WRITE, i + 1, 8);
    }
    wire_run(&wire, RC_PS_PER_MS);
}

/* Expects `n` WRITE_ONLY from `psn` on. */
static void expect_writes(uint32_t psn, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        (void)wire_expect(&wire, RC_WRITE_ONLY, psn + i);
    }
}

/* Reads the following frames of a 200-packet WRITE, the next of which is packet `first`.
 * Those in `asking` must request an ACK. Returns their number. */
static unsigned drain_write(unsigned first, const unsigned *asking, unsigned n_asking)
{
    unsigned n = 0;
    unsigned k = 0;
    for (const struct wire_frame *frame; (frame = wire_next(&wire)) != NULL; n++) {
        bool asks = k < n_asking && asking[k] == first + n;
        ck_assert_uint_eq(frame->roce.psn, SQ + first + n);
        ck_assert_msg(frame->roce.ack_req == asks, "packet %u", first + n);
        k += asks;
    }
    ck_assert_uint_eq(k, n_asking);
    return n;
}

/* "AckReq inside a 200-packet WRITE on packets #65, #131, #197, #199"; "stops after 129
 * unacked frames; acking #65 released 66 more". */
START_TEST(every_66th_packet_asks_and_129_wait)
{
    static const unsigned asking[] = {65, 131, 197, 199};
    wire_post(&wire, IBV_WR_RDMA_WRITE, 1, 200 * WIRE_MTU);
    wire_run(&wire, RC_PS_PER_MS);
    ck_assert_uint_eq(drain_write(0, asking, 1), 129);
    wire_ack(&wire, 0x1f, SQ + 65);
    wire_run(&wire, RC_PS_PER_MS);
    ck_assert_uint_eq(drain_write(129, asking + 1, 1), 66);
    wire_ack(&wire, 0x1f, SQ + 131);
    wire_run(&wire, RC_PS_PER_MS);
    ck_assert_uint_eq(drain_write(195, asking + 2, 2), 5);
    wire_expect_none_done(&wire);
    wire_ack(&wire, 0x1f, SQ + 199);
    wire_expect_all_done(&wire, 1, 1, IBV_WC_SUCCESS);
}
END_TEST

/* "AckReq: every LAST/ONLY/READ." */
START_TEST(whatever_ends_a_message_asks)
{
    wire_post(&wire, IBV_WR_RDMA_WRITE, 1, 2 * WIRE_MTU);
    wire_post(&wire, IBV_WR_SEND, 2, 0);
    wire_post(&wire, IBV_WR_RDMA_READ, 3, 8);
    wire_run(&wire, RC_PS_PER_MS);
    ck_assert(!wire_expect(&wire, RC_WRITE_FIRST, SQ)->roce.ack_req);
    ck_assert(wire_expect(&wire, RC_WRITE_LAST, SQ + 1)->roce.ack_req);
    ck_assert(wire_expect(&wire, RC_SEND_ONLY, SQ + 2)->roce.ack_req);
    ck_assert(wire_expect(&wire, RC_READ_REQUEST, SQ + 3)->roce.ack_req);
}
END_TEST

START_TEST(an_ack_of_the_last_of_60_completes_60)
{
    post_writes(60);
    expect_writes(SQ, 60);
    wire_ack(&wire, 0x1f, SQ + 59);
    wire_expect_all_done(&wire, 1, 60, IBV_WC_SUCCESS);
}
END_TEST

/* "ACK for middle of a WR: WRs before it complete; it waits. Stale and duplicate ACKs
 * ignored." */
START_TEST(an_ack_inside_a_wr_completes_those_before)
{
    post_writes(2);
    wire_post(&wire, IBV_WR_RDMA_WRITE, 3, 3 * WIRE_MTU);
    wire_run(&wire, RC_PS_PER_MS);
    wire_ack(&wire, 0x1f, SQ + 3);
    wire_expect_all_done(&wire, 1, 2, IBV_WC_SUCCESS);
    wire_ack(&wire, 0x1f, SQ + 3);
    wire_ack(&wire, 0x1f, SQ);
    wire_expect_none_done(&wire);
    wire_ack(&wire, 0x1f, SQ + 4);
    wire_expect_all_done(&wire, 3, 3, IBV_WC_SUCCESS);
}
END_TEST

/* "ACK for every packet, syndromes 0x00..0x1e, MSN garbage: accepted; MSN and credits
 * ignored." */
START_TEST(credits_and_msn_mean_nothing)
{
    wire_post(&wire, IBV_WR_RDMA_WRITE, 1, 31 * WIRE_MTU);
    wire_run(&wire, RC_PS_PER_MS);
    for (unsigned i = 0; i <= 0x1e; i++) {
        struct sim_roce ack = wire_packet(&wire, RC_ACK, SQ + i);
        ack.syndrome = (uint8_t)i;
        ack.msn = (i * 7919 + 13) & RC_PSN_MASK;
        wire_expect_none_done(&wire);
        wire_say(&wire, &ack);
    }
    wire_expect_all_done(&wire, 1, 1, IBV_WC_SUCCESS);
}
END_TEST

/* "ACK for a psn never sent: SQ empty: ignored. WR pending and fully sent: completes it." */
START_TEST(an_ack_of_what_was_never_sent_is_believed)
{
    wire_ack(&wire, 0x1f, SQ + 40);
    wire_expect_none_done(&wire);
    post_writes(1);
    wire_ack(&wire, 0x1f, SQ + 40);
    wire_expect_all_done(&wire, 1, 1, IBV_WC_SUCCESS);
    /* Only WRs that were sent completely count: here the first. */
    wire_post(&wire, IBV_WR_RDMA_WRITE, 2, 8);
    wire_post(&wire, IBV_WR_RDMA_WRITE, 3, 200 * WIRE_MTU);
    wire_run(&wire, RC_PS_PER_MS);
    wire_ack(&wire, 0x1f, SQ + 1000);
    wire_expect_all_done(&wire, 2, 2, IBV_WC_SUCCESS);
    ck_assert_int_eq(wire_qp_state(&wire), IBV_QPS_RTS);
}
END_TEST

/* "ACK late (after 1st retransmission): success, one CQE, no further frames; second ACK
 * ignored." */
START_TEST(a_late_ack_ends_it)
{
    post_writes(1);
    wire_run(&wire, ACK_TIME(14));
    expect_writes(SQ, 1);
    expect_writes(SQ, 1);
    wire_ack(&wire, 0x1f, SQ);
    wire_expect_all_done(&wire, 1, 1, IBV_WC_SUCCESS);
    wire_ack(&wire, 0x1f, SQ);
    wire_run(&wire, RC_PS_PER_S);
    wire_expect_silence(&wire);
    wire_expect_none_done(&wire);
}
END_TEST

/* "no ACK, retry_cnt 3: 4 transmissions of the whole message, then RETRY_EXC_ERR, QP ERR." */
START_TEST(without_ack_it_is_sent_four_times)
{
    wire_post(&wire, IBV_WR_RDMA_WRITE, 1, 3 * WIRE_MTU);
    wire_post(&wire, IBV_WR_RDMA_WRITE, 2, 8);
    wire_run(&wire, RC_PS_PER_S);
    for (unsigned i = 0; i < 4; i++) {
        (void)wire_expect(&wire, RC_WRITE_FIRST, SQ);
        (void)wire_expect(&wire, RC_WRITE_MIDDLE, SQ + 1);
        (void)wire_expect(&wire, RC_WRITE_LAST, SQ + 2);
        (void)wire_expect(&wire, RC_WRITE_ONLY, SQ + 3);
    }
    wire_expect_silence(&wire);
    wire_expect_done(&wire, 1, IBV_WC_RETRY_EXC_ERR);
    wire_expect_all_done(&wire, 2, 2, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(wire_qp_state(&wire), IBV_QPS_ERR);
}
END_TEST

/* "intervals: timeout 10, 14, 17; CQE after the fourth". */
START_TEST(intervals_are_those_of_the_timeout)
{
    static const uint8_t timeouts[] = {10, 14, 17};
    struct rc_options options = {.timeout = timeouts[_i], .retry_cnt = 3};
    weft_ps least = ACK_TIME(timeouts[_i]);
    wire_init(&wire, &options);
    wire_post(&wire, IBV_WR_RDMA_WRITE, 1, 8);
    weft_ps start = sim_now(wire.pair.engine);
    (void)rc_wait(&wire.pair, 0);
    weft_ps end = sim_now(wire.pair.engine);
    weft_ps before = wire_expect(&wire, RC_WRITE_ONLY, SQ)->at;
    for (unsigned i = 0; i < 3; i++) {
        weft_ps at = wire_expect(&wire, RC_WRITE_ONLY, SQ)->at;
        ck_assert_int_ge(at - before, least);
        ck_assert_int_lt(at - before, least + least / 4);
        before = at;
    }
    wire_expect_silence(&wire);
    ck_assert_int_ge(end - start, 4 * least);
    ck_assert_int_lt(end - start, 5 * least);
}
END_TEST

/* "partly acked message: resend starts at the first unacked psn as WRITE_MIDDLE without
 * RETH." */
START_TEST(a_partly_acked_message_goes_on_in_its_middle)
{
    wire_post(&wire, IBV_WR_RDMA_WRITE, 1, 5 * WIRE_MTU);
    wire_run(&wire, RC_PS_PER_MS);
    wire_ack(&wire, 0x1f, SQ + 1);
    while (wire_next(&wire) != NULL) {
    }
    wire_run(&wire, ACK_TIME(14));
    const struct wire_frame *frame = wire_expect(&wire, RC_WRITE_MIDDLE, SQ + 2);
    ck_assert_uint_eq(frame->n_bytes, 14 + 28 + 12 + WIRE_MTU + 4);
    (void)wire_expect(&wire, RC_WRITE_MIDDLE, SQ + 3);
    (void)wire_expect(&wire, RC_WRITE_LAST, SQ + 4);
}
END_TEST

/* "repeated ACK of an old psn during retries is no progress: RETRY_EXC after retry_cnt." */
START_TEST(an_old_ack_is_no_progress)
{
    post_writes(2);
    wire_ack(&wire, 0x1f, SQ);
    expect_writes(SQ, 2);
    for (unsigned i = 0; i < 3; i++) {
        wire_run(&wire, ACK_TIME(14));
        expect_writes(SQ + 1, 1);
        wire_ack(&wire, 0x1f, SQ);
    }
    wire_run(&wire, RC_PS_PER_S);
    wire_expect_silence(&wire);
    wire_expect_done(&wire, 1, IBV_WC_SUCCESS);
    wire_expect_all_done(&wire, 2, 2, IBV_WC_RETRY_EXC_ERR);
}
END_TEST

/* "NAK 0x60 psn+2: go-back-N from psn+2 within 0.1 ms; one retry_cnt consumed." */
START_TEST(a_nak_goes_back_at_once_and_costs_a_retry)
{
    post_writes(5);
    expect_writes(SQ, 5);
    weft_ps said = sim_now(wire.pair.engine);
    wire_ack(&wire, 0x60, SQ + 2);
    wire_run(&wire, 100 * RC_PS_PER_US);
    const struct wire_frame *first = wire_expect(&wire, RC_WRITE_ONLY, SQ + 2);
    ck_assert_int_lt(first->at - said, 100 * RC_PS_PER_US);
    expect_writes(SQ + 3, 2);
    wire_expect_all_done(&wire, 1, 2, IBV_WC_SUCCESS);
    wire_run(&wire, RC_PS_PER_S);
    expect_writes(SQ + 2, 3); /* two of three retries were left */
    expect_writes(SQ + 2, 3);
    wire_expect_silence(&wire);
    wire_expect_done(&wire, 3, IBV_WC_RETRY_EXC_ERR);
}
END_TEST

/* "second NAK before any ACK (same psn or a higher one): ignored; 5 repeats ignored. Next
 * resend only by timer. After an ACK that makes progress a NAK works again." */
START_TEST(of_naks_only_the_first_until_progress_counts)
{
    post_writes(6);
    expect_writes(SQ, 6);
    wire_ack(&wire, 0x60, SQ + 1);
    wire_run(&wire, RC_PS_PER_MS);
    weft_ps resent = wire.heard[wire.n_heard - 1]->at;
    expect_writes(SQ + 1, 5);
    for (unsigned i = 0; i < 5; i++) {
        wire_ack(&wire, 0x60, SQ + 1);
    }
    wire_ack(&wire, 0x60, SQ + 2);
    wire_run(&wire, RC_PS_PER_MS);
    wire_expect_silence(&wire);
    wire_run(&wire, ACK_TIME(14));
    const struct wire_frame *first = wire_next(&wire);
    ck_assert_ptr_nonnull(first);
    ck_assert_uint_eq(first->roce.psn, SQ + 2);
    ck_assert_int_ge(first->at - resent, ACK_TIME(14) - 100 * RC_PS_PER_US);
    expect_writes(SQ + 3, 3);
    wire_ack(&wire, 0x60, SQ + 3); /* not even after the timer has retransmitted */
    wire_run(&wire, RC_PS_PER_MS);
    wire_expect_silence(&wire);
    wire_ack(&wire, 0x1f, SQ + 3);
    wire_ack(&wire, 0x60, SQ + 4);
    wire_run(&wire, RC_PS_PER_MS);
    expect_writes(SQ + 4, 2);
}
END_TEST

/* "NAK 0x61/0x62/0x63: first WR REM_INV_REQ(9)/REM_ACCESS(10)/REM_OP(11), rest FLUSH." */
START_TEST(a_fatal_nak_ends_the_first_and_flushes_the_rest)
{
    static const enum ibv_wc_status statuses[] = {
        IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR};
    post_writes(3);
    wire_ack(&wire, (uint8_t)(0x61 + _i), SQ);
    wire_expect_done(&wire, 1, statuses[_i]);
    wire_expect_all_done(&wire, 2, 3, IBV_WC_WR_FLUSH_ERR);
    ck_assert_int_eq(wire_qp_state(&wire), IBV_QPS_ERR);
}
END_TEST

static void respond(uint8_t opcode, uint32_t psn, uint32_t n_bytes, uint8_t fill)
{
    uint8_t payload[WIRE_MTU];
    struct sim_roce packet = wire_packet(&wire, opcode, psn);
    for (uint32_t i = 0; i < n_bytes; i++) {
        payload[i] = fill;
    }
    packet.payload = payload;
    packet.n_payload = n_bytes;
    packet.syndrome = opcode == RC_READ_MIDDLE ? 0 : 0x1f;
    wire_say(&wire, &packet);
}

/* "READ, one MIDDLE response skipped: later responses dropped silently, no fast retry; by the
 * timer new READ_REQ psn+1, va+1024, remaining length; the answer restarts with FIRST; data
 * right." */
START_TEST(a_gap_in_a_read_waits_for_the_timer)
{
    wire_post(&wire, IBV_WR_RDMA_READ, 1, 3000);
    wire_run(&wire, RC_PS_PER_MS);
    const struct wire_frame *asked = wire_expect(&wire, RC_READ_REQUEST, SQ);
    ck_assert_uint_eq(asked->roce.dma_bytes, 3000);
    respond(RC_READ_FIRST, SQ, 1024, 1);
    weft_ps last = sim_now(wire.pair.engine);
    respond(RC_READ_LAST, SQ + 2, 952, 3);
    respond(RC_READ_LAST, SQ + 2, 952, 3);
    wire_run(&wire, ACK_TIME(14) / 2);
    wire_expect_silence(&wire);
    wire_expect_none_done(&wire);
    wire_run(&wire, ACK_TIME(14) / 2 + RC_PS_PER_MS);
    asked = wire_expect(&wire, RC_READ_REQUEST, SQ + 1);
    ck_assert_int_ge(asked->at - last, ACK_TIME(14) - RC_PS_PER_MS);
    ck_assert_uint_eq(asked->roce.va, WIRE_VA + 1024);
    ck_assert_uint_eq(asked->roce.dma_bytes, 1976);
    respond(RC_READ_FIRST, SQ + 1, 1024, 5);
    respond(RC_READ_LAST, SQ + 2, 952, 6);
    wire_expect_all_done(&wire, 1, 1, IBV_WC_SUCCESS);
    const uint8_t *memory = wire.pair.ends[0].memory;
    for (unsigned i = 0; i < 3000; i++) {
        ck_assert_uint_eq(memory[i], i < 1024 ? 1 : i < 2048 ? 5 : 6);
    }
}
END_TEST

/* "READ then WRITE, only WRITE acked: immediate resend of READ and WRITE." */
START_TEST(an_ack_beyond_a_read_is_an_implied_nak)
{
    wire_post(&wire, IBV_WR_RDMA_READ, 1, 8);
    wire_post(&wire, IBV_WR_RDMA_WRITE, 2, 8);
    wire_run(&wire, RC_PS_PER_MS);
    (void)wire_expect(&wire, RC_READ_REQUEST, SQ);
    expect_writes(SQ + 1, 1);
    weft_ps said = sim_now(wire.pair.engine);
    wire_ack(&wire, 0x1f, SQ + 1);
    wire_run(&wire, RC_PS_PER_MS);
    const struct wire_frame *again = wire_expect(&wire, RC_READ_REQUEST, SQ);
    ck_assert_int_lt(again->at - said, 200 * RC_PS_PER_US);
    expect_writes(SQ + 1, 1);
    wire_expect_silence(&wire);
    wire_expect_none_done(&wire);
    respond(RC_READ_ONLY, SQ, 8, 1);
    wire_ack(&wire, 0x1f, SQ + 1);
    wire_expect_all_done(&wire, 1, 2, IBV_WC_SUCCESS);
}
END_TEST

/* The kernel requests the READ again if a NAK names a later request (rxe_comp.c,
 * check_psn). It must not request a part of that READ that does not exist. */
START_TEST(a_nak_behind_a_read_is_an_implied_nak)
{
    static const uint32_t lengths[] = {8, 1024, 3000};
    uint32_t n_read = _i == 2 ? 3 : 1;
    wire_post(&wire, IBV_WR_RDMA_READ, 1, lengths[_i]);
    wire_post(&wire, IBV_WR_RDMA_WRITE, 2, 8);
    wire_run(&wire, RC_PS_PER_MS);
    (void)wire_expect(&wire, RC_READ_REQUEST, SQ);
    expect_writes(SQ + n_read, 1);
    wire_ack(&wire, 0x60, SQ + n_read);
    wire_run(&wire, RC_PS_PER_MS);
    const struct wire_frame *again = wire_expect(&wire, RC_READ_REQUEST, SQ);
    ck_assert_uint_eq(again->roce.dma_bytes, lengths[_i]);
    ck_assert_uint_eq(again->roce.va, WIRE_VA);
    expect_writes(SQ + n_read, 1);
    wire_expect_silence(&wire);
    wire_expect_none_done(&wire);
}
END_TEST

/* "ACK sent to a wrong A QPN: dropped; A times out." */
START_TEST(an_ack_to_another_qp_is_none)
{
    post_writes(1);
    struct sim_roce ack = wire_packet(&wire, RC_ACK, SQ);
    ack.dest_qpn++;
    ack.syndrome = 0x1f;
    wire_say(&wire, &ack);
    wire_expect_none_done(&wire);
    wire_run(&wire, RC_PS_PER_S);
    for (unsigned i = 0; i < 4; i++) {
        expect_writes(SQ, 1);
    }
    wire_expect_all_done(&wire, 1, 1, IBV_WC_RETRY_EXC_ERR);
}
END_TEST

static void add_plain(Suite *suite)
{
    TCase *rows = tcase_create("rows");
    tcase_add_checked_fixture(rows, set_up, tear_down);
    tcase_add_test(rows, every_66th_packet_asks_and_129_wait);
    tcase_add_test(rows, whatever_ends_a_message_asks);
    tcase_add_test(rows, an_ack_of_the_last_of_60_completes_60);
    tcase_add_test(rows, an_ack_inside_a_wr_completes_those_before);
    tcase_add_test(rows, credits_and_msn_mean_nothing);
    tcase_add_test(rows, an_ack_of_what_was_never_sent_is_believed);
    tcase_add_test(rows, a_late_ack_ends_it);
    tcase_add_test(rows, without_ack_it_is_sent_four_times);
    tcase_add_test(rows, a_partly_acked_message_goes_on_in_its_middle);
    tcase_add_test(rows, an_old_ack_is_no_progress);
    tcase_add_test(rows, a_nak_goes_back_at_once_and_costs_a_retry);
    tcase_add_test(rows, of_naks_only_the_first_until_progress_counts);
    tcase_add_loop_test(rows, a_fatal_nak_ends_the_first_and_flushes_the_rest, 0, 3);
    tcase_add_test(rows, a_gap_in_a_read_waits_for_the_timer);
    tcase_add_test(rows, an_ack_beyond_a_read_is_an_implied_nak);
    tcase_add_loop_test(rows, a_nak_behind_a_read_is_an_implied_nak, 0, 3);
    tcase_add_test(rows, an_ack_to_another_qp_is_none);
    suite_add_tcase(suite, rows);
}

int main(void)
{
    Suite *suite = suite_create("rxe_requester");
    TCase *others = tcase_create("rows with their own attributes");
    add_plain(suite);
    tcase_add_checked_fixture(others, NULL, tear_down);
    tcase_add_loop_test(others, intervals_are_those_of_the_timeout, 0, 3);
    suite_add_tcase(suite, others);
    return suite_run(suite);
}

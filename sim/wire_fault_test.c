/* Faults of single packets on the way to a port, and faults that no check detects. */
#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/icrc.h"
#include "sim/rc_testing.h"

static struct rc_pair pair;

static void setup(void)
{
    rc_pair_init(&pair, NULL);
    rc_fill(&pair);
}

static void teardown(void)
{
    rc_pair_fini(&pair);
}

static void match_inward(unsigned end, enum sim_match_action action, uint32_t psn,
                         uint32_t iteration)
{
    struct sim_match match = {
        .action = action, .is_inward = true, .qp = 1, .psn = psn, .iteration = iteration};
    sim_port_add_match(pair.ends[end].port, &match);
}

static void transfer(enum ibv_wr_opcode opcode)
{
    ck_assert_int_eq(rc_post(&pair, 0, opcode, 1, 0, 65536, 65536), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    rc_run(&pair, RC_PS_PER_S);
}

START_TEST(a_packet_is_named_by_who_is_to_receive_it)
{
    match_inward(1, SIM_MATCH_DROP, 7, 0);
    transfer(IBV_WR_RDMA_WRITE);
    ck_assert(rc_told(&pair, "a p0 drop why=match opcode=WRITE_MIDDLE qpn="));
    ck_assert_uint_eq(rc_times_told(&pair, "why=match"), 1);
    ck_assert(rc_told(&pair, "nak_sequence psn=263")); /* 0x100 + 7 */
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory + 65536, 65536);
}
END_TEST

/* PSNs of responses are those of the requester. */
START_TEST(a_response_is_named_by_who_asked)
{
    match_inward(0, SIM_MATCH_DROP, 5, 0);
    match_inward(0, SIM_MATCH_DROP, 5, 1);
    transfer(IBV_WR_RDMA_READ);
    ck_assert_uint_eq(rc_times_told(&pair, "b p0 drop why=match opcode=READ_MIDDLE"), 1);
    ck_assert_uint_eq(rc_times_told(&pair, "b p0 drop why=match opcode=READ_FIRST"), 1);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory + 65536, 65536);
}
END_TEST

START_TEST(another_queue_pair_or_psn_is_not_meant)
{
    struct sim_match other = {
        .action = SIM_MATCH_DROP, .is_inward = true, .qp = 2, .psn = 7};
    sim_port_add_match(pair.ends[1].port, &other);
    match_inward(1, SIM_MATCH_DROP, 16, 0);
    match_inward(0, SIM_MATCH_DROP, 7, 0); /* only ACKs arrive here */
    transfer(IBV_WR_RDMA_WRITE);
    ck_assert_uint_eq(rc_times_told(&pair, "why=match"), 0);
}
END_TEST

/* Counters of a tap: RoCE frames, wrong ICRCs, ECN marks, corrupt frames, and bytes that
 * differ from the sender's memory. */
struct seen {
    unsigned n, n_wrong_icrc, n_marked, n_corrupt, n_changed;
};

static void look(void *context, weft_ns at, const struct sim_port *port, bool is_outgoing,
                 const uint8_t *bytes, size_t n_bytes, const char *comment)
{
    struct seen *seen = context;
    const uint8_t *icrc = bytes + n_bytes - 4;
    (void)at;
    (void)port;
    (void)is_outgoing;
    if (bytes[12] != 0x08 || bytes[23] != 17 || bytes[36] != 0x12 || bytes[37] != 0xb7) {
        return;
    }
    uint32_t sent = (uint32_t)icrc[0] | (uint32_t)icrc[1] << 8 | (uint32_t)icrc[2] << 16 |
                    (uint32_t)icrc[3] << 24;
    seen->n++;
    seen->n_wrong_icrc += sim_icrc(bytes + 14, n_bytes - 18, false) != sent;
    seen->n_marked += (bytes[15] & 3) == 3;
    seen->n_corrupt += comment != NULL && strcmp(comment, "corrupt") == 0;
    if (bytes[42] == 0x07) { /* WRITE_MIDDLE: a page of the sender's memory */
        size_t page = (size_t)(bytes[52] << 8 | bytes[53]) - 0x100;
        const uint8_t *memory = pair.ends[0].memory + page * 4096;
        for (size_t i = 0; i < 4096; i++) {
            seen->n_changed += bytes[54 + i] != memory[i];
        }
    }
}

static unsigned n_different(const uint8_t *a, const uint8_t *b, size_t n)
{
    unsigned count = 0;
    for (size_t i = 0; i < n; i++) {
        count += a[i] != b[i];
    }
    return count;
}

START_TEST(a_bit_that_flips_behind_the_icrc_is_found_by_nobody)
{
    struct seen here = {0}, there = {0};
    uint8_t before[65536];
    struct sim_match match = {
        .action = SIM_MATCH_CORRUPT, .is_unseen = true, .qp = 1, .psn = 9};
    memcpy(before, pair.ends[0].memory, sizeof(before));
    sim_port_add_match(pair.ends[0].port, &match);
    sim_port_tap(pair.ends[0].port, look, &here);
    sim_port_tap(pair.ends[1].port, look, &there);
    transfer(IBV_WR_RDMA_WRITE);
    ck_assert_mem_eq(pair.ends[0].memory, before, sizeof(before));
    ck_assert_uint_eq(
        n_different(pair.ends[0].memory, pair.ends[1].memory + 65536, 65536), 1);
    ck_assert(rc_told(&pair, "a p0 flip opcode=WRITE_MIDDLE"));
    ck_assert_uint_eq(rc_counters(&pair, 1).icrc_errors, 0);
    ck_assert_uint_eq(rc_counters(&pair, 0).retransmits, 0);
    ck_assert_uint_eq(here.n_wrong_icrc + there.n_wrong_icrc, 0);
    ck_assert_uint_eq(here.n_corrupt, 1);
    ck_assert_uint_eq(here.n_changed, 0); /* it was sent unchanged */
    ck_assert_uint_eq(there.n_changed, 1);
}
END_TEST

START_TEST(every_payload_may_change_and_acks_cannot)
{
    struct sim_impairment all = {.corrupt_ppb = 1000000000, .corrupts_unseen = true};
    sim_port_set_impairment(pair.ends[0].port, true, true, &all);
    transfer(IBV_WR_RDMA_WRITE);
    transfer(IBV_WR_RDMA_READ);
    ck_assert_uint_eq(
        n_different(pair.ends[0].memory, pair.ends[1].memory + 65536, 65536), 16);
    ck_assert_uint_eq(rc_counters(&pair, 0).retransmits, 0);
}
END_TEST

START_TEST(a_mark_is_set_on_the_way_and_counted_where_it_arrives)
{
    struct sim_impairment all = {.ecn_ppb = 1000000000};
    struct seen here = {0}, there = {0};
    sim_port_set_impairment(pair.ends[0].port, true, false, &all);
    sim_port_tap(pair.ends[0].port, look, &here);
    sim_port_tap(pair.ends[1].port, look, &there);
    transfer(IBV_WR_RDMA_WRITE);
    ck_assert_uint_eq(here.n, 17);
    ck_assert_uint_eq(here.n_marked, 0);
    ck_assert_uint_eq(there.n_marked, 16);
    /* the ICRC does not cover the mark */
    ck_assert_uint_eq(here.n_wrong_icrc + there.n_wrong_icrc, 0);
    ck_assert_uint_eq(rc_counters(&pair, 1).ecn_marks, 16);
    ck_assert_uint_eq(rc_counters(&pair, 0).ecn_marks, 0);
}
END_TEST

/* One packet is marked by a match, and no other, although the cable draws for all. */
START_TEST(one_packet_is_marked)
{
    struct sim_match match = {.action = SIM_MATCH_MARK, .qp = 1, .psn = 9};
    struct sim_impairment some = {.ecn_ppb = 1};
    struct seen here = {0}, there = {0};
    sim_port_set_impairment(pair.ends[0].port, true, false, &some);
    sim_port_add_match(pair.ends[0].port, &match);
    sim_port_tap(pair.ends[0].port, look, &here);
    sim_port_tap(pair.ends[1].port, look, &there);
    transfer(IBV_WR_RDMA_WRITE);
    ck_assert_uint_eq(here.n_marked, 0);
    ck_assert_uint_eq(there.n_marked, 1);
    ck_assert_uint_eq(rc_counters(&pair, 1).ecn_marks, 1);
    ck_assert_uint_eq(rc_counters(&pair, 0).retransmits, 0);
}
END_TEST

/* Number of packets received up to the first that is late, and its PSN. */
struct order {
    unsigned n, last;
    bool is_over;
};

static void note_order(void *context, weft_ns at, const struct sim_port *port,
                       bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                       const char *comment)
{
    struct order *order = context;
    unsigned psn = (unsigned)bytes[52] << 8 | bytes[53];
    (void)at;
    (void)port;
    (void)n_bytes;
    (void)comment;
    if (is_outgoing || order->is_over) {
        return;
    }
    order->n++;
    order->is_over = psn < order->last;
    order->last = psn;
}

/* The packet is delayed by the time of four full-size frames, and arrives before the one
 * that is due at the same time. Those that overtook it were dropped: one NAK for the gap
 * when they arrived, and one for the gap behind it. */
START_TEST(one_packet_is_overtaken)
{
    struct sim_match match = {.action = SIM_MATCH_REORDER, .qp = 1, .psn = 5};
    struct order order = {0};
    sim_port_add_match(pair.ends[0].port, &match);
    sim_port_tap(pair.ends[1].port, note_order, &order);
    transfer(IBV_WR_RDMA_WRITE);
    ck_assert_uint_eq(order.last, 0x100 + 5);
    /* those before it, those that overtook it, and itself */
    ck_assert_uint_eq(order.n, 5 + 3 + 1);
    ck_assert_uint_eq(rc_counters(&pair, 1).naks_sent, 2);
    ck_assert_uint_gt(rc_counters(&pair, 0).retransmits, 0);
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, 0);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory + 65536, 65536);
}
END_TEST

/* Both were executed, and both replies were lost. When the requests are repeated, the
 * READ's response leaves first, because the ACK has no lower PSN; it is due 8 ns later
 * than the ACK that it overtakes. */
START_TEST(a_repeated_write_and_a_read_are_both_answered)
{
    struct sim_impairment all = {.loss_ppb = 1000000000}, none = {0};
    sim_port_set_impairment(pair.ends[0].port, false, true, &all);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 8, 65536), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, 2, 8, 8, 65536), 0);
    rc_run(&pair, RC_PS_PER_MS);
    sim_port_set_impairment(pair.ends[0].port, false, true, &none);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, 1);
    ck_assert_uint_eq(rc_counters(&pair, 1).duplicates, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire fault");
    TCase *tcase = tcase_create("packet");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_packet_is_named_by_who_is_to_receive_it);
    tcase_add_test(tcase, a_response_is_named_by_who_asked);
    tcase_add_test(tcase, another_queue_pair_or_psn_is_not_meant);
    tcase_add_test(tcase, a_bit_that_flips_behind_the_icrc_is_found_by_nobody);
    tcase_add_test(tcase, every_payload_may_change_and_acks_cannot);
    tcase_add_test(tcase, a_mark_is_set_on_the_way_and_counted_where_it_arrives);
    tcase_add_test(tcase, one_packet_is_marked);
    tcase_add_test(tcase, one_packet_is_overtaken);
    tcase_add_test(tcase, a_repeated_write_and_a_read_are_both_answered);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

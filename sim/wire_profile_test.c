/* What devices other than soft-RoCE do where soft-RoCE deviates: the behaviour of the
 * specification for each field whose kernel behaviour rxe_*_test.c check. */
#include <check.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/wire_testing.h"

enum { SQ = WIRE_SQ_PSN, RQ = WIRE_RQ_PSN };
#define ACK_TIME ((weft_ps)4096000 << 14)

static const char *const profiles[] = {"mlx5", "hns-hip08", "hns-hip09", "synth2port"};

static struct wire wire;

static void set_up_as(const char *profile)
{
    struct rc_options options = {
        .profile = profile,
        .timeout = 14,
        .retry_cnt = 3,
        .max_dest_rd_atomic = 4,
    };
    wire_init(&wire, &options);
}

static void tear_down(void)
{
    wire_fini(&wire);
}

static void put_at_once(const struct sim_roce *packet)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    size_t n = sim_roce_encode(packet, bytes, sizeof(bytes));
    ck_assert_int_eq(sim_port_put_bytes(wire.pair.ends[0].port, bytes, n), SIM_PACKET_OK);
}

static void post_writes(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        wire_post(&wire, IBV_WR_RDMA_WRITE, i + 1, 8);
    }
    wire_run(&wire, RC_PS_PER_MS);
    for (unsigned i = 0; i < n; i++) {
        (void)wire_expect(&wire, RC_WRITE_ONLY, SQ + i);
    }
}

/* IPv4: id 0 with DF; MigReq of the profile; source port from both QPNs. */
START_TEST(headers_are_the_profiles)
{
    set_up_as(profiles[_i]);
    wire_post(&wire, IBV_WR_RDMA_WRITE, 1, 5);
    wire_post(&wire, IBV_WR_RDMA_WRITE, 2, 5);
    wire_run(&wire, RC_PS_PER_MS);
    uint32_t qpn = wire.pair.ends[0].qp->qp_num;
    for (unsigned i = 0; i < 2; i++) {
        const struct sim_roce *roce = &wire_expect(&wire, RC_WRITE_ONLY, SQ + i)->roce;
        ck_assert_uint_eq(roce->ipv4_id, 0);
        ck_assert(roce->dont_fragment);
        ck_assert(roce->mig_req == wire.pair.profile.mig_req);
        ck_assert_uint_eq(roce->sport, sim_udp_sport(0, WIRE_QPN, qpn));
        ck_assert_uint_eq(roce->pkey, 0xffff);
        ck_assert_uint_eq(roce->hop_limit, 64);
    }
}
END_TEST

/* A flow label set by the caller determines the source port, and is in the IPv6
 * header. */
START_TEST(a_flow_label_makes_the_source_port)
{
    struct rc_options options = {.profile = profiles[_i], .is_ipv6 = true};
    wire_init(&wire, &options);
    struct ibv_qp *qp = wire.pair.ends[0].qp;
    struct ibv_qp_attr init = rc_init_attr(&wire.pair);
    struct ibv_qp_attr rtr = rc_rtr_attr(&wire.pair, 0, WIRE_QPN);
    struct ibv_qp_attr rts = rc_rts_attr(&wire.pair, 0);
    rtr.ah_attr.grh.flow_label = 0xfc001;
    rtr.ah_attr.grh.traffic_class = 0x69;
    ck_assert_int_eq(rc_to_state(&wire.pair, 0, qp, IBV_QPS_RESET), 0);
    ck_assert_int_eq(rc_modify(&wire.pair, 0, qp, &init, rc_init_mask), 0);
    ck_assert_int_eq(rc_modify(&wire.pair, 0, qp, &rtr, rc_rtr_mask), 0);
    ck_assert_int_eq(rc_modify(&wire.pair, 0, qp, &rts, rc_rts_mask), 0);
    wire_post(&wire, IBV_WR_RDMA_WRITE, 1, 8);
    wire_run(&wire, RC_PS_PER_MS);
    const struct sim_roce *roce = &wire_expect(&wire, RC_WRITE_ONLY, SQ)->roce;
    ck_assert_int_eq(roce->layer, SIM_ROCE_IPV6);
    ck_assert_uint_eq(roce->flow_label, 0xfc001);
    ck_assert_uint_eq(roce->traffic_class, 0x69);
    ck_assert_uint_eq(roce->sport, 0xc03e); /* 1 ^ 0x3f */
}
END_TEST

/* One ACK can acknowledge several packets that arrived before it left (IBA 9.7.5.1.1). */
START_TEST(acks_that_wait_become_one)
{
    static const uint8_t eight[8];
    set_up_as(profiles[_i]);
    for (unsigned i = 0; i < 3; i++) {
        struct sim_roce packet = wire_packet(&wire, RC_WRITE_ONLY, RQ + i);
        packet.va = (uintptr_t)wire.pair.ends[0].memory;
        packet.rkey = wire.pair.ends[0].mr->rkey;
        packet.dma_bytes = 8;
        packet.payload = eight;
        packet.n_payload = 8;
        packet.ack_req = true;
        put_at_once(&packet);
    }
    wire_run(&wire, RC_PS_PER_MS);
    ck_assert_uint_eq(wire_expect_ack(&wire, 0x1f, RQ + 2)->roce.msn, 3);
    wire_expect_silence(&wire);
}
END_TEST

/* The rest of a READ that is requested again is a READ of its own and starts with FIRST
 * (IBA 9.7.5.1.2). */
START_TEST(the_rest_of_a_read_starts_as_first)
{
    set_up_as(profiles[_i]);
    wire_read(&wire, RQ, 0, 3001);
    (void)wire_expect(&wire, RC_READ_FIRST, RQ);
    (void)wire_expect(&wire, RC_READ_MIDDLE, RQ + 1);
    (void)wire_expect(&wire, RC_READ_LAST, RQ + 2);
    wire_read(&wire, RQ + 1, 1024, 1977);
    (void)wire_expect(&wire, RC_READ_FIRST, RQ + 1);
    (void)wire_expect(&wire, RC_READ_LAST, RQ + 2);
    wire_read(&wire, RQ + 2, 2048, 953);
    (void)wire_expect(&wire, RC_READ_ONLY, RQ + 2);
    wire_expect_silence(&wire);
}
END_TEST

/* More READs than max_dest_rd_atomic are an invalid request (IBA 9.7.4.1.2). */
START_TEST(more_reads_than_promised_are_refused)
{
    set_up_as(profiles[_i]);
    for (unsigned i = 0; i < 6; i++) {
        struct sim_roce packet = wire_packet(&wire, RC_READ_REQUEST, RQ + i);
        packet.va = (uintptr_t)wire.pair.ends[0].memory;
        packet.rkey = wire.pair.ends[0].mr->rkey;
        packet.dma_bytes = 8;
        put_at_once(&packet);
    }
    wire_run(&wire, RC_PS_PER_MS);
    const struct wire_frame *last = NULL;
    for (const struct wire_frame *frame; (frame = wire_next(&wire)) != NULL;) {
        last = frame;
    }
    ck_assert_ptr_nonnull(last);
    ck_assert_uint_eq(last->roce.opcode, RC_ACK);
    ck_assert_uint_eq(last->roce.syndrome, 0x61);
    ck_assert_uint_eq(last->roce.psn, RQ + 4);
    ck_assert_int_eq(wire_qp_state(&wire), IBV_QPS_ERR);
}
END_TEST

/* An ACK of a PSN that was never sent is ignored (IBA 9.7.6.1). */
START_TEST(an_ack_of_what_was_never_sent_is_ignored)
{
    set_up_as(profiles[_i]);
    post_writes(1);
    wire_ack(&wire, 0x1f, SQ + 40);
    wire_expect_none_done(&wire);
    wire_ack(&wire, 0x1f, SQ);
    wire_expect_all_done(&wire, 1, 1, IBV_WC_SUCCESS);
}
END_TEST

/* A NAK is heeded again after the timer has retransmitted everything. */
START_TEST(a_nak_after_a_timeout_is_heeded)
{
    set_up_as(profiles[_i]);
    post_writes(3);
    wire_ack(&wire, 0x60, SQ);
    wire_run(&wire, RC_PS_PER_MS);
    while (wire_next(&wire) != NULL) {
    }
    wire_ack(&wire, 0x60, SQ);
    wire_run(&wire, RC_PS_PER_MS);
    wire_expect_silence(&wire);
    wire_run(&wire, ACK_TIME);
    (void)wire_expect(&wire, RC_WRITE_ONLY, SQ);
    while (wire_next(&wire) != NULL) {
    }
    wire_ack(&wire, 0x60, SQ);
    wire_run(&wire, RC_PS_PER_MS);
    (void)wire_expect(&wire, RC_WRITE_ONLY, SQ);
}
END_TEST

/* A gap in the responses of a READ is an implied NAK (IBA 9.7.5.2.7). */
START_TEST(a_gap_in_a_read_is_asked_for_at_once)
{
    uint8_t payload[WIRE_MTU] = {0};
    set_up_as(profiles[_i]);
    wire_post(&wire, IBV_WR_RDMA_READ, 1, 3 * WIRE_MTU);
    wire_run(&wire, RC_PS_PER_MS);
    (void)wire_expect(&wire, RC_READ_REQUEST, SQ);
    for (unsigned i = 0; i < 3; i += 2) {
        struct sim_roce packet =
            wire_packet(&wire, i == 0 ? RC_READ_FIRST : RC_READ_LAST, SQ + i);
        packet.payload = payload;
        packet.n_payload = WIRE_MTU;
        packet.syndrome = 0x1f;
        wire_say(&wire, &packet);
    }
    wire_run(&wire, RC_PS_PER_MS);
    const struct wire_frame *again = wire_expect(&wire, RC_READ_REQUEST, SQ + 1);
    ck_assert_uint_eq(again->roce.va, WIRE_VA + WIRE_MTU);
    ck_assert_uint_eq(again->roce.dma_bytes, 2 * WIRE_MTU);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire_profile");
    TCase *all = tcase_create("all");
    int n = (int)WEFT_LENGTH(profiles);
    tcase_add_checked_fixture(all, NULL, tear_down);
    tcase_add_loop_test(all, headers_are_the_profiles, 0, n);
    tcase_add_loop_test(all, a_flow_label_makes_the_source_port, 0, n);
    tcase_add_loop_test(all, acks_that_wait_become_one, 0, n);
    tcase_add_loop_test(all, the_rest_of_a_read_starts_as_first, 0, n);
    tcase_add_loop_test(all, more_reads_than_promised_are_refused, 0, n);
    tcase_add_loop_test(all, an_ack_of_what_was_never_sent_is_ignored, 0, n);
    tcase_add_loop_test(all, a_nak_after_a_timeout_is_heeded, 0, n);
    tcase_add_loop_test(all, a_gap_in_a_read_is_asked_for_at_once, 0, n);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}

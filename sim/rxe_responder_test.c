/* Profile rxe as responder, row by row as a user-space endpoint observed the kernel's
 * (Linux 7.2.13). */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/wire_testing.h"

enum { RQ = WIRE_RQ_PSN };

static struct wire wire;

static void set_up(void)
{
    wire_init(&wire, NULL);
}

static void tear_down(void)
{
    wire_fini(&wire);
}

static uint8_t *memory(void)
{
    return wire.pair.ends[0].memory;
}

static void ck_assert_filled(size_t offset, size_t n, uint8_t fill)
{
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(memory()[offset + i], fill);
    }
}

/* Sends one packet of a WRITE; only the first carries the address. */
static void write_part(uint8_t opcode, uint32_t psn, uint32_t n_bytes, uint32_t whole,
                       bool ack_req)
{
    uint8_t payload[WIRE_MTU];
    struct sim_roce packet = wire_packet(&wire, opcode, psn);
    memset(payload, 0x5a, sizeof(payload));
    packet.payload = payload;
    packet.n_payload = n_bytes;
    packet.ack_req = ack_req;
    if (opcode == RC_WRITE_FIRST || opcode == RC_WRITE_ONLY) {
        packet.va = (uintptr_t)memory();
        packet.rkey = wire.pair.ends[0].mr->rkey;
        packet.dma_bytes = whole;
    }
    wire_say(&wire, &packet);
}

/* "Duplicate WRITE (other data, even as SEND): not executed, re-ACKed with psn = epsn-1 even
 * if AckReq is clear". */
START_TEST(a_duplicate_is_acked_and_not_executed)
{
    wire_write(&wire, RQ, 0, 8, 1);
    wire_write(&wire, RQ + 1, 8, 8, 2);
    (void)wire_expect_ack(&wire, 0x1f, RQ);
    (void)wire_expect_ack(&wire, 0x1f, RQ + 1);
    wire_write(&wire, RQ, 0, 8, 9);
    (void)wire_expect_ack(&wire, 0x1f, RQ + 1);
    ck_assert_filled(0, 8, 1);
    write_part(RC_WRITE_ONLY, RQ, 8, 8, false);
    (void)wire_expect_ack(&wire, 0x1f, RQ + 1);
    ck_assert_filled(0, 8, 1);
    ck_assert_int_eq(rc_post_recv(&wire.pair, 0, 1, 0, 64), 0);
    wire_send(&wire, RQ + 1, 8, 9);
    (void)wire_expect_ack(&wire, 0x1f, RQ + 1);
    ck_assert_filled(0, 8, 1);
    wire_expect_none_done(&wire);
    wire_expect_silence(&wire);
}
END_TEST

/* "... (and even if that psn was never acked before: half-received message, FIRST and MIDDLE
 * each drew an ACK). Resending FIRST..LAST over a half-received message ends well." */
START_TEST(half_a_message_sent_again_ends_well)
{
    write_part(RC_WRITE_FIRST, RQ, 1024, 3000, false);
    write_part(RC_WRITE_MIDDLE, RQ + 1, 1024, 0, false);
    wire_expect_silence(&wire);
    write_part(RC_WRITE_FIRST, RQ, 1024, 3000, false);
    (void)wire_expect_ack(&wire, 0x1f, RQ + 1);
    write_part(RC_WRITE_MIDDLE, RQ + 1, 1024, 0, false);
    (void)wire_expect_ack(&wire, 0x1f, RQ + 1);
    write_part(RC_WRITE_LAST, RQ + 2, 952, 0, true);
    const struct wire_frame *ack = wire_expect_ack(&wire, 0x1f, RQ + 2);
    ck_assert_uint_eq(ack->roce.msn, 1);
    ck_assert_filled(0, 3000, 0x5a);
    wire_expect_silence(&wire);
}
END_TEST

/* "one ACK per request packet that carries AckReq, also on FIRST/MIDDLE: MSN not yet
 * raised", also if requests arrive faster than replies leave. */
START_TEST(each_ack_req_has_its_own_ack)
{
    uint8_t bytes[3][SIM_PACKET_BYTES_MAX];
    uint8_t payload[WIRE_MTU] = {0};
    static const uint8_t opcodes[] = {RC_WRITE_FIRST, RC_WRITE_MIDDLE, RC_WRITE_LAST};
    for (unsigned i = 0; i < 3; i++) {
        struct sim_roce packet = wire_packet(&wire, opcodes[i], RQ + i);
        packet.payload = payload;
        packet.n_payload = WIRE_MTU;
        packet.ack_req = true;
        if (i == 0) {
            packet.va = (uintptr_t)memory();
            packet.rkey = wire.pair.ends[0].mr->rkey;
            packet.dma_bytes = 3 * WIRE_MTU;
        }
        size_t n = sim_roce_encode(&packet, bytes[i], sizeof(bytes[i]));
        ck_assert_int_eq(sim_port_put_bytes(wire.pair.ends[0].port, bytes[i], n),
                         SIM_PACKET_OK);
    }
    wire_run(&wire, RC_PS_PER_MS);
    ck_assert_uint_eq(wire_expect_ack(&wire, 0x1f, RQ)->roce.msn, 0);
    ck_assert_uint_eq(wire_expect_ack(&wire, 0x1f, RQ + 1)->roce.msn, 0);
    ck_assert_uint_eq(wire_expect_ack(&wire, 0x1f, RQ + 2)->roce.msn, 1);
    wire_expect_silence(&wire);
}
END_TEST

/* "Without AckReq no ACK (3 WRITEs silent, the 4th acked all, msn +4)." */
START_TEST(who_asks_for_no_ack_gets_none)
{
    for (unsigned i = 0; i < 4; i++) {
        wire_expect_silence(&wire);
        write_part(RC_WRITE_ONLY, RQ + i, 8, 8, i == 3);
    }
    ck_assert_uint_eq(wire_expect_ack(&wire, 0x1f, RQ + 3)->roce.msn, 4);
    wire_expect_silence(&wire);
}
END_TEST

/* Expects the responses from `psn` on of a READ of `n_bytes` at `offset`, with these
 * opcodes. */
static void expect_read(uint32_t psn, size_t offset, uint32_t n_bytes,
                        const uint8_t *opcodes)
{
    for (uint32_t done = 0; done < n_bytes; opcodes++, psn++) {
        uint32_t n = n_bytes - done < WIRE_MTU ? n_bytes - done : WIRE_MTU;
        const struct wire_frame *frame = wire_expect(&wire, *opcodes, psn);
        ck_assert_uint_eq(frame->roce.n_payload, n);
        ck_assert_mem_eq(frame->roce.payload, memory() + offset + done, n);
        done += n;
    }
}

/* "Duplicate READ: full replay; tail of a READ (psn+1, va+1024) answered with MIDDLE, LAST (not
 * FIRST)." */
START_TEST(a_duplicate_read_is_replayed)
{
    static const uint8_t whole[] = {RC_READ_FIRST, RC_READ_MIDDLE, RC_READ_LAST};
    static const uint8_t tail[] = {RC_READ_MIDDLE, RC_READ_LAST};
    wire_read(&wire, RQ, 0, 3001);
    expect_read(RQ, 0, 3001, whole);
    wire_read(&wire, RQ, 0, 3001);
    expect_read(RQ, 0, 3001, whole);
    wire_read(&wire, RQ + 1, 1024, 1977);
    expect_read(RQ + 1, 1024, 1977, tail);
    wire_read(&wire, RQ + 2, 2048, 953);
    expect_read(RQ + 2, 2048, 953, tail + 1);
    wire_expect_silence(&wire);
    ck_assert_int_eq(wire_qp_state(&wire), IBV_QPS_RTS);
}
END_TEST

/* "With max_dest_rd_atomic 4: 8 READs in one burst were all answered (16 frames, no NAK);
 * duplicate of the oldest then unanswered, of the newest replayed." */
START_TEST(more_reads_than_promised_are_served)
{
    static const struct rc_options options = {.max_dest_rd_atomic = 4};
    static const uint8_t two[] = {RC_READ_FIRST, RC_READ_LAST};
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    wire_init(&wire, &options);
    for (unsigned i = 0; i < 8; i++) {
        struct sim_roce packet = wire_packet(&wire, RC_READ_REQUEST, RQ + 2 * i);
        packet.va = (uintptr_t)memory() + 2048 * i;
        packet.rkey = wire.pair.ends[0].mr->rkey;
        packet.dma_bytes = 2000;
        size_t n = sim_roce_encode(&packet, bytes, sizeof(bytes));
        ck_assert_int_eq(sim_port_put_bytes(wire.pair.ends[0].port, bytes, n),
                         SIM_PACKET_OK);
    }
    wire_run(&wire, RC_PS_PER_MS);
    for (unsigned i = 0; i < 8; i++) {
        expect_read(RQ + 2 * i, 2048 * i, 2000, two);
    }
    wire_expect_silence(&wire);
    for (unsigned i = 0; i < 8; i++) {
        wire_read(&wire, RQ + 2 * i, 2048 * i, 2000);
        if (i >= 4) {
            expect_read(RQ + 2 * i, 2048 * i, 2000, two);
        }
        wire_expect_silence(&wire);
    }
}
END_TEST

/* "Gap: one NAK 0x60 with epsn for psn+2, nothing for psn+3; after resend 4 ACKs." */
START_TEST(a_gap_draws_one_nak)
{
    wire_write(&wire, RQ, 0, 8, 1);
    (void)wire_expect_ack(&wire, 0x1f, RQ);
    wire_write(&wire, RQ + 2, 16, 8, 3);
    (void)wire_expect_ack(&wire, 0x60, RQ + 1);
    wire_write(&wire, RQ + 3, 24, 8, 4);
    wire_expect_silence(&wire);
    for (unsigned i = 1; i < 5; i++) {
        wire_write(&wire, RQ + i, 8 * i, 8, (uint8_t)(i + 1));
        (void)wire_expect_ack(&wire, 0x1f, RQ + i);
        ck_assert_filled(8 * i, 8, (uint8_t)(i + 1));
    }
    wire_expect_silence(&wire);
}
END_TEST

/* "No receive posted: NAK 0x2c (min_rnr_timer 12) each time; resend after post_recv succeeds.
 * No waiting time enforced." */
START_TEST(without_a_receive_each_send_draws_rnr)
{
    for (unsigned i = 0; i < 3; i++) {
        wire_send(&wire, RQ, 8, 7);
        (void)wire_expect_ack(&wire, 0x2c, RQ);
    }
    ck_assert_int_eq(rc_post_recv(&wire.pair, 0, 5, 0, 64), 0);
    wire_send(&wire, RQ, 8, 7);
    (void)wire_expect_ack(&wire, 0x1f, RQ);
    wire_expect_all_done(&wire, 5, 5, IBV_WC_SUCCESS);
    ck_assert_filled(0, 8, 7);
    wire_expect_silence(&wire);
}
END_TEST

static void expect_dead(void)
{
    ck_assert_int_eq(wire_qp_state(&wire), IBV_QPS_ERR);
    wire_write(&wire, RQ, 0, 8, 9);
    wire_write(&wire, RQ + 1, 0, 8, 9);
    wire_expect_silence(&wire);
}

/* "Bad rkey 0x62: QP to ERR(6), afterwards silent." */
START_TEST(a_bad_rkey_is_the_end)
{
    struct sim_roce packet = wire_packet(&wire, RC_WRITE_ONLY, RQ);
    packet.va = (uintptr_t)memory();
    packet.rkey = wire.pair.ends[0].mr->rkey + 1;
    packet.dma_bytes = 8;
    packet.payload = (const uint8_t *)"12345678";
    packet.n_payload = 8;
    packet.ack_req = true;
    wire_say(&wire, &packet);
    (void)wire_expect_ack(&wire, 0x62, RQ);
    ck_assert_mem_ne(memory(), "12345678", 8);
    expect_dead();
}
END_TEST

/* "short MIDDLE 0x61: QP to ERR(6), afterwards silent." */
START_TEST(a_short_middle_is_the_end)
{
    write_part(RC_WRITE_FIRST, RQ, 1024, 3000, false);
    write_part(RC_WRITE_MIDDLE, RQ + 1, 1000, 0, false);
    (void)wire_expect_ack(&wire, 0x61, RQ + 1);
    expect_dead();
}
END_TEST

/* "WRITE 0 with rkey 0, va 0: ACK." */
START_TEST(nothing_needs_no_key)
{
    struct sim_roce packet = wire_packet(&wire, RC_WRITE_ONLY, RQ);
    packet.ack_req = true;
    wire_say(&wire, &packet);
    ck_assert_uint_eq(wire_expect_ack(&wire, 0x1f, RQ)->roce.msn, 1);
    ck_assert_int_eq(wire_qp_state(&wire), IBV_QPS_RTS);
}
END_TEST

/* "Unsolicited ACK, CNP (0x81): ignored, QP stays RTS." */
START_TEST(acks_and_cnps_out_of_the_blue_are_ignored)
{
    static const uint8_t reserved[16];
    struct sim_roce cnp = wire_packet(&wire, RC_CNP, 0);
    cnp.becn = true;
    cnp.payload = reserved;
    cnp.n_payload = sizeof(reserved);
    wire_ack(&wire, 0x1f, WIRE_SQ_PSN);
    wire_ack(&wire, 0x62, WIRE_SQ_PSN);
    wire_say(&wire, &cnp);
    ck_assert_int_eq(wire_qp_state(&wire), IBV_QPS_RTS);
    ck_assert_uint_eq(rc_counters(&wire.pair, 0).cnps, 1);
    ck_assert_uint_eq(rc_counters(&wire.pair, 0).dropped_unknown_qp, 0);
    wire_write(&wire, RQ, 0, 8, 1);
    (void)wire_expect_ack(&wire, 0x1f, RQ);
    wire_expect_silence(&wire);
    wire_expect_none_done(&wire);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe_responder");
    TCase *rows = tcase_create("rows");
    TCase *others = tcase_create("rows with their own attributes");
    tcase_add_checked_fixture(rows, set_up, tear_down);
    tcase_add_test(rows, a_duplicate_is_acked_and_not_executed);
    tcase_add_test(rows, half_a_message_sent_again_ends_well);
    tcase_add_test(rows, each_ack_req_has_its_own_ack);
    tcase_add_test(rows, who_asks_for_no_ack_gets_none);
    tcase_add_test(rows, a_duplicate_read_is_replayed);
    tcase_add_test(rows, a_gap_draws_one_nak);
    tcase_add_test(rows, without_a_receive_each_send_draws_rnr);
    tcase_add_test(rows, a_bad_rkey_is_the_end);
    tcase_add_test(rows, a_short_middle_is_the_end);
    tcase_add_test(rows, nothing_needs_no_key);
    tcase_add_test(rows, acks_and_cnps_out_of_the_blue_are_ignored);
    suite_add_tcase(suite, rows);
    tcase_add_checked_fixture(others, NULL, tear_down);
    tcase_add_test(others, more_reads_than_promised_are_served);
    suite_add_tcase(suite, others);
    return suite_run(suite);
}

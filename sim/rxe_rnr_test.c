/* Profile rxe as requester of a peer without receives: reactions to RNR NAKs, as observed
 * of the kernel's (Linux 7.2.13). Times are those of the table; a kernel with 100 jiffies
 * per second only adds to them. */
#include <check.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/wire_testing.h"

enum { SQ = WIRE_SQ_PSN };

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

/* "RNR NAK, code -> until resend: table time; same psn, new IP id, then success." */
START_TEST(rnr_waits_its_time_and_sends_again)
{
    static const struct {
        uint8_t code;
        weft_ps us;
    } codes[] = {{1, 10},     {12, 640},   {14, 1280},  {20, 10240},
                 {22, 20480}, {24, 40960}, {26, 81920}, {0, 655360}};
    wire_post(&wire, IBV_WR_SEND, 1, 8);
    wire_run(&wire, RC_PS_PER_MS);
    uint16_t id = wire_expect(&wire, RC_SEND_ONLY, SQ)->roce.ipv4_id;
    weft_ps said = sim_now(wire.pair.engine);
    wire_ack(&wire, 0x20 | codes[_i].code, SQ);
    wire_run(&wire, codes[_i].us * RC_PS_PER_US + RC_PS_PER_MS);
    const struct wire_frame *again = wire_expect(&wire, RC_SEND_ONLY, SQ);
    ck_assert_int_ge(again->at - said, codes[_i].us * RC_PS_PER_US);
    ck_assert_uint_eq(again->roce.ipv4_id, id + 1);
    wire_expect_silence(&wire);
    wire_ack(&wire, 0x1f, SQ);
    wire_expect_all_done(&wire, 1, 1, IBV_WC_SUCCESS);
}
END_TEST

/* "RNR wait longer than ack timeout (14, code 0): no timer resend in between; one resend;
 * retry_cnt untouched." */
START_TEST(rnr_wait_stops_the_timer_and_costs_no_retry)
{
    wire_post(&wire, IBV_WR_SEND, 1, 8);
    wire_run(&wire, RC_PS_PER_MS);
    wire_ack(&wire, 0x20, SQ);
    wire_run(&wire, 655 * RC_PS_PER_MS);
    (void)wire_expect(&wire, RC_SEND_ONLY, SQ);
    wire_expect_silence(&wire);
    wire_run(&wire, RC_PS_PER_S);
    for (unsigned i = 0; i < 4; i++) { /* the retransmission and all three retries */
        (void)wire_expect(&wire, RC_SEND_ONLY, SQ);
    }
    wire_expect_silence(&wire);
    wire_expect_all_done(&wire, 1, 1, IBV_WC_RETRY_EXC_ERR);
}
END_TEST

/* "RNR on the middle SEND of three: SEND 1 completes, then resend from that psn including
 * later SENDs." */
START_TEST(rnr_in_the_middle_acknowledges_what_was_before)
{
    for (unsigned i = 1; i <= 3; i++) {
        wire_post(&wire, IBV_WR_SEND, i, 8);
    }
    wire_run(&wire, RC_PS_PER_MS);
    for (unsigned i = 0; i < 3; i++) {
        (void)wire_expect(&wire, RC_SEND_ONLY, SQ + i);
    }
    wire_ack(&wire, 0x2c, SQ + 1);
    wire_expect_all_done(&wire, 1, 1, IBV_WC_SUCCESS);
    wire_run(&wire, RC_PS_PER_MS);
    (void)wire_expect(&wire, RC_SEND_ONLY, SQ + 1);
    (void)wire_expect(&wire, RC_SEND_ONLY, SQ + 2);
    wire_expect_silence(&wire);
    wire_ack(&wire, 0x1f, SQ + 2);
    wire_expect_all_done(&wire, 2, 3, IBV_WC_SUCCESS);
}
END_TEST

/* "rnr_retry 2, always RNR: 3 transmissions, RNR_RETRY_EXC_ERR(13)." */
START_TEST(rnr_retries_run_out)
{
    static const struct rc_options options = {.rnr_retry = 2};
    wire_init(&wire, &options);
    wire_post(&wire, IBV_WR_SEND, 1, 8);
    for (unsigned i = 0; i < 3; i++) {
        wire_run(&wire, RC_PS_PER_MS);
        (void)wire_expect(&wire, RC_SEND_ONLY, SQ);
        wire_expect_none_done(&wire);
        wire_ack(&wire, 0x2c, SQ);
    }
    wire_expect_all_done(&wire, 1, 1, IBV_WC_RNR_RETRY_EXC_ERR);
    wire_expect_silence(&wire);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe_rnr");
    TCase *rows = tcase_create("rows");
    TCase *others = tcase_create("rows with their own attributes");
    tcase_add_checked_fixture(rows, set_up, tear_down);
    tcase_add_loop_test(rows, rnr_waits_its_time_and_sends_again, 0, 8);
    tcase_add_test(rows, rnr_wait_stops_the_timer_and_costs_no_retry);
    tcase_add_test(rows, rnr_in_the_middle_acknowledges_what_was_before);
    suite_add_tcase(suite, rows);
    tcase_add_checked_fixture(others, NULL, tear_down);
    tcase_add_test(others, rnr_retries_run_out);
    suite_add_tcase(suite, others);
    return suite_run(suite);
}

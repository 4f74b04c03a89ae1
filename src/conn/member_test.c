/* Tests invalid messages of a client that has authenticated, and silence of either end. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "conn/hand_testing.h"

static struct codec_meta hand_meta(const struct hand *hand)
{
    struct codec_meta meta = {.n_rails = 1,
                              .n_qps = 1,
                              .max_rd_atomic = 1,
                              .max_msg_bytes = 1u << 20,
                              .window_bytes = 4096,
                              .recv_posted = 256};
    struct io_ip local = io_ip_v4(192, 168, 101, 1), remote = io_ip_v4(192, 168, 101, 2);

    (void)hand;
    meta.rails[0] = (struct codec_rail){.local_type = IBV_GID_TYPE_ROCE_V2,
                                        .remote_type = IBV_GID_TYPE_ROCE_V2,
                                        .path_mtu = 4096};
    memcpy(meta.rails[0].local_gid.raw, local.bytes, 16);
    memcpy(meta.rails[0].remote_gid.raw, remote.bytes, 16);
    meta.qps[0] = (struct codec_qp){.qpn = 100, .psn = 5};
    return meta;
}

#define TYPE_BITS (IBV_GID_TYPE_ROCE_V1 ^ IBV_GID_TYPE_ROCE_V2)

/* Bytes of a proposed rail with flipped bits, and the field that the refusal names. */
static const struct rail_case {
    const char *field;
    struct {
        size_t offset;
        uint8_t flipped;
    } changes[2];
} rail_cases[] = {
    {"remote_port", {{offsetof(struct codec_rail, remote_port), 1}}},
    {"local_port", {{offsetof(struct codec_rail, local_port), 1}}},
    {"remote_gid", {{offsetof(struct codec_rail, remote_gid) + 15, 8}}},
    {"local_gid", {{offsetof(struct codec_rail, local_gid) + 15, 8}}},
    {"local_type", {{offsetof(struct codec_rail, local_type), TYPE_BITS}}},
    {"remote_gid",
     {{offsetof(struct codec_rail, remote_gid) + 14, 100},
      {offsetof(struct codec_rail, remote_type), TYPE_BITS}}},
};

START_TEST(a_proposal_that_names_nothing_of_ours_is_refused_by_field)
{
    const struct rail_case *given = &rail_cases[_i];
    struct bed bed;
    struct hand hand;
    struct codec_meta meta;
    uint8_t body[CODEC_BODY_MAX];
    const struct conn *conn;

    hand_open_listener(&bed, 42);
    hand_complete(&hand, &bed, 9, 1);
    meta = hand_meta(&hand);
    for (size_t i = 0; i < WEFT_LENGTH(given->changes); i++) {
        ((uint8_t *)&meta.rails[0])[given->changes[i].offset] ^=
            given->changes[i].flipped;
    }
    ck_assert(frame_send(&hand.link, CODEC_META, body, codec_encode_meta(&meta, body)));
    hand_flush(&hand);
    conn = bed_conn(&bed, 1);
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_int_eq(conn->error.status, WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "meta");
    ck_assert_str_eq(weft_error_value(&conn->error, WEFT_VALUE_FIELD)->text,
                     given->field);
    ck_assert_int_eq(bed_objects(&bed, 1), 0);
    hand_is_refused(&hand, "meta", WEFT_ERR_PROTOCOL);
    hand_close(&hand);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(messages_out_of_order_end_the_connection)
{
    static const enum codec_type types[] = {CODEC_FACTS, CODEC_READY,     CODEC_PROBED,
                                            CODEC_HELLO, CODEC_CHALLENGE, CODEC_JOIN,
                                            CODEC_AUTH,  CODEC_META};
    struct bed bed;
    struct hand hand;
    const struct conn *conn;

    hand_open_listener(&bed, 43);
    hand_complete(&hand, &bed, 9, 1);
    ck_assert(frame_send(&hand.link, types[_i], NULL, 0));
    hand_flush(&hand);
    conn = bed_conn(&bed, 1);
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_int_eq(conn->error.status, WEFT_ERR_PROTOCOL);
    hand_is_refused(&hand, codec_type_name(types[_i]), WEFT_ERR_PROTOCOL);
    hand_close(&hand);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

/* A CLOSE has no body or a final state. */
static const struct close_case {
    size_t length;
    bool is_good;
} close_cases[] = {
    {0, true},
    {CONN_PURPOSE_BYTES, true},
    {1, false},
    {CONN_PURPOSE_BYTES - 1, false},
    {CONN_PURPOSE_BYTES + 1, false},
};

START_TEST(a_close_of_another_length_ends_the_connection)
{
    static const uint8_t body[CONN_PURPOSE_BYTES + 1] = {1};
    const struct close_case *given = &close_cases[_i];
    struct bed bed;
    struct hand hand;
    const struct conn *conn;

    hand_open_listener(&bed, 46);
    hand_complete(&hand, &bed, 9, 1);
    ck_assert(frame_send(&hand.link, CODEC_CLOSE, body, given->length));
    hand_flush(&hand);
    conn = bed_conn(&bed, 1);
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_int_eq(conn->error.status,
                     given->is_good ? WEFT_ERR_CLOSED : WEFT_ERR_PROTOCOL);
    ck_assert_int_eq(conn->peer_closed, given->is_good);
    if (!given->is_good) {
        ck_assert_str_eq(weft_error_value(&conn->error, WEFT_VALUE_FIELD)->text,
                         "length");
        hand_is_refused(&hand, "close", WEFT_ERR_PROTOCOL);
    }
    hand_close(&hand);
    bed_close(&bed);
}
END_TEST

/* After the acceptor's META the client's next message of set-up must be READY, and only once. */
START_TEST(messages_before_ready_end_the_connection)
{
    static const enum codec_type types[] = {CODEC_PROBED, CODEC_META, CODEC_FACTS,
                                            CODEC_HELLO, CODEC_READY};
    struct bed bed;
    struct hand hand;
    struct codec_meta meta;
    uint8_t body[CODEC_BODY_MAX];
    const struct conn *conn;

    hand_open_listener(&bed, 45);
    hand_complete(&hand, &bed, 9, 1);
    meta = hand_meta(&hand);
    ck_assert(frame_send(&hand.link, CODEC_META, body, codec_encode_meta(&meta, body)));
    hand_flush(&hand);
    bed_run(&bed, 100 * BED_MS, NULL);
    conn = bed_conn(&bed, 1);
    ck_assert_int_eq(conn->state, CONN_READY);
    ck_assert(frame_send(&hand.link, types[_i], NULL, 0));
    hand_flush(&hand);
    if (types[_i] == CODEC_READY) {
        ck_assert_int_eq(conn->state, CONN_PROBE);
        ck_assert(frame_send(&hand.link, CODEC_READY, NULL, 0)); /* a second READY */
        hand_flush(&hand);
    }
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_int_eq(conn->error.status, WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), codec_type_name(types[_i]));
    hand_close(&hand);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

enum wrong_seal {
    SEAL_OF_ANOTHER_SESSION,
    SEAL_OF_ANOTHER_NUMBER, /* sequence number */
    NO_SEAL,
    N_WRONG_SEALS
};

/* A message without a valid seal fails the connection and has no other effect, even if it is an
 * ABORT or a CLOSE. */
START_TEST(a_message_with_a_wrong_seal_is_not_heard)
{
    static const enum codec_type types[] = {CODEC_ABORT, CODEC_CLOSE, CODEC_META,
                                            CODEC_READY};
    enum codec_type type = types[_i / N_WRONG_SEALS];
    struct codec_abort abort = {.phase = "probe", .status = WEFT_ERR_TIMEOUT};
    struct bed bed;
    struct hand hand;
    struct codec_meta meta;
    uint8_t body[CODEC_BODY_MAX];
    size_t n_bytes = 0;
    const struct conn *conn;

    hand_open_listener(&bed, 46);
    hand_complete(&hand, &bed, 9, 1);
    meta = hand_meta(&hand);
    if (type == CODEC_ABORT) {
        n_bytes = codec_encode_abort(&abort, body);
    } else if (type == CODEC_META) {
        n_bytes = codec_encode_meta(&meta, body);
    }
    switch ((enum wrong_seal)(_i % N_WRONG_SEALS)) {
    case SEAL_OF_ANOTHER_SESSION:
        hand.link.session[3] ^= 1;
        ck_assert(frame_send(&hand.link, type, body, n_bytes));
        hand.link.session[3] ^= 1;
        break;
    case SEAL_OF_ANOTHER_NUMBER:
        hand.link.tx_sequence++;
        ck_assert(frame_send(&hand.link, type, body, n_bytes));
        break;
    case NO_SEAL:
    case N_WRONG_SEALS:
        hand.link.sealed = false;
        ck_assert(frame_send(&hand.link, type, body, n_bytes));
        hand.link.sealed = true;
        break;
    }
    hand_flush(&hand);
    conn = bed_conn(&bed, 1);
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_int_eq(conn->error.status,
                     _i % N_WRONG_SEALS == NO_SEAL && n_bytes < AUTH_MAC_BYTES
                         ? WEFT_ERR_PROTOCOL
                         : WEFT_ERR_AUTH);
    ck_assert_ptr_null(weft_error_value(&conn->error, WEFT_VALUE_PEER_PHASE));
    hand_close(&hand);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(a_member_that_falls_silent_meets_the_total_deadline)
{
    struct bed bed;
    struct hand hand;
    struct conn *conn;
    weft_ns since;

    hand_open_listener(&bed, 44);
    hand_complete(&hand, &bed, 9, 1);
    conn = bed_conn(&bed, 1);
    since = bed_now(&bed);
    bed_run(&bed, 29 * BED_S, NULL);
    ck_assert_int_eq(conn->state, CONN_META);
    ck_assert(bed_run(&bed, 2 * BED_S, bed_all_settled));
    ck_assert_int_eq(conn->error.status, WEFT_ERR_TIMEOUT);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "meta");
    ck_assert_int_le(bed_now(&bed) - since, 30 * BED_S);
    hand_close(&hand);
    bed_close(&bed);
}
END_TEST

/* An end waits for a peer that sends BUSY. If nothing comes from the peer for silence_ns, the end
 * fails, because the cable may be dead. */
START_TEST(a_member_that_is_busy_is_no_silent_one)
{
    struct bed bed;
    struct hand hand;
    struct conn *conn;
    weft_ns since;

    hand_open_listener(&bed, 47);
    hand_complete(&hand, &bed, 9, 1);
    conn = bed_conn(&bed, 1);
    conn->config.silence_ns = 4 * BED_S;
    for (int i = 0; i < 4; i++) {
        bed_run(&bed, 3 * BED_S, NULL);
        ck_assert_int_eq(conn->state, CONN_META);
        ck_assert(frame_send(&hand.link, CODEC_BUSY, NULL, 0));
        hand_flush(&hand);
    }
    since = bed_now(&bed);
    ck_assert(bed_run(&bed, 5 * BED_S, bed_all_settled));
    ck_assert_int_eq(conn->error.status, WEFT_ERR_TIMEOUT);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "meta");
    ck_assert_ptr_nonnull(weft_error_value(&conn->error, WEFT_VALUE_SILENT_NS));
    ck_assert_int_le(bed_now(&bed) - since, 4 * BED_S);
    hand_close(&hand);
    bed_close(&bed);
}
END_TEST

/* The acceptor sends BUSY every second after its FACTS. */
START_TEST(a_waiting_end_says_that_it_is_busy)
{
    struct bed bed;
    struct hand hand;
    struct weft_error error = {0};
    struct frame frame;

    hand_open_listener(&bed, 48);
    hand_complete(&hand, &bed, 9, 1);
    bed_run(&bed, 5 * BED_S + BED_S / 2, NULL);
    ck_assert_int_eq(frame_receive(&hand.link, &frame, &error), WEFT_OK);
    ck_assert_int_eq(frame.type, CODEC_FACTS);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(frame_receive(&hand.link, &frame, &error), WEFT_OK);
        ck_assert_int_eq(frame.type, CODEC_BUSY);
        ck_assert_uint_eq(frame.n_bytes, 0);
    }
    ck_assert_int_eq(frame_receive(&hand.link, &frame, &error), WEFT_AGAIN);
    hand_close(&hand);
    bed_close(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("member");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_proposal_that_names_nothing_of_ours_is_refused_by_field,
                        0, 6);
    tcase_add_loop_test(tcase, messages_out_of_order_end_the_connection, 0, 8);
    tcase_add_loop_test(tcase, a_close_of_another_length_ends_the_connection, 0,
                        WEFT_LENGTH(close_cases));
    tcase_add_loop_test(tcase, messages_before_ready_end_the_connection, 0, 5);
    tcase_add_loop_test(tcase, a_message_with_a_wrong_seal_is_not_heard, 0,
                        4 * N_WRONG_SEALS);
    tcase_add_test(tcase, a_member_that_falls_silent_meets_the_total_deadline);
    tcase_add_test(tcase, a_member_that_is_busy_is_no_silent_one);
    tcase_add_test(tcase, a_waiting_end_says_that_it_is_busy);
    return suite_run(suite);
}

/* Tests a listener against invalid clients. It must refuse them with a typed error, count every
 * client once, and serve members meanwhile. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "conn/hand_testing.h"
#include "io/oob.h"

START_TEST(silence_costs_a_slot_for_five_seconds)
{
    struct bed bed;
    struct hand hand;

    hand_open_listener(&bed, 30);
    hand_open(&hand, &bed);
    bed_run(&bed, 4 * BED_S, NULL);
    ck_assert_uint_eq(bed.hosts[1].listener->counters.pending, 1);
    hand_check_service(&bed);
    bed_run(&bed, BED_S, NULL);
    hand_is_refused(&hand, "authenticate", WEFT_ERR_TIMEOUT);
    hand_check_counters(&bed, 2, 1, 1);
    hand_close(&hand);
    bed_close(&bed);
}
END_TEST

START_TEST(a_byte_at_a_time_gains_nothing)
{
    struct bed bed;
    struct hand hand;
    struct codec_hello hello = {.id = 1, .attempt = 1};
    uint8_t frame[PROVE_HELLO_BYTES];
    struct codec_header header = {.type = CODEC_HELLO, .n_bytes = CODEC_HELLO_BYTES};
    weft_ns since;

    hand_open_listener(&bed, 31);
    hand_open(&hand, &bed);
    codec_encode_header(&header, frame);
    codec_encode_hello(&hello, frame + CODEC_HEADER_BYTES);
    since = bed_now(&bed);
    for (size_t i = 0; i < sizeof(frame); i++) {
        size_t n = 0;

        if (hand.link.env->oob->send(hand.link.stream, &frame[i], 1, &n) != 0) {
            break;
        }
        bed_run(&bed, 100 * BED_MS, NULL);
        if (bed.hosts[1].listener->counters.timed_out == 1) {
            break;
        }
    }
    ck_assert_int_ge(bed_now(&bed) - since, 4900 * BED_MS);
    ck_assert_int_le(bed_now(&bed) - since, 5200 * BED_MS);
    hand_check_counters(&bed, 1, 1, 1);
    hand_close(&hand);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(strangers_are_cut_off_without_a_word)
{
    static const char *const words[] = {
        "G",    "GET /metrics HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x01\x01", "WEFX",
        "weft", "SSH-2.0-OpenSSH_9.2\r\n"};
    struct bed bed;

    hand_open_listener(&bed, 32);
    for (size_t i = 0; i < WEFT_LENGTH(words); i++) {
        struct hand hand;

        hand_open(&hand, &bed);
        hand_write(&hand, words[i], strlen(words[i]));
        hand_is_cut(&hand);
        hand_check_counters(&bed, i + 1, i + 1, 0);
        hand_close(&hand);
    }
    ck_assert_int_eq(bed_objects(&bed, 1), 0);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(a_hello_cut_at_any_byte_leaves_nothing)
{
    struct bed bed;
    struct codec_hello hello = {.id = 1, .attempt = 1};
    uint8_t frame[PROVE_HELLO_BYTES];
    struct codec_header header = {.type = CODEC_HELLO, .n_bytes = CODEC_HELLO_BYTES};

    hand_open_listener(&bed, 33);
    codec_encode_header(&header, frame);
    codec_encode_hello(&hello, frame + CODEC_HEADER_BYTES);
    for (size_t cut = 0; cut < sizeof(frame); cut++) {
        struct hand hand;

        hand_open(&hand, &bed);
        if (cut > 0) {
            hand_write(&hand, frame, cut);
        }
        frame_close(&hand.link, cut % 2 == 0);
        bed_run(&bed, 10 * BED_MS, NULL);
        hand_check_counters(&bed, cut + 1, cut + 1, 0);
        ck_assert_uint_eq(bed.hosts[1].listener->counters.pending, 0);
        hand_close(&hand);
    }
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

struct bad_header {
    uint8_t bytes[CODEC_HEADER_BYTES];
    const char *phase;
};

static const struct bad_header bad_headers[] = {
    {{'W', 'E', 'F', 'T', 0, 3, 0, 0, 0, 0, 0, 48}, "header"},
    {{'W', 'E', 'F', 'T', 0, 3, 0, 11, 0, 0, 0, 48}, "header"},
    {{'W', 'E', 'F', 'T', 0, 3, 0, 1, 0x80, 0, 0, 0}, "header"},
    {{'W', 'E', 'F', 'T', 0, 3, 0, 1, 0xff, 0xff, 0xff, 0xff}, "header"},
    {{'W', 'E', 'F', 'T', 0, 3, 0, 1, 0, 0, 0, 53}, "header"},
    {{'W', 'E', 'F', 'T', 0, 3, 0, 1, 0, 0, 0, 0}, "hello"},
    {{'W', 'E', 'F', 'T', 0, 3, 0, 5, 0, 0, 0, 0}, "hello"},
    {{'W', 'E', 'F', 'T', 0, 3, 0, 3, 0, 0, 0, 0}, "hello"},
    {{'W', 'E', 'F', 'T', 0, 3, 0, 2, 0, 0, 0, 0}, "hello"},
};

START_TEST(bad_headers_are_refused_before_anything_is_held)
{
    struct bed bed;
    struct hand hand;

    hand_open_listener(&bed, 34);
    hand_open(&hand, &bed);
    hand_write(&hand, bad_headers[_i].bytes, CODEC_HEADER_BYTES);
    hand_is_refused(&hand, bad_headers[_i].phase, WEFT_ERR_PROTOCOL);
    hand_check_counters(&bed, 1, 1, 0);
    hand_close(&hand);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

/* A client of version 1 receives an ABORT whose header has version 3, and reads only that header.
 * An end that receives a header of version 1 names both versions in its error. */
START_TEST(a_peer_of_another_version_is_answered_with_ours)
{
    static const uint8_t old[] = {'W', 'E', 'F', 'T', 0, 1, 0, 1, 0, 0, 0, 48};
    struct bed bed;
    struct hand hand;
    struct codec_header header;
    struct weft_error error = {0};
    uint8_t answer[CODEC_HEADER_BYTES];
    size_t n = 0;

    hand_open_listener(&bed, 34);
    hand_open(&hand, &bed);
    hand_write(&hand, old, sizeof(old));
    ck_assert_int_eq(
        bed.hosts[0].env->oob->recv(hand.link.stream, answer, sizeof(answer), &n), 0);
    ck_assert_uint_eq(n, sizeof(answer));
    ck_assert_mem_eq(answer,
                     ((const uint8_t[]){'W', 'E', 'F', 'T', 0, 3, 0, CODEC_ABORT}), 8);
    hand_check_counters(&bed, 1, 1, 0);
    hand_close(&hand);

    answer[5] = 1;
    ck_assert_int_eq(codec_decode_header(answer, n, CODEC_BODY_MAX, &header, &error),
                     WEFT_ERR_UNSUPPORTED);
    ck_assert_str_eq(
        error.message,
        "the peer's weft has version 1 of the protocol, this one has 3: install the "
        "same weft on all hosts");
    weft_error_clear(&error);
    hand_open(&hand, &bed);
    hand_write(&hand, old, sizeof(old));
    hand_is_refused(&hand, "header", WEFT_ERR_UNSUPPORTED);
    hand_close(&hand);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(a_thousand_silent_clients_delay_nobody)
{
    struct bed bed;
    static struct io_stream *streams[1000];
    struct io_task task;
    struct codec_handle handle;
    struct weft_error error = {0};
    struct io_env *env;
    weft_ns since;

    hand_open_listener(&bed, 35);
    bed.on_task = hand_ignore_task;
    env = bed.hosts[0].env;
    io_task_init(&task, bed.loop, 0, BED_KIND_TEST);
    ck_assert_int_eq(codec_decode_handle(bed.hosts[1].handle, &handle, &error), WEFT_OK);
    for (size_t i = 0; i < WEFT_LENGTH(streams); i++) {
        struct io_endpoint to = {.ip = handle.endpoints[i % 2].prefix.ip,
                                 .port = handle.endpoints[i % 2].port};

        ck_assert_int_eq(env->oob->connect(env, NULL, &to, &task, &streams[i]), 0);
        if (i % 50 == 0) {
            bed_run(&bed, BED_MS, NULL);
        }
    }
    since = bed_now(&bed);
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, BED_S, bed_all_up));
    ck_assert_int_lt(bed_now(&bed) - since, BED_S);
    ck_assert_uint_le(bed.hosts[1].listener->counters.pending, 64);
    bed_run(&bed, 20 * BED_S, NULL);
    ck_assert_uint_eq(bed.hosts[1].listener->counters.pending, 0);
    ck_assert_uint_eq(bed.hosts[1].listener->counters.accepted, 1);
    ck_assert_uint_eq(bed.hosts[1].listener->counters.rejected + 1,
                      bed.hosts[1].listener->counters.clients);
    ck_assert(bed_all_up(&bed));
    for (size_t i = 0; i < WEFT_LENGTH(streams); i++) {
        env->oob->close(streams[i], true);
    }
    io_task_fini(&task);
    bed_close(&bed);
}
END_TEST

/* With the mesh plugin's policy, a client that does not complete HELLO blocks members until it
 * disconnects. */
START_TEST(under_the_plugins_policy_silence_keeps_a_member_out)
{
    struct bed bed;
    struct hand silent, half;
    struct conn_listener *listener;

    bed_open(&bed, &(struct bed_config){.seed = 36});
    bed.conn.policy = WEFT_POLICY_MESH_PLUGIN_2026_01;
    bed_listen(&bed, 1);
    listener = bed.hosts[1].listener;
    hand_open(&silent, &bed);
    hand_open(&half, &bed);
    hand_write(&half, "WEFT", 4);
    bed_connect(&bed, 0, 1);
    ck_assert(!bed_run(&bed, 10 * BED_S, bed_all_up));
    hand_check_counters(&bed, 1, 0, 0);
    ck_assert_uint_eq(listener->counters.pending, 1);
    hand_close(&silent);
    ck_assert(!bed_run(&bed, 10 * BED_S, bed_all_up));
    hand_check_counters(&bed, 2, 1, 0);
    ck_assert_uint_eq(listener->counters.pending, 1);
    hand_close(&half);
    ck_assert(bed_run(&bed, BED_S, bed_all_up));
    /* The two silent clients, and three attempts of the member that timed out meanwhile. */
    hand_check_counters(&bed, 6, 5, 0);
    ck_assert_uint_eq(listener->counters.accepted, 1);
    bed_close(&bed);
}
END_TEST

/* ---- authentication ---- */

START_TEST(a_recorded_handshake_is_worth_nothing)
{
    struct bed bed;
    struct hand hand, replay;
    uint8_t hello[PROVE_HELLO_BYTES], auth[CODEC_HEADER_BYTES + CODEC_AUTH_BYTES];
    struct frame frame;
    struct weft_error error = {0};

    hand_open_listener(&bed, 36);
    hand_open(&hand, &bed);
    hand_hello(&hand, 77, 1);
    memcpy(hello, hand.hello, sizeof(hello));
    ck_assert_int_eq(prove_answer(&hand.link, hand.key, hand.hello, &error), WEFT_OK);
    memcpy(auth, frame_last_sent(&hand.link, sizeof(auth)), sizeof(auth));
    hand_flush(&hand);

    hand_open(&replay, &bed);
    hand_write(&replay, hello, sizeof(hello));
    ck_assert_int_eq(frame_receive(&replay.link, &frame, &error), WEFT_OK);
    ck_assert_int_eq(frame.type, CODEC_CHALLENGE);
    ck_assert_mem_ne(frame.body, hand.rx + CODEC_HEADER_BYTES, CODEC_NONCE_BYTES);
    hand_write(&replay, auth, sizeof(auth));
    hand_is_refused(&replay, "auth", WEFT_ERR_AUTH);
    hand_check_counters(&bed, 2, 1, 0);
    ck_assert_int_eq(bed_objects(&bed, 1), 0);
    hand_close(&replay);
    hand_close(&hand);
    bed_close(&bed);
}
END_TEST

START_TEST(nothing_is_made_before_the_proof)
{
    struct bed bed;
    struct hand hand;
    struct codec_auth auth = {.proof = {0}};

    hand_open_listener(&bed, 37);
    hand_open(&hand, &bed);
    hand_hello(&hand, 1, 1);
    ck_assert(frame_send(&hand.link, CODEC_AUTH, auth.proof, sizeof(auth.proof)));
    hand_flush(&hand);
    ck_assert_int_eq(bed_objects(&bed, 1), 0);
    ck_assert_uint_eq(bed.hosts[1].n_conns, 0);
    hand_close(&hand);
    hand_check_counters(&bed, 1, 1, 0);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(hello_names_the_listener)
{
    struct bed bed;
    struct hand hand;

    hand_open_listener(&bed, 38);
    hand_open(&hand, &bed);
    hand.handle.epoch ^= 1;
    hand_hello(&hand, 1, 1);
    hand_is_refused(&hand, "stale", WEFT_ERR_AUTH);
    hand_close(&hand);
    hand_check_counters(&bed, 1, 1, 0);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

/* A client that has authenticated sends a message of boot/ or transport/. It must be refused for
 * every type, as types are also bit numbers in conn_private.got. */
START_TEST(messages_of_other_protocols_end_a_connection)
{
    static const enum codec_type types[] = {
        CODEC_JOIN,  CODEC_BLOB,  CODEC_BYE,  CODEC_GIVE_UP, CODEC_MEMBER, CODEC_LINKS,
        CODEC_PIECE, CODEC_ALIVE, CODEC_CALL, CODEC_ANSWER,  CODEC_IPC};
    struct bed bed;
    struct hand hand;

    hand_open_listener(&bed, 45);
    hand_complete(&hand, &bed, 1, 1);
    ck_assert(frame_send(&hand.link, types[_i], NULL, 0));
    hand_flush(&hand);
    hand_is_refused(&hand, codec_type_name(types[_i]), WEFT_ERR_PROTOCOL);
    hand_close(&hand);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(a_connection_is_accepted_once)
{
    struct bed bed;
    struct hand first, second, third, fourth;

    hand_open_listener(&bed, 39);
    hand_complete(&first, &bed, 5, 2);
    ck_assert_uint_eq(bed.hosts[1].n_conns, 1);
    hand_complete(&second, &bed, 5, 2);
    hand_is_refused(&second, "duplicate", WEFT_ERR_PROTOCOL);
    hand_complete(&third, &bed, 5, 1);
    hand_is_refused(&third, "duplicate", WEFT_ERR_PROTOCOL);
    hand_complete(&fourth, &bed, 5, 3);
    ck_assert_uint_eq(bed.hosts[1].n_conns, 2);
    hand_check_counters(&bed, 4, 2, 0);
    hand_close(&first);
    hand_close(&second);
    hand_close(&third);
    hand_close(&fourth);
    bed_run(&bed, 10 * BED_MS, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(bed.hosts[1].conns[i]->state, CONN_FAILED);
        ck_assert_int_eq(bed.hosts[1].conns[i]->error.status, WEFT_ERR_CLOSED);
    }
    bed_close(&bed);
}
END_TEST

START_TEST(a_broken_seal_is_refused)
{
    struct bed bed;
    struct hand hand;
    struct codec_facts facts;

    hand_open_listener(&bed, 40);
    hand_open(&hand, &bed);
    hand_hello(&hand, 1, 1);
    hand_auth(&hand);
    hand.link.tx_sequence += _i == 0 ? 1 : 0;
    hand.link.session[3] ^= (uint8_t)_i;
    facts = hand_facts(&hand);
    hand_send_facts(&hand, &facts);
    hand.link.session[3] ^= (uint8_t)_i;
    hand_is_refused(&hand, "facts", WEFT_ERR_AUTH);
    hand_check_counters(&bed, 1, 1, 0);
    hand_close(&hand);
    bed_close(&bed);
}
END_TEST

START_TEST(facts_that_do_not_suit_are_refused)
{
    struct bed bed;
    struct hand hand;
    struct codec_facts facts;

    hand_open_listener(&bed, 41);
    hand_open(&hand, &bed);
    hand_hello(&hand, 1, 1);
    hand_auth(&hand);
    facts = hand_facts(&hand);
    if (_i == 0) {
        facts.policy = WEFT_POLICY_NCCL_2_25;
    } else {
        facts.peer.host_id[0] ^= 1;
    }
    hand_send_facts(&hand, &facts);
    hand_is_refused(&hand, "facts", WEFT_ERR_PROTOCOL);
    hand_check_counters(&bed, 1, 1, 0);
    hand_close(&hand);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

static uint32_t n_warnings;

static void count_warning(void *context, enum weft_log_level level, const char *line)
{
    (void)context;
    n_warnings += level == WEFT_LOG_WARN && strstr(line, "the client") != NULL ? 1 : 0;
}

/* A client that rejects what the listener sent is logged. One that gives up for a reason of its own
 * is not, and does not count as one that was too slow. */
START_TEST(a_client_that_gives_up_is_logged_if_it_rejects)
{
    static const struct {
        weft_status status;
        const char *phase;
        uint32_t n_warnings;
    } rows[] = {{WEFT_ERR_AUTH, "challenge", 1},     {WEFT_ERR_PROTOCOL, "challenge", 1},
                {WEFT_ERR_UNSUPPORTED, "header", 1}, {WEFT_ERR_TIMEOUT, "challenge", 0},
                {WEFT_ERR_CLOSED, "port", 0},        {WEFT_ERR_PROTOCOL, "relay", 0}};
    struct codec_abort abort = {.status = rows[_i].status};
    struct weft_log log = {.level = WEFT_LOG_WARN, .write = count_warning};
    uint8_t body[CODEC_BODY_MAX];
    struct bed bed;
    struct hand hand;

    n_warnings = 0;
    hand_open_listener(&bed, 42);
    bed.hosts[1].env->log = &log;
    hand_open(&hand, &bed);
    hand_hello(&hand, 1, 1);
    weft_format(abort.phase, sizeof(abort.phase), "%s", rows[_i].phase);
    ck_assert(
        frame_send(&hand.link, CODEC_ABORT, body, codec_encode_abort(&abort, body)));
    hand_flush(&hand);
    bed_run(&bed, 10 * BED_MS, NULL);
    ck_assert_uint_eq(n_warnings, rows[_i].n_warnings);
    hand_check_counters(&bed, 1, 1, 0);
    bed.hosts[1].env->log = NULL;
    hand_close(&hand);
    hand_check_service(&bed);
    bed_close(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("listener");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, silence_costs_a_slot_for_five_seconds);
    tcase_add_test(tcase, a_byte_at_a_time_gains_nothing);
    tcase_add_test(tcase, strangers_are_cut_off_without_a_word);
    tcase_add_test(tcase, a_hello_cut_at_any_byte_leaves_nothing);
    tcase_add_test(tcase, a_peer_of_another_version_is_answered_with_ours);
    tcase_add_loop_test(tcase, bad_headers_are_refused_before_anything_is_held, 0,
                        (int)WEFT_LENGTH(bad_headers));
    tcase_add_test(tcase, a_thousand_silent_clients_delay_nobody);
    tcase_add_test(tcase, under_the_plugins_policy_silence_keeps_a_member_out);
    tcase_add_test(tcase, a_recorded_handshake_is_worth_nothing);
    tcase_add_test(tcase, nothing_is_made_before_the_proof);
    tcase_add_test(tcase, hello_names_the_listener);
    tcase_add_loop_test(tcase, messages_of_other_protocols_end_a_connection, 0, 11);
    tcase_add_test(tcase, a_connection_is_accepted_once);
    tcase_add_loop_test(tcase, a_broken_seal_is_refused, 0, 3);
    tcase_add_loop_test(tcase, facts_that_do_not_suit_are_refused, 0, 2);
    tcase_add_loop_test(tcase, a_client_that_gives_up_is_logged_if_it_rejects, 0, 6);
    return suite_run(suite);
}

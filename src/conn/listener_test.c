/* Clients that are not what they should be: typed refusals, the listener lives on, its
 * counters balance, and members are served meanwhile. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "conn/conn_testing.h"
#include "conn/private.h"

/* A client by hand. */
struct hand {
    struct bed *bed;
    struct io_task task;
    struct frame_link link;
    uint8_t rx[CODEC_FRAME_MAX], tx[CONN_TX_BYTES];
    uint8_t hello[PROVE_HELLO_BYTES];
    struct codec_handle handle;
    uint8_t key[AUTH_KEY_BYTES];
    uint8_t host_id[16];
};

static void ignore_task(struct bed *bed, struct io_task *task)
{
    (void)bed;
    (void)task;
}

static void hand_open(struct hand *hand, struct bed *bed)
{
    struct io_env *env = bed->hosts[0].env;
    struct io_endpoint to;
    struct io_stream *stream;
    struct weft_error error = {0};

    *hand = (struct hand){.bed = bed};
    bed->on_task = ignore_task;
    ck_assert_int_eq(codec_decode_handle(bed->hosts[1].handle, &hand->handle, &error),
                     WEFT_OK);
    auth_connection_key(hand->handle.cookie, NULL, hand->key);
    memcpy(hand->host_id, env->ops->hostinfo(env)->host_id, sizeof(hand->host_id));
    to = (struct io_endpoint){.ip = hand->handle.endpoints[0].prefix.ip,
                              .port = hand->handle.endpoints[0].port};
    io_task_init(&hand->task, bed->loop, 0, BED_KIND_TEST);
    ck_assert_int_eq(env->oob->connect(env, NULL, &to, &hand->task, &stream), 0);
    frame_init(&hand->link, env, stream, AUTH_CONNECTOR, hand->rx, sizeof(hand->rx),
               hand->tx, sizeof(hand->tx));
    bed_run(bed, 10 * BED_MS, NULL);
    ck_assert_int_eq(env->oob->connected(stream), 0);
}

static void hand_close(struct hand *hand)
{
    frame_close(&hand->link, true);
    io_task_fini(&hand->task);
}

static void hand_write(struct hand *hand, const void *bytes, size_t n_bytes)
{
    size_t n = 0;

    ck_assert_int_eq(hand->link.env->oob->send(hand->link.stream, bytes, n_bytes, &n), 0);
    ck_assert_uint_eq(n, n_bytes);
    bed_run(hand->bed, 10 * BED_MS, NULL);
}

static void hand_flush(struct hand *hand)
{
    ck_assert_int_eq(frame_flush(&hand->link, NULL), WEFT_OK);
    bed_run(hand->bed, 10 * BED_MS, NULL);
}

static void hand_hello(struct hand *hand, uint64_t id, uint32_t attempt)
{
    struct codec_hello hello = {
        .id = id, .attempt = attempt, .epoch = hand->handle.epoch};

    memcpy(hello.host_id, hand->host_id, sizeof(hello.host_id));
    prove_hello(&hand->link, &hello, hand->hello);
    hand_flush(hand);
}

static void hand_auth(struct hand *hand)
{
    struct weft_error error = {0};

    ck_assert_int_eq(prove_answer(&hand->link, hand->key, hand->hello, &error), WEFT_OK);
    hand_flush(hand);
}

static struct codec_facts hand_facts(struct hand *hand)
{
    struct codec_facts facts = {.policy = RDMA_POLICY_WEFT};

    memcpy(facts.peer.host, "titanic", sizeof("titanic"));
    memcpy(facts.peer.host_id, hand->host_id, sizeof(facts.peer.host_id));
    facts.peer.n_ports =
        conn_local_facts(hand->bed->hosts[0].rdma, facts.peer.ports, CODEC_PORTS_MAX);
    return facts;
}

static void hand_send_facts(struct hand *hand, const struct codec_facts *facts)
{
    uint8_t body[CODEC_BODY_MAX];

    ck_assert(
        frame_send(&hand->link, CODEC_FACTS, body, codec_encode_facts(facts, body)));
    hand_flush(hand);
}

/* What the listener answered: an ABORT in `phase`. */
static void hand_is_refused(struct hand *hand, const char *phase, weft_status status)
{
    struct frame frame;
    struct codec_abort abort;
    struct weft_error error = {0};

    ck_assert_int_eq(frame_receive(&hand->link, &frame, &error), WEFT_OK);
    if (frame.type == CODEC_FACTS) {
        ck_assert_int_eq(frame_receive(&hand->link, &frame, &error), WEFT_OK);
    }
    ck_assert_int_eq(frame.type, CODEC_ABORT);
    ck_assert_int_eq(codec_decode_abort(frame.body, frame.n_bytes, &abort, &error),
                     WEFT_OK);
    ck_assert_str_eq(abort.phase, phase);
    ck_assert_int_eq(abort.status, status);
    ck_assert_int_eq(frame_receive(&hand->link, &frame, &error), WEFT_ERR_CLOSED);
}

/* Closed without a word. */
static void hand_is_cut(struct hand *hand)
{
    struct frame frame;
    struct weft_error error = {0};

    ck_assert_int_eq(frame_receive(&hand->link, &frame, &error), WEFT_ERR_CLOSED);
    ck_assert_uint_eq(hand->link.rx_n, 0);
}

static void check_counters(const struct bed *bed, uint64_t clients, uint64_t rejected,
                           uint64_t timed_out)
{
    const struct conn_listener *listener = bed->hosts[1].listener;

    ck_assert_uint_eq(listener->counters.clients, clients);
    ck_assert_uint_eq(listener->counters.rejected, rejected);
    ck_assert_uint_eq(listener->counters.timed_out, timed_out);
    ck_assert_uint_eq(listener->counters.pending + listener->counters.accepted +
                          listener->counters.rejected,
                      clients);
}

/* A member still gets in, at once. */
static void check_service(struct bed *bed)
{
    weft_ns since = bed_now(bed);
    uint32_t n = bed->hosts[1].n_conns;

    for (uint32_t i = 0; i < n; i++) {
        conn_destroy(bed->hosts[1].conns[i]);
    }
    bed->hosts[1].n_conns = 0;
    bed_connect(bed, 0, 1);
    ck_assert(bed_run(bed, BED_S, bed_all_up));
    ck_assert_int_lt(bed_now(bed) - since, BED_S);
}

static void open_listener(struct bed *bed, uint64_t seed)
{
    bed_open(bed, &(struct bed_config){.seed = seed});
    bed_listen(bed, 1);
}

START_TEST(silence_costs_a_slot_for_five_seconds)
{
    struct bed bed;
    struct hand hand;

    open_listener(&bed, 30);
    hand_open(&hand, &bed);
    bed_run(&bed, 4 * BED_S, NULL);
    ck_assert_uint_eq(bed.hosts[1].listener->counters.pending, 1);
    check_service(&bed);
    bed_run(&bed, BED_S, NULL);
    hand_is_refused(&hand, "authenticate", WEFT_ERR_TIMEOUT);
    check_counters(&bed, 2, 1, 1);
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

    open_listener(&bed, 31);
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
    check_counters(&bed, 1, 1, 1);
    hand_close(&hand);
    check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(strangers_are_cut_off_without_a_word)
{
    static const char *const words[] = {
        "G",    "GET /metrics HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x01\x01", "WEFX",
        "weft", "SSH-2.0-OpenSSH_9.2\r\n"};
    struct bed bed;

    open_listener(&bed, 32);
    for (size_t i = 0; i < WEFT_LENGTH(words); i++) {
        struct hand hand;

        hand_open(&hand, &bed);
        hand_write(&hand, words[i], strlen(words[i]));
        hand_is_cut(&hand);
        check_counters(&bed, i + 1, i + 1, 0);
        hand_close(&hand);
    }
    ck_assert_int_eq(bed_objects(&bed, 1), 0);
    check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(a_hello_cut_at_any_byte_leaves_nothing)
{
    struct bed bed;
    struct codec_hello hello = {.id = 1, .attempt = 1};
    uint8_t frame[PROVE_HELLO_BYTES];
    struct codec_header header = {.type = CODEC_HELLO, .n_bytes = CODEC_HELLO_BYTES};

    open_listener(&bed, 33);
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
        check_counters(&bed, cut + 1, cut + 1, 0);
        ck_assert_uint_eq(bed.hosts[1].listener->counters.pending, 0);
        hand_close(&hand);
    }
    check_service(&bed);
    bed_close(&bed);
}
END_TEST

struct bad_header {
    uint8_t bytes[CODEC_HEADER_BYTES];
    const char *phase;
};

static const struct bad_header bad_headers[] = {
    {{'W', 'E', 'F', 'T', 0, 2, 0, 1, 0, 0, 0, 48}, "header"},
    {{'W', 'E', 'F', 'T', 0, 1, 0, 0, 0, 0, 0, 48}, "header"},
    {{'W', 'E', 'F', 'T', 0, 1, 0, 10, 0, 0, 0, 48}, "header"},
    {{'W', 'E', 'F', 'T', 0, 1, 0, 1, 0x80, 0, 0, 0}, "header"},
    {{'W', 'E', 'F', 'T', 0, 1, 0, 1, 0xff, 0xff, 0xff, 0xff}, "header"},
    {{'W', 'E', 'F', 'T', 0, 1, 0, 1, 0, 0, 0, 53}, "header"},
    {{'W', 'E', 'F', 'T', 0, 1, 0, 1, 0, 0, 0, 0}, "hello"},
    {{'W', 'E', 'F', 'T', 0, 1, 0, 5, 0, 0, 0, 0}, "hello"},
    {{'W', 'E', 'F', 'T', 0, 1, 0, 3, 0, 0, 0, 0}, "hello"},
    {{'W', 'E', 'F', 'T', 0, 1, 0, 2, 0, 0, 0, 0}, "hello"},
};

START_TEST(bad_headers_are_refused_before_anything_is_held)
{
    struct bed bed;
    struct hand hand;

    open_listener(&bed, 34);
    hand_open(&hand, &bed);
    hand_write(&hand, bad_headers[_i].bytes, CODEC_HEADER_BYTES);
    hand_is_refused(&hand, bad_headers[_i].phase, WEFT_ERR_PROTOCOL);
    check_counters(&bed, 1, 1, 0);
    hand_close(&hand);
    check_service(&bed);
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

    open_listener(&bed, 35);
    bed.on_task = ignore_task;
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

/* ---- authentication ---- */

START_TEST(a_recorded_handshake_is_worth_nothing)
{
    struct bed bed;
    struct hand hand, replay;
    uint8_t hello[PROVE_HELLO_BYTES], auth[CODEC_HEADER_BYTES + CODEC_AUTH_BYTES];
    struct frame frame;
    struct weft_error error = {0};

    open_listener(&bed, 36);
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
    check_counters(&bed, 2, 1, 0);
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

    open_listener(&bed, 37);
    hand_open(&hand, &bed);
    hand_hello(&hand, 1, 1);
    ck_assert(frame_send(&hand.link, CODEC_AUTH, auth.proof, sizeof(auth.proof)));
    hand_flush(&hand);
    ck_assert_int_eq(bed_objects(&bed, 1), 0);
    ck_assert_uint_eq(bed.hosts[1].n_conns, 0);
    hand_close(&hand);
    check_counters(&bed, 1, 1, 0);
    check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(hello_names_the_listener_and_another_host)
{
    struct bed bed;
    struct hand hand;
    struct io_env *env;

    open_listener(&bed, 38);
    hand_open(&hand, &bed);
    hand.handle.epoch ^= 1;
    hand_hello(&hand, 1, 1);
    hand_is_refused(&hand, "stale", WEFT_ERR_AUTH);
    hand_close(&hand);

    hand_open(&hand, &bed);
    env = bed.hosts[1].env;
    memcpy(hand.host_id, env->ops->hostinfo(env)->host_id, sizeof(hand.host_id));
    hand_hello(&hand, 1, 1);
    hand_is_refused(&hand, "self", WEFT_ERR_PROTOCOL);
    hand_close(&hand);
    check_counters(&bed, 2, 2, 0);
    check_service(&bed);
    bed_close(&bed);
}
END_TEST

static void complete(struct hand *hand, struct bed *bed, uint64_t id, uint32_t attempt)
{
    struct codec_facts facts;

    hand_open(hand, bed);
    hand_hello(hand, id, attempt);
    hand_auth(hand);
    facts = hand_facts(hand);
    hand_send_facts(hand, &facts);
}

START_TEST(a_connection_is_accepted_once)
{
    struct bed bed;
    struct hand first, second, third, fourth;

    open_listener(&bed, 39);
    complete(&first, &bed, 5, 2);
    ck_assert_uint_eq(bed.hosts[1].n_conns, 1);
    complete(&second, &bed, 5, 2);
    hand_is_refused(&second, "duplicate", WEFT_ERR_PROTOCOL);
    complete(&third, &bed, 5, 1);
    hand_is_refused(&third, "duplicate", WEFT_ERR_PROTOCOL);
    complete(&fourth, &bed, 5, 3);
    ck_assert_uint_eq(bed.hosts[1].n_conns, 2);
    check_counters(&bed, 4, 2, 0);
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

    open_listener(&bed, 40);
    hand_open(&hand, &bed);
    hand_hello(&hand, 1, 1);
    hand_auth(&hand);
    hand.link.tx_sequence += _i == 0 ? 1 : 0;
    hand.link.session[3] ^= (uint8_t)_i;
    facts = hand_facts(&hand);
    hand_send_facts(&hand, &facts);
    hand.link.session[3] ^= (uint8_t)_i;
    hand_is_refused(&hand, "facts", WEFT_ERR_AUTH);
    check_counters(&bed, 1, 1, 0);
    hand_close(&hand);
    bed_close(&bed);
}
END_TEST

START_TEST(facts_that_do_not_suit_are_refused)
{
    struct bed bed;
    struct hand hand;
    struct codec_facts facts;

    open_listener(&bed, 41);
    hand_open(&hand, &bed);
    hand_hello(&hand, 1, 1);
    hand_auth(&hand);
    facts = hand_facts(&hand);
    if (_i == 0) {
        facts.policy = RDMA_POLICY_NCCL_2_25;
    } else {
        facts.peer.host_id[0] ^= 1;
    }
    hand_send_facts(&hand, &facts);
    hand_is_refused(&hand, "facts", WEFT_ERR_PROTOCOL);
    check_counters(&bed, 1, 1, 0);
    hand_close(&hand);
    check_service(&bed);
    bed_close(&bed);
}
END_TEST

/* ---- what a member must not send ---- */

static struct codec_meta hand_meta(const struct hand *hand)
{
    struct codec_meta meta = {.n_rails = 1,
                              .n_qps = 1,
                              .max_rd_atomic = 1,
                              .max_msg_bytes = 1u << 20,
                              .window_bytes = 4096};
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

START_TEST(a_proposal_that_names_nothing_of_ours_is_refused_by_field)
{
    static const char *const fields[] = {"remote_port", "local_port", "remote_gid",
                                         "local_gid",   "local_type", "remote_gid"};
    struct bed bed;
    struct hand hand;
    struct codec_meta meta;
    uint8_t body[CODEC_BODY_MAX];
    const struct conn *conn;

    open_listener(&bed, 42);
    complete(&hand, &bed, 9, 1);
    meta = hand_meta(&hand);
    switch (_i) {
    case 0:
        meta.rails[0].remote_port = 1;
        break;
    case 1:
        meta.rails[0].local_port = 1;
        break;
    case 2:
        meta.rails[0].remote_gid.raw[15] = 9;
        break;
    case 3:
        meta.rails[0].local_gid.raw[15] = 9;
        break;
    case 4:
        meta.rails[0].local_type = IBV_GID_TYPE_ROCE_V1;
        break;
    default:
        meta.rails[0].remote_gid.raw[14] = 1;
        meta.rails[0].remote_type = IBV_GID_TYPE_ROCE_V1;
        break;
    }
    ck_assert(frame_send(&hand.link, CODEC_META, body, codec_encode_meta(&meta, body)));
    hand_flush(&hand);
    conn = bed_conn(&bed, 1);
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_int_eq(conn->error.status, WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(conn->error.phase, "meta");
    ck_assert_str_eq(weft_error_value(&conn->error, "field")->text, fields[_i]);
    ck_assert_int_eq(bed_objects(&bed, 1), 0);
    hand_is_refused(&hand, "meta", WEFT_ERR_PROTOCOL);
    hand_close(&hand);
    check_service(&bed);
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

    open_listener(&bed, 43);
    complete(&hand, &bed, 9, 1);
    ck_assert(frame_send(&hand.link, types[_i], NULL, 0));
    hand_flush(&hand);
    conn = bed_conn(&bed, 1);
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_int_eq(conn->error.status, WEFT_ERR_PROTOCOL);
    hand_is_refused(&hand, codec_type_name(types[_i]), WEFT_ERR_PROTOCOL);
    hand_close(&hand);
    check_service(&bed);
    bed_close(&bed);
}
END_TEST

START_TEST(a_member_that_falls_silent_meets_the_total_deadline)
{
    struct bed bed;
    struct hand hand;
    struct conn *conn;
    weft_ns since;

    open_listener(&bed, 44);
    complete(&hand, &bed, 9, 1);
    conn = bed_conn(&bed, 1);
    since = bed_now(&bed);
    bed_run(&bed, 29 * BED_S, NULL);
    ck_assert_int_eq(conn->state, CONN_META);
    ck_assert(bed_run(&bed, 2 * BED_S, bed_all_settled));
    ck_assert_int_eq(conn->error.status, WEFT_ERR_TIMEOUT);
    ck_assert_str_eq(conn->error.phase, "meta");
    ck_assert_int_le(bed_now(&bed) - since, 30 * BED_S);
    hand_close(&hand);
    bed_close(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("listener");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, silence_costs_a_slot_for_five_seconds);
    tcase_add_test(tcase, a_byte_at_a_time_gains_nothing);
    tcase_add_test(tcase, strangers_are_cut_off_without_a_word);
    tcase_add_test(tcase, a_hello_cut_at_any_byte_leaves_nothing);
    tcase_add_loop_test(tcase, bad_headers_are_refused_before_anything_is_held, 0,
                        (int)WEFT_LENGTH(bad_headers));
    tcase_add_test(tcase, a_thousand_silent_clients_delay_nobody);
    tcase_add_test(tcase, a_recorded_handshake_is_worth_nothing);
    tcase_add_test(tcase, nothing_is_made_before_the_proof);
    tcase_add_test(tcase, hello_names_the_listener_and_another_host);
    tcase_add_test(tcase, a_connection_is_accepted_once);
    tcase_add_loop_test(tcase, a_broken_seal_is_refused, 0, 3);
    tcase_add_loop_test(tcase, facts_that_do_not_suit_are_refused, 0, 2);
    tcase_add_loop_test(tcase, a_proposal_that_names_nothing_of_ours_is_refused_by_field,
                        0, 6);
    tcase_add_loop_test(tcase, messages_out_of_order_end_the_connection, 0, 8);
    tcase_add_test(tcase, a_member_that_falls_silent_meets_the_total_deadline);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

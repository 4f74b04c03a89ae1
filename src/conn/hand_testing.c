#include "conn/hand_testing.h"

#include <check.h>
#include <string.h>

#include "base/check.h"
#include "io/oob.h"

void hand_ignore_task(struct bed *bed, struct io_task *task)
{
    (void)bed;
    (void)task;
}

void hand_open(struct hand *hand, struct bed *bed)
{
    struct io_env *env = bed->hosts[0].env;
    struct io_endpoint to;
    struct io_stream *stream;
    struct weft_error error = {0};

    *hand = (struct hand){.bed = bed};
    bed->on_task = hand_ignore_task;
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

void hand_close(struct hand *hand)
{
    frame_close(&hand->link, true);
    io_task_fini(&hand->task);
}

void hand_write(struct hand *hand, const void *bytes, size_t n_bytes)
{
    size_t n = 0;

    ck_assert_int_eq(hand->link.env->oob->send(hand->link.stream, bytes, n_bytes, &n), 0);
    ck_assert_uint_eq(n, n_bytes);
    bed_run(hand->bed, 10 * BED_MS, NULL);
}

void hand_flush(struct hand *hand)
{
    ck_assert_int_eq(frame_flush(&hand->link, NULL), WEFT_OK);
    bed_run(hand->bed, 10 * BED_MS, NULL);
}

void hand_hello(struct hand *hand, uint64_t id, uint32_t attempt)
{
    struct codec_hello hello = {
        .id = id, .attempt = attempt, .epoch = hand->handle.epoch};

    memcpy(hello.host_id, hand->host_id, sizeof(hello.host_id));
    prove_hello(&hand->link, hand->key, &hello, hand->hello);
    hand_flush(hand);
}

void hand_auth(struct hand *hand)
{
    struct weft_error error = {0};

    ck_assert_int_eq(prove_answer(&hand->link, hand->key, hand->hello, &error), WEFT_OK);
    hand_flush(hand);
}

struct codec_facts hand_facts(struct hand *hand)
{
    struct codec_facts facts = {.policy = WEFT_POLICY_WEFT};

    memcpy(facts.peer.host, "titanic", sizeof("titanic"));
    memcpy(facts.peer.host_id, hand->host_id, sizeof(facts.peer.host_id));
    facts.peer.n_ports =
        conn_local_facts(hand->bed->hosts[0].rdma, facts.peer.ports, CODEC_PORTS_MAX);
    return facts;
}

void hand_send_facts(struct hand *hand, const struct codec_facts *facts)
{
    uint8_t body[CODEC_BODY_MAX];

    ck_assert(
        frame_send(&hand->link, CODEC_FACTS, body, codec_encode_facts(facts, body)));
    hand_flush(hand);
}

void hand_is_refused(struct hand *hand, const char *phase, weft_status status)
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

void hand_is_cut(struct hand *hand)
{
    struct frame frame;
    struct weft_error error = {0};

    ck_assert_int_eq(frame_receive(&hand->link, &frame, &error), WEFT_ERR_CLOSED);
    ck_assert_uint_eq(hand->link.rx_n, 0);
}

void hand_check_counters(const struct bed *bed, uint64_t clients, uint64_t rejected,
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

void hand_check_service(struct bed *bed)
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

void hand_open_listener(struct bed *bed, uint64_t seed)
{
    bed_open(bed, &(struct bed_config){.seed = seed});
    bed_listen(bed, 1);
}

void hand_complete(struct hand *hand, struct bed *bed, uint64_t id, uint32_t attempt)
{
    struct codec_facts facts;

    hand_open(hand, bed);
    hand_hello(hand, id, attempt);
    hand_auth(hand);
    facts = hand_facts(hand);
    hand_send_facts(hand, &facts);
}

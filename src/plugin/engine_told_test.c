/* Tests lack of resources and unauthenticated peers: the caller gets a typed error, and the log
 * a line with the finding's code. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "conn/codec.h"
#include "io/oob.h"
#include "plugin/engine.h"
#include "plugin/engine_testing.h"
#include "plugin/finding.h"

#define SECOND INT64_C(1000000000)

static struct harness harness;

/* ---- the log of all hosts ---- */

static struct weft_text told;

static void keep(void *context, enum weft_log_level level, const char *line)
{
    (void)context;
    if (level <= WEFT_LOG_WARN) {
        weft_text_add(&told, "%s\n", line);
    }
}

static struct weft_log kept = {.level = WEFT_LOG_INFO, .write = keep};

static struct io_env *env_of(uint32_t host)
{
    return harness.world->ops->host_env(harness.world, host, 0);
}

static void open_two(void)
{
    harness_open(&harness, 2, 1);
    env_of(0)->log = env_of(1)->log = &kept;
}

static void close_two(void)
{
    harness_expect_idle(&harness);
    harness_close(&harness);
    weft_text_fini(&told);
}

/* Returns the number of lines with "[CODE: weft explain CODE]". */
static uint32_t times_told(const char *code)
{
    char wanted[100];
    const char *at = told.bytes;
    uint32_t n = 0;

    weft_format(wanted, sizeof(wanted), "[%s: weft explain %s]", code, code);
    while (at != NULL && (at = strstr(at, wanted)) != NULL) {
        at++;
        n++;
    }
    return n;
}

/* Connects until that fails. */
static weft_status connect_to(const uint8_t *handle, void (*meanwhile)(void),
                              struct weft_error *error)
{
    weft_ns until = harness_now(&harness) + 120 * SECOND;
    struct engine_comm *comm = NULL;
    weft_status status = WEFT_AGAIN;

    while (status == WEFT_AGAIN) {
        status = engine_connect(harness.engines[0], handle, &comm, error);
        if (meanwhile != NULL) {
            meanwhile();
        }
        ck_assert(status != WEFT_AGAIN || harness_step(&harness, until));
    }
    ck_assert_ptr_null(comm);
    return status;
}

/* ---- descriptors ---- */

static const struct io_oob_ops *real_oob;
static int shortage; /* EMFILE or ENFILE; 0 if there is no shortage */

static int poor_connect(struct io_env *env, const struct io_endpoint *from,
                        const struct io_endpoint *to, struct io_task *task,
                        struct io_stream **out)
{
    return shortage != 0 ? shortage : real_oob->connect(env, from, to, task, out);
}

static int poor_accept(struct io_listener *listener, struct io_task *task,
                       struct io_stream **out)
{
    return shortage != 0 ? shortage : real_oob->accept(listener, task, out);
}

/* Makes connect and accept of `host` fail while `shortage` is not 0. */
static void impoverish(uint32_t host, struct io_oob_ops *ops)
{
    real_oob = env_of(host)->oob;
    *ops = *real_oob;
    ops->connect = poor_connect;
    ops->accept = poor_accept;
    env_of(host)->oob = ops;
}

/* NCCL calls connect again until it fails. The process continues when there are descriptors
 * again. */
START_TEST(a_connect_without_descriptors_fails_in_time)
{
    static const int kinds[] = {EMFILE, ENFILE};
    struct io_oob_ops ops;
    struct engine_listen *listen;
    struct engine_comm *out, *in;
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES];
    weft_ns since;

    open_two();
    impoverish(0, &ops);
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    shortage = kinds[_i];
    since = harness_now(&harness);
    ck_assert_int_eq(connect_to(handle, NULL, &error), WEFT_ERR_SYSTEM);
    ck_assert_int_ge(harness_now(&harness) - since, 30 * SECOND);
    ck_assert_int_le(harness_now(&harness) - since, 60 * SECOND);
    ck_assert_int_eq(error.sys_errno, kinds[_i]);
    ck_assert_uint_ge(times_told("host.fd_limit"), 1);
    shortage = 0;
    harness_connect(&harness, 0, 1, &out, &in);
    engine_close(out);
    engine_close(in);
    engine_close_listen(listen);
    close_two();
}
END_TEST

/* A client waits, and is accepted when a descriptor is free again. The log reports each shortage
 * once. */
START_TEST(an_accept_without_descriptors_is_told_once)
{
    struct io_oob_ops ops;
    struct engine_comm *out = NULL, *in;
    struct engine_listen *listen;
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES];

    open_two();
    impoverish(1, &ops);
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    for (uint32_t i = 1; i <= 2; i++) {
        shortage = EMFILE;
        ck_assert_int_eq(engine_connect(harness.engines[0], handle, &out, &error),
                         WEFT_AGAIN);
        harness_run(&harness, 3 * SECOND);
        ck_assert_int_eq(engine_accept(listen, &in, &error), WEFT_AGAIN);
        ck_assert_uint_eq(times_told("host.fd_limit"), i);
        shortage = 0;
        harness_run(&harness, 10 * SECOND);
        ck_assert_int_eq(engine_connect(harness.engines[0], handle, &out, &error),
                         WEFT_OK);
        ck_assert_int_eq(engine_accept(listen, &in, &error), WEFT_OK);
        engine_close(out);
        engine_close(in);
        engine_close_listen(listen);
        ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error),
                         WEFT_OK);
    }
    engine_close_listen(listen);
    close_two();
}
END_TEST

/* ---- refused connections ---- */

static void with_little_patience(uint32_t host, struct world_host *world_host,
                                 struct engine_config *config)
{
    (void)world_host;
    config->flow.failover_ns = host == 1 ? SECOND / 10 : 20 * SECOND;
}

/* The receiver has given up the connection when the cable is back, and the sender comes again. The
 * log does not say that it comes to no listener. */
START_TEST(a_connection_that_has_ended_is_refused_as_such)
{
    const struct world_fault down = {
        .kind = WORLD_FAULT_DOWN, .host = 0, .has_port = true, .for_ns = 15 * SECOND};
    struct engine_comm *out, *in;

    harness_with(with_little_patience);
    open_two();
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(harness.world->ops->inject(harness.world, &down), 0);
    harness_run(&harness, 40 * SECOND);
    ck_assert_ptr_nonnull(
        strstr(told.bytes, "a connection from titanic is refused: its connection has "));
    engine_close(out);
    engine_close(in);
    close_two();
}
END_TEST

/* ---- unauthenticated peers ---- */

/* The kinds of messages that the stranger sends. */
enum words { NOISE, OTHER_MESSAGE, OTHER_VERSION, NO_PROOF, N_WORDS };

static const struct {
    weft_status status;
    const char *code;
} judged[] = {[NOISE] = {WEFT_ERR_PROTOCOL, "conn.malformed"},
              [OTHER_MESSAGE] = {WEFT_ERR_PROTOCOL, "conn.malformed"},
              [OTHER_VERSION] = {WEFT_ERR_UNSUPPORTED, "conn.version"},
              [NO_PROOF] = {WEFT_ERR_AUTH, "conn.auth_failed"}};

static struct {
    enum words words;
    struct io_listener *listener;
    struct io_stream *streams[64];
    uint32_t n_streams;
    struct weft_rng rng;
} stranger;

static void say(struct io_stream *stream)
{
    struct codec_header header = {.type = CODEC_CHALLENGE,
                                  .n_bytes = CODEC_CHALLENGE_BYTES};
    uint8_t bytes[CODEC_HEADER_BYTES + CODEC_CHALLENGE_BYTES];
    size_t n_sent;

    weft_rng_bytes(&stranger.rng, bytes, sizeof(bytes));
    if (stranger.words == OTHER_MESSAGE) {
        header.type = CODEC_FACTS;
    }
    if (stranger.words != NOISE) {
        codec_encode_header(&header, bytes);
        bytes[5] = stranger.words == OTHER_VERSION ? CODEC_VERSION - 1 : CODEC_VERSION;
    }
    (void)env_of(1)->oob->send(stream, bytes, sizeof(bytes), &n_sent);
}

/* Listens in place of the peer, and makes a handle that leads there. */
static void listen_there(const uint8_t *handle, uint8_t *out_forged)
{
    struct codec_handle parts;
    struct codec_endpoint *to;
    struct weft_error error = {0};
    struct io_endpoint at, real;
    struct io_env *env = env_of(1);
    uint8_t plain[CONN_HANDLE_BYTES];

    memcpy(plain, handle, sizeof(plain));
    memset(plain + sizeof(plain) - 8, 0, 8);
    ck_assert_int_eq(codec_decode_handle(plain, &parts, &error), WEFT_OK);
    to = &parts.endpoints[0];
    for (uint32_t i = 0; i < parts.n_endpoints && to->is_management; i++) {
        to = &parts.endpoints[i];
    }
    ck_assert(!to->is_management);
    at = (struct io_endpoint){.ip = to->prefix.ip};
    ck_assert_int_eq(env->oob->listen(env, &at, 16, NULL, &stranger.listener, &real), 0);
    to->port = real.port;
    parts.endpoints[0] = *to;
    parts.n_endpoints = 1;
    ck_assert(codec_encode_handle(&parts, out_forged));
    memcpy(out_forged + CONN_HANDLE_BYTES - 8, handle + CONN_HANDLE_BYTES - 8, 8);
}

static void answer(void)
{
    struct io_stream *stream = NULL;

    if (env_of(1)->oob->accept(stranger.listener, NULL, &stream) == 0) {
        ck_assert_uint_lt(stranger.n_streams, WEFT_LENGTH(stranger.streams));
        stranger.streams[stranger.n_streams++] = stream;
        say(stream);
    }
}

static void go_away(void)
{
    for (uint32_t i = 0; i < stranger.n_streams; i++) {
        env_of(1)->oob->close(stranger.streams[i], false);
    }
    stranger.n_streams = 0;
}

/* Any other program that replies in place of the peer makes connect fail, with the matching
 * error. */
START_TEST(hostile_answers_are_told)
{
    struct engine_listen *listen;
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES], forged[CONN_HANDLE_BYTES];

    weft_rng_init(&stranger.rng, (uint64_t)_i, "stranger");
    stranger.words = (enum words)_i;
    open_two();
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    listen_there(handle, forged);
    ck_assert_int_eq(connect_to(forged, answer, &error), judged[_i].status);
    ck_assert_uint_ge(times_told(judged[_i].code), 1);
    if (stranger.words == OTHER_VERSION) {
        ck_assert_ptr_nonnull(strstr(error.message, "has version 2 of the protocol"));
        ck_assert_ptr_nonnull(strstr(error.message, "this one has 3"));
    }
    go_away();
    env_of(1)->oob->close_listener(stranger.listener);
    engine_close_listen(listen);
    close_two();
}
END_TEST

/* An unauthenticated client causes one line in the listener's log. */
START_TEST(hostile_clients_are_told)
{
    struct codec_handle parts;
    struct engine_listen *listen;
    struct weft_error error = {0};
    struct io_env *env;
    struct io_endpoint to;
    uint8_t handle[CONN_HANDLE_BYTES];

    weft_rng_init(&stranger.rng, (uint64_t)_i, "stranger");
    stranger.words = (enum words)_i;
    open_two();
    env = env_of(0);
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    memset(handle + sizeof(handle) - 8, 0, 8);
    ck_assert_int_eq(codec_decode_handle(handle, &parts, &error), WEFT_OK);
    to = (struct io_endpoint){.ip = parts.endpoints[0].prefix.ip,
                              .port = parts.endpoints[0].port};
    ck_assert_int_eq(
        env->oob->connect(env, NULL, &to, NULL, &stranger.streams[stranger.n_streams++]),
        0);
    harness_run(&harness, SECOND / 10);
    say(stranger.streams[0]);
    harness_run(&harness, SECOND);
    /* A listener accepts only HELLO, so a challenge is malformed. */
    ck_assert_uint_eq(times_told(_i == NO_PROOF ? "conn.malformed" : judged[_i].code), 1);
    go_away();
    engine_close_listen(listen);
    close_two();
}
END_TEST

/* A handle that was damaged on its way over the bootstrap network. */
START_TEST(a_handle_of_noise_is_told)
{
    struct weft_rng rng;
    struct engine_comm *comm;
    struct engine_listen *listen;
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES];
    char line[400];

    weft_rng_init(&rng, 9, "handle");
    open_two();
    for (uint32_t i = 0; i < 20; i++) {
        ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error),
                         WEFT_OK);
        weft_rng_bytes(&rng, handle, i < 10 ? sizeof(handle) : 16);
        weft_error_clear(&error);
        ck_assert_int_lt(engine_connect(harness.engines[0], handle, &comm, &error), 0);
        finding_format(&error, line, sizeof(line));
        ck_assert_msg(strstr(line, "[conn.malformed: ") != NULL, "%s", line);
        engine_close_listen(listen);
    }
    close_two();
}
END_TEST

/* ---- memory ---- */

/* The memory is registered, but for another connection, whose end would invalidate it. */
START_TEST(memory_of_another_connection_is_refused)
{
    static uint8_t data[4096];
    struct engine_comm *out, *in, *other_out, *other_in;
    struct engine_request *request;
    struct engine_memory *memory;
    struct weft_error error = {0};
    void *at = data;
    size_t size = sizeof(data);
    const uint32_t tag = 1;

    open_two();
    harness_connect(&harness, 0, 1, &out, &in);
    harness_connect(&harness, 0, 1, &other_out, &other_in);
    ck_assert_int_eq(harness_register(other_out, data, size, &memory, &error), WEFT_OK);
    ck_assert_int_eq(engine_isend(out, data, size, tag, memory, &request),
                     WEFT_ERR_INPUT);
    ck_assert_int_eq(engine_irecv(in, 1, &at, &size, &tag, &memory, &request),
                     WEFT_ERR_INPUT);
    ck_assert_int_eq(engine_isend(other_out, data, size, tag, memory, &request), WEFT_OK);
    engine_deregister(other_out, memory);
    engine_close(out);
    engine_close(in);
    engine_close(other_out);
    engine_close(other_in);
    close_two();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("plugin/engine_told");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_connect_without_descriptors_fails_in_time, 0, 2);
    tcase_add_test(tcase, an_accept_without_descriptors_is_told_once);
    tcase_add_test(tcase, a_connection_that_has_ended_is_refused_as_such);
    tcase_add_loop_test(tcase, hostile_answers_are_told, 0, N_WORDS);
    tcase_add_loop_test(tcase, hostile_clients_are_told, 0, N_WORDS);
    tcase_add_test(tcase, a_handle_of_noise_is_told);
    tcase_add_test(tcase, memory_of_another_connection_is_refused);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* Fuzzes a listener and its clients over scripted streams and a scripted clock. For any chunks in
 * any order and at any time, the listener must keep its limit of clients, free every place by the
 * deadline, and close every stream. The script can also send valid proofs, so that the states after
 * authentication are reached. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/conn.h"
#include "conn/private.h"
#include "io/oob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CLIENTS_MAX 8
#define CONNS_MAX 64
#define KIND_LISTENER 1
#define KIND_CONN 2

/* The listener's end of one stream. */
struct io_stream {
    struct io_task *task;
    uint8_t in[16384], out[16384]; /* to and from the listener */
    size_t n_in, at_in, n_out;
    bool in_ended, in_reset, is_closed;
};

struct stage {
    struct io_env env;
    struct io_loop loop;
    struct io_hostinfo info;
    struct io_netdev netdev;
    struct io_prefix address;
    struct rdma rdma;
    struct conn_listener *listener;
    struct io_task *listener_task;
    struct codec_handle handle;
    weft_ns now;
    uint64_t random;
    struct io_stream *waiting[CLIENTS_MAX];
    size_t n_waiting;
    struct io_stream *streams[CLIENTS_MAX]; /* Owned */
    struct frame_link
        hands[CLIENTS_MAX]; /* session key and sequence number of each client */
    uint8_t hellos[CLIENTS_MAX][PROVE_HELLO_BYTES];
    struct conn *conns[CONNS_MAX];
    size_t n_conns;
};

static struct stage *stage_of(struct io_env *env)
{
    return weft_container_of(env, struct stage, env);
}

static weft_ns now(struct io_env *env)
{
    return stage_of(env)->now;
}

static void random_bytes(struct io_env *env, void *out, size_t n_bytes)
{
    uint8_t *at = out;

    for (size_t i = 0; i < n_bytes; i++) {
        stage_of(env)->random = stage_of(env)->random * 6364136223846793005u + 1;
        at[i] = (uint8_t)(stage_of(env)->random >> 56);
    }
}

static const char *setting(struct io_env *env, const char *name)
{
    (void)env;
    (void)name;
    return NULL;
}

static const struct io_hostinfo *hostinfo(struct io_env *env)
{
    return &stage_of(env)->info;
}

static const struct io_env_ops env_ops = {
    .now = now, .random = random_bytes, .setting = setting, .hostinfo = hostinfo};

static int oob_listen(struct io_env *env, const struct io_endpoint *at, int backlog,
                      struct io_task *task, struct io_listener **out,
                      struct io_endpoint *out_at)
{
    (void)backlog;
    stage_of(env)->listener_task = task;
    *out = (struct io_listener *)(void *)env;
    *out_at = *at;
    out_at->port = 4000;
    return 0;
}

static int oob_accept(struct io_listener *listener, struct io_task *task,
                      struct io_stream **out)
{
    struct stage *stage = stage_of((struct io_env *)(void *)listener);

    if (stage->n_waiting == 0) {
        return EAGAIN;
    }
    *out = stage->waiting[--stage->n_waiting];
    (*out)->task = task;
    return 0;
}

static void oob_close_listener(struct io_listener *listener)
{
    (void)listener;
}

static int oob_send(struct io_stream *stream, const void *bytes, size_t n_bytes,
                    size_t *out_n)
{
    size_t room = sizeof(stream->out) - stream->n_out;

    if (stream->in_reset) {
        return ECONNRESET;
    }
    *out_n = n_bytes < room ? n_bytes : room;
    memcpy(stream->out + stream->n_out, bytes, *out_n);
    stream->n_out += *out_n;
    return *out_n == 0 ? EAGAIN : 0;
}

static int oob_recv(struct io_stream *stream, void *out, size_t n_bytes, size_t *out_n)
{
    size_t left = stream->n_in - stream->at_in;

    if (stream->in_reset) {
        return ECONNRESET;
    }
    if (left == 0) {
        *out_n = 0;
        return stream->in_ended ? 0 : EAGAIN;
    }
    *out_n = n_bytes < left ? n_bytes : left;
    memcpy(out, stream->in + stream->at_in, *out_n);
    stream->at_in += *out_n;
    return 0;
}

static void oob_endure(struct io_stream *stream, weft_ns limit)
{
    (void)stream;
    (void)limit;
}

static void oob_set_task(struct io_stream *stream, struct io_task *task)
{
    stream->task = task;
}

static void oob_endpoints(const struct io_stream *stream, struct io_endpoint *out_local,
                          struct io_endpoint *out_remote)
{
    (void)stream;
    (void)out_local;
    *out_remote = (struct io_endpoint){.ip = io_ip_v4(10, 0, 0, 9), .port = 1};
}

static int oob_unacked(struct io_stream *stream, size_t *out_n)
{
    *out_n = stream->is_closed ? 1 : 0;
    return 0;
}

static void oob_close(struct io_stream *stream, bool reset)
{
    (void)reset;
    weft_check(!stream->is_closed);
    stream->is_closed = true;
    stream->task = NULL;
}

static const struct io_oob_ops oob_ops = {
    .listen = oob_listen,
    .accept = oob_accept,
    .close_listener = oob_close_listener,
    .send = oob_send,
    .recv = oob_recv,
    .unacked = oob_unacked,
    .endure = oob_endure,
    .set_task = oob_set_task,
    .endpoints = oob_endpoints,
    .close = oob_close,
};

static void open_stage(struct stage *stage)
{
    uint8_t bytes[CONN_HANDLE_BYTES];
    struct conn_config config;
    weft_status status;

    io_loop_init(&stage->loop, 1);
    stage->address.ip = io_ip_v4(10, 0, 0, 2);
    stage->address.prefix_len = 24;
    stage->netdev = (struct io_netdev){.ifindex = 1,
                                       .is_management = true,
                                       .addresses = &stage->address,
                                       .n_addresses = 1};
    stage->info.netdevs = &stage->netdev;
    stage->info.n_netdevs = 1;
    stage->env = (struct io_env){
        .ops = &env_ops, .oob = &oob_ops, .loop = &stage->loop, .name = "stage"};
    stage->rdma.env = &stage->env;
    conn_config_default(&config);
    config.pending_max = 4;
    status = conn_listen(&stage->rdma, &config, KIND_LISTENER, KIND_CONN, bytes,
                         &stage->listener, NULL);
    weft_check(status == WEFT_OK);
    status = codec_decode_handle(bytes, &stage->handle, NULL);
    weft_check(status == WEFT_OK);
}

static void run(struct stage *stage)
{
    struct io_task *task;
    struct conn *conn;

    io_loop_expire(&stage->loop, stage->now);
    while ((task = io_loop_pop(&stage->loop)) != NULL) {
        if (task->kind == KIND_CONN) {
            (void)!conn_progress(weft_container_of(task, struct conn, task));
            continue;
        }
        conn_listener_progress(stage->listener);
        while (stage->n_conns < CONNS_MAX &&
               (conn = conn_accept(stage->listener)) != NULL) {
            stage->conns[stage->n_conns++] = conn;
        }
    }
}

/* Adds bytes to those that the listener can read from a client, and wakes the stream's task. */
static void give(struct stage *stage, size_t client, const void *bytes, size_t n_bytes)
{
    struct io_stream *stream = stage->streams[client];

    if (stream == NULL || stream->is_closed || stream->in_ended || stream->in_reset ||
        n_bytes > sizeof(stream->in) - stream->n_in) {
        return;
    }
    memcpy(stream->in + stream->n_in, bytes, n_bytes);
    stream->n_in += n_bytes;
    io_task_wake(stream->task);
}

static void connect_client(struct stage *stage, size_t client)
{
    if (stage->streams[client] == NULL) {
        stage->streams[client] = weft_calloc(1, sizeof(struct io_stream));
        stage->waiting[stage->n_waiting++] = stage->streams[client];
        io_task_wake(stage->listener_task);
    }
}

static void end(struct stage *stage, size_t client, bool reset)
{
    struct io_stream *stream = stage->streams[client];

    if (stream != NULL) {
        stream->in_ended = true;
        stream->in_reset = stream->in_reset || reset;
        io_task_wake(stream->task);
    }
}

/* ---- valid messages ---- */

static void say_hello(struct stage *stage, size_t client, uint8_t id)
{
    struct codec_hello hello = {
        .id = id % 4, .attempt = 1u + id / 4 % 4, .epoch = stage->handle.epoch};
    struct codec_header header = {.type = CODEC_HELLO, .n_bytes = CODEC_HELLO_BYTES};
    uint8_t *frame = stage->hellos[client];

    memset(hello.host_id, 9, sizeof(hello.host_id));
    codec_encode_header(&header, frame);
    codec_encode_hello(&hello, frame + CODEC_HEADER_BYTES);
    give(stage, client, frame, PROVE_HELLO_BYTES);
}

static void say_auth(struct stage *stage, size_t client)
{
    struct io_stream *stream = stage->streams[client];
    size_t whole = CODEC_HEADER_BYTES + CODEC_CHALLENGE_BYTES;
    struct codec_header header = {.type = CODEC_AUTH, .n_bytes = CODEC_AUTH_BYTES};
    uint8_t key[AUTH_KEY_BYTES], frame[CODEC_HEADER_BYTES + CODEC_AUTH_BYTES];
    uint8_t session[AUTH_KEY_BYTES];

    if (stream == NULL || stream->n_out < whole) {
        return;
    }
    auth_connection_key(stage->handle.cookie, NULL, key);
    codec_encode_header(&header, frame);
    auth_prove(key, AUTH_CONNECTOR, stage->hellos[client], PROVE_HELLO_BYTES, stream->out,
               whole, frame + CODEC_HEADER_BYTES);
    auth_prove(key, AUTH_SESSION, stage->hellos[client], PROVE_HELLO_BYTES, stream->out,
               whole, session);
    stage->hands[client] = (struct frame_link){.self = AUTH_CONNECTOR};
    frame_seal(&stage->hands[client], session);
    give(stage, client, frame, sizeof(frame));
}

/* Sends a correctly sealed frame of type `type` % 20 with any body. */
static void say_sealed(struct stage *stage, size_t client, uint8_t type,
                       const uint8_t *body, size_t n_bytes)
{
    struct frame_link *hand = &stage->hands[client];
    uint8_t frame[CODEC_FRAME_MAX];
    struct codec_header header = {.type = (enum codec_type)(type % 20),
                                  .n_bytes = (uint32_t)n_bytes + AUTH_MAC_BYTES};

    codec_encode_header(&header, frame);
    memcpy(frame + CODEC_HEADER_BYTES, body, n_bytes);
    auth_seal(hand->session, AUTH_CONNECTOR, hand->tx_sequence++, frame,
              CODEC_HEADER_BYTES + n_bytes, frame + CODEC_HEADER_BYTES + n_bytes);
    give(stage, client, frame, CODEC_HEADER_BYTES + n_bytes + AUTH_MAC_BYTES);
}

static void say_facts(struct stage *stage, size_t client)
{
    struct codec_facts facts = {.policy = WEFT_POLICY_WEFT, .peer = {.host = "hand"}};
    uint8_t body[CODEC_BODY_MAX];

    memset(facts.peer.host_id, 9, sizeof(facts.peer.host_id));
    say_sealed(stage, client, CODEC_FACTS, body, codec_encode_facts(&facts, body));
}

static size_t act(struct stage *stage, const uint8_t *at, size_t left)
{
    size_t client = at[0] / 16 % CLIENTS_MAX;
    size_t n = left > 2 ? at[1] : 0;

    n = n < left - 2 ? n : left - 2;
    switch (at[0] % 16) {
    case 0:
        connect_client(stage, client);
        break;
    case 1:
        end(stage, client, at[1] % 2 == 1);
        break;
    case 2:
        stage->now += (weft_ns)at[1] * 50000000;
        break;
    case 3:
        say_hello(stage, client, at[1]);
        break;
    case 4:
        say_auth(stage, client);
        break;
    case 5:
        say_facts(stage, client);
        break;
    case 6:
        if (n > 0) {
            say_sealed(stage, client, at[2], at + 3, n - 1);
        }
        return 2 + n;
    default:
        give(stage, client, at + 2, n);
        return 2 + n;
    }
    return 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stage *stage = weft_calloc(1, sizeof(*stage));

    open_stage(stage);
    for (size_t at = 0; at + 2 <= size;) {
        at += act(stage, data + at, size - at);
        run(stage);
        weft_check(stage->listener->counters.pending <= 4);
    }
    stage->now += 6000000000;
    run(stage);
    weft_check(stage->listener->counters.pending == 0);
    stage->now += 60000000000;
    run(stage);
    for (size_t i = 0; i < stage->n_conns; i++) {
        weft_check(stage->conns[i]->state == CONN_FAILED);
        weft_check(stage->conns[i]->error.status < 0);
        conn_destroy(stage->conns[i]);
    }
    conn_listener_close(stage->listener);
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        weft_check(stage->streams[i] == NULL || stage->streams[i]->is_closed);
        free(stage->streams[i]);
    }
    io_loop_fini(&stage->loop);
    free(stage);
    return 0;
}

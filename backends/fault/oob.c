/* Streams and announcements. Listeners, streams and announcers are objects of this backend, which
 * refer to their environment. */
#include <errno.h>
#include <stdlib.h>

#include "backends/fault/private.h"

struct fault_listener {
    struct fault_gate gate; /* also refers to the environment */
    struct io_listener *inner;
};

struct fault_stream {
    struct fault_gate hears, speaks; /* also refer to the environment */
    struct io_stream *inner;
    bool is_mute; /* everything sent from now on is discarded */
};

struct fault_announcer {
    struct fault_gate gate; /* also refers to the environment */
    struct io_announcer *inner;
};

static struct fault_listener *listener_of(struct io_listener *listener)
{
    return (struct fault_listener *)(void *)listener;
}

static struct fault_stream *stream_of(struct io_stream *stream)
{
    return (struct fault_stream *)(void *)stream;
}

static struct fault_announcer *announcer_of(struct io_announcer *announcer)
{
    return (struct fault_announcer *)(void *)announcer;
}

static const struct io_oob_ops *below(const struct fault_env *env)
{
    return env->inner->oob;
}

static struct io_stream *wrap(struct fault_env *env, struct io_stream *inner,
                              struct io_task *task)
{
    struct fault_stream *stream = weft_calloc(1, sizeof(*stream));

    fault_gate_init(&stream->hears, env, task);
    fault_gate_init(&stream->speaks, env, task);
    stream->inner = inner;
    return (struct io_stream *)(void *)stream;
}

/* ---- listeners ---- */

static int oob_listen(struct io_env *io, const struct io_endpoint *at, int backlog,
                      struct io_task *task, struct io_listener **out,
                      struct io_endpoint *out_at)
{
    struct fault_env *env = fault_env_of(io);
    int error = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_LISTEN).error;
    struct io_listener *inner;
    struct fault_listener *listener;

    if (error == 0) {
        error = below(env)->listen(env->inner, at, backlog, task, &inner, out_at);
    }
    if (error != 0) {
        return error;
    }
    listener = weft_calloc(1, sizeof(*listener));
    fault_gate_init(&listener->gate, env, task);
    listener->inner = inner;
    *out = (struct io_listener *)(void *)listener;
    return 0;
}

/* A connection whose accept fails stays queued; the backend wakes the task again. */
static int oob_accept(struct io_listener *io, struct io_task *task,
                      struct io_stream **out)
{
    struct fault_listener *listener = listener_of(io);
    struct fault_env *env = listener->gate.env;
    struct fault_verdict verdict = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_ACCEPT);
    struct io_stream *inner;
    int error = verdict.error;

    if (error == 0 && fault_gate_is_shut(&listener->gate, &verdict)) {
        return EAGAIN;
    }
    if (error == 0) {
        error = below(env)->accept(listener->inner, task, &inner);
    }
    if (error == 0) {
        *out = wrap(env, inner, task);
    }
    return error;
}

static void oob_close_listener(struct io_listener *io)
{
    struct fault_listener *listener = listener_of(io);

    if (listener != NULL) {
        below(listener->gate.env)->close_listener(listener->inner);
        fault_gate_fini(&listener->gate);
        free(listener);
    }
}

/* ---- streams ---- */

static int oob_connect(struct io_env *io, const struct io_endpoint *from,
                       const struct io_endpoint *to, struct io_task *task,
                       struct io_stream **out)
{
    struct fault_env *env = fault_env_of(io);
    int error = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_CONNECT).error;
    struct io_stream *inner;

    if (error == 0) {
        error = below(env)->connect(env->inner, from, to, task, &inner);
    }
    if (error == 0) {
        *out = wrap(env, inner, task);
    }
    return error;
}

static int oob_connected(struct io_stream *io)
{
    struct fault_stream *stream = stream_of(io);
    struct fault_env *env = stream->hears.env;
    int error = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_CONNECTED).error;

    return error != 0 ? error : below(env)->connected(stream->inner);
}

static int oob_send(struct io_stream *io, const void *bytes, size_t n_bytes,
                    size_t *out_n)
{
    struct fault_stream *stream = stream_of(io);
    struct fault_env *env = stream->speaks.env;
    struct fault_verdict verdict = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_SEND);

    if (verdict.error != 0) {
        return verdict.error;
    }
    if (fault_gate_is_shut(&stream->speaks, &verdict)) {
        return EAGAIN;
    }
    stream->is_mute = stream->is_mute || verdict.is_lost;
    if (stream->is_mute) {
        *out_n = n_bytes;
        return 0;
    }
    return below(env)->send(stream->inner, bytes,
                            n_bytes < verdict.cap ? n_bytes : verdict.cap, out_n);
}

static int oob_recv(struct io_stream *io, void *out, size_t n_bytes, size_t *out_n)
{
    struct fault_stream *stream = stream_of(io);
    struct fault_env *env = stream->hears.env;
    struct fault_verdict verdict = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_RECV);

    if (verdict.error != 0) {
        return verdict.error;
    }
    if (fault_gate_is_shut(&stream->hears, &verdict)) {
        return EAGAIN;
    }
    return below(env)->recv(stream->inner, out,
                            n_bytes < verdict.cap ? n_bytes : verdict.cap, out_n);
}

/* Counts discarded bytes as unacknowledged forever. */
static int oob_unacked(struct io_stream *io, size_t *out_n)
{
    struct fault_stream *stream = stream_of(io);
    int error = below(stream->hears.env)->unacked(stream->inner, out_n);

    if (error == 0 && stream->is_mute) {
        *out_n += 1;
    }
    return error;
}

static void oob_endure(struct io_stream *io, weft_ns limit)
{
    struct fault_stream *stream = stream_of(io);

    below(stream->hears.env)->endure(stream->inner, limit);
}

static void oob_set_task(struct io_stream *io, struct io_task *task)
{
    struct fault_stream *stream = stream_of(io);

    stream->hears.task = task;
    stream->speaks.task = task;
    below(stream->hears.env)->set_task(stream->inner, task);
}

static void oob_endpoints(const struct io_stream *io, struct io_endpoint *out_local,
                          struct io_endpoint *out_remote)
{
    const struct fault_stream *stream = (const struct fault_stream *)(const void *)io;

    below(stream->hears.env)->endpoints(stream->inner, out_local, out_remote);
}

static void oob_close(struct io_stream *io, bool reset)
{
    struct fault_stream *stream = stream_of(io);

    if (stream != NULL) {
        below(stream->hears.env)->close(stream->inner, reset);
        fault_gate_fini(&stream->hears);
        fault_gate_fini(&stream->speaks);
        free(stream);
    }
}

/* ---- announcements ---- */

static int oob_open_announcer(struct io_env *io, uint32_t ifindex, uint16_t port,
                              struct io_task *task, struct io_announcer **out)
{
    struct fault_env *env = fault_env_of(io);
    int error = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_OPEN_ANNOUNCER).error;
    struct io_announcer *inner;
    struct fault_announcer *announcer;

    if (error == 0) {
        error = below(env)->open_announcer(env->inner, ifindex, port, task, &inner);
    }
    if (error != 0) {
        return error;
    }
    announcer = weft_calloc(1, sizeof(*announcer));
    fault_gate_init(&announcer->gate, env, task);
    announcer->inner = inner;
    *out = (struct io_announcer *)(void *)announcer;
    return 0;
}

static int oob_announce(struct io_announcer *io, const void *bytes, size_t n_bytes)
{
    struct fault_announcer *announcer = announcer_of(io);
    struct fault_env *env = announcer->gate.env;
    struct fault_verdict verdict = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_ANNOUNCE);

    if (verdict.error != 0 || verdict.is_lost) {
        return verdict.error;
    }
    return below(env)->announce(announcer->inner, bytes, n_bytes);
}

static int oob_hear(struct io_announcer *io, void *out, size_t cap, size_t *out_n,
                    struct io_endpoint *out_from)
{
    struct fault_announcer *announcer = announcer_of(io);
    struct fault_env *env = announcer->gate.env;
    struct fault_verdict verdict = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_HEAR);

    if (verdict.error != 0) {
        return verdict.error;
    }
    if (fault_gate_is_shut(&announcer->gate, &verdict)) {
        return EAGAIN;
    }
    return below(env)->hear(announcer->inner, out, cap, out_n, out_from);
}

static void oob_close_announcer(struct io_announcer *io)
{
    struct fault_announcer *announcer = announcer_of(io);

    if (announcer != NULL) {
        below(announcer->gate.env)->close_announcer(announcer->inner);
        fault_gate_fini(&announcer->gate);
        free(announcer);
    }
}

const struct io_oob_ops fault_oob_ops = {
    .listen = oob_listen,
    .accept = oob_accept,
    .close_listener = oob_close_listener,
    .connect = oob_connect,
    .connected = oob_connected,
    .send = oob_send,
    .recv = oob_recv,
    .unacked = oob_unacked,
    .endure = oob_endure,
    .set_task = oob_set_task,
    .endpoints = oob_endpoints,
    .close = oob_close,
    .open_announcer = oob_open_announcer,
    .announce = oob_announce,
    .hear = oob_hear,
    .close_announcer = oob_close_announcer,
};

/* Streams between the processes of a host. Each process sends requests to every peer's proxy
 * over a stream that it opened, so two streams connect each pair of ranks. Bells travel over the
 * stream opened by the sender. No other message is accepted before both ends have proved that
 * they know the job's key. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "io/oob.h"
#include "transport/inside_private.h"

struct inside_stream *inside_stream_at(struct inside *inside, uint32_t i)
{
    struct inside_stream *stream = inside->streams[i];

    if (stream == NULL) {
        stream = weft_calloc(1, sizeof(*stream));
        stream->inside = inside;
        stream->rank = UINT32_MAX;
        io_task_init(&stream->task, inside->env->loop, inside->env->host,
                     inside->config.task_kind);
        inside->streams[i] = stream;
    }
    return stream;
}

/* ---- dialing ---- */

void inside_stream_enter(struct inside_stream *stream, enum inside_stream_state next)
{
    static const char *const names[] = {"none", "dialing", "proving", "open", "stopped"};
    struct inside *inside = stream->inside;
    char object[32];

    weft_format(object, sizeof(object), "proxy%u", inside->config.rank);
    weft_trace_event(inside->env->trace, io_now(inside->env), inside->env->name, object,
                     "stream", "peer=%u ours=%d from=%s to=%s", stream->rank,
                     stream->is_ours, names[stream->state], names[next]);
    stream->state = next;
    stream->deadline_ns = next == INSIDE_STREAM_PROVING
                              ? io_now(inside->env) + inside_prove_ns(inside)
                              : WEFT_NEVER;
    io_task_deadline(&stream->task, stream->deadline_ns);
}

/* Fails because the peer's proxy does not accept connections. If it accepted one before, its
 * process has ended. */
static weft_status unreachable(struct inside_stream *stream, int sys_errno)
{
    struct inside *inside = stream->inside;

    if (stream->was_lost && sys_errno == ECONNREFUSED) {
        return inside_fail(inside, stream->rank, WEFT_ERR_CLOSED, WEFT_PHASE_INSIDE,
                           "it died: its stream ended");
    }
    inside->error.sys_errno = sys_errno;
    return inside_fail(inside, stream->rank, WEFT_ERR_SYSTEM, WEFT_PHASE_INSIDE,
                       "its proxy cannot be reached");
}

weft_status inside_dial(struct inside *inside, uint32_t place)
{
    struct inside_stream *stream = inside_stream_at(inside, place);
    struct io_env *env = inside->env;
    struct io_stream *tcp = NULL;
    int sys_errno;

    if (stream->redial_until_ns == 0) {
        stream->redial_until_ns = io_now(env) + inside_prove_ns(inside);
    }
    stream->rank = inside->locals[place];
    stream->is_ours = true;
    sys_errno =
        env->oob->connect(env, NULL, &inside->facts[place].at, &stream->task, &tcp);
    if (sys_errno != 0) {
        return unreachable(stream, sys_errno);
    }
    frame_init(&stream->link, env, tcp, AUTH_CONNECTOR, stream->rx, sizeof(stream->rx),
               stream->tx, sizeof(stream->tx));
    inside_stream_enter(stream, INSIDE_STREAM_DIALING);
    return WEFT_OK;
}

weft_status inside_stream_broken(struct inside_stream *stream,
                                 const struct weft_error *why)
{
    struct inside *inside = stream->inside;

    if (stream->rank == UINT32_MAX || inside->state >= INSIDE_CLOSING) {
        bool is_known = stream->rank != UINT32_MAX;

        frame_close(&stream->link, true);
        inside_stream_enter(stream,
                            is_known ? INSIDE_STREAM_STOPPED : INSIDE_STREAM_NONE);
        return WEFT_OK;
    }
    if (why->status == WEFT_ERR_CLOSED && !frame_failed_here(why)) {
        return inside_fail(inside, stream->rank, WEFT_ERR_CLOSED, WEFT_PHASE_INSIDE,
                           "it died: its stream ended");
    }
    inside->error = *why;
    inside->error_peer = stream->rank;
    weft_error_int(&inside->error, WEFT_VALUE_RANK, stream->rank);
    return why->status;
}

/* Handles the failure of a stream whose peer has not authenticated yet. Dials again for some time
 * if strangers had all places at the peer, or if the stream ended: the peer may have made room for
 * another client, so that this does not show that its process has ended. */
static weft_status not_proved(struct inside_stream *stream, const struct weft_error *why)
{
    struct inside *inside = stream->inside;
    bool is_lost = why->status == WEFT_ERR_CLOSED && !frame_failed_here(why);

    if (inside->state >= INSIDE_CLOSING || (!is_lost && !prove_may_ask_after(why))) {
        return inside_stream_broken(stream, why);
    }
    if (io_now(inside->env) < stream->redial_until_ns) {
        stream->was_lost = is_lost;
        frame_close(&stream->link, true);
        return inside_dial(inside, inside_place(inside, stream->rank));
    }
    return is_lost
               ? inside_fail(inside, stream->rank, WEFT_ERR_TIMEOUT, WEFT_PHASE_INSIDE,
                             "its proxy ended each stream before it authenticated")
               : inside_stream_broken(stream, why);
}

static weft_status greet(struct inside_stream *stream)
{
    struct inside *inside = stream->inside;
    struct io_env *env = inside->env;
    struct codec_hello hello = {.id = inside->config.rank + 1, .attempt = 1};
    int sys_errno = env->oob->connected(stream->link.stream);

    if (sys_errno == EAGAIN) {
        return WEFT_AGAIN;
    }
    if (sys_errno == ECONNRESET) { /* it was accepted, and has ended already */
        struct weft_error why = {.status = WEFT_ERR_CLOSED, .sys_errno = sys_errno};

        return not_proved(stream, &why);
    }
    if (sys_errno != 0) {
        return unreachable(stream, sys_errno);
    }
    memcpy(hello.host_id, io_host_id(env), sizeof(hello.host_id));
    prove_hello(&stream->link, stream->inside->identity.key, &hello, stream->hello);
    inside_stream_enter(stream, INSIDE_STREAM_PROVING);
    return WEFT_OK;
}

static weft_status join(struct inside_stream *stream)
{
    struct inside *inside = stream->inside;
    struct proxy_call call = {.type = PROXY_JOIN, .rank = inside->config.rank};
    struct weft_error why = {0};
    uint8_t body[PROXY_CALL_MAX];
    bool queued;
    weft_status status = frame_flush(&stream->link, &why);

    if (status == WEFT_OK) {
        status = prove_answer(&stream->link, inside->identity.key, stream->hello, &why);
    }
    if (status == WEFT_AGAIN) {
        return io_now(inside->env) < stream->deadline_ns
                   ? WEFT_AGAIN
                   : inside_fail(inside, stream->rank, WEFT_ERR_TIMEOUT,
                                 WEFT_PHASE_INSIDE, "its proxy did not answer in time");
    }
    if (status != WEFT_OK) {
        return not_proved(stream, &why);
    }
    queued = frame_send(&stream->link, CODEC_CALL, body, proxy_encode_call(&call, body));
    weft_check(queued);
    inside_stream_enter(stream, INSIDE_STREAM_OPEN);
    return WEFT_OK;
}

weft_status inside_stream_connect(struct inside_stream *stream)
{
    weft_status status = WEFT_OK;

    if (stream->state == INSIDE_STREAM_DIALING) {
        status = greet(stream);
    }
    if (stream->state == INSIDE_STREAM_PROVING) {
        status = join(stream);
    }
    return status;
}

/* ---- accepted connections ---- */

bool inside_stream_take_over(struct inside *inside, struct client *client)
{
    for (uint32_t i = inside->n_locals; i < inside_n_streams(inside); i++) {
        struct inside_stream *stream = inside_stream_at(inside, i);

        if (stream->state != INSIDE_STREAM_NONE) {
            continue;
        }
        frame_move(&client->link, stream->rx, sizeof(stream->rx), stream->tx,
                   sizeof(stream->tx));
        stream->link = client->link;
        client->link.stream = NULL;
        inside->env->oob->set_task(stream->link.stream, &stream->task);
        stream->rank = UINT32_MAX;
        inside_stream_enter(stream, INSIDE_STREAM_OPEN);
        io_task_wake(&stream->task);
        return true;
    }
    return false;
}

/* ---- messages ---- */

void inside_stream_flush(struct inside_stream *stream)
{
    struct weft_error ignored = {0};

    if (frame_flush(&stream->link, &ignored) < 0) {
        /* The next inside_stream_progress() handles the failure again. */
        io_task_wake(&stream->task);
    }
}

bool inside_ask(struct inside *inside, uint32_t place, const struct proxy_call *call)
{
    struct inside_stream *stream = inside->streams[place];
    uint8_t body[PROXY_CALL_MAX];

    if (stream == NULL || stream->state != INSIDE_STREAM_OPEN ||
        !frame_send(&stream->link, CODEC_CALL, body, proxy_encode_call(call, body))) {
        return false;
    }
    inside_stream_flush(stream);
    return true;
}

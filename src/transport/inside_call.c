/* Calls, answers and messages of CUDA IPC that arrive over the streams, and what serves them. */
#include "base/check.h"
#include "base/text.h"
#include "transport/inside_private.h"

static weft_status answer(struct inside_stream *stream, const struct proxy_answer *answer)
{
    uint8_t body[PROXY_ANSWER_BYTES];

    if (!frame_send(&stream->link, CODEC_ANSWER, body,
                    proxy_encode_answer(answer, body))) {
        return inside_fail(stream->inside, stream->rank, WEFT_ERR_LIMIT,
                           WEFT_PHASE_INSIDE, "it asks and does not read the answers");
    }
    return WEFT_OK;
}

static weft_status keep_pending(struct inside_stream *stream,
                                const struct proxy_call *call)
{
    struct inside *inside = stream->inside;

    for (uint32_t i = 0; i < inside->n_pending; i++) {
        struct inside_pending *pending = &inside->pending[i];

        if (!pending->is_used) {
            *pending = (struct inside_pending){true, stream, *call};
            return WEFT_OK;
        }
    }
    return inside_fail(inside, stream->rank, WEFT_ERR_LIMIT, WEFT_PHASE_INSIDE,
                       "it has more than %u requests open", inside->n_pending);
}

weft_status inside_serve_pending(struct inside *inside)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < inside->n_pending && status == WEFT_OK; i++) {
        struct inside_pending *pending = &inside->pending[i];
        struct inside_stream *stream = pending->stream;
        struct proxy_answer out;

        if (!pending->is_used || stream->state != INSIDE_STREAM_OPEN ||
            proxy_serve(inside->proxy, stream->rank, &pending->call, &out) != WEFT_OK) {
            continue;
        }
        pending->is_used = false;
        status = answer(stream, &out);
        if (status == WEFT_OK) {
            inside_stream_flush(stream);
        }
    }
    return status;
}

static weft_status joined(struct inside_stream *stream, uint32_t rank)
{
    struct inside *inside = stream->inside;
    uint32_t place = inside_place(inside, rank);

    if (stream->rank != UINT32_MAX || place == UINT32_MAX || place == inside->self) {
        struct weft_error why = {0};

        weft_fail(&why, WEFT_ERR_PROTOCOL, WEFT_PHASE_INSIDE, "rank %u is no peer here",
                  rank);
        return inside_stream_broken(stream, &why);
    }
    stream->rank = rank;
    return WEFT_OK;
}

static weft_status take_call(struct inside_stream *stream, const struct proxy_call *call)
{
    struct inside *inside = stream->inside;
    struct proxy_answer out;

    if (call->type == PROXY_JOIN || stream->rank == UINT32_MAX) {
        return joined(stream, call->type == PROXY_JOIN ? call->rank : UINT32_MAX);
    }
    if (call->type == PROXY_BELL) {
        return WEFT_OK; /* it only wakes this process */
    }
    if (call->type == PROXY_STOP) {
        frame_close(&stream->link, false);
        inside_stream_enter(stream, INSIDE_STREAM_STOPPED);
        return WEFT_OK;
    }
    if (call->type == PROXY_ABORT) {
        return inside_fail(inside, stream->rank, WEFT_ERR_CLOSED, WEFT_PHASE_PEER,
                           "it gave up: %s", call->reason);
    }
    if (proxy_serve(inside->proxy, stream->rank, call, &out) == WEFT_OK) {
        return answer(stream, &out);
    }
    return keep_pending(stream, call);
}

static weft_status take(struct inside_stream *stream, const struct frame *frame)
{
    struct inside *inside = stream->inside;
    struct weft_error why = {0};
    struct proxy_answer answer;
    struct proxy_call call;
    weft_status status;

    if (frame->type == CODEC_CALL && !stream->is_ours) {
        status = proxy_decode_call(frame->body, frame->n_bytes, &call, &why);
        return status == WEFT_OK ? take_call(stream, &call)
                                 : inside_stream_broken(stream, &why);
    }
    if (frame->type == CODEC_ANSWER && stream->is_ours) {
        status = proxy_decode_answer(frame->body, frame->n_bytes, &answer, &why);
        if (status == WEFT_OK && !inside_answered(inside, stream->rank, &answer)) {
            status = weft_fail(&why, WEFT_ERR_PROTOCOL, WEFT_PHASE_INSIDE,
                               "an answer %u without a request", answer.op);
        }
        return status == WEFT_OK ? WEFT_OK : inside_stream_broken(stream, &why);
    }
    if (frame->type == CODEC_IPC && !stream->is_ours && stream->rank != UINT32_MAX) {
        status = inside_ipc_take(inside, inside_place(inside, stream->rank), frame->body,
                                 frame->n_bytes, &why);
        return status == WEFT_OK ? WEFT_OK : inside_stream_broken(stream, &why);
    }
    weft_fail(&why, WEFT_ERR_PROTOCOL, WEFT_PHASE_INSIDE, "a %s message",
              codec_type_name(frame->type));
    return inside_stream_broken(stream, &why);
}

static weft_status converse(struct inside_stream *stream)
{
    struct weft_error why = {0};
    struct frame frame;
    weft_status status = WEFT_OK;

    while (status == WEFT_OK && stream->state == INSIDE_STREAM_OPEN) {
        status = frame_receive(&stream->link, &frame, &why);
        if (status < 0) {
            return inside_stream_broken(stream, &why);
        }
        if (status == WEFT_OK) {
            status = take(stream, &frame);
        }
    }
    if (status < 0 || stream->state != INSIDE_STREAM_OPEN) {
        return status < 0 ? status : WEFT_OK;
    }
    return frame_flush(&stream->link, &why) < 0 ? inside_stream_broken(stream, &why)
                                                : WEFT_OK;
}

weft_status inside_stream_progress(struct inside_stream *stream)
{
    weft_status status = WEFT_OK;

    if (stream->state == INSIDE_STREAM_DIALING ||
        stream->state == INSIDE_STREAM_PROVING) {
        status = inside_stream_connect(stream);
    }
    if (stream->state == INSIDE_STREAM_OPEN) {
        status = converse(stream);
    }
    return status < 0 ? status : WEFT_OK;
}

void inside_streams_close(struct inside *inside, bool reset)
{
    for (uint32_t i = 0; inside->streams != NULL && i < inside_n_streams(inside); i++) {
        struct inside_stream *stream = inside->streams[i];

        if (stream == NULL) {
            continue;
        }
        if (stream->state != INSIDE_STREAM_NONE &&
            stream->state != INSIDE_STREAM_STOPPED) {
            frame_close(&stream->link, reset);
        }
        stream->state = INSIDE_STREAM_STOPPED;
        io_task_fini(&stream->task);
    }
    inside_door_close(inside);
}

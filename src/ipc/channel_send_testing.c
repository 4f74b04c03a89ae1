/* The sender of a channel: offers and staged messages. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "ipc/channel_private_testing.h"

static struct ipc_send *send_of(struct ipc_channel *channel, uint64_t transfer)
{
    bool is_open = transfer >= channel->n_sends_ended && transfer < channel->n_sends;

    return is_open ? &channel->sends[transfer % IPC_REQUESTS_MAX] : NULL;
}

static void enter(struct ipc_send *send, enum ipc_send_state next)
{
    enum ipc_send_state state = send->state;

    weft_check(next == state + 1 || next == IPC_SEND_FAILED ||
               (next == IPC_SEND_STAGING && state <= IPC_SEND_OFFERED) ||
               (next == IPC_SEND_MOVED && state == IPC_SEND_WAITING) ||
               (next == IPC_SEND_DONE && state == IPC_SEND_OFFERED));
    weft_check(next != IPC_SEND_STAGING || state != IPC_SEND_OFFERING);
    send->state = next;
}

static void give_event_back(struct ipc_channel *channel, struct ipc_send *send)
{
    if (send->has_event) {
        ipc_node_return(ipc_channel_node(channel), send->event);
        send->has_event = false;
    }
}

/* ---- offering ---- */

/* Offers the message if possible. Returns WEFT_AGAIN if all events are lent, because offers end
 * soon and staging would be slower. Stages it if no event exists. */
static weft_status choose_path(struct ipc_channel *channel, struct ipc_send *send)
{
    weft_status status = ipc_peer_offer(&channel->peer, send->memory, send->n_bytes,
                                        send->stream, &send->offer, &send->event);

    if (status == WEFT_AGAIN) {
        return WEFT_AGAIN;
    }
    send->has_event = status == WEFT_OK;
    send->state = status == WEFT_OK ? IPC_SEND_OFFERING : IPC_SEND_STAGING;
    send->path = status == WEFT_OK ? IPC_PATH_DIRECT : IPC_PATH_STAGED;
    return WEFT_OK;
}

weft_status ipc_channel_send(struct ipc_channel *channel, const void *memory,
                             uint64_t n_bytes, struct io_gpu_stream *stream,
                             uint64_t *out)
{
    struct ipc_send *send = &channel->sends[channel->n_sends % IPC_REQUESTS_MAX];
    weft_status status;

    if (channel->n_sends - channel->n_sends_ended == IPC_REQUESTS_MAX) {
        return WEFT_AGAIN;
    }
    ipc_link_touch(&channel->peer.link);
    ipc_link_progress(&channel->peer.link);
    *send = (struct ipc_send){.memory = memory, .n_bytes = n_bytes, .stream = stream};
    status = channel->error.status == WEFT_OK ? choose_path(channel, send) : WEFT_OK;
    if (status != WEFT_OK) {
        *send = (struct ipc_send){0};
        return status;
    }
    *out = channel->n_sends++;
    return WEFT_OK;
}

/* ---- staging ---- */

/* Copies the message to free stages, on the stream whose work wrote it. */
static void copy_out(struct ipc_channel *channel, struct ipc_send *send,
                     uint64_t transfer)
{
    struct io_gpu *gpu = ipc_channel_gpu(channel);

    while (send->n_copied < send->n_bytes) {
        struct ipc_stage *stage = ipc_channel_stage(channel, transfer, true);
        uint64_t left = send->n_bytes - send->n_copied;

        if (stage == NULL) {
            return;
        }
        stage->at = send->n_copied;
        stage->n_bytes =
            left < channel->chunk_bytes ? (uint32_t)left : channel->chunk_bytes;
        stage->op = (struct io_gpu_op){.kind = IO_GPU_COPY,
                                       .task = ipc_channel_node(channel)->task,
                                       .stream = send->stream,
                                       .out = stage->memory,
                                       .a = send->memory + stage->at,
                                       .count = stage->n_bytes};
        if (gpu->ops->start(gpu, &stage->op) != 0) {
            stage->is_used = false;
            (void)ipc_channel_fail(channel, WEFT_ERR_SYSTEM, "a copy cannot be started");
            return;
        }
        send->n_copied += stage->n_bytes;
        send->n_stages++;
    }
}

/* After a failure, frees stages whose copies have ended. */
static void reap(struct ipc_channel *channel)
{
    struct io_gpu *gpu = ipc_channel_gpu(channel);

    for (uint32_t i = 0; i < IPC_STAGES_MAX; i++) {
        struct ipc_stage *stage = &channel->stages[i];

        if (stage->is_used && stage->is_send &&
            gpu->ops->poll(gpu, &stage->op) != EINPROGRESS) {
            stage->is_used = false;
            channel->sends[stage->transfer % IPC_REQUESTS_MAX].n_stages--;
        }
    }
}

void ipc_sends_progress(struct ipc_channel *channel)
{
    if (channel->error.status != WEFT_OK) {
        reap(channel);
    }
    for (uint64_t i = channel->n_sends_ended; i < channel->n_sends; i++) {
        struct ipc_send *send = &channel->sends[i % IPC_REQUESTS_MAX];

        if (channel->error.status != WEFT_OK && send->state != IPC_SEND_DONE &&
            send->state != IPC_SEND_FAILED) {
            give_event_back(channel, send);
            enter(send, IPC_SEND_FAILED);
        } else if (send->state == IPC_SEND_MOVING) {
            copy_out(channel, send, i);
        }
    }
}

/* Returns the stage that holds the bytes at offset `at`, if they have been copied, otherwise
 * NULL. */
static struct ipc_stage *copied_stage(struct ipc_channel *channel, uint64_t transfer,
                                      uint64_t at)
{
    struct io_gpu *gpu = ipc_channel_gpu(channel);

    for (uint32_t i = 0; i < IPC_STAGES_MAX; i++) {
        struct ipc_stage *stage = &channel->stages[i];
        int sys_errno;

        if (!stage->is_used || !stage->is_send || stage->transfer != transfer ||
            stage->at != at) {
            continue;
        }
        sys_errno = gpu->ops->poll(gpu, &stage->op);
        if (sys_errno != 0 && sys_errno != EINPROGRESS) {
            (void)ipc_channel_fail(channel, WEFT_ERR_SYSTEM,
                                   "a copy to the host failed: errno %d", sys_errno);
        }
        return sys_errno == 0 ? stage : NULL;
    }
    return NULL;
}

static bool next_chunk(struct ipc_channel *channel, struct ipc_send *send,
                       uint64_t transfer, struct ipc_message *out,
                       struct ipc_stage **out_stage)
{
    struct ipc_stage *stage = copied_stage(channel, transfer, send->n_out);

    if (stage == NULL) {
        return false;
    }
    out->type = IPC_CHUNK;
    out->chunk = stage->memory;
    out->n_chunk = stage->n_bytes;
    *out_stage = stage; /* freed once it is encoded */
    send->n_out += stage->n_bytes;
    send->n_stages--;
    if (send->n_out == send->n_bytes) {
        enter(send, IPC_SEND_MOVED);
    }
    return true;
}

bool ipc_sends_next(struct ipc_channel *channel, struct ipc_message *out,
                    struct ipc_stage **out_stage)
{
    for (uint64_t i = channel->n_sends_ended; i < channel->n_sends; i++) {
        struct ipc_send *send = &channel->sends[i % IPC_REQUESTS_MAX];

        *out = (struct ipc_message){.transfer = i};
        if (send->state == IPC_SEND_OFFERING) {
            out->type = IPC_OFFER;
            out->offer = send->offer;
            enter(send, IPC_SEND_OFFERED);
            return true;
        }
        if (send->state == IPC_SEND_STAGING) {
            out->type = IPC_STAGED;
            out->n_bytes = send->n_bytes;
            enter(send, IPC_SEND_WAITING);
            return true;
        }
        if (send->state == IPC_SEND_MOVING &&
            next_chunk(channel, send, i, out, out_stage)) {
            return true;
        }
    }
    return false;
}

/* ---- answers ---- */

weft_status ipc_sends_take(struct ipc_channel *channel, const struct ipc_message *message)
{
    struct ipc_send *send = send_of(channel, message->transfer);
    enum ipc_send_state state = send == NULL ? IPC_SEND_FREE : send->state;

    if (message->type == IPC_RETRY && state == IPC_SEND_OFFERED) {
        give_event_back(channel, send);
        send->path = IPC_PATH_STAGED;
        channel->n_retried++;
        enter(send, IPC_SEND_STAGING);
        return WEFT_OK;
    }
    if (message->type == IPC_GO && state == IPC_SEND_WAITING) {
        enter(send, send->n_bytes == 0 ? IPC_SEND_MOVED : IPC_SEND_MOVING);
        if (send->n_bytes > 0) {
            copy_out(channel, send, message->transfer);
        }
        return WEFT_OK;
    }
    if (message->type == IPC_DONE &&
        (state == IPC_SEND_OFFERED || state == IPC_SEND_MOVED)) {
        give_event_back(channel, send);
        enter(send, IPC_SEND_DONE);
        return WEFT_OK;
    }
    return ipc_channel_fail(
        channel, WEFT_ERR_PROTOCOL, "a %s of message %llu, which does not wait for one",
        ipc_type_name(message->type), (unsigned long long)message->transfer);
}

weft_status ipc_channel_test_send(struct ipc_channel *channel, enum ipc_path *out_path)
{
    struct ipc_send *send = send_of(channel, channel->n_sends_ended);
    bool has_failed;

    weft_check(send != NULL);
    if ((send->state != IPC_SEND_DONE && send->state != IPC_SEND_FAILED) ||
        send->n_stages > 0) {
        return WEFT_AGAIN;
    }
    has_failed = send->state == IPC_SEND_FAILED;
    *out_path = send->path;
    channel->n_direct += !has_failed && send->path == IPC_PATH_DIRECT;
    channel->n_staged += !has_failed && send->path == IPC_PATH_STAGED;
    *send = (struct ipc_send){0};
    channel->n_sends_ended++;
    return has_failed ? channel->error.status : WEFT_OK;
}

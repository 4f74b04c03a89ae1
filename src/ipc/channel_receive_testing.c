/* The receiver of a channel: copies from the sender's memory, and staged messages. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "ipc/channel_private_testing.h"

/* Returns the slot of a message, which may be announced before its receive is posted. */
static struct ipc_receive *slot_of(struct ipc_channel *channel, uint64_t transfer)
{
    bool is_near = transfer >= channel->n_receives_ended &&
                   transfer - channel->n_receives_ended < IPC_SLOTS_MAX;

    return is_near ? &channel->receives[transfer % IPC_SLOTS_MAX] : NULL;
}

static void enter(struct ipc_receive *receive, enum ipc_receive_state next)
{
    weft_check(next == IPC_RECEIVE_FAILED || next > receive->state ||
               (next == IPC_RECEIVE_POSTED && receive->state == IPC_RECEIVE_COPYING));
    receive->state = next;
}

static void say(struct ipc_channel *channel, enum ipc_type type, uint64_t transfer,
                enum ipc_reason reason)
{
    ipc_channel_say(channel, &(struct ipc_word){
                                 .type = type, .transfer = transfer, .reason = reason});
}

weft_status ipc_channel_receive(struct ipc_channel *channel, void *memory,
                                uint64_t n_bytes, uint64_t *out)
{
    struct ipc_receive *receive = &channel->receives[channel->n_receives % IPC_SLOTS_MAX];

    if (channel->n_receives - channel->n_receives_ended == IPC_REQUESTS_MAX) {
        return WEFT_AGAIN;
    }
    weft_check(receive->state == IPC_RECEIVE_FREE);
    receive->memory = memory;
    receive->n_max = n_bytes;
    enter(receive, IPC_RECEIVE_POSTED);
    *out = channel->n_receives++;
    ipc_channel_progress(channel);
    return WEFT_OK;
}

/* ---- direct copies ---- */

static void refuse_offer(struct ipc_channel *channel, struct ipc_receive *receive,
                         uint64_t transfer)
{
    receive->is_announced = false;
    receive->is_offered = false;
    receive->path = IPC_PATH_NONE;
    channel->n_retried++;
    say(channel, IPC_RETRY, transfer, IPC_BUFFER);
}

static void poll_copy(struct ipc_channel *channel, struct ipc_receive *receive,
                      uint64_t transfer)
{
    struct ipc_node *node = ipc_channel_node(channel);
    struct io_gpu *gpu = node->env->gpu;
    int sys_errno = gpu->ops->poll(gpu, &receive->op);

    if (sys_errno == EINPROGRESS) {
        return;
    }
    ipc_cache_release(&node->cache, receive->mapping);
    receive->mapping = NULL;
    if (sys_errno == 0) {
        enter(receive, IPC_RECEIVE_DONE);
        say(channel, IPC_DONE, transfer, IPC_FINE);
    } else {
        enter(receive, IPC_RECEIVE_POSTED);
        refuse_offer(channel, receive, transfer);
    }
}

/* ---- chunks ---- */

static void land_stages(struct ipc_channel *channel)
{
    struct io_gpu *gpu = ipc_channel_gpu(channel);

    for (uint32_t i = 0; i < IPC_STAGES_MAX; i++) {
        struct ipc_stage *stage = &channel->stages[i];
        struct ipc_receive *receive = &channel->receives[stage->transfer % IPC_SLOTS_MAX];
        int sys_errno;

        if (!stage->is_used || stage->is_send) {
            continue;
        }
        sys_errno = gpu->ops->poll(gpu, &stage->op);
        if (sys_errno == EINPROGRESS) {
            continue;
        }
        stage->is_used = false;
        receive->n_stages--;
        if (sys_errno != 0) {
            (void)ipc_channel_fail(channel, WEFT_ERR_SYSTEM,
                                   "a copy from the host failed: errno %d", sys_errno);
        } else if (receive->n_in == receive->n_bytes && receive->n_stages == 0 &&
                   receive->state == IPC_RECEIVE_FILLING) {
            enter(receive, IPC_RECEIVE_DONE);
            say(channel, IPC_DONE, stage->transfer, IPC_FINE);
        }
    }
}

static weft_status take_chunk(struct ipc_channel *channel,
                              const struct ipc_message *message)
{
    struct io_gpu *gpu = ipc_channel_gpu(channel);
    struct ipc_receive *receive = slot_of(channel, message->transfer);
    struct ipc_stage *stage;

    if (receive == NULL || receive->state != IPC_RECEIVE_FILLING ||
        message->n_chunk > receive->n_bytes - receive->n_in ||
        message->n_chunk > channel->chunk_bytes) {
        return ipc_channel_fail(channel, WEFT_ERR_PROTOCOL,
                                "a chunk of %u bytes that nobody waits for",
                                message->n_chunk);
    }
    stage = ipc_channel_stage(channel, message->transfer, false);
    if (stage == NULL) {
        return WEFT_AGAIN;
    }
    memcpy(stage->memory, message->chunk, message->n_chunk);
    stage->at = receive->n_in;
    stage->n_bytes = message->n_chunk;
    stage->op = (struct io_gpu_op){.kind = IO_GPU_COPY,
                                   .task = ipc_channel_node(channel)->task,
                                   .out = receive->memory + stage->at,
                                   .a = stage->memory,
                                   .count = stage->n_bytes};
    if (gpu->ops->start(gpu, &stage->op) != 0) {
        stage->is_used = false;
        return ipc_channel_fail(channel, WEFT_ERR_SYSTEM, "a copy cannot be started");
    }
    receive->n_in += stage->n_bytes;
    receive->n_stages++;
    return WEFT_OK;
}

/* ---- receives ---- */

static weft_status begin(struct ipc_channel *channel, struct ipc_receive *receive,
                         uint64_t transfer)
{
    if (receive->n_bytes > receive->n_max) {
        return ipc_channel_fail(
            channel, WEFT_ERR_PROTOCOL, "a message of %llu bytes, a receive of %llu",
            (unsigned long long)receive->n_bytes, (unsigned long long)receive->n_max);
    }
    if (receive->is_offered &&
        ipc_peer_copy(&channel->peer, &receive->offer, receive->memory,
                      ipc_channel_node(channel)->task, &receive->op,
                      &receive->mapping) == 0) {
        receive->path = IPC_PATH_DIRECT;
        enter(receive, IPC_RECEIVE_COPYING);
    } else if (receive->is_offered) {
        refuse_offer(channel, receive, transfer);
    } else {
        receive->path = IPC_PATH_STAGED;
        say(channel, IPC_GO, transfer, IPC_FINE);
        enter(receive, receive->n_bytes > 0 ? IPC_RECEIVE_FILLING : IPC_RECEIVE_DONE);
        if (receive->n_bytes == 0) {
            say(channel, IPC_DONE, transfer, IPC_FINE);
        }
    }
    return WEFT_OK;
}

/* Fails a receive. If a direct copy is in progress, waits for its end, because it still writes
 * to the memory. */
static void fail_receive(struct ipc_channel *channel, struct ipc_receive *receive)
{
    struct ipc_node *node = ipc_channel_node(channel);
    struct io_gpu *gpu = node->env->gpu;

    if (receive->state == IPC_RECEIVE_COPYING) {
        if (gpu->ops->poll(gpu, &receive->op) == EINPROGRESS) {
            return;
        }
        ipc_cache_release(&node->cache, receive->mapping);
        receive->mapping = NULL;
    }
    enter(receive, IPC_RECEIVE_FAILED);
}

void ipc_receives_progress(struct ipc_channel *channel)
{
    land_stages(channel);
    for (uint64_t i = channel->n_receives_ended; i < channel->n_receives; i++) {
        struct ipc_receive *receive = &channel->receives[i % IPC_SLOTS_MAX];

        if (receive->state == IPC_RECEIVE_DONE || receive->state == IPC_RECEIVE_FAILED) {
            continue;
        }
        if (channel->error.status != WEFT_OK) {
            fail_receive(channel, receive);
        } else if (receive->state == IPC_RECEIVE_POSTED && receive->is_announced) {
            (void)begin(channel, receive, i); /* an error has failed the channel */
        } else if (receive->state == IPC_RECEIVE_COPYING) {
            poll_copy(channel, receive, i);
        }
    }
}

weft_status ipc_receives_take(struct ipc_channel *channel,
                              const struct ipc_message *message)
{
    struct ipc_receive *receive = slot_of(channel, message->transfer);

    if (message->type == IPC_CHUNK) {
        return take_chunk(channel, message);
    }
    if (receive == NULL || receive->is_announced || receive->state > IPC_RECEIVE_POSTED) {
        return ipc_channel_fail(channel, WEFT_ERR_PROTOCOL, "message %llu comes again",
                                (unsigned long long)message->transfer);
    }
    receive->is_announced = true;
    receive->is_offered = message->type == IPC_OFFER;
    receive->offer = message->offer;
    receive->n_bytes = receive->is_offered ? message->offer.n_bytes : message->n_bytes;
    ipc_receives_progress(channel);
    return channel->error.status;
}

weft_status ipc_channel_test_receive(struct ipc_channel *channel, uint64_t *out_n_bytes,
                                     enum ipc_path *out_path)
{
    struct ipc_receive *receive =
        &channel->receives[channel->n_receives_ended % IPC_SLOTS_MAX];
    bool has_failed = receive->state == IPC_RECEIVE_FAILED;

    weft_check(channel->n_receives_ended < channel->n_receives);
    if ((receive->state != IPC_RECEIVE_DONE && !has_failed) || receive->n_stages > 0) {
        return WEFT_AGAIN;
    }
    *out_n_bytes = receive->n_bytes;
    *out_path = receive->path;
    *receive = (struct ipc_receive){0};
    channel->n_receives_ended++;
    return has_failed ? channel->error.status : WEFT_OK;
}

bool ipc_receives_are_copying(const struct ipc_channel *channel)
{
    for (uint32_t i = 0; i < IPC_SLOTS_MAX; i++) {
        if (channel->receives[i].state == IPC_RECEIVE_COPYING) {
            return true;
        }
    }
    return false;
}

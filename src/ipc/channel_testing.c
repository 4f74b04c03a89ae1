#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "ipc/channel_private_testing.h"

void ipc_channel_init(struct ipc_channel *channel,
                      const struct ipc_channel_config *config)
{
    memset(channel, 0, sizeof(*channel));
    ipc_peer_init(&channel->peer, &config->link);
    channel->chunk_bytes =
        config->chunk_bytes == 0 ? IPC_CHUNK_BYTES : config->chunk_bytes;
    channel->n_stages = config->n_stages == 0 ? 4 : config->n_stages;
    weft_check(channel->chunk_bytes <= IPC_CHUNK_BYTES);
    weft_check(channel->n_stages <= IPC_STAGES_MAX);
}

weft_status ipc_channel_fail(struct ipc_channel *channel, weft_status status,
                             const char *format, ...)
{
    char why[sizeof(channel->error.message)];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    weft_fail(&channel->error, status, WEFT_PHASE_IPC, "peer %u: %s",
              channel->peer.link.config.peer, why);
    ipc_link_gone(&channel->peer.link);
    channel->n_words = 0;
    return channel->error.status;
}

void ipc_channel_gone(struct ipc_channel *channel)
{
    if (channel->error.status == WEFT_OK) {
        (void)ipc_channel_fail(channel, WEFT_ERR_CLOSED, "it is gone");
    }
}

/* The queue cannot overflow if the peer obeys its limits, because every word answers a request,
 * and the number of open requests is limited. */
void ipc_channel_say(struct ipc_channel *channel, const struct ipc_word *word)
{
    if (channel->error.status != WEFT_OK) {
        return;
    }
    if (channel->n_words == IPC_WORDS_MAX) {
        (void)ipc_channel_fail(channel, WEFT_ERR_LIMIT, "it asks and does not listen");
        return;
    }
    channel->words[(channel->first_word + channel->n_words++) % IPC_WORDS_MAX] = *word;
}

struct ipc_stage *ipc_channel_stage(struct ipc_channel *channel, uint64_t transfer,
                                    bool is_send)
{
    struct io_gpu *gpu = ipc_channel_gpu(channel);
    uint32_t half = channel->n_stages > 1 ? channel->n_stages / 2 : 1, n_same = 0;
    struct ipc_stage *found = NULL;

    /* Each direction uses at most half, otherwise both ends could wait for each other's
     * receives. */
    for (uint32_t i = 0; i < 2 * half; i++) {
        struct ipc_stage *stage = &channel->stages[i];

        n_same += stage->is_used && stage->is_send == is_send;
        found = stage->is_used ? found : stage;
    }
    if (found == NULL || n_same >= half) {
        return NULL;
    }
    if (found->memory == NULL) {
        void *memory;

        if (gpu->ops->alloc(gpu, IO_MEMORY_HOST, channel->chunk_bytes, &memory) != 0) {
            return NULL;
        }
        found->memory = memory;
    }
    found->is_used = true;
    found->is_send = is_send;
    found->transfer = transfer;
    return found;
}

/* ---- invalidation ---- */

uint64_t ipc_channel_invalidate(struct ipc_channel *channel, const void *memory)
{
    return ipc_peer_invalidate(&channel->peer, memory);
}

bool ipc_channel_is_closed(const struct ipc_channel *channel, uint64_t buffer_id)
{
    return ipc_peer_is_closed(&channel->peer, buffer_id);
}

/* ---- messages ---- */

weft_status ipc_channel_take(struct ipc_channel *channel, const uint8_t *bytes,
                             size_t n_bytes)
{
    struct weft_error why = {0};
    struct ipc_message message;
    weft_status status = ipc_decode(bytes, n_bytes, &message, &why);

    if (channel->error.status != WEFT_OK) {
        return channel->error.status;
    }
    if (status == WEFT_ERR_UNSUPPORTED) {
        ipc_link_other_version(&channel->peer.link);
        return WEFT_OK;
    }
    if (status != WEFT_OK) {
        return ipc_channel_fail(channel, status, "%s", why.message);
    }
    switch (message.type) {
    case IPC_HELLO:
    case IPC_VERDICT:
    case IPC_ORIGINAL:
    case IPC_INVALIDATE:
    case IPC_INVALIDATED:
        return ipc_peer_take(&channel->peer, &message)
                   ? WEFT_OK
                   : ipc_channel_fail(channel, WEFT_ERR_LIMIT, "it takes back too much");
    case IPC_OFFER:
    case IPC_STAGED:
    case IPC_CHUNK:
        return ipc_receives_take(channel, &message);
    case IPC_DONE:
    case IPC_RETRY:
    case IPC_GO:
        return ipc_sends_take(channel, &message);
    }
    return WEFT_OK;
}

static bool next_word(struct ipc_channel *channel, struct ipc_message *out)
{
    const struct ipc_word *word = &channel->words[channel->first_word];

    if (channel->n_words == 0) {
        return false;
    }
    *out = (struct ipc_message){
        .type = word->type, .reason = word->reason, .transfer = word->transfer};
    channel->first_word = (channel->first_word + 1) % IPC_WORDS_MAX;
    channel->n_words--;
    return true;
}

size_t ipc_channel_next(struct ipc_channel *channel, uint8_t out[IPC_MESSAGE_MAX])
{
    struct ipc_stage *stage = NULL;
    struct ipc_message message;
    size_t n_bytes;

    if (channel->error.status != WEFT_OK ||
        !(ipc_peer_next(&channel->peer, &message) || next_word(channel, &message) ||
          ipc_sends_next(channel, &message, &stage))) {
        return 0;
    }
    n_bytes = ipc_encode(&message, out);
    if (stage != NULL) {
        stage->is_used = false;
    }
    return n_bytes;
}

void ipc_channel_progress(struct ipc_channel *channel)
{
    ipc_peer_progress(&channel->peer);
    ipc_sends_progress(channel);
    ipc_receives_progress(channel);
}

weft_ns ipc_channel_deadline(const struct ipc_channel *channel)
{
    return channel->peer.link.deadline_ns;
}

bool ipc_channel_fini(struct ipc_channel *channel)
{
    struct io_gpu *gpu = ipc_channel_gpu(channel);
    bool is_busy = false;

    ipc_channel_gone(channel);
    ipc_channel_progress(channel);
    for (uint32_t i = 0; i < IPC_STAGES_MAX; i++) {
        is_busy |= channel->stages[i].is_used;
    }
    if (is_busy || ipc_receives_are_copying(channel) || !ipc_peer_fini(&channel->peer)) {
        return false;
    }
    for (uint32_t i = 0; i < IPC_STAGES_MAX; i++) {
        gpu->ops->free(gpu, channel->stages[i].memory);
        channel->stages[i].memory = NULL;
    }
    return true;
}

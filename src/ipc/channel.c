#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "ipc/channel_private.h"

void ipc_channel_init(struct ipc_channel *channel,
                      const struct ipc_channel_config *config)
{
    memset(channel, 0, sizeof(*channel));
    ipc_link_init(&channel->link, &config->link);
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
    weft_fail(&channel->error, status, "ipc", "peer %u: %s", channel->link.config.peer,
              why);
    ipc_link_gone(&channel->link);
    channel->n_words = 0;
    return channel->error.status;
}

void ipc_channel_gone(struct ipc_channel *channel)
{
    if (channel->error.status == WEFT_OK) {
        (void)ipc_channel_fail(channel, WEFT_ERR_CLOSED, "it is gone");
    }
}

/* Every word answers something that the peer, or the user, may have open only so often. */
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

    /* Neither direction takes all of them: each end waits for the other's receives. */
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

/* ---- buffers that go ---- */

static struct ipc_offered_buffer *find_offered(const struct ipc_channel *channel,
                                               uint64_t buffer_id)
{
    for (uint32_t i = 0; i < channel->n_offered; i++) {
        if (channel->offered[i].buffer_id == buffer_id) {
            return &channel->offered[i];
        }
    }
    return NULL;
}

uint64_t ipc_channel_invalidate(struct ipc_channel *channel, const void *memory)
{
    struct ipc_node *node = ipc_channel_node(channel);
    struct io_gpu *gpu = node->env->gpu;
    struct ipc_offered_buffer *offered;
    struct io_gpu_export exported;

    if (!node->is_ready || gpu->sharing->export_memory(
                               gpu, memory, node->identity.gpu.kinds, &exported) != 0) {
        return 0;
    }
    offered = find_offered(channel, exported.buffer_id);
    if (offered != NULL && !offered->is_going) {
        offered->is_going = true;
        ipc_channel_say(channel, &(struct ipc_word){.type = IPC_INVALIDATE,
                                                    .buffer_id = exported.buffer_id,
                                                    .generation = node->generation});
    }
    return exported.buffer_id;
}

bool ipc_channel_is_closed(const struct ipc_channel *channel, uint64_t buffer_id)
{
    return channel->error.status != WEFT_OK || find_offered(channel, buffer_id) == NULL;
}

static void take_invalidated(struct ipc_channel *channel, uint64_t buffer_id)
{
    struct ipc_offered_buffer *offered = find_offered(channel, buffer_id);

    if (offered != NULL && offered->is_going) {
        *offered = channel->offered[--channel->n_offered];
    }
}

/* Closed now, or when the copies that use it are done. */
static void settle_closing(struct ipc_channel *channel)
{
    struct ipc_node *node = ipc_channel_node(channel);
    uint32_t n = 0;

    for (uint32_t i = 0; i < channel->n_closing; i++) {
        const struct ipc_word word = channel->closing[i];

        if (ipc_cache_invalidate(&node->cache, channel->link.peer.nonce, word.buffer_id,
                                 word.generation)) {
            ipc_channel_say(channel, &(struct ipc_word){.type = IPC_INVALIDATED,
                                                        .buffer_id = word.buffer_id});
        } else {
            channel->closing[n++] = word;
        }
    }
    channel->n_closing = n;
}

static weft_status take_invalidate(struct ipc_channel *channel,
                                   const struct ipc_message *message)
{
    if (channel->n_closing == IPC_WORDS_MAX) {
        return ipc_channel_fail(channel, WEFT_ERR_LIMIT, "it takes back too much");
    }
    if (channel->n_closing == channel->cap_closing) {
        channel->cap_closing = channel->cap_closing == 0 ? 8 : 2 * channel->cap_closing;
        channel->closing = weft_realloc(channel->closing,
                                        channel->cap_closing * sizeof(*channel->closing));
    }
    channel->closing[channel->n_closing++] =
        (struct ipc_word){.type = IPC_INVALIDATED,
                          .buffer_id = message->buffer_id,
                          .generation = message->generation};
    settle_closing(channel);
    return WEFT_OK;
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
        ipc_link_other_version(&channel->link);
        return WEFT_OK;
    }
    if (status != WEFT_OK) {
        return ipc_channel_fail(channel, status, "%s", why.message);
    }
    switch (message.type) {
    case IPC_HELLO:
    case IPC_VERDICT:
    case IPC_ORIGINAL:
        ipc_link_take(&channel->link, &message);
        return WEFT_OK;
    case IPC_OFFER:
    case IPC_STAGED:
    case IPC_CHUNK:
        return ipc_receives_take(channel, &message);
    case IPC_DONE:
    case IPC_RETRY:
    case IPC_GO:
        return ipc_sends_take(channel, &message);
    case IPC_INVALIDATE:
        return take_invalidate(channel, &message);
    case IPC_INVALIDATED:
        take_invalidated(channel, message.buffer_id);
        return WEFT_OK;
    }
    return WEFT_OK;
}

static bool next_word(struct ipc_channel *channel, struct ipc_message *out)
{
    const struct ipc_word *word = &channel->words[channel->first_word];

    if (channel->n_words == 0) {
        return false;
    }
    *out = (struct ipc_message){.type = word->type,
                                .reason = word->reason,
                                .transfer = word->transfer,
                                .buffer_id = word->buffer_id,
                                .generation = word->generation};
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
        !(ipc_link_next(&channel->link, &message) || next_word(channel, &message) ||
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
    ipc_link_progress(&channel->link);
    ipc_sends_progress(channel);
    ipc_receives_progress(channel);
    if (channel->error.status == WEFT_OK) {
        settle_closing(channel);
    }
}

weft_ns ipc_channel_deadline(const struct ipc_channel *channel)
{
    return channel->link.deadline_ns;
}

bool ipc_channel_fini(struct ipc_channel *channel)
{
    struct ipc_node *node = ipc_channel_node(channel);
    struct io_gpu *gpu = node->env->gpu;
    bool is_busy = false;

    ipc_channel_gone(channel);
    ipc_channel_progress(channel);
    for (uint32_t i = 0; i < IPC_STAGES_MAX; i++) {
        is_busy |= channel->stages[i].is_used;
    }
    if (is_busy || ipc_receives_are_copying(channel) || !ipc_link_fini(&channel->link)) {
        return false;
    }
    for (uint32_t i = 0; i < IPC_STAGES_MAX; i++) {
        gpu->ops->free(gpu, channel->stages[i].memory);
        channel->stages[i].memory = NULL;
    }
    for (uint32_t i = 0; i < channel->n_events; i++) {
        gpu->sharing->event_destroy(gpu, channel->events[i].event);
    }
    channel->n_events = 0;
    ipc_cache_forget(&node->cache, channel->link.peer.nonce);
    free(channel->offered);
    free(channel->closing);
    channel->offered = NULL;
    channel->closing = NULL;
    channel->n_offered = 0;
    channel->n_closing = 0;
    return true;
}

/* Definitions shared by the files of the channel. */
#ifndef WEFT_IPC_CHANNEL_PRIVATE_TESTING_H
#define WEFT_IPC_CHANNEL_PRIVATE_TESTING_H

#include "ipc/channel_testing.h"

static inline struct ipc_node *ipc_channel_node(const struct ipc_channel *channel)
{
    return channel->peer.link.config.node;
}

static inline struct io_gpu *ipc_channel_gpu(const struct ipc_channel *channel)
{
    return ipc_channel_node(channel)->env->gpu;
}

/* Fails the channel permanently and returns `status`. */
weft_status ipc_channel_fail(struct ipc_channel *channel, weft_status status,
                             const char *format, ...) WEFT_PRINTF(3, 4);
void ipc_channel_say(struct ipc_channel *channel, const struct ipc_word *word);
/* Returns a free stage, marked as used for `transfer`. Returns NULL if this direction has as
 * many as it may use, or if memory cannot be allocated. */
struct ipc_stage *ipc_channel_stage(struct ipc_channel *channel, uint64_t transfer,
                                    bool is_send);

/* channel_send_testing.c */
void ipc_sends_progress(struct ipc_channel *channel);
/* Returns the next message of a send in `out`, and its stage, which is free once the message is
 * encoded. Returns false if there is none. */
bool ipc_sends_next(struct ipc_channel *channel, struct ipc_message *out,
                    struct ipc_stage **out_stage);
weft_status ipc_sends_take(struct ipc_channel *channel,
                           const struct ipc_message *message) WEFT_MUST_CHECK;

/* channel_receive_testing.c */
void ipc_receives_progress(struct ipc_channel *channel);
weft_status ipc_receives_take(struct ipc_channel *channel,
                              const struct ipc_message *message) WEFT_MUST_CHECK;
bool ipc_receives_are_copying(const struct ipc_channel *channel);

#endif

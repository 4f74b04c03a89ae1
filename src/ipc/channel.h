/* Messages from GPU memory of one process to GPU memory of another of its host, in both
 * directions: the ith send of one end fills the ith receive of the other. Where CUDA IPC is
 * agreed on, the receiver copies from the sender's memory; until then, and for memory that cannot
 * be opened, the message is staged: copied to the host in chunks, carried as bytes, copied back.
 * The sender says which with every message, a receiver that cannot take an offer asks for the
 * message to be staged, so both always agree, and no send waits for the negotiation.
 *
 *   sender    OFFER ------------------------> wait for its event, copy     receiver
 *             DONE  <------------------------ copied                (or RETRY: staged then)
 *
 *             STAGED -----------------------> (a receive is posted)
 *             CHUNK, CHUNK ... <------------- GO
 *             DONE  <------------------------ all copied
 *
 * The carrier is the caller's: it keeps order, loses nothing until it ends, and moves one message
 * at a time from ipc_channel_next of one end to ipc_channel_take of the other. */
#ifndef WEFT_IPC_CHANNEL_H
#define WEFT_IPC_CHANNEL_H

#include "ipc/peer.h"

#define IPC_REQUESTS_MAX 64u /* open in a direction */
/* Posted receives are at most as many, and what was announced is at most as far ahead of them. */
#define IPC_SLOTS_MAX (2u * IPC_REQUESTS_MAX)
#define IPC_STAGES_MAX 16u
#define IPC_WORDS_MAX (4u * IPC_REQUESTS_MAX)

enum ipc_path { IPC_PATH_NONE, IPC_PATH_DIRECT, IPC_PATH_STAGED };

enum ipc_send_state {
    IPC_SEND_FREE,
    IPC_SEND_OFFERING, /* to be said */
    IPC_SEND_OFFERED,  /* DONE or RETRY is awaited */
    IPC_SEND_STAGING,  /* to be said that it is staged */
    IPC_SEND_WAITING,  /* GO is awaited */
    IPC_SEND_MOVING,   /* chunks are copied and sent */
    IPC_SEND_MOVED,    /* DONE is awaited */
    IPC_SEND_DONE,
    IPC_SEND_FAILED
};

struct ipc_send {
    enum ipc_send_state state;
    enum ipc_path path;
    const uint8_t *memory; /* Not owned. */
    uint64_t n_bytes;
    struct io_gpu_stream *stream; /* Not owned; of what wrote the memory */
    struct ipc_offer offer;
    bool has_event;
    uint32_t event;           /* of the node, lent */
    uint64_t n_copied, n_out; /* STAGED: begun to be copied; said */
    uint32_t n_stages;        /* being copied for it */
};

enum ipc_receive_state {
    IPC_RECEIVE_FREE,
    IPC_RECEIVE_POSTED,  /* nothing is known of the message */
    IPC_RECEIVE_COPYING, /* from the sender's memory */
    IPC_RECEIVE_FILLING, /* chunks come */
    IPC_RECEIVE_DONE,
    IPC_RECEIVE_FAILED
};

struct ipc_receive {
    enum ipc_receive_state state;
    enum ipc_path path;
    uint8_t *memory;   /* Not owned. */
    uint64_t n_max;    /* of the receive */
    bool is_announced; /* a word about the message came */
    bool is_offered;   /* ... and it is this offer */
    struct ipc_offer offer;
    uint64_t n_bytes; /* of the message */
    uint64_t n_in;    /* of chunks */
    uint32_t n_stages;
    struct ipc_mapping *mapping;
    struct io_gpu_op op;
};

/* A piece of host memory between the GPU and the carrier. */
struct ipc_stage {
    bool is_used, is_send;
    uint64_t transfer, at; /* offset in the message */
    uint32_t n_bytes;
    uint8_t *memory; /* Owned, of the GPU's backend; [chunk_bytes] */
    struct io_gpu_op op;
};

struct ipc_channel_config {
    struct ipc_link_config link;
    uint32_t
        chunk_bytes;   /* of staged messages; 0: IPC_CHUNK_BYTES, which it is at most */
    uint32_t n_stages; /* 0: 4; at most IPC_STAGES_MAX */
};

/* Small things that are to be said, in order. */
struct ipc_word {
    enum ipc_type type; /* DONE, RETRY, GO */
    enum ipc_reason reason;
    uint64_t transfer;
};

/* Fields are for reading. */
struct ipc_channel {
    struct ipc_peer peer;
    uint32_t chunk_bytes, n_stages;
    struct ipc_send sends[IPC_REQUESTS_MAX];    /* by number, modulo */
    struct ipc_receive receives[IPC_SLOTS_MAX]; /* likewise */
    uint64_t n_sends, n_sends_ended; /* posted; tested to their end, in order */
    uint64_t n_receives, n_receives_ended;
    struct ipc_stage stages[IPC_STAGES_MAX];
    struct ipc_word words[IPC_WORDS_MAX]; /* a ring */
    uint32_t first_word, n_words;
    struct weft_error error; /* status WEFT_OK: none; of the channel, for good */
    uint64_t n_direct, n_staged, n_retried;
};

void ipc_channel_init(struct ipc_channel *channel,
                      const struct ipc_channel_config *config);
/* Ends everything. False while the GPU still copies: then again, and memory stays. */
bool ipc_channel_fini(struct ipc_channel *channel);

/* Posts a send of GPU memory, written by what was started on `stream` (NULL: the GPU's own)
 * before. The memory is the channel's until the send is done. AGAIN: too many are open. */
weft_status ipc_channel_send(struct ipc_channel *channel, const void *memory,
                             uint64_t n_bytes, struct io_gpu_stream *stream,
                             uint64_t *out) WEFT_MUST_CHECK;
weft_status ipc_channel_receive(struct ipc_channel *channel, void *memory,
                                uint64_t n_bytes, uint64_t *out) WEFT_MUST_CHECK;
/* Of the oldest that was not tested to its end: WEFT_OK ends it. AGAIN: not yet. An error is the
 * channel's (CLOSED, PROTOCOL, SYSTEM): memory is in nobody's use any more. */
weft_status ipc_channel_test_send(struct ipc_channel *channel,
                                  enum ipc_path *out_path) WEFT_MUST_CHECK;
weft_status ipc_channel_test_receive(struct ipc_channel *channel, uint64_t *out_n_bytes,
                                     enum ipc_path *out_path) WEFT_MUST_CHECK;

/* The allocation in which `memory` lies is to be freed, or was deregistered: whoever has it open
 * is to close it. Then ask `ipc_channel_is_closed` with what came out until it is true. */
uint64_t ipc_channel_invalidate(struct ipc_channel *channel, const void *memory);
bool ipc_channel_is_closed(const struct ipc_channel *channel, uint64_t buffer_id);

/* Does what can be done now; ipc_channel_deadline: when to come back, if nothing arrives. */
void ipc_channel_progress(struct ipc_channel *channel);
weft_ns ipc_channel_deadline(const struct ipc_channel *channel);
/* The next message to be carried: its bytes in `out`, or 0. */
size_t ipc_channel_next(struct ipc_channel *channel, uint8_t out[IPC_MESSAGE_MAX]);
/* One that arrived. AGAIN: it is not taken, offer it again after progress. */
weft_status ipc_channel_take(struct ipc_channel *channel, const uint8_t *bytes,
                             size_t n_bytes) WEFT_MUST_CHECK;
/* Nothing comes any more: the stream ended, or the process did. */
void ipc_channel_gone(struct ipc_channel *channel);

#endif

/* Messages between GPU memory of two processes on one host, in both directions, for tests of what
 * they agree on (peer.h): the ith send of one end fills the ith receive of the other. If CUDA IPC
 * is agreed on, the receiver copies from the sender's memory. Before that, and for memory that
 * cannot be opened, the message is staged: copied to the host in chunks, carried as bytes, and
 * copied back. The sender announces the path with every message, and a receiver that cannot use an
 * offer asks for staging, so both ends always agree. No send waits for the negotiation.
 *
 *   sender    OFFER ------------------------> wait for its event, copy     receiver
 *             DONE  <------------------------ copied                (or RETRY: staged then)
 *
 *             STAGED -----------------------> (a receive is posted)
 *             CHUNK, CHUNK ... <------------- GO
 *             DONE  <------------------------ all copied
 *
 * The caller provides the carrier. It must keep order, lose nothing until it ends, and move one
 * message at a time from ipc_channel_next() of one end to ipc_channel_take() of the other. */
#ifndef WEFT_IPC_CHANNEL_TESTING_H
#define WEFT_IPC_CHANNEL_TESTING_H

#include "ipc/peer.h"

#define IPC_REQUESTS_MAX 64u /* maximum number open in one direction */
/* Posted receives occupy at most half of the slots; messages can be announced that far ahead. */
#define IPC_SLOTS_MAX (2u * IPC_REQUESTS_MAX)
#define IPC_STAGES_MAX 16u
#define IPC_WORDS_MAX (4u * IPC_REQUESTS_MAX)

/* NONE: not decided yet; DIRECT: from GPU to GPU; STAGED: through host memory. */
enum ipc_path { IPC_PATH_NONE, IPC_PATH_DIRECT, IPC_PATH_STAGED };

enum ipc_send_state {
    IPC_SEND_FREE,     /* not posted */
    IPC_SEND_OFFERING, /* OFFER must be sent */
    IPC_SEND_OFFERED,  /* waiting for DONE or RETRY */
    IPC_SEND_STAGING,  /* STAGED must be sent */
    IPC_SEND_WAITING,  /* waiting for GO */
    IPC_SEND_MOVING,   /* copying and sending chunks */
    IPC_SEND_MOVED,    /* waiting for DONE */
    IPC_SEND_DONE,     /* complete; waiting to be tested */
    IPC_SEND_FAILED    /* the channel failed */
};

struct ipc_send {
    enum ipc_send_state state;
    enum ipc_path path;
    const uint8_t *memory; /* Not owned. */
    uint64_t n_bytes;
    /* Not owned; stream of the work that wrote the memory */
    struct io_gpu_stream *stream;
    struct ipc_offer offer;
    bool has_event;
    uint32_t event;           /* lent by the node */
    uint64_t n_copied, n_out; /* STAGED: bytes whose copy was started; bytes sent */
    uint32_t n_stages;        /* number of stages in use for it */
};

enum ipc_receive_state {
    IPC_RECEIVE_FREE,    /* not posted */
    IPC_RECEIVE_POSTED,  /* waiting for the announcement of the message */
    IPC_RECEIVE_COPYING, /* copying from the sender's memory */
    IPC_RECEIVE_FILLING, /* waiting for chunks and their copies */
    IPC_RECEIVE_DONE,    /* complete; waiting to be tested */
    IPC_RECEIVE_FAILED   /* the channel failed */
};

struct ipc_receive {
    enum ipc_receive_state state;
    enum ipc_path path;
    uint8_t *memory;   /* Not owned. */
    uint64_t n_max;    /* size of the posted buffer */
    bool is_announced; /* OFFER or STAGED was received */
    bool is_offered;   /* it was OFFER; `offer` is valid */
    struct ipc_offer offer;
    uint64_t n_bytes; /* size of the message */
    uint64_t n_in;    /* received in chunks */
    uint32_t n_stages;
    struct ipc_mapping *mapping;
    struct io_gpu_op op;
};

/* A buffer in host memory between the GPU and the carrier. */
struct ipc_stage {
    bool is_used, is_send;
    uint64_t transfer, at; /* transfer number; offset in the message */
    uint32_t n_bytes;
    uint8_t *memory; /* Owned, allocated by the GPU's backend; [chunk_bytes] */
    struct io_gpu_op op;
};

struct ipc_channel_config {
    struct ipc_link_config link;
    uint32_t chunk_bytes; /* maximum size of staged chunks, up to IPC_CHUNK_BYTES (0) */
    /* up to IPC_STAGES_MAX, rounded down to an even number, at least 2; 0 means 4 */
    uint32_t n_stages;
};

/* A short message that waits to be sent. */
struct ipc_word {
    enum ipc_type type; /* DONE, RETRY, GO */
    enum ipc_reason reason;
    uint64_t transfer;
};

/* Fields are read-only for users. */
struct ipc_channel {
    struct ipc_peer peer;
    uint32_t chunk_bytes, n_stages;
    struct ipc_send sends[IPC_REQUESTS_MAX];    /* indexed by number modulo length */
    struct ipc_receive receives[IPC_SLOTS_MAX]; /* indexed by number modulo length */
    uint64_t n_sends, n_sends_ended;            /* posted; tested complete, in order */
    uint64_t n_receives, n_receives_ended;
    struct ipc_stage stages[IPC_STAGES_MAX];
    struct ipc_word words[IPC_WORDS_MAX]; /* a ring buffer */
    uint32_t first_word, n_words;
    /* permanent failure of the channel; status is WEFT_OK if none */
    struct weft_error error;
    uint64_t n_direct, n_staged, n_retried;
};

/* Initializes a channel in place. config->link.node must outlive it. */
void ipc_channel_init(struct ipc_channel *channel,
                      const struct ipc_channel_config *config);
/* Ends the channel. Returns false while the GPU is still copying; the caller must then call
 * again later and keep the memory. Frees what the channel owns, but not `channel`. */
bool ipc_channel_fini(struct ipc_channel *channel);

/* Posts a send of GPU memory that earlier work on `stream` (NULL: the GPU's own) writes. Until
 * the send is tested complete, the memory must stay valid and unchanged. *out is its number.
 * Returns WEFT_AGAIN if IPC_REQUESTS_MAX sends are open or all events are lent. */
weft_status ipc_channel_send(struct ipc_channel *channel, const void *memory,
                             uint64_t n_bytes, struct io_gpu_stream *stream,
                             uint64_t *out) WEFT_MUST_CHECK;
/* Posts a receive of up to n_bytes into GPU memory. *out is its number. Returns WEFT_AGAIN if
 * IPC_REQUESTS_MAX receives are open. */
weft_status ipc_channel_receive(struct ipc_channel *channel, void *memory,
                                uint64_t n_bytes, uint64_t *out) WEFT_MUST_CHECK;
/* Tests the oldest send or receive that has not been reported complete. Returns WEFT_OK once it
 * is complete, WEFT_AGAIN before that. Any error (CLOSED, PROTOCOL, LIMIT, SYSTEM) ends the
 * channel; the request then no longer uses its memory. */
weft_status ipc_channel_test_send(struct ipc_channel *channel,
                                  enum ipc_path *out_path) WEFT_MUST_CHECK;
weft_status ipc_channel_test_receive(struct ipc_channel *channel, uint64_t *out_n_bytes,
                                     enum ipc_path *out_path) WEFT_MUST_CHECK;

/* Makes the peer close the allocation that contains `memory`, before it is freed or because it
 * was deregistered. Returns a number for ipc_channel_is_closed(), to be called until it returns
 * true. */
uint64_t ipc_channel_invalidate(struct ipc_channel *channel, const void *memory);
bool ipc_channel_is_closed(const struct ipc_channel *channel, uint64_t buffer_id);

/* Makes progress without blocking. ipc_channel_deadline() returns when to call it again if
 * nothing arrives. */
void ipc_channel_progress(struct ipc_channel *channel);
weft_ns ipc_channel_deadline(const struct ipc_channel *channel);
/* Encodes the next message to carry into `out`. Returns its length, or 0 if there is none. */
size_t ipc_channel_next(struct ipc_channel *channel, uint8_t out[IPC_MESSAGE_MAX]);
/* Takes a message that arrived. Returns WEFT_AGAIN if it was not taken and must be offered again
 * after progress. */
weft_status ipc_channel_take(struct ipc_channel *channel, const uint8_t *bytes,
                             size_t n_bytes) WEFT_MUST_CHECK;
/* Fails the channel, because its stream or the peer's process has ended. */
void ipc_channel_gone(struct ipc_channel *channel);

#endif

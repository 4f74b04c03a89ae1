/* Direct copies between GPU memory of two processes of a host that have agreed on CUDA IPC
 * (link.h). One process offers a message in its memory; the other waits for the work that
 * produces it and copies it. An offered allocation is invalidated before it is freed. The user
 * carries the messages: transport/steps.h in a ring of shared memory. */
#ifndef WEFT_IPC_PEER_H
#define WEFT_IPC_PEER_H

#include "ipc/link.h"

/* An imported event of the peer. */
struct ipc_peer_event {
    struct io_gpu_handle handle;
    struct io_gpu_event *event; /* Owned. */
};

/* An allocation that the peer may have open. */
struct ipc_offered_buffer {
    uint64_t buffer_id, generation;
    bool is_going; /* INVALIDATE was sent or must be sent */
    bool is_said;  /* INVALIDATE was sent */
};

/* A buffer that the peer invalidated. INVALIDATED is sent once no copy uses it. */
struct ipc_closing_buffer {
    uint64_t buffer_id, generation;
};
#define IPC_CLOSING_MAX 256u

/* Fields are read-only for users. */
struct ipc_peer {
    struct ipc_link link;
    /* Owned; for copies from the peer's memory; NULL if none yet */
    struct io_gpu_stream *stream;
    struct ipc_peer_event events[IPC_EVENTS_MAX]; /* imported from the peer */
    uint32_t n_events;
    struct ipc_offered_buffer *offered; /* Owned [n_offered] */
    uint32_t n_offered, cap_offered;
    struct ipc_closing_buffer *closing; /* Owned [n_closing] */
    uint32_t n_closing, cap_closing;
    uint64_t n_offers, n_copies; /* offers made; copies started */
};

/* Initializes the state for one peer. config->node must outlive it. */
void ipc_peer_init(struct ipc_peer *peer, const struct ipc_link_config *config);
/* Frees everything. No copy of the user may be in progress. Returns false while the GPU still
 * reads a probe; call again later. */
bool ipc_peer_fini(struct ipc_peer *peer);

/* Offers [memory, +n_bytes), which earlier work on `stream` (NULL: the GPU's own) writes. The
 * caller returns *out_event with ipc_node_return() when the offer was answered. Returns
 * WEFT_AGAIN if all events are lent, and WEFT_ERR_UNSUPPORTED if this memory cannot be offered,
 * or not now. */
weft_status ipc_peer_offer(struct ipc_peer *peer, const void *memory, uint64_t n_bytes,
                           struct io_gpu_stream *stream, struct ipc_offer *out,
                           uint32_t *out_event) WEFT_MUST_CHECK;
/* Starts a copy of the offered message to `to`, after its event; `task` is woken at its end.
 * Returns 0, and the caller must release *out_mapping (ipc_cache_release) once `op` is done.
 * Otherwise nothing was started, and the result is a positive errno. */
int ipc_peer_copy(struct ipc_peer *peer, const struct ipc_offer *offer, void *to,
                  struct io_task *task, struct io_gpu_op *op,
                  struct ipc_mapping **out_mapping);

/* Makes the peer close the allocation that contains `memory`, before it is freed or because it
 * was deregistered. No offer of it may be open. Returns a number for ipc_peer_is_closed(), to be
 * called until it returns true. */
uint64_t ipc_peer_invalidate(struct ipc_peer *peer, const void *memory);
bool ipc_peer_is_closed(const struct ipc_peer *peer, uint64_t buffer_id);

/* Takes a HELLO, VERDICT, ORIGINAL, INVALIDATE or INVALIDATED. Returns false if more than
 * IPC_CLOSING_MAX buffers are invalidated at once. */
bool ipc_peer_take(struct ipc_peer *peer, const struct ipc_message *message);
/* Returns the next message to send in `out`, or false if there is none. */
bool ipc_peer_next(struct ipc_peer *peer, struct ipc_message *out);
/* Makes progress without blocking. */
void ipc_peer_progress(struct ipc_peer *peer);

#endif

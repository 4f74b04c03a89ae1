/* What two processes of a host do with each other's GPU memory once they have agreed to (link.h):
 * one offers a message where it lies, the other waits for what produces it and copies it from
 * there; memory is taken back when it is to be freed. Who carries messages is the user's affair:
 * channel.h carries them over a stream, transport/steps.h in a ring of shared memory. */
#ifndef WEFT_IPC_PEER_H
#define WEFT_IPC_PEER_H

#include "ipc/link.h"

struct ipc_peer_event {
    struct io_gpu_handle handle;
    struct io_gpu_event *event; /* Owned. */
};

struct ipc_offered_buffer {
    uint64_t buffer_id, generation;
    bool is_going; /* the peer was, or is to be, asked to close it */
    bool is_said;
};

/* A buffer that the peer takes away, and that is closed when nobody copies from it. */
struct ipc_closing_buffer {
    uint64_t buffer_id, generation;
};
#define IPC_CLOSING_MAX 256u

/* Fields are for reading. */
struct ipc_peer {
    struct ipc_link link;
    struct io_gpu_stream *stream; /* Owned; of copies from its memory; NULL: none yet */
    struct ipc_peer_event events[IPC_EVENTS_MAX]; /* of the peer, open */
    uint32_t n_events;
    struct ipc_offered_buffer
        *offered; /* Owned [n_offered]: what the peer may have open */
    uint32_t n_offered, cap_offered;
    struct ipc_closing_buffer *closing; /* Owned [n_closing] */
    uint32_t n_closing, cap_closing;
    uint64_t n_offers, n_copies; /* made; begun */
};

void ipc_peer_init(struct ipc_peer *peer, const struct ipc_link_config *config);
/* No copy of the user's is under way. False while the GPU still reads a probe: then again. */
bool ipc_peer_fini(struct ipc_peer *peer);

/* Offers [memory, +n_bytes), written by what was started on `stream` (NULL: the GPU's own) before;
 * *out_event is given back (ipc_node_return) when the offer was answered. AGAIN: all events are
 * lent; UNSUPPORTED: this memory cannot be offered, or not now. */
weft_status ipc_peer_offer(struct ipc_peer *peer, const void *memory, uint64_t n_bytes,
                           struct io_gpu_stream *stream, struct ipc_offer *out,
                           uint32_t *out_event) WEFT_MUST_CHECK;
/* Starts copying what is offered to `to`, behind the event: 0, and the mapping is to be released
 * (ipc_cache_release) once `op` is done; else nothing was started, and says why. `task` is woken
 * when it is. */
int ipc_peer_copy(struct ipc_peer *peer, const struct ipc_offer *offer, void *to,
                  struct io_task *task, struct io_gpu_op *op,
                  struct ipc_mapping **out_mapping);

/* The allocation in which `memory` lies is to be freed, or was deregistered: whoever has it open
 * is to close it. No offer of it is open. Then ask `ipc_peer_is_closed` with what came out until
 * it is true. */
uint64_t ipc_peer_invalidate(struct ipc_peer *peer, const void *memory);
bool ipc_peer_is_closed(const struct ipc_peer *peer, uint64_t buffer_id);

/* A HELLO, VERDICT, ORIGINAL, INVALIDATE or INVALIDATED came. False: it takes back more than
 * anybody has. */
bool ipc_peer_take(struct ipc_peer *peer, const struct ipc_message *message);
/* What is to be said now; false: nothing. */
bool ipc_peer_next(struct ipc_peer *peer, struct ipc_message *out);
/* Does what can be done now. */
void ipc_peer_progress(struct ipc_peer *peer);

#endif

/* Messages of GPU memory that no NIC reaches (cudaMalloc on a DGX Spark, managed memory), over a
 * flow: through pieces of host memory, so that while one piece crosses the wire the next is
 * copied out of the GPU and the one before into the other. With four pieces or more the slowest
 * of PCIe, wire and copy sets the pace; with one, each waits for the others.
 *
 *   sender      FREE -> COPYING (from the GPU) -> MOVING (on the flow) -> FREE
 *   receiver    FREE -> MOVING (posted)        -> COPYING (to the GPU) -> FREE
 *
 * The ith message of one end is the ith of the other, both know its length, and both have pieces
 * of the same size. Pieces are messages of the flow, which nobody else may use. */
#ifndef WEFT_XFER_STAGED_H
#define WEFT_XFER_STAGED_H

#include "io/env.h"
#include "xfer/flow.h"

#define STAGED_PIECES_MAX 16u
#define STAGED_MESSAGES_MAX 16u

enum staged_piece_state { STAGED_FREE, STAGED_COPYING, STAGED_MOVING };

struct staged_piece {
    enum staged_piece_state state;
    uint64_t message; /* number */
    size_t at, n_bytes;
    struct flow_request *request; /* NULL while the flow has no room */
    struct io_gpu_op op;
};

struct staged_message {
    uint8_t *data; /* Not owned. */
    size_t n_bytes;
    size_t n_begun, n_done; /* bytes */
};

struct staged_config {
    struct flow *flow;    /* Not owned; outlives it */
    struct io_gpu *gpu;   /* Not owned. */
    struct io_task *task; /* Not owned; woken by copies and registrations */
    uint32_t n_pieces;    /* 1 ... STAGED_PIECES_MAX */
    size_t piece_bytes;   /* of each; > 0 */
};

/* Fields are for reading. */
struct staged {
    struct staged_config config;
    bool is_sender, is_registered;
    uint8_t *memory; /* Owned, of the host: the pieces */
    struct xfer_memory registered;
    struct staged_piece pieces[STAGED_PIECES_MAX];
    uint64_t n_pieces_begun; /* in order; the kth is at k modulo n_pieces */
    uint64_t n_pieces_done;
    struct staged_message messages[STAGED_MESSAGES_MAX];
    uint64_t n_posted, n_begun, n_done, n_tested; /* messages */
    struct weft_error error;                      /* status WEFT_OK: none */
};

/* WEFT_ERR_SYSTEM: there is no memory for the pieces. */
weft_status staged_open(struct staged *staged, const struct staged_config *config,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* Sends, or receives, GPU memory as the next message; it is the caller's again when staged_test
 * says so. AGAIN: too many are open. */
weft_status staged_post(struct staged *staged, void *data,
                        size_t n_bytes) WEFT_MUST_CHECK;
/* Of the oldest: WEFT_OK ends it. AGAIN: not yet. */
weft_status staged_test(struct staged *staged) WEFT_MUST_CHECK;
/* Does what can be done now: call when the task was woken, or the flow moved. */
weft_status staged_progress(struct staged *staged) WEFT_MUST_CHECK;
/* Nothing may be under way, but what a flow that is dead forgot. */
void staged_close(struct staged *staged);

#endif

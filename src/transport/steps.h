/* Messages through a ring of steps that two processes of a host share: NCCL's SIMPLE buffers. The
 * sender copies a message piece by piece into free steps and moves `tail`; the receiver copies
 * out of them and moves `head`. Copies are the GPU's; where the steps lie decides what that costs
 * and is not known here.
 *
 * Never waits: an end that can do nothing has said that it sleeps, and the other end's
 * steps_progress will want the bell rung. What the other process writes is checked: it can end a
 * connection, not more. */
#ifndef WEFT_TRANSPORT_STEPS_H
#define WEFT_TRANSPORT_STEPS_H

#include "base/error.h"
#include "io/gpu.h"
#include "transport/doorbell.h"

#define STEPS_N 8u                    /* NCCL_STEPS */
#define STEPS_BUFFER_BYTES (4u << 20) /* NCCL_BUFFSIZE of the SIMPLE protocol */
#define STEPS_BYTES_MIN 4096u         /* of one step */
#define STEPS_BYTES_MAX (64u << 20)
#define STEPS_REQUESTS 16u /* messages posted at one end and not done */

/* In shared memory; zeroes to begin with. */
struct steps_control {
    struct doorbell_counter tail;       /* steps that the sender filled, ever */
    struct doorbell_counter head;       /* and the receiver emptied */
    struct doorbell_sleeper sleeper[2]; /* [0] sender, [1] receiver */
    /* of step i % STEPS_N: bytes in it, doubled, plus 1 if they end a message */
    _Alignas(64) _Atomic uint64_t pieces[STEPS_N];
};

struct steps_config {
    struct io_gpu *gpu;            /* Not owned. */
    struct io_task *task;          /* Not owned; woken by copies. */
    struct steps_control *control; /* Not owned. */
    uint8_t *memory;               /* Not owned [STEPS_N * step_bytes] */
    uint32_t step_bytes;
    uint32_t peer; /* rank, for errors */
    bool is_sender;
};

enum steps_request_state { STEPS_FREE, STEPS_OPEN, STEPS_DONE };

struct steps_request {
    enum steps_request_state state;
    uint8_t *data;
    size_t n_bytes;  /* to be sent; of the buffer */
    size_t n_copied; /* for which a copy was started */
    bool is_whole;   /* all of it was */
};

/* Fields are for reading. */
struct steps {
    struct steps_config config;
    uint64_t n_started; /* steps whose copy was started */
    uint64_t n_moved;   /* steps that the other end was told of */
    uint64_t n_seen;    /* of the other end's counter */
    struct io_gpu_op ops[STEPS_N];
    bool has_op[STEPS_N];
    uint32_t request_of[STEPS_N];
    struct steps_request requests[STEPS_REQUESTS];
    uint64_t n_posted, n_filled; /* requests; of them, those that are whole */
    uint64_t n_looks;            /* changes whenever requests may have come to an end */
    bool must_ring; /* the other end sleeps, and is to be woken; the caller's to clear */
    uint64_t n_messages, n_bytes;
    struct weft_error error; /* status WEFT_OK: none */
};

void steps_init(struct steps *steps, const struct steps_config *config);
/* AGAIN: too many are open. `data` stays the caller's until the request is done. */
weft_status steps_post(struct steps *steps, void *data, size_t n_bytes,
                       struct steps_request **out) WEFT_MUST_CHECK;
/* WEFT_OK: done, the request is gone, *out_bytes are the message's. AGAIN: not yet. An error: the
 * ring failed (steps->error). */
weft_status steps_test(struct steps *steps, struct steps_request *request,
                       size_t *out_bytes) WEFT_MUST_CHECK;
/* Does what can be done now. When it returns and something is to come from the other end, this
 * end sleeps as far as the other can see. */
void steps_progress(struct steps *steps);
/* Nothing is to be expected from the other end any more: what is open fails. */
void steps_fail(struct steps *steps, const struct weft_error *error);
/* Copies of the GPU that are under way: the memory is in use. */
bool steps_is_copying(const struct steps *steps);

#endif

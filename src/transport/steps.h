/* Messages through a ring of steps that two processes of a host share: NCCL's SIMPLE buffers. The
 * sender copies a message piece by piece into free steps and moves `tail`; the receiver copies
 * out of them and moves `head`. Copies are the GPU's; where the steps lie decides what that costs
 * and is not known here.
 *
 * Where the two processes have agreed on CUDA IPC (ipc/peer.h), a long message takes one step and
 * no copy into it: the step says where the message lies, and the receiver copies it from there.
 *
 *   sender    tail: OFFER ------------------> wait for its event, copy     receiver
 *             done <------------------------- head: TAKEN
 *
 * What it cannot take, it answers with REFUSED, and every offer behind it with PASSED: the sender
 * goes back to the first, whose memory it still has, and sends it in pieces. For this, nothing but
 * offers follows an offer that is not answered: short messages are offered then too, or wait. So
 * messages stay in order, and whoever posts one receive after the other is not stuck behind the
 * bytes of the next.
 *
 * Never waits: an end that can do nothing has said that it sleeps, and the other end's
 * steps_progress will want the bell rung. What the other process writes is checked: it can end a
 * connection, not more. */
#ifndef WEFT_TRANSPORT_STEPS_H
#define WEFT_TRANSPORT_STEPS_H

#include "base/error.h"
#include "io/gpu.h"
#include "ipc/peer.h"
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
    /* of step i % STEPS_N: bytes in it, or offered, times 4; 2 if offered; 1 if they end a
     * message */
    _Alignas(64) _Atomic uint64_t pieces[STEPS_N];
    _Alignas(64) _Atomic uint32_t answers[STEPS_N]; /* the receiver's to offers */
    uint8_t offers[STEPS_N][IPC_OFFER_BYTES];
};

/* What became of an offer. */
enum steps_answer { STEPS_UNANSWERED, STEPS_TAKEN, STEPS_REFUSED, STEPS_PASSED };

struct steps_config {
    struct io_gpu *gpu;            /* Not owned. */
    struct io_task *task;          /* Not owned; woken by copies. */
    struct steps_control *control; /* Not owned. */
    uint8_t *memory;               /* Not owned [STEPS_N * step_bytes] */
    uint32_t step_bytes;
    uint32_t peer; /* rank, for errors */
    bool is_sender;
    struct ipc_peer *ipc; /* Not owned; NULL: all goes through the steps */
    size_t direct_bytes;  /* of the shortest message that is offered; SIZE_MAX: none */
};

enum steps_request_state { STEPS_FREE, STEPS_OPEN, STEPS_DONE };

struct steps_request {
    enum steps_request_state state;
    uint64_t number; /* of all that were posted */
    uint8_t *data;
    size_t n_bytes;   /* to be sent; of the buffer */
    size_t n_copied;  /* for which a copy was started */
    bool is_whole;    /* all of it was, or was offered */
    bool is_refused;  /* it was offered, in vain: it goes in pieces */
    uint32_t n_steps; /* of it under way; of offers: not answered */
};

struct steps_slot {
    bool is_offer;
    struct steps_request *request; /* NULL: an offer that is passed over */
    bool has_op;
    struct io_gpu_op op;
    /* offers */
    uint32_t event;              /* of the sender's node, lent */
    size_t n_bytes;              /* offered to the receiver */
    struct ipc_mapping *mapping; /* the receiver's, of what it copies; or NULL */
    enum steps_answer answer;    /* the receiver's: UNANSWERED: by how the copy ends */
};

/* Fields are for reading. */
struct steps {
    struct steps_config config;
    uint64_t n_started;  /* steps whose copy was started */
    uint64_t n_moved;    /* steps that the other end was told of */
    uint64_t n_seen;     /* of the other end's counter */
    uint64_t n_answered; /* of the sender: of those, whose answers were looked at */
    uint32_t n_offers;   /* of the sender: not answered */
    bool passes;         /* of the receiver: until bytes come */
    struct steps_slot slots[STEPS_N];
    struct steps_request requests[STEPS_REQUESTS];
    uint64_t n_posted, n_filled; /* requests; of them, those that are whole */
    uint64_t n_looks;            /* changes whenever requests may have come to an end */
    bool must_ring; /* the other end sleeps, and is to be woken; the caller's to clear */
    uint64_t n_messages, n_bytes, n_direct, n_refused;
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
/* Gives back what the process lent to, or opened for, messages that are under way: they will not
 * end, and nobody looks at the ring any more. */
void steps_abandon(struct steps *steps);

/* Copies of the GPU that are under way: the memory is in use. */
bool steps_is_copying(const struct steps *steps);

/* For these files; steps_offer.c. False: the message has to go in pieces. */
bool steps_offer(struct steps *steps, struct steps_request *request);
/* The sender's: looks at the answers in the steps that the other end moved past. */
bool steps_take_answers(struct steps *steps);
/* Starts what the next step offers to a request. */
void steps_take_offer(struct steps *steps, struct steps_request *request, size_t n_bytes);
/* ... or passes it over. */
void steps_pass_offer(struct steps *steps);
/* The receiver's copy ended, or was none: answers. */
void steps_answer(struct steps *steps, struct steps_slot *slot);
void steps_end_of_step(struct steps *steps, struct steps_request *request);
void steps_break(struct steps *steps, const char *what, uint64_t value);

#endif

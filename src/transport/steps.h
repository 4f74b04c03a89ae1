/* Messages through a ring of steps that two processes of a host share: NCCL's SIMPLE buffers.
 * The sender copies a message piece by piece into free steps and advances `tail`; the receiver
 * copies from them and advances `head`. The GPU does the copies. Their cost depends on where the
 * steps are, which this module does not know.
 *
 * If the two processes have agreed on CUDA IPC (ipc/peer.h), a long message uses one step and is
 * not copied into it: the step names the sender's memory, and the receiver copies from there.
 *
 *   sender    tail: OFFER ------------------> wait for its event, copy     receiver
 *             done <------------------------- head: TAKEN
 *
 * The receiver answers an offer that it cannot take with REFUSED, and every offer behind it with
 * PASSED. The sender then goes back to the refused message, whose memory it still has, and sends
 * it in pieces. This requires that only offers follow an unanswered offer: short messages are
 * then offered too, or wait. So messages stay in order, and a receiver that posts one receive at
 * a time is not blocked by the bytes of the next message.
 *
 * No function waits. An end that can do nothing sets its sleep flag; when the other end's
 * steps_progress() then sets must_ring, its caller rings the bell. Everything that the other
 * process writes is checked, so it can only break the connection. */
#ifndef WEFT_TRANSPORT_STEPS_H
#define WEFT_TRANSPORT_STEPS_H

#include "base/error.h"
#include "io/gpu.h"
#include "ipc/peer.h"
#include "transport/doorbell.h"

#define STEPS_N 8u                    /* NCCL_STEPS */
#define STEPS_BUFFER_BYTES (4u << 20) /* NCCL_BUFFSIZE of the SIMPLE protocol */
#define STEPS_BYTES_MIN 4096u         /* limits of the size of one step */
#define STEPS_BYTES_MAX (64u << 20)
#define STEPS_REQUESTS 16u /* maximum number of requests in use at one end */

/* In shared memory, initially zero. */
struct steps_control {
    struct doorbell_counter tail; /* number of steps that the sender has filled */
    struct doorbell_counter head; /* number of steps that the receiver has emptied */
    struct doorbell_sleeper sleeper[2]; /* indexed by role: 0 sender, 1 receiver */
    /* For step i % STEPS_N: number of bytes in it, or offered, times 4; plus 2 if offered; plus
     * 1 if they end a message. */
    _Alignas(64) _Atomic uint64_t pieces[STEPS_N];
    _Alignas(64) _Atomic uint32_t answers[STEPS_N]; /* the receiver's answers to offers */
    uint8_t offers[STEPS_N][IPC_OFFER_BYTES];
};

/* The receiver's answer to an offer. */
enum steps_answer { STEPS_UNANSWERED, STEPS_TAKEN, STEPS_REFUSED, STEPS_PASSED };

struct steps_config {
    struct io_gpu *gpu;            /* Not owned. */
    struct io_task *task;          /* Not owned; woken when copies end. */
    struct steps_control *control; /* Not owned. */
    uint8_t *memory;               /* Not owned [STEPS_N * step_bytes] */
    uint32_t step_bytes;
    uint32_t peer; /* rank; for errors */
    bool is_sender;
    struct ipc_peer *ipc; /* Not owned; NULL: all data uses the steps */
    size_t direct_bytes;  /* shortest message that is offered; SIZE_MAX: none */
};

/* FREE: not posted; OPEN: waits for copies or for answers to offers; DONE: waits to be tested. */
enum steps_request_state { STEPS_FREE, STEPS_OPEN, STEPS_DONE };

struct steps_request {
    enum steps_request_state state;
    uint64_t number; /* sequence number of the post */
    uint8_t *data;
    size_t n_bytes;   /* sender: of the message; receiver: of the buffer */
    size_t n_copied;  /* bytes for which a copy was started */
    bool is_whole;    /* copies of all bytes were started, or all was offered */
    bool is_refused;  /* its offer was refused; sent in pieces */
    uint32_t n_steps; /* steps in progress; offers: not answered yet */
};

struct steps_slot {
    bool is_offer;
    struct steps_request *request; /* NULL for an offer that is passed over */
    bool has_op;
    struct io_gpu_op op;
    /* Only for offers. */
    uint32_t event;              /* sender: lent by its node */
    size_t n_bytes;              /* receiver: number of bytes offered */
    struct ipc_mapping *mapping; /* receiver: source of its copy; NULL if none */
    enum steps_answer answer; /* receiver; UNANSWERED: decided by the end of the copy */
};

/* Fields are read-only for users. */
struct steps {
    struct steps_config config;
    uint64_t n_started;  /* steps whose copy or offer was started */
    uint64_t n_moved;    /* steps published to the other end */
    uint64_t n_seen;     /* last value read of the other end's counter */
    uint64_t n_answered; /* sender: steps whose answers were checked */
    uint32_t n_offers;   /* sender: offers not answered yet */
    bool passes;         /* receiver: pass over offers until data arrives in a step */
    struct steps_slot slots[STEPS_N];
    struct steps_request requests[STEPS_REQUESTS];
    uint64_t n_posted, n_filled; /* requests posted; requests that are whole */
    uint64_t n_looks;            /* changes whenever requests may have completed */
    bool must_ring; /* the other end sleeps and must be woken; cleared by the caller */
    uint64_t n_messages, n_bytes, n_direct, n_refused;
    struct weft_error error; /* status is WEFT_OK if none */
};

/* Initializes a ring in place. What config refers to must outlive it. */
void steps_init(struct steps *steps, const struct steps_config *config);
/* Posts the next message. `data` stays owned by the caller and must stay valid until the request
 * is complete. Returns WEFT_AGAIN if STEPS_REQUESTS are in use, or the error of a ring that
 * failed. */
weft_status steps_post(struct steps *steps, void *data, size_t n_bytes,
                       struct steps_request **out) WEFT_MUST_CHECK;
/* Returns WEFT_OK once the request is complete; it is then freed, and *out_bytes (out_bytes may
 * be NULL) is the length of the message. Returns WEFT_AGAIN before that, and an error if the
 * ring failed (steps->error). */
weft_status steps_test(struct steps *steps, struct steps_request *request,
                       size_t *out_bytes) WEFT_MUST_CHECK;
/* Makes progress without blocking. If this end waits for the other when it returns, its sleep
 * flag is set, so that the other end rings the bell. */
void steps_progress(struct steps *steps);
/* Fails the ring: requests that are open end with `error`, unless it has failed already. */
void steps_fail(struct steps *steps, const struct weft_error *error);
/* Returns events and releases mappings of offers that are in progress. Their requests never
 * complete, and the ring must not be used any more. */
void steps_abandon(struct steps *steps);

/* Returns true while copies or offers are in progress, so that memory is in use. */
bool steps_is_copying(const struct steps *steps);

#endif

#include "xfer/staged.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"

weft_status staged_open(struct staged *staged, const struct staged_config *config,
                        struct weft_error *error)
{
    struct io_gpu *gpu = config->gpu;
    size_t n_bytes = config->n_pieces * config->piece_bytes;
    weft_status status;
    void *memory;
    int sys_errno;

    weft_check(config->n_pieces > 0 && config->n_pieces <= STAGED_PIECES_MAX);
    weft_check(config->piece_bytes > 0);
    memset(staged, 0, sizeof(*staged));
    staged->config = *config;
    staged->is_sender = flow_is_sender(config->flow);
    sys_errno = gpu->ops->alloc(gpu, IO_MEMORY_HOST, n_bytes, &memory);
    if (sys_errno != 0) {
        return weft_fail_errno(error, sys_errno, "staging",
                               "no host memory: %u pieces of %zu bytes", config->n_pieces,
                               config->piece_bytes);
    }
    staged->memory = memory;
    status = flow_register(config->flow, memory, n_bytes, &staged->registered, error);
    if (status < 0) {
        gpu->ops->free(gpu, memory);
        staged->memory = NULL;
        return status;
    }
    return WEFT_OK;
}

void staged_close(struct staged *staged)
{
    struct io_gpu *gpu = staged->config.gpu;

    if (staged->memory != NULL) {
        flow_deregister(staged->config.flow, &staged->registered);
        flow_invalidate(staged->config.flow, staged->memory,
                        staged->config.n_pieces * staged->config.piece_bytes);
        gpu->ops->free(gpu, staged->memory);
        staged->memory = NULL;
    }
}

weft_status staged_post(struct staged *staged, void *data, size_t n_bytes)
{
    if (staged->n_posted - staged->n_tested == STAGED_MESSAGES_MAX) {
        return WEFT_AGAIN;
    }
    staged->messages[staged->n_posted++ % STAGED_MESSAGES_MAX] =
        (struct staged_message){.data = data, .n_bytes = n_bytes};
    return WEFT_OK;
}

static struct staged_message *message_of(struct staged *staged, uint64_t number)
{
    return &staged->messages[number % STAGED_MESSAGES_MAX];
}

static uint8_t *memory_of(struct staged *staged, const struct staged_piece *piece)
{
    return staged->memory + (size_t)(piece - staged->pieces) * staged->config.piece_bytes;
}

/* The next piece of the oldest message that has any left; NULL: no room, or nothing to do. A
 * message of no bytes is one piece of none. */
static struct staged_piece *begin_piece(struct staged *staged)
{
    struct staged_piece *piece =
        &staged->pieces[staged->n_pieces_begun % staged->config.n_pieces];
    struct staged_message *message = message_of(staged, staged->n_begun);
    size_t left;

    if (staged->n_begun == staged->n_posted || piece->state != STAGED_FREE) {
        return NULL;
    }
    left = message->n_bytes - message->n_begun;
    *piece = (struct staged_piece){
        .message = staged->n_begun,
        .at = message->n_begun,
        .n_bytes = left < staged->config.piece_bytes ? left : staged->config.piece_bytes};
    message->n_begun += piece->n_bytes;
    staged->n_begun += message->n_begun == message->n_bytes;
    staged->n_pieces_begun++;
    return piece;
}

static weft_status copy(struct staged *staged, struct staged_piece *piece)
{
    struct io_gpu *gpu = staged->config.gpu;
    uint8_t *data = message_of(staged, piece->message)->data + piece->at;
    uint8_t *memory = memory_of(staged, piece);
    int sys_errno;

    piece->op = (struct io_gpu_op){.kind = IO_GPU_COPY,
                                   .task = staged->config.task,
                                   .out = staged->is_sender ? memory : data,
                                   .a = staged->is_sender ? data : memory,
                                   .count = piece->n_bytes};
    piece->state = STAGED_COPYING;
    sys_errno = gpu->ops->start(gpu, &piece->op);
    return sys_errno == 0
               ? WEFT_OK
               : weft_fail_errno(&staged->error, sys_errno, "staging",
                                 "a copy of %zu bytes cannot be started", piece->n_bytes);
}

/* AGAIN: the flow has no room, or none is granted; it is tried again. */
static weft_status move(struct staged *staged, struct staged_piece *piece)
{
    struct flow *flow = staged->config.flow;
    const struct xfer_memory *memory = &staged->registered;
    void *at = memory_of(staged, piece);
    const uint32_t tag = 0;

    piece->state = STAGED_MOVING;
    if (staged->is_sender) {
        return flow_isend(flow, at, piece->n_bytes, tag, memory, &piece->request);
    }
    return flow_irecv(flow, 1, &at, &piece->n_bytes, &tag, &memory, &piece->request);
}

static void end_piece(struct staged *staged, struct staged_piece *piece)
{
    struct staged_message *message = message_of(staged, piece->message);

    message->n_done += piece->n_bytes;
    staged->n_done += message->n_done == message->n_bytes;
    piece->state = STAGED_FREE;
    staged->n_pieces_done++;
}

/* Pieces end in order, though what is beneath may not. */
static bool is_oldest(const struct staged *staged, const struct staged_piece *piece)
{
    return piece == &staged->pieces[staged->n_pieces_done % staged->config.n_pieces];
}

static weft_status moved(struct staged *staged, struct staged_piece *piece)
{
    size_t n_bytes;
    weft_status status;

    if (staged->is_sender && !is_oldest(staged, piece)) {
        return WEFT_AGAIN;
    }
    status = flow_test(staged->config.flow, piece->request, &n_bytes);
    if (status != WEFT_OK) {
        return status;
    }
    piece->request = NULL;
    if (staged->is_sender) {
        end_piece(staged, piece);
        return WEFT_OK;
    }
    if (n_bytes != piece->n_bytes) {
        return weft_fail(&staged->error, WEFT_ERR_PROTOCOL, "staging",
                         "a piece of %zu bytes, %zu were expected", n_bytes,
                         piece->n_bytes);
    }
    return copy(staged, piece);
}

static weft_status copied(struct staged *staged, struct staged_piece *piece)
{
    int sys_errno = staged->config.gpu->ops->poll(staged->config.gpu, &piece->op);

    if (sys_errno == EINPROGRESS || (!staged->is_sender && !is_oldest(staged, piece))) {
        return WEFT_AGAIN;
    }
    if (sys_errno != 0) {
        return weft_fail_errno(&staged->error, sys_errno, "staging",
                               "a copy of %zu bytes failed", piece->n_bytes);
    }
    if (staged->is_sender) {
        return move(staged, piece);
    }
    end_piece(staged, piece);
    return WEFT_OK;
}

/* One state further, or AGAIN. */
static weft_status step(struct staged *staged, struct staged_piece *piece)
{
    switch (piece->state) {
    case STAGED_FREE:
        return WEFT_AGAIN;
    case STAGED_COPYING:
        return copied(staged, piece);
    case STAGED_MOVING:
        return piece->request == NULL ? move(staged, piece) : moved(staged, piece);
    }
    return WEFT_AGAIN;
}

/* The flow keeps the order of what it is given: a piece enters it after those before it. */
static bool is_turn(const struct staged *staged, uint64_t number)
{
    const struct staged_piece *before =
        &staged->pieces[(number - 1) % staged->config.n_pieces];
    bool has_before = number > staged->n_pieces_done && staged->config.n_pieces > 1;

    return !has_before || before->state == STAGED_FREE || before->request != NULL ||
           (!staged->is_sender && before->state == STAGED_COPYING);
}

static weft_status step_all(struct staged *staged)
{
    weft_status status = WEFT_OK;

    for (uint64_t i = staged->n_pieces_done; i < staged->n_pieces_begun && status >= 0;
         i++) {
        struct staged_piece *piece = &staged->pieces[i % staged->config.n_pieces];

        while (status >= 0 && is_turn(staged, i)) {
            status = step(staged, piece);
            if (status == WEFT_AGAIN) {
                break;
            }
        }
    }
    return status;
}

weft_status staged_progress(struct staged *staged)
{
    struct staged_piece *piece;
    weft_status status = WEFT_OK;

    if (!staged->is_registered) {
        status = flow_register_progress(staged->config.flow, &staged->registered,
                                        &staged->error);
        staged->is_registered = status == WEFT_OK;
    }
    if (staged->error.status != WEFT_OK || !staged->is_registered) {
        return staged->error.status;
    }
    do {
        piece = begin_piece(staged);
        if (piece != NULL && staged->is_sender) {
            status = copy(staged, piece);
        } else if (piece != NULL) {
            piece->state = STAGED_MOVING; /* posted in its turn */
        }
    } while (piece != NULL && status >= 0);
    status = status < 0 ? status : step_all(staged);
    if (status < 0 && staged->error.status == WEFT_OK) {
        staged->error = *flow_error(staged->config.flow);
    }
    return status < 0 ? status : WEFT_OK;
}

weft_status staged_test(struct staged *staged)
{
    if (staged->error.status != WEFT_OK) {
        return staged->error.status;
    }
    if (staged->n_tested == staged->n_done) {
        return WEFT_AGAIN;
    }
    staged->n_tested++;
    return WEFT_OK;
}

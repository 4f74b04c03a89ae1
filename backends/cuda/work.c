/* Copies and reductions. Each is started on a stream and followed by an event that marks its
 * end. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/cuda/private.h"
#include "base/check.h"
#include "base/text.h"

#define BLOCK_THREADS 256u
#define BLOCKS_PER_MULTIPROCESSOR 8u

static int launch(struct cuda_gpu *cuda, const struct io_gpu_op *op,
                  struct cuda_stream *stream)
{
    enum weft_redop redop = op->redop == WEFT_AVG ? WEFT_SUM : op->redop;
    struct cuda_function *function = cuda->reduce[op->dtype][redop];
    cuda_pointer out = (uintptr_t)op->out, a = (uintptr_t)op->a, b = (uintptr_t)op->b;
    uint64_t count = op->count;
    int divisor = op->divisor;
    void *arguments[] = {&out, &a, &b, &count, &divisor};
    uint64_t n_packs = count * weft_dtype_bytes(op->dtype) / 16 + 1;
    uint64_t n_blocks = (n_packs + BLOCK_THREADS - 1) / BLOCK_THREADS;
    unsigned most = (unsigned)cuda->facts.n_multiprocessors * BLOCKS_PER_MULTIPROCESSOR;

    if (function == NULL) {
        return CUDA_NOT_SUPPORTED;
    }
    most = most == 0 ? 1 : most;
    return cuda->driver.launch(function, n_blocks < most ? (unsigned)n_blocks : most, 1,
                               1, BLOCK_THREADS, 1, 1, 0, stream, arguments, NULL);
}

/* Runs on a thread of the driver, where CUDA must not be called. */
static void wake(void *context)
{
    struct cuda_gpu *cuda = context;
    const uint64_t one = 1;
    ssize_t ignored = write(cuda->wake_fd, &one, sizeof(one));

    (void)ignored; /* EAGAIN: already readable */
}

/* Marks the end of the work that was given to the stream. */
static int mark_end(struct cuda_gpu *cuda, const struct io_gpu_op *op,
                    struct cuda_call *call, struct cuda_stream *stream)
{
    int result = cuda->driver.event_record(call->end, stream);

    if (result == CUDA_OK && op->task != NULL && cuda->wake_fd >= 0) {
        result = cuda->driver.host_function(stream, wake, cuda);
    }
    return result;
}

static int start_on(struct cuda_gpu *cuda, struct io_gpu_op *op, struct cuda_call *call)
{
    const struct cuda_driver *driver = &cuda->driver;
    struct cuda_stream *stream = cuda_stream_of(cuda, op->stream);
    int result = CUDA_OK;

    if (call->end == NULL) {
        result = driver->event_create(&call->end, CUDA_EVENT_NO_TIMING);
    }
    if (result == CUDA_OK && op->count > 0) {
        result = op->kind == IO_GPU_COPY
                     ? driver->copy_async((uintptr_t)op->out, (uintptr_t)op->a, op->count,
                                          stream)
                     : launch(cuda, op, stream);
    }
    if (result != CUDA_OK) {
        return result;
    }
    result = mark_end(cuda, op, call, stream);
    if (result != CUDA_OK) {
        /* Wait, because the caller may free memory that an operation in progress uses. */
        (void)driver->stream_sync(stream);
    }
    return result;
}

int cuda_start(struct io_gpu *gpu, struct io_gpu_op *op)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    struct cuda_call *call = cuda->idle;
    int result = cuda_enter(cuda);

    if (result != CUDA_OK) {
        return cuda_errno(result);
    }
    if (call != NULL) {
        cuda->idle = call->next;
    } else {
        call = weft_calloc(1, sizeof(*call));
    }
    op->done = false;
    op->error = 0;
    call->op = op;
    call->next = NULL;
    result = start_on(cuda, op, call);
    cuda_leave(cuda);
    if (result != CUDA_OK) {
        call->next = cuda->idle;
        cuda->idle = call;
        return cuda_errno(result);
    }
    if (cuda->last == NULL) {
        cuda->first = call;
    } else {
        cuda->last->next = call;
    }
    cuda->last = call;
    return 0;
}

static void end(struct cuda_call *call, int result)
{
    struct io_gpu_op *op = call->op;

    call->op = NULL;
    op->error = cuda_errno(result);
    op->done = true;
    io_task_wake(op->task);
}

/* Queries every call, because streams can finish in any order. */
void cuda_progress(struct io_gpu *gpu)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    struct cuda_call **at = &cuda->first;
    uint64_t ignored;

    if (cuda->wake_fd >= 0 && read(cuda->wake_fd, &ignored, sizeof(ignored)) < 0) {
        ignored = 0; /* the call was not caused by a wake-up; query the events anyway */
    }
    if (cuda->first == NULL || cuda_enter(cuda) != CUDA_OK) {
        return;
    }
    cuda->last = NULL;
    while (*at != NULL) {
        struct cuda_call *call = *at;
        int result = cuda->driver.event_query(call->end);

        if (result == CUDA_NOT_READY) {
            cuda->last = call;
            at = &call->next;
            continue;
        }
        *at = call->next;
        call->next = cuda->idle;
        cuda->idle = call;
        end(call, result);
    }
    cuda_leave(cuda);
}

int cuda_poll(struct io_gpu *gpu, struct io_gpu_op *op)
{
    if (!op->done) {
        cuda_progress(gpu);
    }
    return op->done ? op->error : EINPROGRESS;
}

void cuda_finish_all(struct cuda_gpu *cuda)
{
    while (cuda->first != NULL) {
        struct cuda_call *call = cuda->first;

        (void)cuda->driver.stream_sync(cuda_stream_of(cuda, call->op->stream));
        cuda_progress(&cuda->io);
        if (cuda->first == call) { /* the GPU is lost, so this call will never end */
            cuda->first = call->next;
            call->next = cuda->idle;
            cuda->idle = call;
        }
    }
    while (cuda->idle != NULL) {
        struct cuda_call *call = cuda->idle;

        cuda->idle = call->next;
        if (call->end != NULL) {
            (void)cuda->driver.event_destroy(call->end);
        }
        free(call);
    }
}

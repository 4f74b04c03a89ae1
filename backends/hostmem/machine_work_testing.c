/* Streams, events, and the work queued on them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/hostmem/machine_private_testing.h"
#include "base/check.h"
#include "base/text.h"

static struct io_gpu_stream *stream_or_own(struct process *process,
                                           struct io_gpu_stream *stream)
{
    weft_check(stream == NULL || stream->process == process);
    return stream == NULL ? process->own : stream;
}

static void append(struct io_gpu_stream *stream, const struct work *work)
{
    struct work *copy = weft_calloc(1, sizeof(*copy));

    *copy = *work;
    if (stream->last == NULL) {
        stream->first = copy;
    } else {
        stream->last->next = copy;
    }
    stream->last = copy;
}

int hostmem_machine_start(struct io_gpu *gpu, struct io_gpu_op *op)
{
    struct process *process = hostmem_process_of(gpu);

    pthread_mutex_lock(&process->machine->lock);
    op->done = false;
    op->error = 0;
    append(stream_or_own(process, op->stream), &(struct work){.op = op});
    pthread_mutex_unlock(&process->machine->lock);
    return 0;
}

static size_t bytes_of(const struct io_gpu_op *op)
{
    return op->kind == IO_GPU_COPY ? op->count : op->count * weft_dtype_bytes(op->dtype);
}

static bool touches(const struct io_gpu_op *op, const void *at, size_t n_bytes)
{
    const void *const places[] = {op->out, op->a, op->b};
    size_t n = bytes_of(op);

    for (size_t i = 0; i < WEFT_LENGTH(places); i++) {
        if (places[i] != NULL && (uintptr_t)places[i] < (uintptr_t)at + n_bytes &&
            (uintptr_t)at < (uintptr_t)places[i] + n) {
            return true;
        }
    }
    return false;
}

bool hostmem_uses(const struct process *process, const void *at, size_t n_bytes)
{
    for (const struct io_gpu_stream *stream = process->streams; stream != NULL;
         stream = stream->next) {
        for (const struct work *work = stream->first; work != NULL; work = work->next) {
            if (work->kind == WORK_OP && touches(work->op, at, n_bytes)) {
                return true;
            }
        }
    }
    return false;
}

/* ---- one step ---- */

static bool is_ready(const struct work *work)
{
    return work != NULL && (work->kind != WORK_WAIT || work->event->is_dead ||
                            work->event->n_done >= work->ticket);
}

uint32_t hostmem_count_work(const struct process *process)
{
    uint32_t n = process->writes != NULL;

    for (const struct io_gpu_stream *stream = process->streams; stream != NULL;
         stream = stream->next) {
        n += is_ready(stream->first);
    }
    return n;
}

static void release(struct hostmem_machine *machine, struct shared_event *event)
{
    struct shared_event **at = &machine->events;

    if (--event->n_users > 0) {
        return;
    }
    while (*at != event) {
        at = &(*at)->next;
    }
    *at = event->next;
    free(event);
}

static void pop(struct io_gpu_stream *stream)
{
    struct work *work = stream->first;

    stream->first = work->next;
    if (stream->first == NULL) {
        stream->last = NULL;
    }
    if (work->event != NULL) {
        release(stream->process->machine, work->event);
    }
    free(work);
}

static void end(struct io_gpu_stream *stream, int sys_errno)
{
    struct io_gpu_op *op = stream->first->op;

    pop(stream);
    op->error = sys_errno;
    op->done = true;
    io_task_wake(op->task);
}

static int check_memory(struct process *process, const struct io_gpu_op *op)
{
    size_t n = bytes_of(op);
    bool may = hostmem_may_touch(process, op->out, n);

    may = hostmem_may_touch(process, op->a, n) && may;
    if (op->kind == IO_GPU_REDUCE) {
        may = hostmem_may_touch(process, op->b, n) && may;
    }
    return may ? 0 : EFAULT;
}

/* Executes one piece of a copy (all of it if source and destination overlap), or a whole
 * reduction. Returns true when the operation is complete. */
static bool do_some(struct process *process, struct work *work)
{
    struct io_gpu_op *op = work->op;
    struct hostmem_machine *machine = process->machine;
    size_t left = op->count - work->n_done, n = left;
    bool is_apart = (uintptr_t)op->out + op->count <= (uintptr_t)op->a ||
                    (uintptr_t)op->a + op->count <= (uintptr_t)op->out;

    if (op->kind == IO_GPU_REDUCE) {
        weft_reduce(op->dtype, op->redop, op->out, op->a, op->b, op->count);
        if (op->divisor > 1) {
            weft_reduce_divide(op->dtype, op->out, op->count, op->divisor);
        }
        return true;
    }
    if (is_apart && machine->n_pieces > 1 && left > 1) {
        size_t piece = op->count / machine->n_pieces + 1;

        n = 1 + (size_t)weft_rng_below(&machine->rng, 2 * piece);
        n = n < left ? n : left;
    }
    memmove((uint8_t *)op->out + work->n_done, (const uint8_t *)op->a + work->n_done, n);
    work->n_done += n;
    return work->n_done == op->count;
}

static void do_op(struct io_gpu_stream *stream)
{
    struct process *process = stream->process;
    struct work *work = stream->first;
    int sys_errno = stream->broken;

    if (sys_errno == 0 && work->op->count > 0) {
        sys_errno = check_memory(process, work->op);
    }
    if (sys_errno == 0 && work->op->count > 0 && !do_some(process, work)) {
        return;
    }
    if (sys_errno == 0) {
        sys_errno = hostmem_failing(process, HOSTMEM_COPY);
    }
    stream->broken = 0;
    end(stream, sys_errno);
}

static void do_stream(struct io_gpu_stream *stream)
{
    struct work *work = stream->first;

    switch (work->kind) {
    case WORK_OP:
        do_op(stream);
        return;
    case WORK_RECORD:
        if (work->event->n_done < work->ticket) {
            work->event->n_done = work->ticket;
        }
        break;
    case WORK_WAIT:
        if (work->event->n_done < work->ticket) {
            /* The event's process died, or this stream is being destroyed. */
            stream->broken = EIO;
        }
        break;
    }
    pop(stream);
}

void hostmem_land(struct process *process)
{
    struct nic_write *write = process->writes;

    process->writes = write->next;
    if (process->writes == NULL) {
        process->last_write = NULL;
    }
    if (hostmem_may_touch(process, write->to, write->n_bytes)) {
        memcpy(write->to, write->bytes, write->n_bytes);
    }
    free(write);
}

void hostmem_do_work(struct process *process, uint32_t index)
{
    if (process->writes != NULL && index-- == 0) {
        hostmem_land(process);
        return;
    }
    for (struct io_gpu_stream *stream = process->streams; stream != NULL;
         stream = stream->next) {
        if (is_ready(stream->first) && index-- == 0) {
            do_stream(stream);
            return;
        }
    }
    weft_check(false);
}

/* Drops all pending work; operations end with EIO. */
void hostmem_drop_work(struct process *process)
{
    for (struct io_gpu_stream *stream = process->streams; stream != NULL;
         stream = stream->next) {
        while (stream->first != NULL) {
            if (stream->first->kind == WORK_OP) {
                end(stream, EIO);
            } else {
                pop(stream);
            }
        }
        stream->broken = 0;
    }
    while (process->writes != NULL) {
        struct nic_write *write = process->writes;

        process->writes = write->next;
        free(write);
    }
    process->last_write = NULL;
}

/* ---- streams and events ---- */

static int stream_create(struct io_gpu *gpu, struct io_gpu_stream **out)
{
    struct process *process = hostmem_process_of(gpu);
    struct io_gpu_stream *stream = weft_calloc(1, sizeof(*stream));

    pthread_mutex_lock(&process->machine->lock);
    stream->process = process;
    stream->next = process->streams;
    process->streams = stream;
    *out = stream;
    pthread_mutex_unlock(&process->machine->lock);
    return 0;
}

/* Executes the pending work at once, in order. An operation after a wait for an incomplete event
 * fails with EIO. */
static void stream_destroy(struct io_gpu *gpu, struct io_gpu_stream *stream)
{
    struct process *process = hostmem_process_of(gpu);
    struct io_gpu_stream **at = &process->streams;

    if (stream == NULL) {
        return;
    }
    pthread_mutex_lock(&process->machine->lock);
    while (stream->first != NULL) {
        do_stream(stream);
    }
    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    free(stream);
    pthread_mutex_unlock(&process->machine->lock);
}

static struct io_gpu_event *add_event(struct process *process,
                                      struct shared_event *shared, bool is_own)
{
    struct io_gpu_event *event = weft_calloc(1, sizeof(*event));

    *event = (struct io_gpu_event){process->events, process, shared, is_own};
    process->events = event;
    shared->n_users++;
    return event;
}

static int event_create(struct io_gpu *gpu, struct io_gpu_event **out)
{
    struct process *process = hostmem_process_of(gpu);
    struct hostmem_machine *machine = process->machine;
    struct shared_event *shared;
    int sys_errno;

    pthread_mutex_lock(&machine->lock);
    sys_errno = hostmem_failing(process, HOSTMEM_EVENT);
    if (sys_errno == 0) {
        shared = weft_calloc(1, sizeof(*shared));
        shared->secret = weft_rng_next(&machine->rng);
        shared->next = machine->events;
        machine->events = shared;
        *out = add_event(process, shared, true);
    }
    pthread_mutex_unlock(&machine->lock);
    return sys_errno;
}

static void event_destroy(struct io_gpu *gpu, struct io_gpu_event *event)
{
    struct process *process = hostmem_process_of(gpu);
    struct io_gpu_event **at = &process->events;

    if (event == NULL) {
        return;
    }
    pthread_mutex_lock(&process->machine->lock);
    while (*at != event) {
        at = &(*at)->next;
    }
    *at = event->next;
    release(process->machine, event->shared);
    free(event);
    pthread_mutex_unlock(&process->machine->lock);
}

static int record(struct io_gpu *gpu, struct io_gpu_event *event,
                  struct io_gpu_stream *stream)
{
    struct process *process = hostmem_process_of(gpu);
    struct shared_event *shared = event->shared;

    pthread_mutex_lock(&process->machine->lock);
    shared->n_users++;
    shared->n_recorded++;
    append(stream_or_own(process, stream), &(struct work){.kind = WORK_RECORD,
                                                          .event = shared,
                                                          .ticket = shared->n_recorded});
    pthread_mutex_unlock(&process->machine->lock);
    return 0;
}

static int wait_for(struct io_gpu *gpu, struct io_gpu_event *event,
                    struct io_gpu_stream *stream)
{
    struct process *process = hostmem_process_of(gpu);
    struct shared_event *shared = event->shared;
    int sys_errno;

    pthread_mutex_lock(&process->machine->lock);
    sys_errno = hostmem_failing(process, HOSTMEM_WAIT);
    if (sys_errno == 0) {
        shared->n_users++;
        append(stream_or_own(process, stream),
               &(struct work){
                   .kind = WORK_WAIT, .event = shared, .ticket = shared->n_recorded});
    }
    pthread_mutex_unlock(&process->machine->lock);
    return sys_errno;
}

static int query(struct io_gpu *gpu, struct io_gpu_event *event)
{
    struct process *process = hostmem_process_of(gpu);
    bool is_done;

    pthread_mutex_lock(&process->machine->lock);
    is_done = event->shared->n_done == event->shared->n_recorded;
    pthread_mutex_unlock(&process->machine->lock);
    return is_done ? 0 : EINPROGRESS;
}

static int export_event(struct io_gpu *gpu, struct io_gpu_event *event,
                        struct io_gpu_handle *out)
{
    (void)gpu;
    memset(out, 0, sizeof(*out));
    memcpy(out->bytes, &event->shared->secret, sizeof(event->shared->secret));
    return 0;
}

static int import_event(struct io_gpu *gpu, const struct io_gpu_handle *handle,
                        struct io_gpu_event **out)
{
    struct process *process = hostmem_process_of(gpu);
    struct hostmem_machine *machine = process->machine;
    struct shared_event *at;
    uint64_t secret;
    int sys_errno;

    memcpy(&secret, handle->bytes, sizeof(secret));
    pthread_mutex_lock(&machine->lock);
    sys_errno = hostmem_failing(process, HOSTMEM_IMPORT_EVENT);
    at = machine->events;
    while (at != NULL && at->secret != secret) {
        at = at->next;
    }
    if (sys_errno == 0 && at == NULL) {
        sys_errno = ENOENT;
    }
    if (sys_errno == 0) {
        *out = add_event(process, at, false);
    }
    pthread_mutex_unlock(&machine->lock);
    return sys_errno;
}

static int identify(struct io_gpu *gpu, struct io_gpu_identity *out)
{
    struct process *process = hostmem_process_of(gpu);
    bool has_context;

    pthread_mutex_lock(&process->machine->lock);
    has_context = process->has_context;
    pthread_mutex_unlock(&process->machine->lock);
    *out = (struct io_gpu_identity){.ordinal = process->config.ordinal,
                                    .driver = 13000,
                                    .kinds = process->config.kinds,
                                    .pid = process->pid,
                                    .pid_ns = process->config.pid_ns};
    weft_format(out->uuid, sizeof(out->uuid), "%s", process->uuid);
    return has_context ? 0 : EAGAIN;
}

const struct io_gpu_sharing_ops hostmem_machine_sharing = {
    .identify = identify,
    .export_memory = hostmem_machine_export,
    .unexport = hostmem_machine_unexport,
    .import_memory = hostmem_machine_import,
    .unimport = hostmem_machine_unimport,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .record = record,
    .wait = wait_for,
    .query = query,
    .export_event = export_event,
    .import_event = import_event,
};

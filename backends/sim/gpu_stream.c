/* Streams and events of a simulated GPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/gpu_private.h"
#include "base/check.h"
#include "base/text.h"

struct io_gpu_event {
    struct io_gpu_event *next; /* in the GPU's list */
    uint64_t id;               /* from the GPU's counter; 0: imported */
    struct sim_mark mark;      /* position of the last record; number 0: complete */
    uint32_t process;          /* owner of an imported event */
    /* Identifies the event for imports; 0 if an own event is not exported. */
    uint64_t secret;
};

/* The content of an event's handle. */
struct sim_event_handle {
    uint64_t secret;
    uint32_t process;
};
_Static_assert(sizeof(struct sim_event_handle) <= IO_GPU_HANDLE_BYTES,
               "a handle holds it");

/* ---- order of execution ---- */

static bool is_true(struct sim_host *host, const struct sim_mark *mark)
{
    const struct sim_gpu_device *gpu = &host->processes[mark->process].gpu;
    for (const struct sim_gpu_call *at = gpu->calls; at != NULL; at = at->next) {
        if (at->stream->id == mark->stream && at->number <= mark->number) {
            return false;
        }
    }
    return true;
}

static struct sim_host *host_of(struct sim_gpu_device *gpu)
{
    return sim_gpu_process(gpu)->host;
}

static void pop(struct io_gpu_stream *stream)
{
    stream->first = stream->first->after;
    if (stream->first == NULL) {
        stream->last = NULL;
    }
}

/* Starts the calls of a stream that can start. Returns true if a wait ended, because other
 * streams can depend on that. */
static bool advance(struct io_gpu_stream *stream)
{
    struct sim_host *host = host_of(stream->gpu);
    bool any = false;
    while (stream->first != NULL && stream->running == NULL) {
        struct sim_gpu_call *call = stream->first;
        if (call->op == NULL && !is_true(host, &call->mark)) {
            break;
        }
        pop(stream);
        if (call->op == NULL) {
            sim_gpu_take_out(call);
            free(call);
            host->n_gpu_waits--;
            any = true;
            continue;
        }
        stream->running = stream->id != 0 ? call : NULL;
        sim_gpu_begin(call);
    }
    return any;
}

static bool is_idle(const struct io_gpu_stream *stream)
{
    return stream->first == NULL && stream->running == NULL;
}

/* Frees destroyed streams that are idle. */
static void sweep(struct sim_gpu_device *gpu)
{
    struct io_gpu_stream **at = &gpu->streams;
    while (*at != NULL) {
        struct io_gpu_stream *stream = *at;
        if (stream->is_destroyed && is_idle(stream)) {
            *at = stream->next;
            free(stream);
        } else {
            at = &stream->next;
        }
    }
}

static bool advance_all(struct sim_gpu_device *gpu)
{
    bool any = advance(gpu->own);
    for (struct io_gpu_stream *at = gpu->streams; at != NULL; at = at->next) {
        any = advance(at) || any;
    }
    return any;
}

void sim_streams_advance(struct sim_host *host)
{
    bool any = host->n_gpu_waits > 0;
    while (any) {
        any = false;
        for (uint32_t i = 0; i < host->n_processes; i++) {
            any = advance_all(&host->processes[i].gpu) || any;
        }
    }
}

void sim_stream_add(struct sim_gpu_call *call)
{
    struct io_gpu_stream *stream = call->stream;
    call->number = ++call->gpu->n_calls;
    call->next = call->gpu->calls;
    call->gpu->calls = call;
    if (stream->last != NULL) {
        stream->last->after = call;
    } else {
        stream->first = call;
    }
    stream->last = call;
    (void)advance(stream);
}

void sim_stream_done(struct io_gpu_stream *stream, const struct sim_gpu_call *call)
{
    struct sim_gpu_device *gpu = stream->gpu;
    if (stream->running == call) {
        stream->running = NULL;
    }
    (void)advance(stream);
    sim_streams_advance(host_of(gpu));
    sweep(gpu);
}

static void forget(struct io_gpu_stream *stream)
{
    stream->first = NULL;
    stream->last = NULL;
    stream->running = NULL;
}

void sim_streams_reset(struct sim_gpu_device *gpu)
{
    forget(gpu->own);
    for (struct io_gpu_stream *at = gpu->streams; at != NULL; at = at->next) {
        forget(at);
    }
    for (const struct sim_gpu_call *at = gpu->calls; at != NULL; at = at->next) {
        host_of(gpu)->n_gpu_waits -= at->op == NULL;
    }
}

/* ---- streams ---- */

static int stream_create(struct io_gpu *io, struct io_gpu_stream **out)
{
    struct sim_gpu_device *gpu = sim_gpu_of(io);
    struct io_gpu_stream *stream = weft_calloc(1, sizeof *stream);
    stream->gpu = gpu;
    stream->id = ++gpu->n_streams;
    stream->next = gpu->streams;
    gpu->streams = stream;
    *out = stream;
    return 0;
}

static void stream_destroy(struct io_gpu *io, struct io_gpu_stream *stream)
{
    if (stream != NULL) {
        stream->is_destroyed = true;
        sweep(sim_gpu_of(io));
    }
}

/* ---- events ---- */

static struct io_gpu_event *add_event(struct sim_gpu_device *gpu)
{
    struct io_gpu_event *event = weft_calloc(1, sizeof *event);
    event->next = gpu->events;
    gpu->events = event;
    event->process = sim_gpu_process(gpu)->index;
    return event;
}

static int event_create(struct io_gpu *io, struct io_gpu_event **out)
{
    struct sim_gpu_device *gpu = sim_gpu_of(io);
    *out = add_event(gpu);
    (*out)->id = ++gpu->n_events;
    return 0;
}

static void event_destroy(struct io_gpu *io, struct io_gpu_event *event)
{
    struct io_gpu_event **at = &sim_gpu_of(io)->events;
    if (event == NULL) {
        return;
    }
    while (*at != event) {
        at = &(*at)->next;
    }
    *at = event->next;
    free(event);
}

void sim_streams_fini(struct sim_gpu_device *gpu)
{
    while (gpu->streams != NULL) {
        struct io_gpu_stream *stream = gpu->streams;
        gpu->streams = stream->next;
        free(stream);
    }
    while (gpu->events != NULL) {
        event_destroy(&gpu->io, gpu->events);
    }
    free(gpu->own);
    gpu->own = NULL;
}

static int record(struct io_gpu *io, struct io_gpu_event *event,
                  struct io_gpu_stream *stream)
{
    struct sim_gpu_device *gpu = sim_gpu_of(io);
    if (event->id == 0) {
        return EINVAL; /* only its owner can record it */
    }
    event->mark = (struct sim_mark){.process = event->process,
                                    .stream = stream == NULL ? 0 : stream->id,
                                    .number = gpu->n_calls};
    return 0;
}

/* Returns the mark of the event, or of its owner's event if imported. If the owner has destroyed
 * it, the event counts as complete. */
static struct sim_mark mark_of(struct sim_gpu_device *gpu,
                               const struct io_gpu_event *event)
{
    const struct sim_mark nothing = {.process = event->process};
    const struct io_gpu_event *at = event;
    if (event->id == 0) {
        at = host_of(gpu)->processes[event->process].gpu.events;
        while (at != NULL && (at->id == 0 || at->secret != event->secret)) {
            at = at->next;
        }
    }
    return at == NULL ? nothing : at->mark;
}

static int wait_for(struct io_gpu *io, struct io_gpu_event *event,
                    struct io_gpu_stream *stream)
{
    struct sim_gpu_device *gpu = sim_gpu_of(io);
    struct sim_mark mark = mark_of(gpu, event);
    struct sim_gpu_call *call;
    if (is_true(host_of(gpu), &mark)) {
        return 0;
    }
    call = weft_calloc(1, sizeof *call);
    call->gpu = gpu;
    call->stream = stream != NULL ? stream : gpu->own;
    call->mark = mark;
    host_of(gpu)->n_gpu_waits++;
    sim_stream_add(call);
    return 0;
}

static int query(struct io_gpu *io, struct io_gpu_event *event)
{
    struct sim_gpu_device *gpu = sim_gpu_of(io);
    struct sim_mark mark = mark_of(gpu, event);
    return is_true(host_of(gpu), &mark) ? 0 : EINPROGRESS;
}

static int export_event(struct io_gpu *io, struct io_gpu_event *event,
                        struct io_gpu_handle *out)
{
    struct sim_process *process = sim_gpu_process(sim_gpu_of(io));
    struct sim_event_handle handle;
    if (event->id == 0) {
        return EINVAL;
    }
    while (event->secret == 0) {
        process->env.ops->random(&process->env, &event->secret, sizeof event->secret);
    }
    memset(&handle, 0, sizeof handle);
    handle.secret = event->secret;
    handle.process = process->index;
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, &handle, sizeof handle);
    return 0;
}

static int import_event(struct io_gpu *io, const struct io_gpu_handle *handle,
                        struct io_gpu_event **out)
{
    struct sim_gpu_device *gpu = sim_gpu_of(io);
    struct sim_host *host = host_of(gpu);
    struct sim_event_handle named;
    const struct io_gpu_event *at;
    memcpy(&named, handle->bytes, sizeof named);
    if (named.secret == 0 || named.process >= host->n_processes) {
        return EINVAL;
    }
    at = host->processes[named.process].gpu.events;
    while (at != NULL && (at->id == 0 || at->secret != named.secret)) {
        at = at->next;
    }
    if (at == NULL) {
        return ENOENT;
    }
    *out = add_event(gpu);
    (*out)->process = named.process;
    (*out)->secret = named.secret;
    return 0;
}

const struct io_gpu_sharing_ops sim_gpu_sharing_ops = {
    .identify = sim_gpu_identify,
    .export_memory = sim_gpu_export,
    .unexport = sim_gpu_unexport,
    .import_memory = sim_gpu_import,
    .unimport = sim_gpu_unimport,
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

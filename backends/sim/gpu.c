/* A process's GPU: its memory, which is in this process, its streams and events, and what other
 * processes of the host open of it. sim/gpu computes how long its work takes. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/gpu.h"

#define PAGE_BYTES 4096
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
/* Sufficient for all that a run holds at a time, but far less than an address space. */
#define PHANTOM_BYTES ((size_t)1 << 45)
#define DRIVER 12040 /* as from cudaDriverGetVersion(); arbitrary */

/* Memory of a GPU. calloc() returns large blocks as untouched zero pages, so a simulated TiB
 * costs only what is used of it. */
struct sim_allocation {
    struct sim_allocation *next;
    void *base;      /* Owned; from calloc; NULL: a range of the world's phantom memory */
    void *memory;    /* first page boundary (or huge page boundary) inside */
    bool is_device;  /* GPU memory, not pinned host memory */
    uint64_t secret; /* grants access to other processes; 0: not exported */
    uint64_t buffer_id; /* unique among all allocations of the process, ever */
    uint32_t n_openers; /* other processes that have it open */
    bool is_freed;      /* freed by its owner, but still open elsewhere */
    size_t n_bytes;     /* whole pages */
};

/* A position in a stream; reached once no call up to `number` is pending. */
struct sim_mark {
    uint32_t process;
    uint64_t stream, number;
};

/* A pending call of a stream: an operation, or a wait. */
struct sim_gpu_call {
    struct sim_gpu_work work;
    struct io_gpu_op *op; /* NULL: a wait */
    struct sim_mark mark; /* position that a wait waits for */
    struct sim_gpu_device *gpu;
    struct io_gpu_stream *stream;
    uint64_t number; /* from the GPU's counter */
    weft_ps asked_at;
    struct sim_gpu_call *next, *after; /* in the GPU's list, in its stream's queue */
};

/* Calls that must wait for earlier ones. A created stream executes one at a time; the GPU's own
 * stream starts each as soon as no wait precedes it, and the GPU's links and memory keep the
 * order. */
struct io_gpu_stream {
    struct io_gpu_stream *next;
    struct sim_gpu_device *gpu;
    uint64_t id; /* 0: the GPU's own */
    struct sim_gpu_call *first, *last;
    struct sim_gpu_call *running; /* of a created stream */
    bool is_destroyed;            /* to be freed once idle */
};

/* Opened memory of another process's GPU. */
struct sim_import {
    struct sim_import *next;
    struct sim_process *owner;         /* Not owned. */
    struct sim_allocation *allocation; /* Not owned; exists until closed here */
};

static struct sim_gpu_device *sim_gpu_of(struct io_gpu *gpu)
{
    return weft_container_of(gpu, struct sim_gpu_device, io);
}

static struct sim_process *sim_gpu_process(struct sim_gpu_device *gpu)
{
    return weft_container_of(gpu, struct sim_process, gpu);
}

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

/* The content of a handle of memory. */
struct sim_handle {
    uint64_t secret;
    uint32_t process;
};
_Static_assert(sizeof(struct sim_handle) <= IO_GPU_HANDLE_BYTES, "a handle holds it");

/* ---- phantom memory ---- */

weft_status sim_phantoms_init(struct sim_phantoms *phantoms, struct weft_error *error)
{
    void *start = mmap(NULL, PHANTOM_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        return weft_fail_errno(error, errno, WEFT_PHASE_WORLD,
                               "no addresses for phantom memory");
    }
    phantoms->range = (struct sim_phantom){(uintptr_t)start, PHANTOM_BYTES};
    return WEFT_OK;
}

void sim_phantoms_fini(struct sim_phantoms *phantoms)
{
    while (phantoms->idle != NULL) {
        struct sim_allocation *allocation = phantoms->idle;
        phantoms->idle = allocation->next;
        free(allocation);
    }
    if (phantoms->range.n_bytes > 0) {
        munmap((void *)phantoms->range.start, phantoms->range.n_bytes);
    }
}

/* Takes a freed range of the same size, or new addresses. */
static bool take_phantom(struct sim_phantoms *phantoms, struct sim_allocation *allocation)
{
    struct sim_allocation **at = &phantoms->idle;
    while (*at != NULL && (*at)->n_bytes != allocation->n_bytes) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        struct sim_allocation *idle = *at;
        *at = idle->next;
        allocation->memory = idle->memory;
        free(idle);
        return true;
    }
    if (allocation->n_bytes > phantoms->range.n_bytes - phantoms->n_used) {
        return false;
    }
    allocation->memory = (void *)(phantoms->range.start + phantoms->n_used);
    phantoms->n_used += allocation->n_bytes;
    return true;
}

static void give_back_phantom(struct sim_phantoms *phantoms,
                              struct sim_allocation *allocation)
{
    allocation->next = phantoms->idle;
    phantoms->idle = allocation;
}

/* ---- memory ---- */

/* Allocates memory. Large memory is aligned to huge pages and requests them, which halves the
 * time of a run that moves real data. */
static void take_real(struct sim_allocation *allocation)
{
    bool is_large = allocation->n_bytes >= 2 * HUGE_PAGE_BYTES;
    size_t align = is_large ? HUGE_PAGE_BYTES : PAGE_BYTES;

    allocation->base = calloc(1, allocation->n_bytes + align - 1);
    if (allocation->base == NULL) {
        weft_out_of_memory(allocation->n_bytes);
    }
    uintptr_t past = (uintptr_t)allocation->base % align;
    allocation->memory = (char *)allocation->base + (past == 0 ? 0 : align - past);
    if (is_large) {
        (void)madvise(allocation->memory, allocation->n_bytes, MADV_HUGEPAGE);
    }
}

static int gpu_alloc(struct io_gpu *gpu, enum io_memory where, size_t n_bytes, void **out)
{
    struct sim_gpu_device *device = sim_gpu_of(gpu);
    struct sim_phantoms *phantoms = device->phantoms;
    if (n_bytes == 0 || n_bytes > SIZE_MAX - 2 * HUGE_PAGE_BYTES) {
        return n_bytes == 0 ? EINVAL : ENOMEM;
    }
    struct sim_allocation *allocation = weft_calloc(1, sizeof *allocation);
    /* Small memory is always real, because programs use it for control words. */
    bool is_phantom =
        where == IO_MEMORY_DEVICE && phantoms->range.n_bytes > 0 && n_bytes > PAGE_BYTES;
    allocation->n_bytes = (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    if (is_phantom && !take_phantom(phantoms, allocation)) {
        free(allocation);
        return ENOMEM;
    }
    if (!is_phantom) {
        take_real(allocation);
    }
    allocation->is_device = where == IO_MEMORY_DEVICE;
    allocation->buffer_id = ++device->n_buffers;
    allocation->next = device->first;
    device->first = allocation;
    *out = allocation->memory;
    return 0;
}

static void allocation_drop(struct sim_gpu_device *device, struct sim_allocation **at)
{
    struct sim_allocation *allocation = *at;
    *at = allocation->next;
    if (allocation->base == NULL) {
        give_back_phantom(device->phantoms, allocation);
        return;
    }
    free(allocation->base);
    free(allocation);
}

static void gpu_free(struct io_gpu *gpu, void *memory)
{
    struct sim_gpu_device *device = sim_gpu_of(gpu);
    if (memory == NULL) {
        return;
    }
    struct sim_allocation **at = &device->first;
    while ((*at)->memory != memory || (*at)->is_freed) {
        at = &(*at)->next;
        weft_check(*at != NULL);
    }
    if ((*at)->n_openers > 0) { /* processes that opened it can still copy */
        (*at)->is_freed = true;
        (*at)->secret = 0;
        return;
    }
    allocation_drop(device, at);
}

/* ---- other GPUs, and host memory ---- */

/* Returns the place of `memory` as world_ways numbers places. */
static uint32_t place_of(struct sim_gpu_device *device, const void *memory)
{
    struct sim_process *process = sim_gpu_process(device);
    uint32_t near;
    for (const struct sim_import *at = device->imports; at != NULL; at = at->next) {
        if ((uintptr_t)memory - (uintptr_t)at->allocation->memory <
            at->allocation->n_bytes) {
            return at->owner->index;
        }
    }
    return sim_shm_has(process, memory, &near) ? process->host->n_processes + near
                                               : process->index;
}

/* Finds the links of a copy that leaves the GPU's memory. */
static void find_way(struct sim_gpu_device *device, const struct io_gpu_op *op,
                     struct sim_gpu_work *work)
{
    struct sim_process *process = sim_gpu_process(device);
    const struct world_ways *ways = process->host->spec->ways;
    if (ways == NULL || op->kind != IO_GPU_COPY ||
        (device->imports == NULL && process->segments == NULL)) {
        return;
    }
    uint32_t from = place_of(device, op->a), to = place_of(device, op->out);
    uint32_t at = from * 2 * process->host->n_processes + to;
    work->links = process->host->gpu_links;
    work->way = &ways->links[ways->first[at]];
    work->n_way = from == to ? 0 : ways->first[at + 1] - ways->first[at];
}

static weft_ps now_of(struct sim_gpu_device *device)
{
    return sim_now(sim_gpu_process(device)->host->world->engine);
}

/* Starts the operation now. */
static void call_begin(struct sim_gpu_call *call)
{
    find_way(call->gpu, call->op, &call->work);
    call->work.held_ps = now_of(call->gpu) - call->asked_at;
    sim_gpu_start(call->gpu->clock, &call->work);
}

static void call_take_out(struct sim_gpu_call *call)
{
    struct sim_gpu_call **at = &call->gpu->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
}

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
            call_take_out(call);
            free(call);
            host->n_gpu_waits--;
            any = true;
            continue;
        }
        stream->running = stream->id != 0 ? call : NULL;
        call_begin(call);
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

/* Starts all calls of the host whose waits have ended. */
static void streams_advance(struct sim_host *host)
{
    bool any = host->n_gpu_waits > 0;
    while (any) {
        any = false;
        for (uint32_t i = 0; i < host->n_processes; i++) {
            any = advance_all(&host->processes[i].gpu) || any;
        }
    }
}

/* Appends a call to its stream, and starts it unless it must wait. */
static void stream_add(struct sim_gpu_call *call)
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

/* Handles the end of a call that has been removed. Other calls can now start, also in other
 * processes. */
static void stream_done(struct io_gpu_stream *stream, const struct sim_gpu_call *call)
{
    struct sim_gpu_device *gpu = stream->gpu;
    if (stream->running == call) {
        stream->running = NULL;
    }
    (void)advance(stream);
    streams_advance(host_of(gpu));
    sweep(gpu);
}

static void forget(struct io_gpu_stream *stream)
{
    stream->first = NULL;
    stream->last = NULL;
    stream->running = NULL;
}

/* Forgets all calls. */
static void streams_reset(struct sim_gpu_device *gpu)
{
    forget(gpu->own);
    for (struct io_gpu_stream *at = gpu->streams; at != NULL; at = at->next) {
        forget(at);
    }
    for (const struct sim_gpu_call *at = gpu->calls; at != NULL; at = at->next) {
        host_of(gpu)->n_gpu_waits -= at->op == NULL;
    }
}

/* ---- work ---- */

static void on_done(void *context)
{
    struct sim_gpu_call *call = context;
    struct io_gpu_op *op = call->op;
    call_take_out(call);
    stream_done(call->stream, call);
    free(call);
    op->done = true;
    op->error = 0;
    io_task_wake(op->task);
}

static int gpu_start(struct io_gpu *gpu, struct io_gpu_op *op)
{
    struct sim_gpu_device *device = sim_gpu_of(gpu);
    struct sim_gpu_call *call = weft_calloc(1, sizeof *call);
    op->done = false;
    op->error = 0;
    call->op = op;
    call->gpu = device;
    call->stream = op->stream != NULL ? op->stream : device->own;
    call->asked_at = now_of(device);
    call->work = (struct sim_gpu_work){.is_reduce = op->kind == IO_GPU_REDUCE,
                                       .out = op->out,
                                       .a = op->a,
                                       .b = op->b,
                                       .count = op->count,
                                       .dtype = op->dtype,
                                       .redop = op->redop,
                                       .divisor = op->divisor,
                                       .done = {on_done, call}};
    stream_add(call);
    return 0;
}

static int gpu_poll(struct io_gpu *gpu, struct io_gpu_op *op)
{
    (void)gpu;
    return op->done ? op->error : EINPROGRESS;
}

bool sim_gpu_device_has(const struct sim_gpu_device *gpu, const void *memory)
{
    for (const struct sim_allocation *at = gpu->first; at != NULL; at = at->next) {
        if (at->is_device && (uintptr_t)memory - (uintptr_t)at->memory < at->n_bytes) {
            return true;
        }
    }
    return false;
}

/* Makes everything that the NICs wrote visible. Otherwise it is visible with its completion. */
static int gpu_fence(struct io_gpu *gpu, void *memory, size_t n_bytes)
{
    struct sim_process *process =
        weft_container_of(sim_gpu_of(gpu), struct sim_process, gpu);
    for (uint32_t i = 0; i < process->env.n_devices; i++) {
        sim_nic_fence_gpu(process->devices[i].nic);
    }
    (void)memory;
    (void)n_bytes;
    return 0;
}

static int gpu_copy_now(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes)
{
    sim_move(&sim_gpu_of(gpu)->phantoms->range, to, from, n_bytes);
    return 0;
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

static void streams_fini(struct sim_gpu_device *gpu)
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

static int event_record(struct io_gpu *io, struct io_gpu_event *event,
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

static int event_wait(struct io_gpu *io, struct io_gpu_event *event,
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
    stream_add(call);
    return 0;
}

static int event_query(struct io_gpu *io, struct io_gpu_event *event)
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

/* ---- sharing ---- */

static int gpu_identify(struct io_gpu *gpu, struct io_gpu_identity *out)
{
    struct sim_process *process = sim_gpu_process(sim_gpu_of(gpu));
    *out = (struct io_gpu_identity){
        .ordinal = world_host_gpu(process->host->spec, process->index),
        .driver = DRIVER,
        .kinds = 1u << IO_GPU_HANDLE_LEGACY,
        .pid = process->index + 1,
        .pid_ns = process->info.shm_dev};
    weft_format(out->uuid, sizeof out->uuid, "%s", gpu->uuid);
    return 0;
}

/* Returns true for the GPU's own memory, too, even that of another process on it. */
static bool gpu_can_access(struct io_gpu *gpu, const char *peer_uuid)
{
    const struct sim_host *host = sim_gpu_process(sim_gpu_of(gpu))->host;
    if (host->spec->n_gpus == 0 || host->spec->has_no_peer_access) {
        return host->spec->n_gpus > 0 && strcmp(gpu->uuid, peer_uuid) == 0;
    }
    for (uint32_t i = 0; i < host->n_processes; i++) {
        if (strcmp(host->processes[i].gpu.io.uuid, peer_uuid) == 0) {
            return true;
        }
    }
    return false;
}

static int gpu_export(struct io_gpu *gpu, const void *address, uint32_t kinds,
                      struct io_gpu_export *out)
{
    struct sim_process *process = sim_gpu_process(sim_gpu_of(gpu));
    struct sim_allocation *at = sim_gpu_of(gpu)->first;
    while (at != NULL && (!at->is_device || at->is_freed ||
                          (uintptr_t)address - (uintptr_t)at->memory >= at->n_bytes)) {
        at = at->next;
    }
    if (at == NULL || (kinds >> IO_GPU_HANDLE_LEGACY & 1) == 0) {
        return at == NULL ? EINVAL : EOPNOTSUPP;
    }
    while (at->secret == 0) {
        process->env.ops->random(&process->env, &at->secret, sizeof at->secret);
    }
    struct sim_handle handle;
    memset(&handle, 0, sizeof handle);
    handle.secret = at->secret;
    handle.process = process->index;
    memset(out, 0, sizeof *out);
    out->kind = IO_GPU_HANDLE_LEGACY;
    out->base = (uintptr_t)at->memory;
    out->n_bytes = at->n_bytes;
    out->buffer_id = at->buffer_id;
    memcpy(out->handle.bytes, &handle, sizeof handle);
    return 0;
}

static void gpu_unexport(struct io_gpu *gpu, const struct io_gpu_export *exported)
{
    (void)gpu;
    (void)exported;
}

static bool is_open(const struct sim_gpu_device *device,
                    const struct sim_allocation *allocation)
{
    const struct sim_import *at = device->imports;
    while (at != NULL && at->allocation != allocation) {
        at = at->next;
    }
    return at != NULL;
}

static int gpu_import(struct io_gpu *gpu, const struct io_gpu_export *exported,
                      void **out)
{
    struct sim_gpu_device *device = sim_gpu_of(gpu);
    struct sim_host *host = sim_gpu_process(device)->host;
    struct sim_handle named;
    memcpy(&named, exported->handle.bytes, sizeof named);
    if (exported->kind != IO_GPU_HANDLE_LEGACY) {
        return EOPNOTSUPP;
    }
    if (named.secret == 0 || named.process >= host->n_processes ||
        &host->processes[named.process].gpu == device) {
        return EINVAL; /* a process cannot open its own memory */
    }
    struct sim_process *owner = &host->processes[named.process];
    struct sim_allocation *at = owner->gpu.first;
    while (at != NULL && at->secret != named.secret) {
        at = at->next;
    }
    if (at == NULL) {
        return ENOENT;
    }
    if (exported->n_bytes > at->n_bytes) {
        return EINVAL;
    }
    if (!gpu_can_access(gpu, owner->gpu.io.uuid)) {
        return EACCES; /* like CUDA_ERROR_PEER_ACCESS_UNSUPPORTED */
    }
    if (is_open(device, at)) {
        return EALREADY;
    }
    struct sim_import *import = weft_calloc(1, sizeof *import);
    *import = (struct sim_import){device->imports, owner, at};
    device->imports = import;
    at->n_openers++;
    *out = at->memory;
    return 0;
}

static void close_import(struct sim_import **from)
{
    struct sim_import *import = *from;
    struct sim_gpu_device *owner = &import->owner->gpu;
    struct sim_allocation **at = &owner->first;
    *from = import->next;
    while (*at != import->allocation) {
        at = &(*at)->next;
    }
    if (--(*at)->n_openers == 0 && (*at)->is_freed) {
        allocation_drop(owner, at);
    }
    free(import);
}

static void gpu_unimport(struct io_gpu *gpu, void *memory)
{
    struct sim_gpu_device *device = sim_gpu_of(gpu);
    for (struct sim_import **at = &device->imports; *at != NULL; at = &(*at)->next) {
        if ((*at)->allocation->memory == memory) {
            close_import(at);
            return;
        }
    }
    weft_check(memory == NULL);
}

static const struct io_gpu_sharing_ops sharing_ops = {
    .identify = gpu_identify,
    .export_memory = gpu_export,
    .unexport = gpu_unexport,
    .import_memory = gpu_import,
    .unimport = gpu_unimport,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .record = event_record,
    .wait = event_wait,
    .query = event_query,
    .export_event = export_event,
    .import_event = import_event,
};

/* ---- the GPU ---- */

static const struct io_gpu_ops gpu_ops = {
    .alloc = gpu_alloc,
    .free = gpu_free,
    .start = gpu_start,
    .poll = gpu_poll,
    .fence = gpu_fence,
    .upload = gpu_copy_now,
    .download = gpu_copy_now,
    .can_access = gpu_can_access,
};

void sim_gpu_device_init(struct sim_process *process)
{
    const struct sim_host *host = process->host;
    struct sim_gpu_device *gpu = &process->gpu;
    gpu->phantoms = &host->world->phantoms;
    gpu->clock = sim_gpu_create(host->world->engine, &sim_gpu_default);
    gpu->io = (struct io_gpu){.ops = &gpu_ops,
                              .is_host_memory = !host->world->spec->is_timing_only,
                              .rdma_direct = true};
    weft_format(gpu->io.name, sizeof gpu->io.name, "%s",
                host->spec->n_gpus > 0 ? "sim GPU" : "host memory");
    weft_format(gpu->io.uuid, sizeof gpu->io.uuid, "GPU-sim-%u-%u", host->index,
                world_host_gpu(host->spec, process->index));
    gpu->own = weft_calloc(1, sizeof *gpu->own);
    gpu->own->gpu = gpu;
    gpu->io.sharing = host->spec->n_gpus > 0 ? &sharing_ops : NULL;
    process->env.gpu = &gpu->io;
}

/* Drops everything in progress. Completes operations with EIO if `notify`; their owners may no
 * longer exist when the world ends. */
static void drop_calls(struct sim_gpu_device *gpu, bool notify)
{
    sim_gpu_reset(gpu->clock);
    streams_reset(gpu);
    while (gpu->calls != NULL) {
        struct sim_gpu_call *call = gpu->calls;
        gpu->calls = call->next;
        if (notify && call->op != NULL) {
            call->op->done = true;
            call->op->error = EIO;
        }
        free(call);
    }
}

void sim_gpu_device_stop(struct sim_gpu_device *gpu)
{
    drop_calls(gpu, true);
    streams_advance(sim_gpu_process(gpu)->host);
}

void sim_gpu_device_close_peers(struct sim_gpu_device *gpu)
{
    while (gpu->imports != NULL) {
        gpu_unimport(&gpu->io, gpu->imports->allocation->memory);
    }
}

void sim_gpu_device_fini(struct sim_gpu_device *gpu)
{
    if (gpu->clock == NULL) {
        return;
    }
    drop_calls(gpu, false);
    streams_fini(gpu);
    sim_gpu_destroy(gpu->clock);
    while (gpu->first != NULL) {
        allocation_drop(gpu, &gpu->first);
    }
}

/* A process's GPU. Its memory is in this process; sim/gpu computes how long its work takes. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/sim/gpu_private.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"

#define PAGE_BYTES 4096
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
/* Sufficient for all that a run holds at a time, but far less than an address space. */
#define PHANTOM_BYTES ((size_t)1 << 45)

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
    sim_allocation_drop(device, at);
}

void sim_allocation_drop(struct sim_gpu_device *device, struct sim_allocation **at)
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

void sim_gpu_take_out(struct sim_gpu_call *call)
{
    struct sim_gpu_call **at = &call->gpu->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
}

static void on_done(void *context)
{
    struct sim_gpu_call *call = context;
    struct io_gpu_op *op = call->op;
    sim_gpu_take_out(call);
    sim_stream_done(call->stream, call);
    free(call);
    op->done = true;
    op->error = 0;
    io_task_wake(op->task);
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

void sim_gpu_begin(struct sim_gpu_call *call)
{
    find_way(call->gpu, call->op, &call->work);
    call->work.held_ps = now_of(call->gpu) - call->asked_at;
    sim_gpu_start(call->gpu->clock, &call->work);
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
    sim_stream_add(call);
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

static const struct io_gpu_ops gpu_ops = {
    .alloc = gpu_alloc,
    .free = gpu_free,
    .start = gpu_start,
    .poll = gpu_poll,
    .fence = gpu_fence,
    .upload = gpu_copy_now,
    .download = gpu_copy_now,
    .can_access = sim_gpu_can_access,
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
    gpu->io.sharing = host->spec->n_gpus > 0 ? &sim_gpu_sharing_ops : NULL;
    process->env.gpu = &gpu->io;
}

/* Drops everything in progress. Notifies the owners of operations if `told`; they may no longer
 * exist when the world ends. */
static void drop_calls(struct sim_gpu_device *gpu, bool told)
{
    sim_gpu_reset(gpu->clock);
    sim_streams_reset(gpu);
    while (gpu->calls != NULL) {
        struct sim_gpu_call *call = gpu->calls;
        gpu->calls = call->next;
        if (told && call->op != NULL) {
            call->op->done = true;
            call->op->error = EIO;
        }
        free(call);
    }
}

void sim_gpu_device_stop(struct sim_gpu_device *gpu)
{
    drop_calls(gpu, true);
    sim_streams_advance(sim_gpu_process(gpu)->host);
}

void sim_gpu_device_close_peers(struct sim_gpu_device *gpu)
{
    while (gpu->imports != NULL) {
        sim_gpu_unimport(&gpu->io, gpu->imports->allocation->memory);
    }
}

void sim_gpu_device_fini(struct sim_gpu_device *gpu)
{
    if (gpu->clock == NULL) {
        return;
    }
    drop_calls(gpu, false);
    sim_streams_fini(gpu);
    sim_gpu_destroy(gpu->clock);
    while (gpu->first != NULL) {
        sim_allocation_drop(gpu, &gpu->first);
    }
}

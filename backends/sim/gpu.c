/* A process's GPU: memory of this process, and sim/gpu for the time that work takes. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/text.h"

#define PAGE_BYTES 4096
/* For all that a run may hold at a time, and far less than an address space. */
#define PHANTOM_BYTES ((size_t)1 << 45)

/* calloc gives large blocks as untouched zero pages, so that a simulated 1 TiB costs what is
 * used of it. */
struct sim_allocation {
    struct sim_allocation *next;
    void *base; /* Owned; from calloc; NULL: a range of the world's that holds nothing */
    void *memory;       /* the first page boundary inside */
    bool is_device;     /* the GPU's, not pinned memory of the host */
    uint64_t secret;    /* of who may open it; 0: it is not shared */
    uint32_t n_openers; /* other processes that have it */
    bool is_freed;      /* but for them */
    size_t n_bytes;     /* whole pages */
};

struct sim_gpu_call {
    struct sim_gpu_work work;
    struct io_gpu_op *op;
    struct sim_gpu_device *gpu;
    struct sim_gpu_call *next;
};

/* ---- memory that holds nothing ---- */

weft_status sim_phantoms_init(struct sim_phantoms *phantoms, struct weft_error *error)
{
    void *start = mmap(NULL, PHANTOM_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        return weft_fail_errno(error, errno, "world", "no addresses for phantom memory");
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

/* One of the same size that was given back, or new addresses. */
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

static bool take_real(struct sim_allocation *allocation)
{
    allocation->base = calloc(1, allocation->n_bytes + PAGE_BYTES - 1);
    if (allocation->base == NULL) {
        return false;
    }
    uintptr_t past = (uintptr_t)allocation->base % PAGE_BYTES;
    allocation->memory = (char *)allocation->base + (past == 0 ? 0 : PAGE_BYTES - past);
    return true;
}

static struct sim_gpu_device *gpu_of(struct io_gpu *gpu)
{
    return weft_container_of(gpu, struct sim_gpu_device, io);
}

static int gpu_alloc(struct io_gpu *gpu, enum io_memory where, size_t n_bytes, void **out)
{
    struct sim_gpu_device *device = gpu_of(gpu);
    struct sim_phantoms *phantoms = device->phantoms;
    if (n_bytes == 0 || n_bytes > SIZE_MAX - 2 * PAGE_BYTES) {
        return n_bytes == 0 ? EINVAL : ENOMEM;
    }
    struct sim_allocation *allocation = weft_calloc(1, sizeof *allocation);
    bool is_phantom = where == IO_MEMORY_DEVICE && phantoms->range.n_bytes > 0;
    allocation->n_bytes = (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    if (!(is_phantom ? take_phantom(phantoms, allocation) : take_real(allocation))) {
        free(allocation);
        return ENOMEM;
    }
    allocation->is_device = where == IO_MEMORY_DEVICE;
    allocation->next = device->first;
    device->first = allocation;
    *out = allocation->memory;
    return 0;
}

static void drop_allocation(struct sim_gpu_device *device, struct sim_allocation **at);

static void gpu_free(struct io_gpu *gpu, void *memory)
{
    struct sim_gpu_device *device = gpu_of(gpu);
    if (memory == NULL) {
        return;
    }
    struct sim_allocation **at = &device->first;
    while ((*at)->memory != memory || (*at)->is_freed) {
        at = &(*at)->next;
        weft_check(*at != NULL);
    }
    if ((*at)->n_openers > 0) { /* whoever opened it may still copy */
        (*at)->is_freed = true;
        (*at)->secret = 0;
        return;
    }
    drop_allocation(device, at);
}

static void drop_allocation(struct sim_gpu_device *device, struct sim_allocation **at)
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

static void take_out(struct sim_gpu_call *call)
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
    take_out(call);
    free(call);
    op->done = true;
    op->error = 0;
    io_task_wake(op->task);
}

/* ---- other GPUs, and memory of the host ---- */

/* Memory of another process's GPU. */
struct sim_import {
    struct sim_import *next;
    struct sim_process *owner;         /* Not owned. */
    struct sim_allocation *allocation; /* Not owned; it waits for us */
};

static struct sim_process *process_of(struct sim_gpu_device *device)
{
    return weft_container_of(device, struct sim_process, gpu);
}

/* As world_ways counts places. */
static uint32_t place_of(struct sim_gpu_device *device, const void *memory)
{
    struct sim_process *process = process_of(device);
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

/* Which way a copy takes, if it leaves the GPU's memory. */
static void find_way(struct sim_gpu_device *device, const struct io_gpu_op *op,
                     struct sim_gpu_work *work)
{
    struct sim_process *process = process_of(device);
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

/* What a handle's bytes are. */
struct sim_handle {
    uint64_t secret, address;
    uint32_t process;
};
_Static_assert(sizeof(struct sim_handle) <= IO_GPU_HANDLE_BYTES, "a handle holds it");

static bool gpu_can_access(struct io_gpu *gpu, const char *peer_uuid)
{
    struct sim_process *process = process_of(gpu_of(gpu));
    const struct sim_host *host = process->host;
    for (uint32_t i = 0; i < host->n_processes && host->spec->n_gpus > 0; i++) {
        if (strcmp(host->processes[i].gpu.io.uuid, peer_uuid) == 0) {
            return true;
        }
    }
    return false;
}

static int gpu_share(struct io_gpu *gpu, void *memory, struct io_gpu_handle *out)
{
    struct sim_process *process = process_of(gpu_of(gpu));
    for (struct sim_allocation *at = gpu_of(gpu)->first; at != NULL; at = at->next) {
        if (at->memory != memory || !at->is_device || at->is_freed) {
            continue;
        }
        struct sim_handle handle = {.address = (uintptr_t)memory,
                                    .process = process->index};
        while (at->secret == 0) {
            process->env.ops->random(&process->env, &at->secret, sizeof at->secret);
        }
        handle.secret = at->secret;
        memset(out, 0, sizeof *out);
        memcpy(out->bytes, &handle, sizeof handle);
        return 0;
    }
    return EINVAL;
}

static int gpu_open_peer(struct io_gpu *gpu, const struct io_gpu_handle *handle,
                         size_t n_bytes, void **out)
{
    struct sim_gpu_device *device = gpu_of(gpu);
    struct sim_host *host = process_of(device)->host;
    struct sim_handle named;
    memcpy(&named, handle->bytes, sizeof named);
    if (named.secret == 0 || named.process >= host->n_processes) {
        return EINVAL;
    }
    struct sim_process *owner = &host->processes[named.process];
    for (struct sim_allocation *at = owner->gpu.first; at != NULL; at = at->next) {
        if ((uintptr_t)at->memory != named.address || at->secret != named.secret) {
            continue;
        }
        if (n_bytes > at->n_bytes) {
            return EINVAL;
        }
        struct sim_import *import = weft_calloc(1, sizeof *import);
        *import = (struct sim_import){device->imports, owner, at};
        device->imports = import;
        at->n_openers++;
        *out = at->memory;
        return 0;
    }
    return ENOENT;
}

static void close_import(struct sim_gpu_device *device, struct sim_import **from)
{
    struct sim_import *import = *from;
    struct sim_gpu_device *owner = &import->owner->gpu;
    struct sim_allocation **at = &owner->first;
    (void)device;
    *from = import->next;
    while (*at != import->allocation) {
        at = &(*at)->next;
    }
    if (--(*at)->n_openers == 0 && (*at)->is_freed) {
        drop_allocation(owner, at);
    }
    free(import);
}

static void gpu_close_peer(struct io_gpu *gpu, void *memory)
{
    struct sim_gpu_device *device = gpu_of(gpu);
    for (struct sim_import **at = &device->imports; *at != NULL; at = &(*at)->next) {
        if ((*at)->allocation->memory == memory) {
            close_import(device, at);
            return;
        }
    }
    weft_check(memory == NULL);
}

static int gpu_start(struct io_gpu *gpu, struct io_gpu_op *op)
{
    struct sim_gpu_device *device = gpu_of(gpu);
    struct sim_gpu_call *call = weft_calloc(1, sizeof *call);
    op->done = false;
    op->error = 0;
    call->op = op;
    call->gpu = device;
    call->next = device->calls;
    device->calls = call;
    call->work = (struct sim_gpu_work){.is_reduce = op->kind == IO_GPU_REDUCE,
                                       .out = op->out,
                                       .a = op->a,
                                       .b = op->b,
                                       .count = op->count,
                                       .dtype = op->dtype,
                                       .redop = op->redop,
                                       .divisor = op->divisor,
                                       .done = {on_done, call}};
    find_way(device, op, &call->work);
    sim_gpu_start(device->clock, &call->work);
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

/* What the NICs wrote is visible when their completions are, or from now on. */
static int gpu_fence(struct io_gpu *gpu, void *memory, size_t n_bytes)
{
    struct sim_process *process = weft_container_of(gpu_of(gpu), struct sim_process, gpu);
    for (uint32_t i = 0; i < process->env.n_devices; i++) {
        sim_nic_fence_gpu(process->devices[i].nic);
    }
    (void)memory;
    (void)n_bytes;
    return 0;
}

static int gpu_copy_now(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes)
{
    sim_move(&gpu_of(gpu)->phantoms->range, to, from, n_bytes);
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
    .can_access = gpu_can_access,
    .share = gpu_share,
    .open_peer = gpu_open_peer,
    .close_peer = gpu_close_peer,
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
                process->index);
    process->env.gpu = &gpu->io;
}

/* What was under way is gone. Its owners may be gone too when a world ends with work under way:
 * then they are not told. */
static void drop_calls(struct sim_gpu_device *gpu, bool told)
{
    sim_gpu_reset(gpu->clock);
    while (gpu->calls != NULL) {
        struct sim_gpu_call *call = gpu->calls;
        gpu->calls = call->next;
        if (told) {
            call->op->done = true;
            call->op->error = EIO;
        }
        free(call);
    }
}

void sim_gpu_device_stop(struct sim_gpu_device *gpu)
{
    drop_calls(gpu, true);
}

void sim_gpu_device_close_peers(struct sim_gpu_device *gpu)
{
    while (gpu->imports != NULL) {
        close_import(gpu, &gpu->imports);
    }
}

void sim_gpu_device_fini(struct sim_gpu_device *gpu)
{
    if (gpu->clock == NULL) {
        return;
    }
    drop_calls(gpu, false);
    sim_gpu_destroy(gpu->clock);
    while (gpu->first != NULL) {
        drop_allocation(gpu, &gpu->first);
    }
}

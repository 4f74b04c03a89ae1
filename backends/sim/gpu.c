/* A process's GPU: memory of this process, and sim/gpu for the time that work takes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/text.h"

#define PAGE_BYTES 4096

/* calloc gives large blocks as untouched zero pages, so that a simulated 1 TiB costs what is
 * used of it. */
struct sim_allocation {
    struct sim_allocation *next;
    void *base;   /* Owned; from calloc */
    void *memory; /* the first page boundary inside */
};

struct sim_gpu_call {
    struct sim_gpu_work work;
    struct io_gpu_op *op;
    struct sim_gpu_device *gpu;
    struct sim_gpu_call *next;
};

static struct sim_gpu_device *gpu_of(struct io_gpu *gpu)
{
    return weft_container_of(gpu, struct sim_gpu_device, io);
}

static int gpu_alloc(struct io_gpu *gpu, enum io_memory where, size_t n_bytes, void **out)
{
    (void)where;
    if (n_bytes == 0 || n_bytes > SIZE_MAX - PAGE_BYTES) {
        return n_bytes == 0 ? EINVAL : ENOMEM;
    }
    struct sim_allocation *allocation = weft_calloc(1, sizeof *allocation);
    allocation->base = calloc(1, n_bytes + PAGE_BYTES - 1);
    if (allocation->base == NULL) {
        free(allocation);
        return ENOMEM;
    }
    uintptr_t past = (uintptr_t)allocation->base % PAGE_BYTES;
    allocation->memory = (char *)allocation->base + (past == 0 ? 0 : PAGE_BYTES - past);
    allocation->next = gpu_of(gpu)->first;
    gpu_of(gpu)->first = allocation;
    *out = allocation->memory;
    return 0;
}

static void gpu_free(struct io_gpu *gpu, void *memory)
{
    if (memory == NULL) {
        return;
    }
    struct sim_allocation **at = &gpu_of(gpu)->first;
    while ((*at)->memory != memory) {
        at = &(*at)->next;
        weft_check(*at != NULL);
    }
    struct sim_allocation *allocation = *at;
    *at = allocation->next;
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
                                       .done = {on_done, call}};
    sim_gpu_start(device->clock, &call->work);
    return 0;
}

static int gpu_poll(struct io_gpu *gpu, struct io_gpu_op *op)
{
    (void)gpu;
    return op->done ? op->error : EINPROGRESS;
}

/* What the NIC wrote is visible when its completion is. */
static int gpu_fence(struct io_gpu *gpu, void *memory, size_t n_bytes)
{
    (void)gpu;
    (void)memory;
    (void)n_bytes;
    return 0;
}

static int gpu_copy_now(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes)
{
    (void)gpu;
    memcpy(to, from, n_bytes);
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
};

void sim_gpu_device_init(struct sim_process *process)
{
    const struct sim_host *host = process->host;
    struct sim_gpu_device *gpu = &process->gpu;
    gpu->clock = sim_gpu_create(host->world->engine, &sim_gpu_default);
    gpu->io =
        (struct io_gpu){.ops = &gpu_ops, .is_host_memory = true, .rdma_direct = true};
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

void sim_gpu_device_fini(struct sim_gpu_device *gpu)
{
    if (gpu->clock == NULL) {
        return;
    }
    drop_calls(gpu, false);
    sim_gpu_destroy(gpu->clock);
    while (gpu->first != NULL) {
        gpu_free(&gpu->io, gpu->first->memory);
    }
}

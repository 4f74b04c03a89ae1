#define _GNU_SOURCE
#include "backends/hostmem/far_testing.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/text.h"
#include "io/verbs.h"
#include "sim/dmabuf.h"

/* Sufficient to complete the next operation as well. */
#define WHILE_ASKED 12

struct far_memory {
    struct far_memory *next;
    uint8_t *address; /* the user's address, which is inaccessible */
    uint8_t *memory;  /* Owned by the machine's GPU */
    size_t n_bytes;
    int dma_fd; /* 0: none */
};

struct far_call {
    struct far_call *next;
    struct io_gpu_op op; /* for the machine's GPU */
};

struct far_gpu {
    struct far_gpu *next;
    struct io_gpu io;
    struct io_gpu *its; /* Not owned. */
    struct hostmem_machine *machine;
    struct io_env *env;
    struct far_memory *memories; /* Owned */
    struct far_call *calls;      /* Owned */
    struct io_device_ops ops;    /* of the NICs */
    const struct io_device_ops *theirs;
    struct io_gpu *before;
    struct sim_dmabufs *dmabufs; /* Owned; NULL if there are none */
    uint32_t n_refused;
};

static struct far_gpu *all;

static struct far_gpu *far_of(struct io_gpu *gpu)
{
    return weft_container_of(gpu, struct far_gpu, io);
}

static struct far_gpu *of_env(const struct io_env *env)
{
    struct far_gpu *far = all;

    while (far->env != env) {
        far = far->next;
    }
    return far;
}

static struct far_memory *find(struct far_gpu *far, const void *address)
{
    struct far_memory *at = far->memories;

    while (at != NULL && (uintptr_t)address - (uintptr_t)at->address >= at->n_bytes) {
        at = at->next;
    }
    return at;
}

/* Returns the real address. */
static void *there(struct far_gpu *far, const void *address)
{
    struct far_memory *at = find(far, address);

    return at == NULL ? (void *)(uintptr_t)address
                      : at->memory + ((uintptr_t)address - (uintptr_t)at->address);
}

static int far_alloc(struct io_gpu *gpu, enum io_memory where, size_t n_bytes, void **out)
{
    struct far_gpu *far = far_of(gpu);
    struct far_memory *memory;
    void *real;
    int sys_errno = far->its->ops->alloc(far->its, where, n_bytes, &real);

    if (sys_errno != 0 || where == IO_MEMORY_HOST) {
        *out = real;
        return sys_errno;
    }
    memory = weft_calloc(1, sizeof(*memory));
    memory->memory = real;
    memory->n_bytes = n_bytes;
    memory->address = mmap(NULL, n_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    weft_check(memory->address != MAP_FAILED);
    memory->next = far->memories;
    far->memories = memory;
    *out = memory->address;
    return 0;
}

static void far_free(struct io_gpu *gpu, void *memory)
{
    struct far_gpu *far = far_of(gpu);
    struct far_memory **at = &far->memories;

    while (*at != NULL && (*at)->address != memory) {
        at = &(*at)->next;
    }
    if (memory == NULL || *at == NULL) {
        far->its->ops->free(far->its, memory);
        return;
    }
    struct far_memory *gone = *at;

    *at = gone->next;
    munmap(gone->address, gone->n_bytes);
    if (gone->dma_fd != 0) {
        (void)sim_dmabuf_revoke(far->dmabufs, gone->dma_fd);
        (void)sim_dmabuf_close(far->dmabufs, gone->dma_fd);
    }
    far->its->ops->free(far->its, gone->memory);
    free(gone);
}

static int far_start(struct io_gpu *gpu, struct io_gpu_op *op)
{
    struct far_gpu *far = far_of(gpu);
    struct far_call *call = weft_calloc(1, sizeof(*call));

    call->op = *op;
    call->op.out = there(far, op->out);
    call->op.a = there(far, op->a);
    call->op.b = op->b == NULL ? NULL : there(far, op->b);
    call->next = far->calls;
    far->calls = call;
    op->done = false;
    op->backend[0] = call;
    return far->its->ops->start(far->its, &call->op);
}

/* The GPU makes progress while it is polled. */
static int far_poll(struct io_gpu *gpu, struct io_gpu_op *op)
{
    struct far_gpu *far = far_of(gpu);
    struct far_call *call = op->backend[0], **at = &far->calls;
    int sys_errno;

    if (op->done) {
        return op->error;
    }
    sys_errno = far->its->ops->poll(far->its, &call->op);
    if (sys_errno == EINPROGRESS) {
        for (int i = 0; i < WHILE_ASKED && hostmem_step(far->machine); i++) {
        }
        return sys_errno;
    }
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    free(call);
    op->done = true;
    op->error = sys_errno;
    return sys_errno;
}

static int far_fence(struct io_gpu *gpu, void *memory, size_t n_bytes)
{
    (void)memory;
    (void)n_bytes;
    weft_check(far_of(gpu)->dmabufs != NULL); /* otherwise no NIC wrote there */
    return 0;
}

static int far_dma_buf(struct io_gpu *gpu, const void *memory, size_t n_bytes,
                       int *out_fd, uint64_t *out_offset)
{
    struct far_gpu *far = far_of(gpu);
    struct far_memory *at = find(far, memory);

    if (far->dmabufs == NULL || at == NULL) {
        return EOPNOTSUPP;
    }
    *out_offset = (uintptr_t)memory - (uintptr_t)at->address;
    weft_check(*out_offset + n_bytes <= at->n_bytes);
    at->dma_fd = at->dma_fd != 0
                     ? at->dma_fd
                     : sim_dmabuf_export(far->dmabufs, at->memory, at->n_bytes);
    *out_fd = at->dma_fd;
    return 0;
}

static int far_transfer(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes)
{
    struct far_gpu *far = far_of(gpu);

    return far->its->ops->upload(far->its, there(far, to), there(far, from), n_bytes);
}

static const struct io_gpu_ops far_ops = {
    .alloc = far_alloc,
    .free = far_free,
    .start = far_start,
    .poll = far_poll,
    .fence = far_fence,
    .upload = far_transfer,
    .download = far_transfer,
    .dma_buf = far_dma_buf,
};

/* ---- NICs ---- */

static int submit(struct io_device *device, struct io_op *op)
{
    struct far_gpu *far = weft_container_of(
        (struct io_device_ops *)(uintptr_t)device->ops, struct far_gpu, ops);

    if (op->kind == IO_OP_REG_MR && !op->arg.reg_mr.is_dmabuf &&
        find(far, op->arg.reg_mr.addr) != NULL) {
        weft_check(far->io.rdma_direct);
        far->n_refused++;
        op->state = IO_OP_DONE;
        op->error = EFAULT;
        io_task_wake(op->task);
        return 0;
    }
    return far->theirs->submit(device, op);
}

void hostmem_far_open(struct hostmem_machine *machine, struct io_env *env,
                      enum hostmem_far_reach reach)
{
    struct far_gpu *far = weft_calloc(1, sizeof(*far));
    const struct hostmem_process process = {.uuid = "GPU-far"};

    far->machine = machine;
    far->its = hostmem_join(machine, &process);
    far->io = (struct io_gpu){
        .ops = &far_ops, .name = "far GPU", .rdma_direct = reach != HOSTMEM_FAR_NONE};
    far->dmabufs = reach == HOSTMEM_FAR_DMABUF ? sim_dmabufs_create() : NULL;
    far->env = env;
    far->before = env->gpu;
    far->theirs = env->devices[0]->ops;
    far->ops = *far->theirs;
    far->ops.submit = submit;
    for (uint32_t d = 0; d < env->n_devices; d++) {
        if (far->dmabufs != NULL) {
            sim_nic_set_dmabufs(
                weft_container_of(env->devices[d], struct sim_device, io)->nic, 0,
                far->dmabufs);
        }
        env->devices[d]->ops = &far->ops;
    }
    env->gpu = &far->io;
    far->next = all;
    all = far;
}

uint32_t hostmem_far_n_refused(const struct io_env *env)
{
    return of_env(env)->n_refused;
}

void hostmem_far_close(struct io_env *env)
{
    struct far_gpu *far = of_env(env), **at = &all;

    weft_check(far->memories == NULL && far->calls == NULL);
    while (*at != far) {
        at = &(*at)->next;
    }
    *at = far->next;
    env->gpu = far->before;
    if (far->dmabufs != NULL) {
        for (uint32_t d = 0; d < env->n_devices; d++) {
            sim_nic_set_dmabufs(
                weft_container_of(env->devices[d], struct sim_device, io)->nic, 0, NULL);
        }
    }
    sim_dmabufs_destroy(far->dmabufs);
    for (uint32_t d = 0; d < env->n_devices; d++) {
        env->devices[d]->ops = far->theirs;
    }
    free(far);
}

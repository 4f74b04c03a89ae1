#define _GNU_SOURCE
#include "backends/hostmem/hostmem.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/text.h"

struct allocation {
    struct allocation *next;
    void *memory; /* Owned; from mmap */
    size_t n_bytes;
};

struct hostmem {
    struct io_gpu io;
    struct allocation *first;
};

static struct hostmem *hostmem_of(struct io_gpu *gpu)
{
    return weft_container_of(gpu, struct hostmem, io);
}

/* Uses anonymous mappings, which are page-aligned and zero, and unmapped when freed, so that a
 * late write by a NIC faults instead of corrupting other data. */
static int hostmem_alloc(struct io_gpu *gpu, enum io_memory where, size_t n_bytes,
                         void **out)
{
    (void)where;
    if (n_bytes == 0) {
        return EINVAL;
    }
    void *memory =
        mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return ENOMEM;
    }
    struct allocation *allocation = weft_calloc(1, sizeof *allocation);
    *allocation = (struct allocation){
        .next = hostmem_of(gpu)->first, .memory = memory, .n_bytes = n_bytes};
    hostmem_of(gpu)->first = allocation;
    *out = memory;
    return 0;
}

static void hostmem_free(struct io_gpu *gpu, void *memory)
{
    if (memory == NULL) {
        return;
    }
    struct allocation **at = &hostmem_of(gpu)->first;
    while (*at != NULL && (*at)->memory != memory) {
        at = &(*at)->next;
    }
    weft_check(*at != NULL);
    struct allocation *allocation = *at;
    *at = allocation->next;
    munmap(allocation->memory, allocation->n_bytes);
    free(allocation);
}

static int hostmem_start(struct io_gpu *gpu, struct io_gpu_op *op)
{
    (void)gpu;
    if (op->kind == IO_GPU_COPY) {
        memmove(op->out, op->a, op->count);
    } else {
        weft_reduce(op->dtype, op->redop, op->out, op->a, op->b, op->count);
        if (op->divisor > 1) {
            weft_reduce_divide(op->dtype, op->out, op->count, op->divisor);
        }
    }
    op->error = 0;
    op->done = true;
    io_task_wake(op->task);
    return 0;
}

static int hostmem_poll(struct io_gpu *gpu, struct io_gpu_op *op)
{
    (void)gpu;
    return op->done ? op->error : EINPROGRESS;
}

/* Nothing to do, because a completion in host memory is visible after its data: PCIe writes of
 * one device arrive in order, and polling is an acquire (ibv_poll_cq(3)). */
static int hostmem_fence(struct io_gpu *gpu, void *memory, size_t n_bytes)
{
    (void)gpu;
    (void)memory;
    (void)n_bytes;
    return 0;
}

static int hostmem_transfer(struct io_gpu *gpu, void *to, const void *from,
                            size_t n_bytes)
{
    (void)gpu;
    memmove(to, from, n_bytes);
    return 0;
}

static const struct io_gpu_ops hostmem_ops = {
    .alloc = hostmem_alloc,
    .free = hostmem_free,
    .start = hostmem_start,
    .poll = hostmem_poll,
    .fence = hostmem_fence,
    .upload = hostmem_transfer,
    .download = hostmem_transfer,
};

struct io_gpu *hostmem_create(void)
{
    struct hostmem *hostmem = weft_calloc(1, sizeof *hostmem);
    hostmem->io =
        (struct io_gpu){.ops = &hostmem_ops, .is_host_memory = true, .rdma_direct = true};
    weft_format(hostmem->io.name, sizeof hostmem->io.name, "host memory");
    return &hostmem->io;
}

void hostmem_destroy(struct io_gpu *gpu)
{
    if (gpu == NULL) {
        return;
    }
    while (hostmem_of(gpu)->first != NULL) {
        hostmem_free(gpu, hostmem_of(gpu)->first->memory);
    }
    free(hostmem_of(gpu));
}

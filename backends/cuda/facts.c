/* Facts of a device, and the kind of memory at an address. */
#include <errno.h>
#include <string.h>

#include "backends/cuda/private.h"
#include "base/text.h"

static int ask(struct cuda_gpu *cuda, int attribute)
{
    int value = 0;

    return cuda->driver.attribute(&value, attribute, cuda->device) == CUDA_OK ? value : 0;
}

static bool has_virtual_memory(const struct cuda_driver *driver)
{
    return driver->physical != NULL && driver->physical_release != NULL &&
           driver->physical_export != NULL && driver->physical_import != NULL &&
           driver->reserve != NULL && driver->unreserve != NULL && driver->map != NULL &&
           driver->unmap != NULL && driver->set_access != NULL;
}

void cuda_read_facts(struct cuda_gpu *cuda)
{
    int ordering = ask(cuda, CUDA_ATTR_RDMA_ORDERING);
    bool has_virtual = has_virtual_memory(&cuda->driver);
    bool can_flush = (ask(cuda, CUDA_ATTR_RDMA_FLUSH) & CUDA_FLUSH_HOST) != 0;

    cuda->facts = (struct cuda_facts){
        .is_integrated = ask(cuda, CUDA_ATTR_INTEGRATED) != 0,
        .has_pageable_access = ask(cuda, CUDA_ATTR_PAGEABLE_ACCESS) != 0,
        .has_rdma = ask(cuda, CUDA_ATTR_RDMA_SUPPORTED) != 0,
        .has_dma_buf =
            ask(cuda, CUDA_ATTR_DMA_BUF) != 0 && cuda->driver.range_handle != NULL,
        .must_flush = ordering < CUDA_ORDERING_OWNER,
        .can_flush = can_flush && cuda->driver.flush_writes != NULL,
        .has_ipc_events = ask(cuda, CUDA_ATTR_IPC_EVENT) != 0,
        .has_handle_fd = has_virtual && ask(cuda, CUDA_ATTR_HANDLE_FD) != 0,
        .has_handle_fabric = has_virtual && ask(cuda, CUDA_ATTR_HANDLE_FABRIC) != 0,
        .n_multiprocessors = ask(cuda, CUDA_ATTR_MULTIPROCESSORS),
    };
}

/* "GPU-00112233-4455-6677-8899-aabbccddeeff", as nvidia-smi writes it. */
void cuda_format_uuid(const struct cuda_uuid *uuid, char *out, size_t n_bytes)
{
    const unsigned char *b = (const unsigned char *)uuid->bytes;

    weft_format(out, n_bytes,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
                "%02x%02x%02x%02x%02x%02x",
                b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
                b[12], b[13], b[14], b[15]);
}

const struct cuda_facts *cuda_facts_of(struct io_gpu *gpu)
{
    return &cuda_gpu_of(gpu)->facts;
}

enum cuda_memory cuda_memory_of(struct io_gpu *gpu, const void *memory)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    cuda_pointer at = (uintptr_t)memory;
    unsigned is_managed = 0, type = 0;
    enum cuda_memory kind = CUDA_IS_PAGEABLE;

    if (cuda_enter(cuda) != CUDA_OK) {
        return kind;
    }
    if (cuda->driver.pointer(&is_managed, CUDA_PTR_IS_MANAGED, at) == CUDA_OK &&
        (is_managed & 0xff) != 0) {
        kind = CUDA_IS_MANAGED;
    } else if (cuda->driver.pointer(&type, CUDA_PTR_MEMORY_TYPE, at) == CUDA_OK) {
        kind = type == CUDA_MEMORY_DEVICE ? CUDA_IS_DEVICE
               : type == CUDA_MEMORY_HOST ? CUDA_IS_PINNED
                                          : CUDA_IS_PAGEABLE;
    }
    cuda_leave(cuda);
    return kind;
}

bool cuda_can_register(struct io_gpu *gpu, const void *memory)
{
    const struct cuda_facts *facts = cuda_facts_of(gpu);

    switch (cuda_memory_of(gpu, memory)) {
    case CUDA_IS_PAGEABLE:
    case CUDA_IS_PINNED:
        return true;
    case CUDA_IS_MANAGED:
        return false;
    case CUDA_IS_DEVICE:
        break;
    }
    return facts->has_dma_buf || facts->has_rdma;
}

int cuda_dma_buf(struct io_gpu *gpu, const void *memory, size_t n_bytes, int *out_fd)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    int result;

    if (!cuda->facts.has_dma_buf) {
        return EOPNOTSUPP;
    }
    result = cuda_enter(cuda);
    if (result == CUDA_OK) {
        result = cuda->driver.range_handle(out_fd, (uintptr_t)memory, n_bytes,
                                           CUDA_RANGE_DMA_BUF, 0);
        cuda_leave(cuda);
    }
    return cuda_errno(result);
}

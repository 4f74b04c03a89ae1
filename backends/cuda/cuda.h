/* The I/O interface to real GPUs over CUDA's driver API. One io_gpu is one device in its primary
 * context. Each call pushes that context and pops it again, so the caller's current context does
 * not change.
 *
 * Memory is allocated where it suits the device. If the GPU has memory of its own, "device"
 * memory is there, and what a NIC writes into it is flushed if the driver requires that. On a GPU
 * that shares the host's memory (DGX Spark: GB10), "device" memory is pinned host memory, which
 * is equally close to the GPU and which any NIC can register. Memory from cudaMalloc cannot be
 * registered there and is staged. */
#ifndef WEFT_BACKENDS_CUDA_CUDA_H
#define WEFT_BACKENDS_CUDA_CUDA_H

#include "backends/cuda/library.h"
#include "io/gpu.h"

/* Facts of a device, as reported by the driver. */
struct cuda_facts {
    bool is_integrated;       /* no memory of its own */
    bool has_pageable_access; /* can access any memory of the process */
    bool has_rdma;            /* NICs can reach its memory through a peer-memory driver */
    bool has_dma_buf;         /* NICs can reach its memory through dma-buf */
    /* What NICs write to its memory is visible only after a flush. */
    bool must_flush;
    bool can_flush; /* the driver can flush such writes */
    bool has_ipc_events;
    /* Handles that cuMemCreate memory can be exported as. */
    bool has_handle_fd, has_handle_fabric;
    int n_multiprocessors;
};

/* The kind of memory at an address; decides how it is registered and copied. */
enum cuda_memory {
    CUDA_IS_PAGEABLE, /* the process's own, unknown to CUDA */
    CUDA_IS_PINNED,
    CUDA_IS_MANAGED, /* moves between host and GPU, so NICs must not register it */
    CUDA_IS_DEVICE
};

struct cuda_gpu;

/* Opens device number `ordinal` of those visible to this process (CUDA_VISIBLE_DEVICES). Without
 * built-in kernels it offers no reductions (EOPNOTSUPP). Fails with WEFT_ERR_ENVIRONMENT if there
 * is no driver, it is too old, the device does not exist or the kernels do not load. The caller
 * frees *out with cuda_close(). */
weft_status cuda_open(unsigned ordinal, struct io_gpu **out,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* Selects the GPU and the kernels of one of several processes of a host. */
struct cuda_choice {
    const char *kernels; /* file with a cubin, fatbin or PTX; NULL: built-in kernels */
    uint32_t process;    /* index within the host, from 0 */
};
/* Opens a GPU of the list `which`: ordinals and UUIDs (or unique prefixes of them), separated by
 * commas. Process i takes entry i modulo the length of the list. If `which` is NULL, the list is
 * all devices visible to this process. Fails with WEFT_ERR_ENVIRONMENT as cuda_open() does, and
 * if there are no kernels, so that a GPU opened here can always reduce. Fails with WEFT_ERR_INPUT
 * if the entry is neither an ordinal nor a UUID, or matches several devices. */
weft_status cuda_choose(const struct cuda_choice *choice, const char *which,
                        struct io_gpu **out, struct weft_error *error) WEFT_MUST_CHECK;
/* Opens a device with an open driver, which is not owned and must outlive the GPU. `image`
 * contains the kernels; if NULL, reductions are not offered (EOPNOTSUPP). */
weft_status cuda_open_with(const struct cuda_driver *driver, const void *image,
                           unsigned ordinal, struct io_gpu **out,
                           struct weft_error *error) WEFT_MUST_CHECK;
/* Waits for started operations, frees everything and closes the GPU. Ignores NULL. */
void cuda_close(struct io_gpu *gpu);

const struct cuda_facts *cuda_facts_of(struct io_gpu *gpu);
enum cuda_memory cuda_memory_of(struct io_gpu *gpu, const void *memory);
/* Returns true if a NIC can register this memory. Otherwise it must be staged. */
bool cuda_can_register(struct io_gpu *gpu, const void *memory);
/* Exports [memory, +n_bytes) as a dma-buf, which the caller closes. Returns EOPNOTSUPP if the
 * device has no dma-buf; the memory is then registered by address. */
int cuda_dma_buf(struct io_gpu *gpu, const void *memory, size_t n_bytes, int *out_fd);

/* Returns a descriptor that becomes readable when an operation might have ended; cuda_progress()
 * then wakes its task. Returns -1 if there is none and operations must be polled. */
int cuda_wake_fd(struct io_gpu *gpu);
void cuda_progress(struct io_gpu *gpu);

/* Returns the built-in kernels, or NULL if Weft was built without nvcc. */
const void *cuda_built_image(void);

#endif

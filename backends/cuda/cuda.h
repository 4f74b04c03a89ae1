/* Real GPUs: the waist over CUDA's driver API. One io_gpu is one device in its primary context,
 * which is pushed for a call and popped after it: the caller's own is left as it is.
 *
 * Memory is what suits the device. Where the GPU has its own, "device" memory is there, and what
 * the NIC writes into it is flushed if the driver says so. On a GPU that shares the host's memory
 * (DGX Spark: GB10) it is pinned host memory, which is as near, and which any NIC can register;
 * memory that users bring from cudaMalloc cannot be registered there, and is staged. */
#ifndef WEFT_BACKENDS_CUDA_CUDA_H
#define WEFT_BACKENDS_CUDA_CUDA_H

#include "backends/cuda/library.h"
#include "io/gpu.h"

/* Facts of a device, as the driver tells them. */
struct cuda_facts {
    bool is_integrated;       /* it has no memory of its own */
    bool has_pageable_access; /* it reads and writes any memory of the process */
    bool has_rdma;            /* NICs reach its memory through a peer-memory driver */
    bool has_dma_buf;         /* ... or through dma-buf */
    bool must_flush;          /* what NICs write there is not seen by itself */
    bool can_flush;           /* ... and the driver can make it seen */
    bool has_ipc_events;
    bool has_handle_fd, has_handle_fabric; /* of memory from cuMemCreate */
    int n_multiprocessors;
};

/* What a pointer is, for who wants to register or to copy it. */
enum cuda_memory {
    CUDA_IS_PAGEABLE, /* the process's; CUDA does not know it */
    CUDA_IS_PINNED,
    CUDA_IS_MANAGED, /* moves between host and GPU: a NIC must not hold it */
    CUDA_IS_DEVICE
};

struct cuda_gpu;

/* Opens the device of that number among those that this process sees (CUDA_VISIBLE_DEVICES).
 * WEFT_ERR_ENVIRONMENT: no driver, an old one, no such device, no kernels for it. */
weft_status cuda_open(unsigned ordinal, struct io_gpu **out,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* One of several, for processes of one host. */
struct cuda_choice {
    const char *kernels; /* a file: cubin, fatbin or PTX; NULL: those built in */
    uint32_t process;    /* of its host, from 0 */
};
/* Opens what `which` names: ordinals and UUIDs (or how they begin), separated by commas, of which
 * the process takes its own, round again past the end; NULL: all that this process sees.
 * WEFT_ERR_ENVIRONMENT as above, and no kernels at all: what can be opened can reduce.
 * WEFT_ERR_INPUT: it names nothing, or several. */
weft_status cuda_choose(const struct cuda_choice *choice, const char *which,
                        struct io_gpu **out, struct weft_error *error) WEFT_MUST_CHECK;
/* With a driver that is open already; Not owned. `image` are the kernels; NULL: reductions
 * are not offered (EOPNOTSUPP). */
weft_status cuda_open_with(const struct cuda_driver *driver, const void *image,
                           unsigned ordinal, struct io_gpu **out,
                           struct weft_error *error) WEFT_MUST_CHECK;
/* What was started ends first. NULL is ignored. */
void cuda_close(struct io_gpu *gpu);

const struct cuda_facts *cuda_facts_of(struct io_gpu *gpu);
enum cuda_memory cuda_memory_of(struct io_gpu *gpu, const void *memory);
/* Whether a NIC can register it as it is; else it is to be staged. */
bool cuda_can_register(struct io_gpu *gpu, const void *memory);
/* A dma-buf of [memory, +n), to be closed by the caller. EOPNOTSUPP: register it by address. */
int cuda_dma_buf(struct io_gpu *gpu, const void *memory, size_t n_bytes, int *out_fd);

/* Readable when an operation may have ended: then cuda_progress wakes its task. -1: poll. */
int cuda_wake_fd(struct io_gpu *gpu);
void cuda_progress(struct io_gpu *gpu);

/* The kernels that were built in, or NULL: there was no nvcc. */
const void *cuda_built_image(void);

#endif

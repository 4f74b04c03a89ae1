/* Definitions shared by the files of backends/cuda. */
#ifndef WEFT_BACKENDS_CUDA_PRIVATE_H
#define WEFT_BACKENDS_CUDA_PRIVATE_H

#include "backends/cuda/cuda.h"
#include "base/check.h"

/* An operation in progress. */
struct cuda_call {
    struct cuda_call *next;
    struct io_gpu_op *op;   /* Not owned. */
    struct cuda_event *end; /* Owned; recorded after the operation */
};

struct cuda_allocation {
    struct cuda_allocation *next;
    void *memory;
    cuda_pointer taken; /* of the driver; `memory` is its first page boundary */
    size_t n_bytes;
    int dma_fd;   /* Owned; -1 until exported */
    bool is_host; /* pinned host memory, not device memory */
};

/* A descriptor from which other processes import one allocation; valid as long as that is. */
#define CUDA_SHARED_MAX 64
struct cuda_shared {
    cuda_pointer base;
    unsigned long long id;
    int fd; /* Owned */
};

/* Imported memory of another process. */
struct cuda_import {
    struct cuda_import *next;
    cuda_pointer at;
    size_t n_bytes;
    cuda_physical physical; /* Owned, if is_virtual */
    /* Mapped by cuda_virtual_import(), not by cuIpcOpenMemHandle. */
    bool is_virtual;
};

struct io_gpu_stream {
    struct cuda_stream *stream; /* Owned */
};

struct io_gpu_event {
    struct cuda_event *event; /* Owned */
};

struct cuda_gpu {
    struct io_gpu io;
    struct cuda_driver driver; /* copy; `handle` is owned if owns_driver */
    bool owns_driver;
    cuda_device device;
    unsigned ordinal;
    struct cuda_context *context; /* retained primary context */
    struct cuda_stream *stream;   /* Owned: the GPU's default stream */
    struct cuda_module *module;   /* Owned, or NULL */
    struct cuda_function *reduce[WEFT_N_DTYPES][WEFT_AVG];
    struct cuda_facts facts;
    uint8_t cluster[16]; /* NVLink fabric; zero if none */
    uint32_t clique;
    struct cuda_allocation *allocations; /* Owned */
    struct cuda_call *first, *last;      /* Owned; in start order */
    /* Owned; finished calls, kept for their events. */
    struct cuda_call *idle;
    int wake_fd;
    struct cuda_shared shared[CUDA_SHARED_MAX]; /* oldest first */
    uint32_t n_shared;
    struct cuda_import *imports; /* Owned */
};

static inline struct cuda_gpu *cuda_gpu_of(struct io_gpu *gpu)
{
    return weft_container_of(gpu, struct cuda_gpu, io);
}

static inline struct cuda_stream *cuda_stream_of(struct cuda_gpu *cuda,
                                                 struct io_gpu_stream *stream)
{
    return stream == NULL ? cuda->stream : stream->stream;
}

/* Makes the device's context current until cuda_leave(). Returns a CUresult. */
static inline int cuda_enter(struct cuda_gpu *cuda)
{
    return cuda->driver.push(cuda->context);
}

static inline void cuda_leave(struct cuda_gpu *cuda)
{
    struct cuda_context *ours;

    (void)cuda->driver.pop(&ours);
}

/* facts.c */
void cuda_read_facts(struct cuda_gpu *cuda);
void cuda_format_uuid(const struct cuda_uuid *uuid, char *out, size_t n_bytes);
/* virtual.c: sharing of cuMemCreate memory with other processes. The device's context must be
 * current. `kinds` is as in io_gpu_sharing_ops.export_memory. Each returns an errno. */
int cuda_virtual_export(struct cuda_gpu *cuda, cuda_pointer base, unsigned long long id,
                        uint32_t kinds, struct io_gpu_export *out);
int cuda_virtual_import(struct cuda_gpu *cuda, const struct io_gpu_export *exported,
                        struct cuda_import *out);
void cuda_virtual_unimport(struct cuda_gpu *cuda, const struct cuda_import *import);
void cuda_virtual_fini(struct cuda_gpu *cuda);
/* work.c */
int cuda_start(struct io_gpu *gpu, struct io_gpu_op *op);
int cuda_poll(struct io_gpu *gpu, struct io_gpu_op *op);
void cuda_finish_all(struct cuda_gpu *cuda);

/* sharing.c */
void cuda_sharing_fini(struct cuda_gpu *cuda);
extern const struct io_gpu_sharing_ops cuda_sharing_ops;

#endif

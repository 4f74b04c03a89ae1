/* What the files of backends/cuda share. */
#ifndef WEFT_BACKENDS_CUDA_PRIVATE_H
#define WEFT_BACKENDS_CUDA_PRIVATE_H

#include "backends/cuda/cuda.h"

/* An operation under way. */
struct cuda_call {
    struct cuda_call *next;
    struct io_gpu_op *op;   /* Not owned. */
    struct cuda_event *end; /* Owned; recorded after it */
};

struct cuda_allocation {
    struct cuda_allocation *next;
    void *memory;
    size_t n_bytes;
    bool is_host; /* pinned, not the device's */
};

struct io_gpu_stream {
    struct cuda_stream *stream; /* Owned */
};

struct io_gpu_event {
    struct cuda_event *event; /* Owned */
};

struct cuda_gpu {
    struct io_gpu io;
    struct cuda_driver driver; /* a copy; the handle is ours if owns_driver */
    bool owns_driver;
    cuda_device device;
    unsigned ordinal;
    struct cuda_context *context; /* retained */
    struct cuda_stream *stream;   /* Owned: the GPU's own */
    struct cuda_module *module;   /* Owned, or NULL */
    struct cuda_function *reduce[WEFT_N_DTYPES][WEFT_AVG];
    struct cuda_facts facts;
    struct cuda_allocation *allocations; /* Owned */
    struct cuda_call *first, *last;      /* Owned; in the order of starting */
    struct cuda_call *idle;              /* Owned: events to use again */
    int wake_fd;
};

struct cuda_gpu *cuda_gpu_of(struct io_gpu *gpu);
struct cuda_stream *cuda_stream_of(struct cuda_gpu *cuda, struct io_gpu_stream *stream);
/* The device's context for the calls between. Returns a CUresult. */
int cuda_enter(struct cuda_gpu *cuda);
void cuda_leave(struct cuda_gpu *cuda);

/* facts.c */
void cuda_read_facts(struct cuda_gpu *cuda);
void cuda_format_uuid(const struct cuda_uuid *uuid, char *out, size_t n_bytes);
/* work.c */
int cuda_start(struct io_gpu *gpu, struct io_gpu_op *op);
int cuda_poll(struct io_gpu *gpu, struct io_gpu_op *op);
void cuda_finish_all(struct cuda_gpu *cuda);

extern const struct io_gpu_sharing_ops cuda_sharing_ops;

#endif

/* Definitions shared by the files of the simulated GPU. */
#ifndef WEFT_BACKENDS_SIM_GPU_PRIVATE_H
#define WEFT_BACKENDS_SIM_GPU_PRIVATE_H

#include "backends/sim/sim_world.h"

/* Memory of a GPU. calloc() returns large blocks as untouched zero pages, so a simulated TiB
 * costs only what is used of it. */
struct sim_allocation {
    struct sim_allocation *next;
    void *base;      /* Owned; from calloc; NULL: a range of the world's phantom memory */
    void *memory;    /* first page boundary (or huge page boundary) inside */
    bool is_device;  /* GPU memory, not pinned host memory */
    uint64_t secret; /* grants access to other processes; 0: not exported */
    uint64_t buffer_id; /* unique among all allocations of the process, ever */
    uint32_t n_openers; /* other processes that have it open */
    bool is_freed;      /* freed by its owner, but still open elsewhere */
    size_t n_bytes;     /* whole pages */
};

/* A position in a stream; reached once no call up to `number` is pending. */
struct sim_mark {
    uint32_t process;
    uint64_t stream, number;
};

/* A pending call of a stream: an operation, or a wait. */
struct sim_gpu_call {
    struct sim_gpu_work work;
    struct io_gpu_op *op; /* NULL: a wait */
    struct sim_mark mark; /* position that a wait waits for */
    struct sim_gpu_device *gpu;
    struct io_gpu_stream *stream;
    uint64_t number; /* from the GPU's counter */
    weft_ps asked_at;
    struct sim_gpu_call *next, *after; /* in the GPU's list, in its stream's queue */
};

/* Calls that must wait for earlier ones. A created stream executes one at a time; the GPU's own
 * stream starts each as soon as no wait precedes it, and the GPU's links and memory keep the
 * order. */
struct io_gpu_stream {
    struct io_gpu_stream *next;
    struct sim_gpu_device *gpu;
    uint64_t id; /* 0: the GPU's own */
    struct sim_gpu_call *first, *last;
    struct sim_gpu_call *running; /* of a created stream */
    bool is_destroyed;            /* to be freed once idle */
};

/* Opened memory of another process's GPU. */
struct sim_import {
    struct sim_import *next;
    struct sim_process *owner;         /* Not owned. */
    struct sim_allocation *allocation; /* Not owned; exists until closed here */
};

static inline struct sim_gpu_device *sim_gpu_of(struct io_gpu *gpu)
{
    return weft_container_of(gpu, struct sim_gpu_device, io);
}

static inline struct sim_process *sim_gpu_process(struct sim_gpu_device *gpu)
{
    return weft_container_of(gpu, struct sim_process, gpu);
}

/* gpu.c: starts the operation now. */
void sim_gpu_begin(struct sim_gpu_call *call);
void sim_gpu_take_out(struct sim_gpu_call *call);
void sim_allocation_drop(struct sim_gpu_device *device, struct sim_allocation **at);

/* gpu_stream.c */
extern const struct io_gpu_sharing_ops sim_gpu_sharing_ops;
/* Appends a call to its stream, and starts it unless it must wait. */
void sim_stream_add(struct sim_gpu_call *call);
/* Handles the end of a call that has been removed. Other calls can now start, also in other
 * processes. */
void sim_stream_done(struct io_gpu_stream *stream, const struct sim_gpu_call *call);
/* Forgets all calls. */
void sim_streams_reset(struct sim_gpu_device *gpu);
void sim_streams_fini(struct sim_gpu_device *gpu);
/* Starts all calls of the host whose waits have ended. */
void sim_streams_advance(struct sim_host *host);

/* gpu_sharing.c */
int sim_gpu_identify(struct io_gpu *gpu, struct io_gpu_identity *out);
int sim_gpu_export(struct io_gpu *gpu, const void *address, uint32_t kinds,
                   struct io_gpu_export *out);
void sim_gpu_unexport(struct io_gpu *gpu, const struct io_gpu_export *exported);
int sim_gpu_import(struct io_gpu *gpu, const struct io_gpu_export *exported, void **out);
void sim_gpu_unimport(struct io_gpu *gpu, void *memory);
bool sim_gpu_can_access(struct io_gpu *gpu, const char *peer_uuid);

#endif

/* What the files of the simulated GPU share. */
#ifndef WEFT_BACKENDS_SIM_GPU_PRIVATE_H
#define WEFT_BACKENDS_SIM_GPU_PRIVATE_H

#include "backends/sim/sim_world.h"

/* calloc gives large blocks as untouched zero pages, so that a simulated 1 TiB costs what is
 * used of it. */
struct sim_allocation {
    struct sim_allocation *next;
    void *base; /* Owned; from calloc; NULL: a range of the world's that holds nothing */
    void *memory;       /* the first page boundary inside */
    bool is_device;     /* the GPU's, not pinned memory of the host */
    uint64_t secret;    /* of who may open it; 0: it is not shared */
    uint64_t buffer_id; /* no other of the process has, or had, the same */
    uint32_t n_openers; /* other processes that have it */
    bool is_freed;      /* but for them */
    size_t n_bytes;     /* whole pages */
};

/* How far a stream has come: true once nothing of it up to `number` is under way. */
struct sim_mark {
    uint32_t process;
    uint64_t stream, number;
};

/* Something of a stream that is not done: an operation, or a wait. */
struct sim_gpu_call {
    struct sim_gpu_work work;
    struct io_gpu_op *op; /* NULL: a wait */
    struct sim_mark mark; /* that is waited for */
    struct sim_gpu_device *gpu;
    struct io_gpu_stream *stream;
    uint64_t number; /* counted by the GPU */
    weft_ps asked_at;
    struct sim_gpu_call *next, *after; /* of the GPU; in its stream's queue */
};

/* What has to wait for something before it. A created stream does one thing at a time; the
 * GPU's own starts all that no wait holds back, and its links and memory keep the order. */
struct io_gpu_stream {
    struct io_gpu_stream *next;
    struct sim_gpu_device *gpu;
    uint64_t id; /* 0: the GPU's own */
    struct sim_gpu_call *first, *last;
    struct sim_gpu_call *running; /* of a created one */
    bool is_destroyed;            /* and goes when it is done */
};

/* Memory of another process's GPU. */
struct sim_import {
    struct sim_import *next;
    struct sim_process *owner;         /* Not owned. */
    struct sim_allocation *allocation; /* Not owned; it waits for us */
};

static inline struct sim_gpu_device *sim_gpu_of(struct io_gpu *gpu)
{
    return weft_container_of(gpu, struct sim_gpu_device, io);
}

static inline struct sim_process *sim_gpu_process(struct sim_gpu_device *gpu)
{
    return weft_container_of(gpu, struct sim_process, gpu);
}

/* gpu.c: takes its way now. */
void sim_gpu_begin(struct sim_gpu_call *call);
void sim_gpu_take_out(struct sim_gpu_call *call);
void sim_allocation_drop(struct sim_gpu_device *device, struct sim_allocation **at);

/* gpu_stream.c */
extern const struct io_gpu_sharing_ops sim_gpu_sharing_ops;
/* Behind what its stream has: begins at once, or in its turn. */
void sim_stream_add(struct sim_gpu_call *call);
/* A call of the stream is done, and out; others may begin, here and in other processes. */
void sim_stream_done(struct io_gpu_stream *stream, const struct sim_gpu_call *call);
/* All is forgotten. */
void sim_streams_reset(struct sim_gpu_device *gpu);
void sim_streams_fini(struct sim_gpu_device *gpu);
/* Whatever of the host waits for something that is done begins. */
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

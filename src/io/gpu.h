/* Memory on which collectives work, and what computes there. One GPU, or the host
 * memory that stands in for it; the same contract for all. */
#ifndef WEFT_IO_GPU_H
#define WEFT_IO_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reduce.h"
#include "io/loop.h"

enum io_memory { IO_MEMORY_HOST, IO_MEMORY_DEVICE };

enum io_gpu_op_kind { IO_GPU_COPY, IO_GPU_REDUCE };

/* One asynchronous operation; owned by the caller at a stable address until done.
 * Operations of one GPU within its own memory end in the order in which they were started, and so
 * do copies from one other memory (a peer's, the host's), or to one; those of different ways may
 * overtake each other. */
struct io_gpu_op {
    enum io_gpu_op_kind kind;
    bool done;
    int error;            /* positive errno or 0, once done */
    struct io_task *task; /* woken when done; Not owned; may be NULL */
    void *out;
    const void *a; /* source of a copy, first operand of a reduction */
    const void *b; /* second operand */
    size_t count;  /* bytes of a copy, elements of a reduction */
    enum weft_dtype dtype;
    enum weft_redop redop;
    int divisor; /* a reduction's result is divided by it (avg); at most 1: it is not */
    void *backend[4]; /* private to the backend until done */
};

struct io_gpu;

/* What makes memory of one GPU known to another process of the host: opaque, and worth something
 * to who may open it only. */
#define IO_GPU_HANDLE_BYTES 64
struct io_gpu_handle {
    uint8_t bytes[IO_GPU_HANDLE_BYTES];
};

struct io_gpu_ops {
    /* Page-aligned, zeroed memory, usable by every device of the host. ENOMEM,
     * EOPNOTSUPP. */
    int (*alloc)(struct io_gpu *gpu, enum io_memory where, size_t n_bytes, void **out);
    /* NULL is ignored. No operation may still use it. */
    void (*free)(struct io_gpu *gpu, void *memory);
    /* Starts `op`; it may be done on return. */
    int (*start)(struct io_gpu *gpu, struct io_gpu_op *op);
    /* EINPROGRESS until done; then op->error. */
    int (*poll)(struct io_gpu *gpu, struct io_gpu_op *op);
    /* Makes what the NIC wrote into [memory, +n) visible to the GPU, where that is not
     * given: EOPNOTSUPP says that the caller must read through the NIC (flush)
     * instead. */
    int (*fence)(struct io_gpu *gpu, void *memory, size_t n_bytes);
    /* Fills or reads device memory from the host, for verification; slow is fine. */
    int (*upload)(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes);
    int (*download)(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes);

    /* Peer access, all NULL where memory of a GPU is its process's alone. */
    /* Whether copies of this GPU reach memory of the one called `peer_uuid`, of this host. */
    bool (*can_access)(struct io_gpu *gpu, const char *peer_uuid);
    /* A handle of an allocation of this process, from its start. EINVAL: it is none. */
    int (*share)(struct io_gpu *gpu, void *memory, struct io_gpu_handle *out);
    /* Memory that another process shared, for copies of this GPU, until `close_peer`. ENOENT: it
     * is not there, EACCES: out of reach, EINVAL: not of `n_bytes`. */
    int (*open_peer)(struct io_gpu *gpu, const struct io_gpu_handle *handle,
                     size_t n_bytes, void **out);
    /* NULL is ignored. */
    void (*close_peer)(struct io_gpu *gpu, void *memory);
};

struct io_gpu {
    const struct io_gpu_ops *ops;
    char name[64]; /* "sim GPU", "NVIDIA GB10" */
    char uuid[48];
    bool is_host_memory; /* pointers can be read and written by the CPU */
    bool rdma_direct;    /* device memory can be registered with the NIC */
};

#endif

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

/* Opaque; belong to the backend between create (or import) and destroy. */
struct io_gpu_stream;
struct io_gpu_event;

/* One asynchronous operation; owned by the caller at a stable address until done.
 * Operations of one stream end in the order in which they were started; those of two streams in
 * any, but for the events between them. Without a stream: those within the GPU's own memory end in
 * order, and so do copies from one other memory (a peer's, the host's), or to one; those of
 * different ways may overtake each other. */
struct io_gpu_op {
    enum io_gpu_op_kind kind;
    bool done;
    int error;                    /* positive errno or 0, once done */
    struct io_task *task;         /* woken when done; Not owned; may be NULL */
    struct io_gpu_stream *stream; /* Not owned; NULL: the GPU's own */
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
    /* A dma-buf that [memory, +n) lies in, and where in it, for NICs that reach the GPU's memory
     * so. The descriptor stays the GPU's, until the memory is freed. EOPNOTSUPP: there is none, it
     * is registered by its address. NULL: always so. */
    int (*dma_buf)(struct io_gpu *gpu, const void *memory, size_t n_bytes, int *out_fd,
                   uint64_t *out_offset);

    /* Whether copies of this GPU reach memory of the one called `peer_uuid`, of this host; NULL:
     * they do not. */
    bool (*can_access)(struct io_gpu *gpu, const char *peer_uuid);
};

/* How memory is made known to another process: cuIpcGetMemHandle; a descriptor; a handle of the
 * fabric, also for other hosts of its clique. */
enum io_gpu_handle_kind {
    IO_GPU_HANDLE_LEGACY,
    IO_GPU_HANDLE_FD,
    IO_GPU_HANDLE_FABRIC,
    IO_GPU_N_HANDLE_KINDS
};

/* Which GPU it is, for other processes: never its ordinal, which each process counts for itself. */
struct io_gpu_identity {
    char uuid[48];       /* of the GPU, or of the MIG instance */
    char pci_bus_id[16]; /* "0000:0f:00.0"; "" unknown */
    uint32_t ordinal;    /* as this process counts; only smcuda ever compared it */
    uint32_t driver;     /* 13000: CUDA 13.0 */
    uint32_t kinds; /* bit 1 << io_gpu_handle_kind: what can be exported and imported */
    uint8_t cluster[16]; /* of the fabric; zero: none */
    uint32_t clique;
    uint32_t pid;    /* as its own namespace counts */
    uint64_t pid_ns; /* of the process: descriptors are reached within one; 0: unknown */
};

/* One whole allocation, as others need it to open it. */
struct io_gpu_export {
    enum io_gpu_handle_kind kind;
    struct io_gpu_handle handle;
    uint64_t base;    /* its first address, in its process */
    uint64_t n_bytes; /* > 0 */
    uint64_t
        buffer_id; /* of all allocations that its process ever makes, this one's alone */
};

/* Streams, events, and both across processes of a host. Errors: EOPNOTSUPP cannot, EINVAL not
 * such memory, ENOENT freed since, EACCES out of reach, EMFILE out of descriptors, ENOMEM,
 * EAGAIN not yet, ENODEV the GPU is lost. */
struct io_gpu_sharing_ops {
    /* EAGAIN: the process has no usable context yet. */
    int (*identify)(struct io_gpu *gpu, struct io_gpu_identity *out);
    /* The allocation that `address` lies in; cheap, and not cached by callers. `kinds` bounds
     * the choice of kind, bits as in the identity. */
    int (*export_memory)(struct io_gpu *gpu, const void *address, uint32_t kinds,
                         struct io_gpu_export *out);
    /* What an export holds on to (a descriptor) is given back. */
    void (*unexport)(struct io_gpu *gpu, const struct io_gpu_export *exported);
    /* Maps it into this process; expensive (90 us and more). EALREADY: a legacy handle is open
     * once per context, and it is open. */
    int (*import_memory)(struct io_gpu *gpu, const struct io_gpu_export *exported,
                         void **out);
    /* No operation may still use it. NULL is ignored. */
    void (*unimport)(struct io_gpu *gpu, void *memory);

    int (*stream_create)(struct io_gpu *gpu, struct io_gpu_stream **out);
    /* What was started on it ends first. NULL is ignored. */
    void (*stream_destroy)(struct io_gpu *gpu, struct io_gpu_stream *stream);
    /* An event that other processes can wait for. */
    int (*event_create)(struct io_gpu *gpu, struct io_gpu_event **out);
    /* Of created and imported ones. NULL is ignored. */
    void (*event_destroy)(struct io_gpu *gpu, struct io_gpu_event *event);
    /* It comes true when all that was started on `stream` (NULL: the GPU's own) is done. */
    int (*record)(struct io_gpu *gpu, struct io_gpu_event *event,
                  struct io_gpu_stream *stream);
    /* What is started on `stream` from now on comes after the event's last record. */
    int (*wait)(struct io_gpu *gpu, struct io_gpu_event *event,
                struct io_gpu_stream *stream);
    /* 0: true; EINPROGRESS. */
    int (*query)(struct io_gpu *gpu, struct io_gpu_event *event);
    int (*export_event)(struct io_gpu *gpu, struct io_gpu_event *event,
                        struct io_gpu_handle *out);
    int (*import_event)(struct io_gpu *gpu, const struct io_gpu_handle *handle,
                        struct io_gpu_event **out);
};

struct io_gpu {
    const struct io_gpu_ops *ops;
    const struct io_gpu_sharing_ops *sharing; /* NULL: one stream, and no other process */
    char name[64];                            /* "sim GPU", "NVIDIA GB10" */
    char uuid[48];
    bool is_host_memory; /* pointers can be read and written by the CPU */
    bool rdma_direct;    /* device memory can be registered with the NIC */
};

#endif

/* The memory that collectives work on, and the operations that compute there: one GPU, or host
 * memory as its substitute, under the same contract. */
#ifndef WEFT_IO_GPU_H
#define WEFT_IO_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reduce.h"
#include "io/loop.h"

enum io_memory { IO_MEMORY_HOST, IO_MEMORY_DEVICE };

enum io_gpu_op_kind { IO_GPU_COPY, IO_GPU_REDUCE };

/* Opaque; the backend owns them from create (or import) to destroy. */
struct io_gpu_stream;
struct io_gpu_event;

/* One asynchronous operation; owned by the caller at a stable address until done. Operations of one
 * stream complete in the order of their start; those of different streams complete in any order,
 * except as events require. Without a stream, operations within the GPU's own memory complete in
 * order. So do copies from the same other memory (a peer's, the host's), and copies to the same
 * other memory. Operations of different groups can overtake each other. */
struct io_gpu_op {
    enum io_gpu_op_kind kind;
    bool done;
    int error;                    /* positive errno or 0, once done */
    struct io_task *task;         /* woken when done; Not owned; may be NULL */
    struct io_gpu_stream *stream; /* Not owned; NULL for the GPU's default stream */
    void *out;
    const void *a; /* source of a copy, first operand of a reduction */
    const void *b; /* second operand */
    size_t count;  /* bytes of a copy, elements of a reduction */
    enum weft_dtype dtype;
    enum weft_redop redop;
    int divisor; /* divisor of a reduction's result (avg); no division if at most 1 */
    void *backend[4]; /* private to the backend until done */
};

struct io_gpu;

/* An opaque handle to exported GPU memory or to an exported event. Another process can use it only
 * if the driver permits that process to open it. */
#define IO_GPU_HANDLE_BYTES 64
struct io_gpu_handle {
    uint8_t bytes[IO_GPU_HANDLE_BYTES];
};

struct io_gpu_ops {
    /* Allocates page-aligned, zeroed memory, usable by every device of the host. ENOMEM,
     * EOPNOTSUPP. */
    int (*alloc)(struct io_gpu *gpu, enum io_memory where, size_t n_bytes, void **out);
    /* Frees memory of `alloc`. No operation may still use it. NULL is ignored. */
    void (*free)(struct io_gpu *gpu, void *memory);
    /* Starts `op`, which can be done on return. */
    int (*start)(struct io_gpu *gpu, struct io_gpu_op *op);
    /* Returns EINPROGRESS until the operation is done, then op->error. */
    int (*poll)(struct io_gpu *gpu, struct io_gpu_op *op);
    /* Makes data that the NIC wrote into [memory, +n) visible to the GPU. Returns EOPNOTSUPP if the
     * caller must read through the NIC (flush) instead. */
    int (*fence)(struct io_gpu *gpu, void *memory, size_t n_bytes);
    /* Write or read device memory from the host, for verification; may be slow. */
    int (*upload)(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes);
    int (*download)(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes);
    /* Returns the dma-buf that contains [memory, +n) and the offset in it, for NICs that reach the
     * GPU's memory this way. The GPU owns the descriptor, which is valid until the memory is freed.
     * Returns EOPNOTSUPP if there is none and memory is to be registered by its address. NULL if
     * there never is one. */
    int (*dma_buf)(struct io_gpu *gpu, const void *memory, size_t n_bytes, int *out_fd,
                   uint64_t *out_offset);

    /* Returns true if copies of this GPU can access memory of the GPU `peer_uuid` on this host.
     * NULL if they can access no other GPU. */
    bool (*can_access)(struct io_gpu *gpu, const char *peer_uuid);
};

/* Kinds of handles for memory: of cuIpcGetMemHandle; a descriptor; a fabric handle, which other
 * hosts of its clique can open too. */
enum io_gpu_handle_kind {
    IO_GPU_HANDLE_LEGACY,
    IO_GPU_HANDLE_FD,
    IO_GPU_HANDLE_FABRIC,
    IO_GPU_N_HANDLE_KINDS
};

/* The identity of a GPU for other processes. It is never the ordinal, because each process numbers
 * GPUs for itself. */
struct io_gpu_identity {
    char uuid[48];       /* UUID of the GPU, or of the MIG instance */
    char pci_bus_id[16]; /* "0000:0f:00.0"; "" unknown */
    uint32_t ordinal;    /* in this process; only smcuda ever compared it */
    uint32_t driver;     /* 13000: CUDA 13.0 */
    uint32_t kinds; /* bits 1 << io_gpu_handle_kind that can be exported and imported */
    uint8_t cluster[16]; /* UUID of the fabric's cluster; zero if none */
    uint32_t clique;
    uint32_t pid; /* in its own PID namespace */
    /* PID namespace, within which descriptors can be passed; 0 if unknown */
    uint64_t pid_ns;
};

/* One whole allocation, described so that another process can open it. */
struct io_gpu_export {
    enum io_gpu_handle_kind kind;
    struct io_gpu_handle handle;
    uint64_t base;      /* first address, in the exporting process */
    uint64_t n_bytes;   /* > 0 */
    uint64_t buffer_id; /* unique among all allocations that the process ever makes */
};

/* Streams, events and sharing between processes of a host. Errors: EOPNOTSUPP not supported, EINVAL
 * wrong kind of memory, ENOENT freed meanwhile, EACCES not accessible, EMFILE no descriptor left,
 * ENOMEM, EAGAIN not yet, ENODEV the GPU is lost. */
struct io_gpu_sharing_ops {
    /* Returns EAGAIN if the process has no usable context yet. */
    int (*identify)(struct io_gpu *gpu, struct io_gpu_identity *out);
    /* Exports the allocation that contains `address`. Cheap, so callers do not cache it. `kinds`
     * limits the kinds to choose from, with bits as in the identity. */
    int (*export_memory)(struct io_gpu *gpu, const void *address, uint32_t kinds,
                         struct io_gpu_export *out);
    /* Frees the resources of an export (a descriptor). */
    void (*unexport)(struct io_gpu *gpu, const struct io_gpu_export *exported);
    /* Maps the allocation into this process; expensive (90 us and more). Returns EALREADY if a
     * legacy handle is open already, because it can be opened only once per context. */
    int (*import_memory)(struct io_gpu *gpu, const struct io_gpu_export *exported,
                         void **out);
    /* Unmaps memory of import_memory. No operation may still use it. NULL is ignored. */
    void (*unimport)(struct io_gpu *gpu, void *memory);

    int (*stream_create)(struct io_gpu *gpu, struct io_gpu_stream **out);
    /* Waits for the operations on the stream, then destroys it. NULL is ignored. */
    void (*stream_destroy)(struct io_gpu *gpu, struct io_gpu_stream *stream);
    /* Creates an event that other processes can wait for. */
    int (*event_create)(struct io_gpu *gpu, struct io_gpu_event **out);
    /* Destroys a created or imported event. NULL is ignored. */
    void (*event_destroy)(struct io_gpu *gpu, struct io_gpu_event *event);
    /* Records the event: it completes when all operations started on `stream` (NULL for the GPU's
     * default stream) so far are done. */
    int (*record)(struct io_gpu *gpu, struct io_gpu_event *event,
                  struct io_gpu_stream *stream);
    /* Makes operations started on `stream` from now on wait for the event's last record. */
    int (*wait)(struct io_gpu *gpu, struct io_gpu_event *event,
                struct io_gpu_stream *stream);
    /* Returns 0 if the event is complete, otherwise EINPROGRESS. */
    int (*query)(struct io_gpu *gpu, struct io_gpu_event *event);
    int (*export_event)(struct io_gpu *gpu, struct io_gpu_event *event,
                        struct io_gpu_handle *out);
    int (*import_event)(struct io_gpu *gpu, const struct io_gpu_handle *handle,
                        struct io_gpu_event **out);
};

struct io_gpu {
    const struct io_gpu_ops *ops;
    /* NULL if there is one stream and no sharing with other processes */
    const struct io_gpu_sharing_ops *sharing;
    char name[64]; /* "sim GPU", "NVIDIA GB10" */
    char uuid[48];
    bool is_host_memory; /* the CPU can access the memory */
    bool rdma_direct;    /* the NIC can register device memory */
};

#endif

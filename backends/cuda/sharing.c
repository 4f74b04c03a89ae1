/* Streams, events, and memory of other processes. Memory from cuMemAlloc has a legacy handle, and
 * memory from cuMemCreate is shared by virtual.c. Memory without a handle (managed, pools, host)
 * is staged by the caller. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/cuda/private.h"
#include "base/check.h"
#include "base/text.h"

_Static_assert(sizeof(struct cuda_ipc_handle) == IO_GPU_HANDLE_BYTES, "a handle is one");

static uint64_t pid_namespace(void)
{
    struct stat status;

    return stat("/proc/self/ns/pid", &status) == 0 ? (uint64_t)status.st_ino : 0;
}

static int identify(struct io_gpu *gpu, struct io_gpu_identity *out)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    int version = 0;

    memset(out, 0, sizeof(*out));
    weft_format(out->uuid, sizeof(out->uuid), "%s", gpu->uuid);
    if (cuda->driver.pci_bus_id(out->pci_bus_id, (int)sizeof(out->pci_bus_id),
                                cuda->device) != CUDA_OK) {
        memset(out->pci_bus_id, 0, sizeof(out->pci_bus_id));
    }
    (void)cuda->driver.version(&version);
    out->ordinal = cuda->ordinal;
    out->driver = (uint32_t)version;
    out->pid = (uint32_t)getpid();
    out->pid_ns = pid_namespace();
    memcpy(out->cluster, cuda->cluster, sizeof(out->cluster));
    out->clique = cuda->clique;
    /* Without interprocess events copies cannot be ordered between processes, so nothing is
     * shared. */
    if (cuda->facts.has_ipc_events && !cuda->facts.is_integrated) {
        out->kinds = 1u << IO_GPU_HANDLE_LEGACY |
                     (uint32_t)cuda->facts.has_handle_fd << IO_GPU_HANDLE_FD |
                     (uint32_t)cuda->facts.has_handle_fabric << IO_GPU_HANDLE_FABRIC;
    }
    return 0;
}

/* Memory of pools (cudaMallocAsync) has no handle of its own (docs/gpu.md). */
static int describe(struct cuda_gpu *cuda, cuda_pointer memory, uint32_t kinds,
                    struct io_gpu_export *out)
{
    const struct cuda_driver *driver = &cuda->driver;
    struct cuda_ipc_handle handle;
    cuda_pointer base = 0;
    size_t n_bytes = 0;
    unsigned char is_legacy[4] = {0};
    unsigned long long id = 0;
    int result = driver->range(&base, &n_bytes, memory);

    if (result != CUDA_OK) {
        return EINVAL;
    }
    result = driver->pointer(is_legacy, CUDA_PTR_LEGACY_IPC, base);
    if (result == CUDA_OK) {
        result = driver->pointer(&id, CUDA_PTR_BUFFER_ID, base);
    }
    *out = (struct io_gpu_export){
        .kind = IO_GPU_HANDLE_LEGACY, .base = base, .n_bytes = n_bytes, .buffer_id = id};
    if (result == CUDA_OK && is_legacy[0] == 0) {
        return cuda_virtual_export(cuda, base, id, kinds, out);
    }
    if (result == CUDA_OK && (kinds & 1u << IO_GPU_HANDLE_LEGACY) == 0) {
        return EOPNOTSUPP;
    }
    if (result == CUDA_OK) {
        result = driver->ipc_export(&handle, base);
        memcpy(out->handle.bytes, handle.bytes, sizeof(handle.bytes));
    }
    return cuda_errno(result);
}

static int export_memory(struct io_gpu *gpu, const void *address, uint32_t kinds,
                         struct io_gpu_export *out)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    int result, sys_errno;

    result = cuda_enter(cuda);
    if (result != CUDA_OK) {
        return cuda_errno(result);
    }
    sys_errno = describe(cuda, (uintptr_t)address, kinds, out);
    cuda_leave(cuda);
    return sys_errno;
}

static void unexport(struct io_gpu *gpu, const struct io_gpu_export *exported)
{
    (void)gpu;
    (void)exported; /* a descriptor is kept with its memory, for later exports */
}

static bool can_import(const struct cuda_gpu *cuda, enum io_gpu_handle_kind kind)
{
    return kind == IO_GPU_HANDLE_LEGACY ||
           (kind == IO_GPU_HANDLE_FD && cuda->facts.has_handle_fd) ||
           (kind == IO_GPU_HANDLE_FABRIC && cuda->facts.has_handle_fabric);
}

static int open_legacy(struct cuda_gpu *cuda, const struct io_gpu_export *exported,
                       struct cuda_import *out)
{
    struct cuda_ipc_handle handle;

    memcpy(handle.bytes, exported->handle.bytes, sizeof(handle.bytes));
    return cuda_errno(cuda->driver.ipc_open(&out->at, handle, CUDA_IPC_PEER_ACCESS));
}

static int import_memory(struct io_gpu *gpu, const struct io_gpu_export *exported,
                         void **out)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    struct cuda_import *import;
    int result, sys_errno;

    *out = NULL;
    if (!can_import(cuda, exported->kind)) {
        return EOPNOTSUPP;
    }
    result = cuda_enter(cuda);
    if (result != CUDA_OK) {
        return cuda_errno(result);
    }
    import = weft_calloc(1, sizeof(*import));
    sys_errno = exported->kind == IO_GPU_HANDLE_LEGACY
                    ? open_legacy(cuda, exported, import)
                    : cuda_virtual_import(cuda, exported, import);
    cuda_leave(cuda);
    if (sys_errno != 0) {
        free(import);
        return sys_errno;
    }
    import->next = cuda->imports;
    cuda->imports = import;
    *out = (void *)(uintptr_t)import->at;
    return 0;
}

static void close_import(struct cuda_gpu *cuda, struct cuda_import **from)
{
    struct cuda_import *import = *from;

    *from = import->next;
    if (import->is_virtual) {
        cuda_virtual_unimport(cuda, import);
    } else {
        (void)cuda->driver.ipc_close(import->at);
    }
    free(import);
}

void cuda_sharing_fini(struct cuda_gpu *cuda)
{
    while (cuda->imports != NULL) {
        close_import(cuda, &cuda->imports);
    }
    cuda_virtual_fini(cuda);
}

static void unimport(struct io_gpu *gpu, void *memory)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);

    struct cuda_import **at = &cuda->imports;

    while (*at != NULL && (*at)->at != (uintptr_t)memory) {
        at = &(*at)->next;
    }
    if (memory != NULL && cuda_enter(cuda) == CUDA_OK) {
        weft_check(*at != NULL);
        close_import(cuda, at);
        cuda_leave(cuda);
    }
}

static int stream_create(struct io_gpu *gpu, struct io_gpu_stream **out)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    struct io_gpu_stream *stream = weft_calloc(1, sizeof(*stream));
    int result = cuda_enter(cuda);

    if (result == CUDA_OK) {
        result = cuda->driver.stream_create(&stream->stream, CUDA_STREAM_NON_BLOCKING);
        cuda_leave(cuda);
    }
    if (result != CUDA_OK) {
        free(stream);
        return cuda_errno(result);
    }
    *out = stream;
    return 0;
}

static void stream_destroy(struct io_gpu *gpu, struct io_gpu_stream *stream)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);

    if (stream == NULL) {
        return;
    }
    if (cuda_enter(cuda) == CUDA_OK) {
        (void)cuda->driver.stream_sync(stream->stream);
        (void)cuda->driver.stream_destroy(stream->stream);
        cuda_leave(cuda);
    }
    free(stream);
}

static int event_create(struct io_gpu *gpu, struct io_gpu_event **out)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    struct io_gpu_event *event = weft_calloc(1, sizeof(*event));
    unsigned flags =
        CUDA_EVENT_NO_TIMING | (cuda->facts.has_ipc_events ? CUDA_EVENT_INTERPROCESS : 0);
    int result = cuda_enter(cuda);

    if (result == CUDA_OK) {
        result = cuda->driver.event_create(&event->event, flags);
        cuda_leave(cuda);
    }
    if (result != CUDA_OK) {
        free(event);
        return cuda_errno(result);
    }
    *out = event;
    return 0;
}

static void event_destroy(struct io_gpu *gpu, struct io_gpu_event *event)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);

    if (event == NULL) {
        return;
    }
    if (cuda_enter(cuda) == CUDA_OK) {
        (void)cuda->driver.event_destroy(event->event);
        cuda_leave(cuda);
    }
    free(event);
}

static int record(struct io_gpu *gpu, struct io_gpu_event *event,
                  struct io_gpu_stream *stream)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    int result = cuda_enter(cuda);

    if (result == CUDA_OK) {
        result = cuda->driver.event_record(event->event, cuda_stream_of(cuda, stream));
        cuda_leave(cuda);
    }
    return cuda_errno(result);
}

static int wait_for(struct io_gpu *gpu, struct io_gpu_event *event,
                    struct io_gpu_stream *stream)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    int result = cuda_enter(cuda);

    if (result == CUDA_OK) {
        result = cuda->driver.stream_wait(cuda_stream_of(cuda, stream), event->event, 0);
        cuda_leave(cuda);
    }
    return cuda_errno(result);
}

static int query(struct io_gpu *gpu, struct io_gpu_event *event)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    int result = cuda_enter(cuda);

    if (result == CUDA_OK) {
        result = cuda->driver.event_query(event->event);
        cuda_leave(cuda);
    }
    return cuda_errno(result);
}

static int export_event(struct io_gpu *gpu, struct io_gpu_event *event,
                        struct io_gpu_handle *out)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    struct cuda_ipc_handle handle;
    int result = cuda_enter(cuda);

    if (result == CUDA_OK) {
        result = cuda->driver.ipc_export_event(&handle, event->event);
        cuda_leave(cuda);
    }
    if (result == CUDA_OK) {
        memcpy(out->bytes, handle.bytes, sizeof(handle.bytes));
    }
    return cuda_errno(result);
}

static int import_event(struct io_gpu *gpu, const struct io_gpu_handle *handle,
                        struct io_gpu_event **out)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    struct io_gpu_event *event = weft_calloc(1, sizeof(*event));
    struct cuda_ipc_handle bytes;
    int result = cuda_enter(cuda);

    memcpy(bytes.bytes, handle->bytes, sizeof(bytes.bytes));
    if (result == CUDA_OK) {
        result = cuda->driver.ipc_open_event(&event->event, bytes);
        cuda_leave(cuda);
    }
    if (result != CUDA_OK) {
        free(event);
        return cuda_errno(result);
    }
    *out = event;
    return 0;
}

const struct io_gpu_sharing_ops cuda_sharing_ops = {
    .identify = identify,
    .export_memory = export_memory,
    .unexport = unexport,
    .import_memory = import_memory,
    .unimport = unimport,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .record = record,
    .wait = wait_for,
    .query = query,
    .export_event = export_event,
    .import_event = import_event,
};

#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backends/cuda/private.h"
#include "base/check.h"
#include "base/text.h"

#define PAGE_BYTES ((size_t)4096)
/* The driver places smaller allocations together in blocks of this size, and an IPC handle of one
 * would expose the others. */
#define BLOCK_BYTES ((size_t)2 << 20)

/* ---- memory ---- */

/* Allocates zeroed memory. Waits until it is zero, so that no later write can come first. */
static int take(struct cuda_gpu *cuda, struct cuda_allocation *allocation)
{
    const struct cuda_driver *driver = &cuda->driver;
    cuda_pointer memory = 0;
    int result;

    if (allocation->is_host) {
        result = driver->host_alloc(&allocation->memory, allocation->n_bytes,
                                    CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);
        if (result == CUDA_OK) {
            memset(allocation->memory, 0, allocation->n_bytes);
        }
        return result;
    }
    result = driver->alloc(&memory, allocation->n_bytes);
    if (result == CUDA_OK) {
        result = driver->set(memory, 0, allocation->n_bytes);
        if (result == CUDA_OK) {
            result = driver->stream_sync(NULL);
        }
        if (result != CUDA_OK) {
            (void)driver->free(memory);
        }
    }
    allocation->taken = memory;
    allocation->memory =
        (void *)(uintptr_t)((memory + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
    return result;
}

static int gpu_alloc(struct io_gpu *gpu, enum io_memory where, size_t n_bytes, void **out)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    struct cuda_allocation *allocation;
    size_t unit;
    int result;

    if (n_bytes == 0 || n_bytes > SIZE_MAX - 2 * BLOCK_BYTES) {
        return n_bytes == 0 ? EINVAL : ENOMEM;
    }
    result = cuda_enter(cuda);
    if (result != CUDA_OK) {
        return cuda_errno(result);
    }
    allocation = weft_calloc(1, sizeof(*allocation));
    allocation->dma_fd = -1;
    allocation->is_host = where == IO_MEMORY_HOST || cuda->facts.is_integrated;
    unit = allocation->is_host ? PAGE_BYTES : BLOCK_BYTES;
    /* The driver's address might not be page-aligned. */
    n_bytes += allocation->is_host ? 0 : PAGE_BYTES;
    allocation->n_bytes = (n_bytes + unit - 1) / unit * unit;
    result = take(cuda, allocation);
    cuda_leave(cuda);
    if (result != CUDA_OK) {
        free(allocation);
        return cuda_errno(result);
    }
    allocation->next = cuda->allocations;
    cuda->allocations = allocation;
    *out = allocation->memory;
    return 0;
}

static void drop(struct cuda_gpu *cuda, struct cuda_allocation **from)
{
    struct cuda_allocation *allocation = *from;

    *from = allocation->next;
    if (allocation->dma_fd >= 0) {
        close(allocation->dma_fd);
    }
    if (allocation->is_host) {
        (void)cuda->driver.host_free(allocation->memory);
    } else {
        (void)cuda->driver.free(allocation->taken);
    }
    free(allocation);
}

static void gpu_free(struct io_gpu *gpu, void *memory)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    struct cuda_allocation **at = &cuda->allocations;

    if (memory == NULL) {
        return;
    }
    while (*at != NULL && (*at)->memory != memory) {
        at = &(*at)->next;
    }
    weft_check(*at != NULL);
    if (cuda_enter(cuda) == CUDA_OK) {
        drop(cuda, at);
        cuda_leave(cuda);
    }
}

/* Exports the whole pages of an allocation, once per allocation. */
static int gpu_dma_buf(struct io_gpu *gpu, const void *memory, size_t n_bytes,
                       int *out_fd, uint64_t *out_offset)
{
    struct cuda_allocation *at = cuda_gpu_of(gpu)->allocations;
    uintptr_t wanted = (uintptr_t)memory;
    int sys_errno = 0;
    size_t n_pages;

    while (at != NULL && wanted - (uintptr_t)at->memory >= at->n_bytes) {
        at = at->next;
    }
    if (at == NULL || at->is_host) {
        return EOPNOTSUPP;
    }
    n_pages = (at->n_bytes - ((uintptr_t)at->memory - at->taken)) / PAGE_BYTES;
    *out_offset = wanted - (uintptr_t)at->memory;
    if (*out_offset + n_bytes > n_pages * PAGE_BYTES) {
        return EINVAL;
    }
    if (at->dma_fd < 0) {
        sys_errno = cuda_dma_buf(gpu, at->memory, n_pages * PAGE_BYTES, &at->dma_fd);
        at->dma_fd = sys_errno == 0 ? at->dma_fd : -1;
    }
    *out_fd = at->dma_fd;
    return sys_errno;
}

static int gpu_fence(struct io_gpu *gpu, void *memory, size_t n_bytes)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    int result;

    (void)memory;
    (void)n_bytes;
    if (!cuda->facts.must_flush || cuda->facts.is_integrated) {
        return 0;
    }
    if (!cuda->facts.can_flush) {
        return EOPNOTSUPP;
    }
    result = cuda_enter(cuda);
    if (result == CUDA_OK) {
        result =
            cuda->driver.flush_writes(CUDA_FLUSH_TARGET_CONTEXT, CUDA_FLUSH_TO_OWNER);
        cuda_leave(cuda);
    }
    return cuda_errno(result);
}

static int gpu_transfer(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    int result = cuda_enter(cuda);

    if (result == CUDA_OK) {
        result = cuda->driver.copy((uintptr_t)to, (uintptr_t)from, n_bytes);
        cuda_leave(cuda);
    }
    return cuda_errno(result);
}

/* ---- peers ---- */

/* Returns the ordinal of the visible device with this UUID; -1 if there is none. */
static int find_device(struct cuda_gpu *cuda, const char *uuid, cuda_device *out)
{
    int n = 0;

    if (cuda->driver.count(&n) != CUDA_OK) {
        return -1;
    }
    for (int i = 0; i < n; i++) {
        struct cuda_uuid bytes;
        char text[48];

        if (cuda->driver.device(out, i) != CUDA_OK ||
            cuda->driver.uuid(&bytes, *out) != CUDA_OK) {
            continue;
        }
        cuda_format_uuid(&bytes, text, sizeof(text));
        if (strcmp(text, uuid) == 0) {
            return i;
        }
    }
    return -1;
}

/* Returns true for a GPU that is not visible to this process, because it can still be reachable;
 * opening a handle then decides. */
static bool gpu_can_access(struct io_gpu *gpu, const char *peer_uuid)
{
    struct cuda_gpu *cuda = cuda_gpu_of(gpu);
    cuda_device peer;
    int can = 0;

    if (strcmp(gpu->uuid, peer_uuid) == 0 || find_device(cuda, peer_uuid, &peer) < 0) {
        return true;
    }
    return cuda->driver.can_access(&can, cuda->device, peer) == CUDA_OK && can != 0;
}

static const struct io_gpu_ops cuda_ops = {
    .alloc = gpu_alloc,
    .free = gpu_free,
    .start = cuda_start,
    .poll = cuda_poll,
    .fence = gpu_fence,
    .upload = gpu_transfer,
    .download = gpu_transfer,
    .dma_buf = gpu_dma_buf,
    .can_access = gpu_can_access,
};

/* ---- opening ---- */

static int load_kernels(struct cuda_gpu *cuda, const void *image)
{
    int result = image == NULL ? CUDA_OK : cuda->driver.module_load(&cuda->module, image);

    for (int dtype = 0; dtype < WEFT_N_DTYPES && result == CUDA_OK && image != NULL;
         dtype++) {
        for (int op = 0; op < WEFT_AVG && result == CUDA_OK; op++) {
            char name[48];

            weft_format(name, sizeof(name), "weft_%s_%s",
                        weft_dtype_name((enum weft_dtype)dtype),
                        weft_redop_name((enum weft_redop)op));
            result = cuda->driver.function(&cuda->reduce[dtype][op], cuda->module, name);
        }
    }
    return result;
}

static weft_status prepare(struct cuda_gpu *cuda, const void *image,
                           struct weft_error *error)
{
    const struct cuda_driver *driver = &cuda->driver;
    int result = driver->retain(&cuda->context, cuda->device);

    if (result != CUDA_OK) {
        cuda->context = NULL;
        return cuda_fail(driver, error, "cuDevicePrimaryCtxRetain", result);
    }
    result = cuda_enter(cuda);
    if (result != CUDA_OK) {
        return cuda_fail(driver, error, "cuCtxPushCurrent", result);
    }
    result = driver->stream_create(&cuda->stream, CUDA_STREAM_NON_BLOCKING);
    if (result != CUDA_OK) {
        cuda->stream = NULL;
        cuda_fail(driver, error, "cuStreamCreate", result);
    } else {
        result = load_kernels(cuda, image);
        if (result != CUDA_OK) {
            cuda_fail(driver, error, "cuModuleLoadData", result);
        }
    }
    cuda_leave(cuda);
    return result == CUDA_OK ? WEFT_OK : WEFT_ERR_ENVIRONMENT;
}

static void describe(struct cuda_gpu *cuda)
{
    struct cuda_uuid uuid = {{0}};

    cuda_read_facts(cuda);
    cuda->io =
        (struct io_gpu){.ops = &cuda_ops,
                        .sharing = &cuda_sharing_ops,
                        .is_host_memory = cuda->facts.is_integrated,
                        .rdma_direct = cuda->facts.is_integrated ||
                                       cuda->facts.has_dma_buf || cuda->facts.has_rdma};
    (void)cuda->driver.name(cuda->io.name, (int)sizeof(cuda->io.name), cuda->device);
    (void)cuda->driver.uuid(&uuid, cuda->device);
    cuda_format_uuid(&uuid, cuda->io.uuid, sizeof(cuda->io.uuid));
    if (cuda->facts.has_handle_fabric && cuda->driver.fabric != NULL) {
        (void)cuda->driver.fabric(cuda->io.uuid, cuda->cluster, &cuda->clique);
    }
}

weft_status cuda_open_with(const struct cuda_driver *driver, const void *image,
                           unsigned ordinal, struct io_gpu **out,
                           struct weft_error *error)
{
    struct cuda_gpu *cuda = weft_calloc(1, sizeof(*cuda));
    weft_status status;
    int result;

    cuda->driver = *driver;
    cuda->ordinal = ordinal;
    cuda->wake_fd = -1;
    result = driver->device(&cuda->device, (int)ordinal);
    if (result != CUDA_OK) {
        free(cuda);
        return cuda_fail(driver, error, "cuDeviceGet", result);
    }
    describe(cuda);
    cuda->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    status = prepare(cuda, image, error);
    if (status != WEFT_OK) {
        cuda_close(&cuda->io);
        return status;
    }
    *out = &cuda->io;
    return WEFT_OK;
}

weft_status cuda_open(unsigned ordinal, struct io_gpu **out, struct weft_error *error)
{
    struct cuda_driver driver;
    weft_status status = cuda_driver_open(&driver, error);

    if (status == WEFT_OK) {
        status = cuda_open_with(&driver, cuda_built_image(), ordinal, out, error);
        if (status == WEFT_OK) {
            cuda_gpu_of(*out)->owns_driver = true;
        } else {
            cuda_driver_close(&driver);
        }
    }
    return status;
}

int cuda_wake_fd(struct io_gpu *gpu)
{
    return cuda_gpu_of(gpu)->wake_fd;
}

void cuda_close(struct io_gpu *gpu)
{
    struct cuda_gpu *cuda = gpu == NULL ? NULL : cuda_gpu_of(gpu);

    if (cuda == NULL) {
        return;
    }
    if (cuda->context != NULL && cuda_enter(cuda) == CUDA_OK) {
        cuda_finish_all(cuda);
        cuda_sharing_fini(cuda);
        while (cuda->allocations != NULL) {
            drop(cuda, &cuda->allocations);
        }
        if (cuda->module != NULL) {
            (void)cuda->driver.module_unload(cuda->module);
        }
        if (cuda->stream != NULL) {
            (void)cuda->driver.stream_destroy(cuda->stream);
        }
        cuda_leave(cuda);
    }
    if (cuda->context != NULL) {
        (void)cuda->driver.release(cuda->device);
    }
    if (cuda->wake_fd >= 0) {
        close(cuda->wake_fd);
    }
    if (cuda->owns_driver) {
        cuda_driver_close(&cuda->driver);
    }
    free(cuda);
}

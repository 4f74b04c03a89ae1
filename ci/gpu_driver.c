/* A CUDA driver without a GPU, as a library (libcuda.so.1) for whole programs:
 * ci/test_gpu_memory.py runs `weft` over it. What makes real ones hard is here: memory of the
 * device faults under the CPU, work on a stream is done by another thread some time later, one
 * stream does not wait for another (gpu_driver_work.c).
 *
 * FAKE_CUDA_DEVICES (1), FAKE_CUDA_INTEGRATED=1 (as GB10: no memory of its own), FAKE_CUDA_INIT
 * (what cuInit returns), FAKE_CUDA_LATE_US (0: how late work begins), FAKE_CUDA_IPC (0: what
 * opening memory of another process returns, in its place), FAKE_CUDA_LOG: a file that gets a line
 * of what was done when a context is given back. */
#define _GNU_SOURCE
#include <fcntl.h>
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ci/gpu_driver.h"

#define OFFSET ((size_t)512) /* small allocations do not begin at a page */
#define SMALL ((size_t)1 << 20)

struct memory {
    struct memory *next;
    uint8_t *address; /* what the program has */
    uint8_t *there;   /* where the bytes are */
    uint8_t *fenced;  /* mapping without access around `address`; NULL: of the host */
    size_t n_bytes, n_mapped;
    int fd; /* of the bytes */
    bool is_imported;
    unsigned long long id;
};

struct driver_done driver_done;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory *memories;
static unsigned long long n_memories;
static atomic_ulong n_open;

long driver_setting(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtol(text, NULL, 10);
}
/* ---- memory ---- */

static struct memory *find(cuda_pointer at)
{
    struct memory *memory;

    pthread_mutex_lock(&lock);
    memory = memories;
    while (memory != NULL && at - (uintptr_t)memory->address >= memory->n_bytes) {
        memory = memory->next;
    }
    pthread_mutex_unlock(&lock);
    return memory;
}

uint8_t *driver_there(cuda_pointer at)
{
    struct memory *memory = find(at);

    return memory == NULL ? (uint8_t *)(uintptr_t)at
                          : memory->there + (at - (uintptr_t)memory->address);
}

/* `fd` -1: new bytes. */
static int add(size_t n_bytes, bool is_host, int fd, void **out)
{
    struct memory *memory = calloc(1, sizeof(*memory));
    size_t offset = is_host || n_bytes >= SMALL ? 0 : OFFSET;

    memory->n_bytes = n_bytes;
    memory->n_mapped = (n_bytes + offset + DRIVER_PAGE - 1) / DRIVER_PAGE * DRIVER_PAGE;
    memory->is_imported = fd >= 0;
    memory->fd = fd >= 0 ? fd : memfd_create("fake-cuda", MFD_CLOEXEC);
    if (memory->fd < 0 ||
        (fd < 0 && ftruncate(memory->fd, (off_t)memory->n_mapped) != 0)) {
        free(memory);
        return CUDA_OUT_OF_MEMORY;
    }
    memory->there =
        mmap(NULL, memory->n_mapped, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    memory->address = memory->there;
    if (!is_host) {
        memory->fenced = mmap(NULL, memory->n_mapped, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        memory->address = memory->fenced + offset;
    }
    if (memory->there == MAP_FAILED || memory->fenced == MAP_FAILED) {
        close(memory->fd);
        free(memory);
        return CUDA_OUT_OF_MEMORY;
    }
    if (!is_host && fd < 0) {
        memset(memory->there, 0x5a, n_bytes); /* zeroes are not promised */
    }
    pthread_mutex_lock(&lock);
    memory->id = ++n_memories;
    memory->next = memories;
    memories = memory;
    pthread_mutex_unlock(&lock);
    *out = memory->address;
    atomic_fetch_add(is_host ? &driver_done.n_host_bytes : &driver_done.n_device_bytes,
                     fd >= 0 ? 0 : n_bytes);
    return CUDA_OK;
}

static int drop(const void *address)
{
    struct memory **at = &memories, *gone;

    pthread_mutex_lock(&lock);
    while (*at != NULL && (*at)->address != address) {
        at = &(*at)->next;
    }
    gone = *at;
    if (gone != NULL) {
        *at = gone->next;
    }
    pthread_mutex_unlock(&lock);
    if (gone == NULL) {
        return CUDA_INVALID_VALUE;
    }
    munmap(gone->there, gone->n_mapped);
    close(gone->fd);
    if (gone->fenced != NULL) {
        munmap(gone->fenced, gone->n_mapped);
    }
    free(gone);
    return CUDA_OK;
}

int cuMemAlloc_v2(cuda_pointer *out, size_t n_bytes);
int cuMemAlloc_v2(cuda_pointer *out, size_t n_bytes)
{
    void *at = NULL;
    int result = n_bytes == 0 ? CUDA_INVALID_VALUE : add(n_bytes, false, -1, &at);

    *out = (uintptr_t)at;
    return result;
}

int cuMemFree_v2(cuda_pointer memory);
int cuMemFree_v2(cuda_pointer memory)
{
    return drop((void *)(uintptr_t)memory);
}

int cuMemHostAlloc(void **out, size_t n_bytes, unsigned flags);
int cuMemHostAlloc(void **out, size_t n_bytes, unsigned flags)
{
    (void)flags;
    return add(n_bytes, true, -1, out);
}

int cuMemFreeHost(void *memory);
int cuMemFreeHost(void *memory)
{
    return drop(memory);
}

int cuMemsetD8_v2(cuda_pointer memory, unsigned char value, size_t n_bytes);
int cuMemsetD8_v2(cuda_pointer memory, unsigned char value, size_t n_bytes)
{
    memset(driver_there(memory), value, n_bytes);
    return CUDA_OK;
}

int cuMemcpy(cuda_pointer to, cuda_pointer from, size_t n_bytes);
int cuMemcpy(cuda_pointer to, cuda_pointer from, size_t n_bytes)
{
    memmove(driver_there(to), driver_there(from), n_bytes);
    return CUDA_OK;
}

int cuMemGetAddressRange_v2(cuda_pointer *base, size_t *n_bytes, cuda_pointer at);
int cuMemGetAddressRange_v2(cuda_pointer *base, size_t *n_bytes, cuda_pointer at)
{
    const struct memory *memory = find(at);

    if (memory == NULL) {
        return CUDA_INVALID_VALUE;
    }
    *base = (uintptr_t)memory->address;
    *n_bytes = memory->n_bytes;
    return CUDA_OK;
}

int cuPointerGetAttribute(void *out, int which, cuda_pointer at);
int cuPointerGetAttribute(void *out, int which, cuda_pointer at)
{
    const struct memory *memory = find(at);
    unsigned number = 0;

    if (memory == NULL) {
        return CUDA_INVALID_VALUE;
    }
    if (which == CUDA_PTR_BUFFER_ID) {
        memcpy(out, &memory->id, sizeof(memory->id));
        return CUDA_OK;
    }
    if (which == CUDA_PTR_MEMORY_TYPE) {
        number = memory->fenced == NULL ? CUDA_MEMORY_HOST : CUDA_MEMORY_DEVICE;
    } else if (which == CUDA_PTR_LEGACY_IPC) {
        number = memory->fenced != NULL;
    }
    memcpy(out, &number, sizeof(number));
    return CUDA_OK;
}

/* ---- other processes ---- */

int driver_tell(struct cuda_ipc_handle *out, int fd, size_t n_bytes)
{
    const struct driver_handle handle = {.pid = getpid(), .fd = fd, .n_bytes = n_bytes};

    memset(out, 0, sizeof(*out));
    memcpy(out->bytes, &handle, sizeof(handle));
    return CUDA_OK;
}

/* Its file, or -1. */
int driver_take(const struct cuda_ipc_handle *given, struct driver_handle *out)
{
    char path[64];

    memcpy(out, given->bytes, sizeof(*out));
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)out->pid, out->fd);
    return out->pid == getpid() ? -1 : open(path, O_RDWR | O_CLOEXEC);
}

int cuIpcGetMemHandle(struct cuda_ipc_handle *out, cuda_pointer at);
int cuIpcGetMemHandle(struct cuda_ipc_handle *out, cuda_pointer at)
{
    const struct memory *memory = find(at);

    return memory == NULL || memory->fenced == NULL || memory->is_imported
               ? CUDA_INVALID_VALUE
               : driver_tell(out, memory->fd, memory->n_bytes);
}

/* A process cannot open its own. */
int cuIpcOpenMemHandle_v2(cuda_pointer *out, struct cuda_ipc_handle given,
                          unsigned flags);
int cuIpcOpenMemHandle_v2(cuda_pointer *out, struct cuda_ipc_handle given, unsigned flags)
{
    struct driver_handle handle;
    int fd = driver_take(&given, &handle);
    void *at = NULL;
    int result = (int)driver_setting("FAKE_CUDA_IPC", CUDA_OK);

    *out = 0;
    if (fd >= 0 && result != CUDA_OK) {
        close(fd);
        return result;
    }
    if (fd < 0) {
        return handle.pid == getpid() ? CUDA_INVALID_CONTEXT : CUDA_INVALID_HANDLE;
    }
    result = flags == CUDA_IPC_PEER_ACCESS ? add(handle.n_bytes, false, fd, &at)
                                           : CUDA_INVALID_VALUE;
    *out = (uintptr_t)at;
    return result;
}

int cuIpcCloseMemHandle(cuda_pointer at);
int cuIpcCloseMemHandle(cuda_pointer at)
{
    const struct memory *memory = find(at);

    return memory != NULL && memory->is_imported ? drop((void *)(uintptr_t)at)
                                                 : CUDA_INVALID_VALUE;
}

/* ---- devices ---- */

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    return (int)driver_setting("FAKE_CUDA_INIT", CUDA_OK);
}

int cuDriverGetVersion(int *out);
int cuDriverGetVersion(int *out)
{
    *out = 13000;
    return CUDA_OK;
}

int cuGetErrorName(int result, const char **out);
int cuGetErrorName(int result, const char **out)
{
    *out = result == CUDA_SYSTEM_DRIVER_MISMATCH ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
           : result == CUDA_NO_DEVICE            ? "CUDA_ERROR_NO_DEVICE"
                                                 : "CUDA_ERROR_FAKE";
    return CUDA_OK;
}

int cuDeviceGetCount(int *out);
int cuDeviceGetCount(int *out)
{
    *out = (int)driver_setting("FAKE_CUDA_DEVICES", 1);
    return CUDA_OK;
}

int cuDeviceGet(cuda_device *out, int ordinal);
int cuDeviceGet(cuda_device *out, int ordinal)
{
    *out = ordinal;
    return ordinal >= 0 && ordinal < driver_setting("FAKE_CUDA_DEVICES", 1)
               ? CUDA_OK
               : CUDA_INVALID_VALUE;
}

int cuDeviceGetName(char *out, int n_bytes, cuda_device device);
int cuDeviceGetName(char *out, int n_bytes, cuda_device device)
{
    snprintf(out, (size_t)n_bytes, "Fake GPU %d", device);
    return CUDA_OK;
}

int cuDeviceGetAttribute(int *out, int attribute, cuda_device device);
int cuDeviceGetAttribute(int *out, int attribute, cuda_device device)
{
    (void)device;
    *out = attribute == CUDA_ATTR_MULTIPROCESSORS ? 4
           : attribute == CUDA_ATTR_INTEGRATED
               ? (int)driver_setting("FAKE_CUDA_INTEGRATED", 0)
           : attribute == CUDA_ATTR_RDMA_SUPPORTED
               ? !driver_setting("FAKE_CUDA_INTEGRATED",
                                 0) /* peer memory, says the driver */
               : attribute == CUDA_ATTR_RDMA_FLUSH || attribute == CUDA_ATTR_IPC_EVENT;
    return CUDA_OK;
}

int cuDeviceGetUuid_v2(struct cuda_uuid *out, cuda_device device);
int cuDeviceGetUuid_v2(struct cuda_uuid *out, cuda_device device)
{
    memset(out, 0x11 * (device + 1), sizeof(*out));
    return CUDA_OK;
}

int cuDeviceGetPCIBusId(char *out, int n_bytes, cuda_device device);
int cuDeviceGetPCIBusId(char *out, int n_bytes, cuda_device device)
{
    snprintf(out, (size_t)n_bytes, "0000:%02X:00.0", device + 1);
    return CUDA_OK;
}

int cuDeviceCanAccessPeer(int *out, cuda_device device, cuda_device peer);
int cuDeviceCanAccessPeer(int *out, cuda_device device, cuda_device peer)
{
    *out = device != peer;
    return CUDA_OK;
}

static __thread int n_pushed;

int cuDevicePrimaryCtxRetain(struct cuda_context **out, cuda_device device);
int cuDevicePrimaryCtxRetain(struct cuda_context **out, cuda_device device)
{
    static char contexts[64];

    *out = (struct cuda_context *)(void *)&contexts[device];
    atomic_fetch_add(&n_open, 1);
    return CUDA_OK;
}

int cuDevicePrimaryCtxRelease_v2(cuda_device device);
int cuDevicePrimaryCtxRelease_v2(cuda_device device)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *log = path == NULL ? NULL : fopen(path, "a");

    if (log != NULL) {
        fprintf(log,
                "{\"device\": %d, \"copies\": %lu, \"launches\": %lu, "
                "\"device_bytes\": %lu, \"host_bytes\": %lu, \"left\": %d, "
                "\"pushed\": %d}\n",
                device, driver_done.n_copies, driver_done.n_launches,
                driver_done.n_device_bytes, driver_done.n_host_bytes, memories != NULL,
                n_pushed);
        fclose(log);
    }
    atomic_fetch_sub(&n_open, 1);
    return CUDA_OK;
}

int cuCtxPushCurrent_v2(struct cuda_context *context);
int cuCtxPushCurrent_v2(struct cuda_context *context)
{
    n_pushed += context != NULL;
    return CUDA_OK;
}

int cuCtxPopCurrent_v2(struct cuda_context **out);
int cuCtxPopCurrent_v2(struct cuda_context **out)
{
    *out = NULL;
    n_pushed--;
    return CUDA_OK;
}

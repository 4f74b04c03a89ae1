/* A CUDA driver without a GPU, as a library (libcuda.so.1) for whole programs: ci/test_gpu.py runs
 * `weft` over it. What makes real ones hard is here: memory of the device faults under the CPU,
 * work on a stream is done by another thread some time later, one stream does not wait for another.
 *
 * FAKE_CUDA_DEVICES (1), FAKE_CUDA_INTEGRATED=1 (as GB10: no memory of its own), FAKE_CUDA_INIT
 * (what cuInit returns), FAKE_CUDA_LATE_US (0: how late work begins), FAKE_CUDA_LOG: a file that
 * gets a line of what was done when a context is given back. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cuda/kernels_testing.h"
#include "backends/cuda/library.h"

#define PAGE ((size_t)4096)
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

/* What a handle is: a file of another process. */
struct handle {
    pid_t pid;
    int fd;
    size_t n_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory *memories;
static unsigned long long n_memories;
static atomic_ulong n_copies, n_launches, n_device_bytes, n_host_bytes, n_open;

static long setting(const char *name, long otherwise)
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

static uint8_t *there(cuda_pointer at)
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
    memory->n_mapped = (n_bytes + offset + PAGE - 1) / PAGE * PAGE;
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
        memset(memory->there, 0x5a, n_bytes); /* nobody promised zeroes */
    }
    pthread_mutex_lock(&lock);
    memory->id = ++n_memories;
    memory->next = memories;
    memories = memory;
    pthread_mutex_unlock(&lock);
    *out = memory->address;
    atomic_fetch_add(is_host ? &n_host_bytes : &n_device_bytes, fd >= 0 ? 0 : n_bytes);
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
    memset(there(memory), value, n_bytes);
    return CUDA_OK;
}

int cuMemcpy(cuda_pointer to, cuda_pointer from, size_t n_bytes);
int cuMemcpy(cuda_pointer to, cuda_pointer from, size_t n_bytes)
{
    memmove(there(to), there(from), n_bytes);
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

/* ---- work ---- */

enum work_kind { COPY, LAUNCH, RECORD, WAIT, CALL };

/* In memory of its own, that other processes may map. */
struct cuda_event {
    atomic_ulong n_recorded, n_done;
    int fd; /* in the process that made it */
};

struct work {
    struct work *next;
    enum work_kind kind;
    cuda_pointer places[3]; /* out, a, b */
    uint64_t count;
    int divisor;
    const char *function;
    struct cuda_event *event;
    unsigned long ticket;
    void (*call)(void *context);
    void *context;
};

struct cuda_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct work *first, *last;
    bool is_over;
};

static void launch_now(const struct work *work)
{
    void *out = there(work->places[0]), *a = there(work->places[1]);
    void *b = there(work->places[2]);
    uint64_t count = work->count;
    int divisor = work->divisor;
    void *arguments[] = {&out, &a, &b, &count, &divisor};

    if (!kernels_run(work->function, arguments, 0, 1)) {
        abort();
    }
}

static void do_work(const struct work *work)
{
    switch (work->kind) {
    case COPY:
        memmove(there(work->places[0]), there(work->places[1]), work->count);
        atomic_fetch_add(&n_copies, 1);
        break;
    case LAUNCH:
        launch_now(work);
        atomic_fetch_add(&n_launches, 1);
        break;
    case RECORD:
        atomic_store(&work->event->n_done, work->ticket);
        break;
    case WAIT:
        while (atomic_load(&work->event->n_done) < work->ticket) {
            usleep(10);
        }
        break;
    case CALL:
        work->call(work->context);
        break;
    }
}

static void *serve(void *context)
{
    struct cuda_stream *stream = context;
    long late_us = setting("FAKE_CUDA_LATE_US", 0);

    pthread_mutex_lock(&stream->lock);
    while (!stream->is_over || stream->first != NULL) {
        struct work *work = stream->first;

        if (work == NULL) {
            pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        pthread_mutex_unlock(&stream->lock);
        if (late_us > 0 && work->kind != CALL) {
            usleep((useconds_t)late_us);
        }
        do_work(work);
        pthread_mutex_lock(&stream->lock);
        stream->first = work->next;
        if (stream->first == NULL) {
            stream->last = NULL;
            pthread_cond_broadcast(&stream->changed);
        }
        free(work);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static int append(struct cuda_stream *stream, const struct work *given)
{
    struct work *work = malloc(sizeof(*work));

    if (stream == NULL) {
        abort(); /* nobody here means the default stream */
    }
    *work = *given;
    work->next = NULL;
    pthread_mutex_lock(&stream->lock);
    if (stream->last == NULL) {
        stream->first = work;
    } else {
        stream->last->next = work;
    }
    stream->last = work;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return CUDA_OK;
}

int cuStreamCreate(struct cuda_stream **out, unsigned flags);
int cuStreamCreate(struct cuda_stream **out, unsigned flags)
{
    struct cuda_stream *stream = calloc(1, sizeof(*stream));

    (void)flags;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    *out = stream;
    return pthread_create(&stream->thread, NULL, serve, stream) == 0 ? CUDA_OK
                                                                     : CUDA_OUT_OF_MEMORY;
}

int cuStreamSynchronize(struct cuda_stream *stream);
int cuStreamSynchronize(struct cuda_stream *stream)
{
    if (stream == NULL) {
        return CUDA_OK;
    }
    pthread_mutex_lock(&stream->lock);
    while (stream->first != NULL) {
        pthread_cond_wait(&stream->changed, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    return CUDA_OK;
}

int cuStreamDestroy_v2(struct cuda_stream *stream);
int cuStreamDestroy_v2(struct cuda_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->is_over = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    free(stream);
    return CUDA_OK;
}

int cuMemcpyAsync(cuda_pointer to, cuda_pointer from, size_t n_bytes,
                  struct cuda_stream *stream);
int cuMemcpyAsync(cuda_pointer to, cuda_pointer from, size_t n_bytes,
                  struct cuda_stream *stream)
{
    return append(stream,
                  &(struct work){.kind = COPY, .places = {to, from}, .count = n_bytes});
}

int cuLaunchKernel(struct cuda_function *function, unsigned grid_x, unsigned grid_y,
                   unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared_bytes, struct cuda_stream *stream, void **arguments,
                   void **extra);
int cuLaunchKernel(struct cuda_function *function, unsigned grid_x, unsigned grid_y,
                   unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared_bytes, struct cuda_stream *stream, void **arguments,
                   void **extra)
{
    struct work work = {.kind = LAUNCH,
                        .function = (const char *)function,
                        .count = *(uint64_t *)arguments[3],
                        .divisor = *(int *)arguments[4]};

    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 ||
        block_y != 1 || block_z != 1 || shared_bytes != 0 || extra != NULL) {
        return CUDA_INVALID_VALUE;
    }
    for (int i = 0; i < 3; i++) {
        work.places[i] = *(cuda_pointer *)arguments[i];
    }
    return append(stream, &work);
}

int cuLaunchHostFunc(struct cuda_stream *stream, void (*function)(void *context),
                     void *context);
int cuLaunchHostFunc(struct cuda_stream *stream, void (*function)(void *context),
                     void *context)
{
    return append(stream,
                  &(struct work){.kind = CALL, .call = function, .context = context});
}

int cuEventCreate(struct cuda_event **out, unsigned flags);
int cuEventCreate(struct cuda_event **out, unsigned flags)
{
    int fd = memfd_create("fake-event", MFD_CLOEXEC);

    (void)flags;
    if (fd < 0 || ftruncate(fd, (off_t)PAGE) != 0) {
        return CUDA_OUT_OF_MEMORY;
    }
    *out = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (*out)->fd = fd;
    return CUDA_OK;
}

int cuEventDestroy_v2(struct cuda_event *event);
int cuEventDestroy_v2(struct cuda_event *event)
{
    munmap(event, PAGE); /* its file ends with the process: another may still take it */
    return CUDA_OK;
}

int cuEventRecord(struct cuda_event *event, struct cuda_stream *stream);
int cuEventRecord(struct cuda_event *event, struct cuda_stream *stream)
{
    unsigned long ticket = atomic_fetch_add(&event->n_recorded, 1) + 1;

    return append(stream,
                  &(struct work){.kind = RECORD, .event = event, .ticket = ticket});
}

int cuEventQuery(struct cuda_event *event);
int cuEventQuery(struct cuda_event *event)
{
    return atomic_load(&event->n_done) == atomic_load(&event->n_recorded)
               ? CUDA_OK
               : CUDA_NOT_READY;
}

int cuStreamWaitEvent(struct cuda_stream *stream, struct cuda_event *event,
                      unsigned flags);
int cuStreamWaitEvent(struct cuda_stream *stream, struct cuda_event *event,
                      unsigned flags)
{
    (void)flags;
    return append(stream, &(struct work){.kind = WAIT,
                                         .event = event,
                                         .ticket = atomic_load(&event->n_recorded)});
}

/* ---- devices ---- */

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    return (int)setting("FAKE_CUDA_INIT", CUDA_OK);
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
    *out = (int)setting("FAKE_CUDA_DEVICES", 1);
    return CUDA_OK;
}

int cuDeviceGet(cuda_device *out, int ordinal);
int cuDeviceGet(cuda_device *out, int ordinal)
{
    *out = ordinal;
    return ordinal >= 0 && ordinal < setting("FAKE_CUDA_DEVICES", 1) ? CUDA_OK
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
           : attribute == CUDA_ATTR_INTEGRATED ? (int)setting("FAKE_CUDA_INTEGRATED", 0)
           : attribute == CUDA_ATTR_RDMA_SUPPORTED
               ? !setting("FAKE_CUDA_INTEGRATED", 0) /* peer memory, says the driver */
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
                device, n_copies, n_launches, n_device_bytes, n_host_bytes,
                memories != NULL, n_pushed);
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

/* ---- kernels ---- */

int cuModuleLoadData(struct cuda_module **out, const void *image);
int cuModuleLoadData(struct cuda_module **out, const void *image)
{
    *out = calloc(1, 1);
    return image != NULL ? CUDA_OK : CUDA_INVALID_VALUE;
}

int cuModuleUnload(struct cuda_module *module);
int cuModuleUnload(struct cuda_module *module)
{
    free(module);
    return CUDA_OK;
}

int cuModuleGetFunction(struct cuda_function **out, struct cuda_module *module,
                        const char *name);
int cuModuleGetFunction(struct cuda_function **out, struct cuda_module *module,
                        const char *name)
{
    static char names[64][48];
    static int n_names;

    (void)module;
    for (int i = 0; i < n_names; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (struct cuda_function *)(void *)names[i];
            return CUDA_OK;
        }
    }
    snprintf(names[n_names], sizeof(names[0]), "%s", name);
    *out = (struct cuda_function *)(void *)names[n_names++];
    return CUDA_OK;
}

/* ---- other processes ---- */

static int tell(struct cuda_ipc_handle *out, int fd, size_t n_bytes)
{
    const struct handle handle = {.pid = getpid(), .fd = fd, .n_bytes = n_bytes};

    memset(out, 0, sizeof(*out));
    memcpy(out->bytes, &handle, sizeof(handle));
    return CUDA_OK;
}

/* Its file, or -1. */
static int take(const struct cuda_ipc_handle *given, struct handle *out)
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
               : tell(out, memory->fd, memory->n_bytes);
}

/* A process cannot open its own. */
int cuIpcOpenMemHandle_v2(cuda_pointer *out, struct cuda_ipc_handle given,
                          unsigned flags);
int cuIpcOpenMemHandle_v2(cuda_pointer *out, struct cuda_ipc_handle given, unsigned flags)
{
    struct handle handle;
    int fd = take(&given, &handle);
    void *at = NULL;
    int result;

    *out = 0;
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

int cuIpcGetEventHandle(struct cuda_ipc_handle *out, struct cuda_event *event);
int cuIpcGetEventHandle(struct cuda_ipc_handle *out, struct cuda_event *event)
{
    return tell(out, event->fd, PAGE);
}

int cuIpcOpenEventHandle(struct cuda_event **out, struct cuda_ipc_handle given);
int cuIpcOpenEventHandle(struct cuda_event **out, struct cuda_ipc_handle given)
{
    struct handle handle;
    int fd = take(&given, &handle);

    if (fd < 0) {
        return CUDA_INVALID_HANDLE;
    }
    *out = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return CUDA_OK;
}

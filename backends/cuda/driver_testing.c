#define _GNU_SOURCE
#include "backends/cuda/driver_testing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cuda/kernels_testing.h"
#include "base/check.h"
#include "base/text.h"

struct driver_testing driver_now;

struct memory {
    struct memory *next;
    uint8_t *whole; /* Owned */
    uint8_t *at;    /* device memory does not begin at a page boundary */
    size_t n_bytes;
    bool is_host;
    unsigned long long id;
};

static struct memory *memories;
static unsigned long long last_id;

static int failing(void)
{
    int result = driver_now.fails_with;

    if (result != CUDA_OK && driver_now.n_pass > 0) {
        driver_now.n_pass--;
        return CUDA_OK;
    }
    driver_now.fails_with = CUDA_OK;
    return result;
}

static int ok_flags(unsigned flags)
{
    (void)flags;
    return CUDA_OK;
}

static int version(int *out)
{
    *out = 13000;
    return CUDA_OK;
}

static int error_name(int result, const char **out)
{
    *out = "CUDA_ERROR_TEST";
    if (result == CUDA_OUT_OF_MEMORY) {
        *out = "CUDA_ERROR_OUT_OF_MEMORY";
    } else if (result == CUDA_DEVICE_UNAVAILABLE) {
        *out = "CUDA_ERROR_DEVICE_UNAVAILABLE";
    }
    return CUDA_OK;
}

static int count(int *out)
{
    *out = 1;
    return CUDA_OK;
}

static int device(cuda_device *out, int ordinal)
{
    *out = ordinal;
    return ordinal == 0 ? CUDA_OK : CUDA_INVALID_VALUE;
}

static int name(char *out, int n_bytes, cuda_device of)
{
    (void)of;
    weft_format(out, (size_t)n_bytes, "NVIDIA Test");
    return CUDA_OK;
}

static int attribute(int *out, int which, cuda_device of)
{
    (void)of;
    *out = driver_now.attributes[which];
    return CUDA_OK;
}

static int uuid(struct cuda_uuid *out, cuda_device of)
{
    (void)of;
    for (int i = 0; i < 16; i++) {
        out->bytes[i] = (char)(i * 17);
    }
    return CUDA_OK;
}

static int pci_bus_id(char *out, int n_bytes, cuda_device of)
{
    (void)of;
    weft_format(out, (size_t)n_bytes, "0000:0F:00.0");
    return CUDA_OK;
}

static int can_access(int *out, cuda_device of, cuda_device peer)
{
    (void)of;
    (void)peer;
    *out = 1;
    return CUDA_OK;
}

static int retain(struct cuda_context **out, cuda_device of)
{
    static int context;
    int result = failing();

    (void)of;
    *out = (struct cuda_context *)(void *)&context;
    driver_now.n_contexts_retained += result == CUDA_OK;
    return result;
}

static int release(cuda_device of)
{
    (void)of;
    driver_now.n_contexts_retained--;
    return CUDA_OK;
}

static int push(struct cuda_context *context)
{
    weft_check(context != NULL);
    if (driver_now.push_fails_with == CUDA_OK) {
        driver_now.n_contexts_pushed++;
    }
    return driver_now.push_fails_with;
}

static int pop(struct cuda_context **out)
{
    *out = NULL;
    driver_now.n_contexts_pushed--;
    return CUDA_OK;
}

static int take(void **out, size_t n_bytes, bool is_host)
{
    struct memory *memory;
    int result = failing();

    if (result != CUDA_OK || n_bytes > (size_t)1 << 32) {
        return result != CUDA_OK ? result : CUDA_OUT_OF_MEMORY;
    }
    memory = weft_calloc(1, sizeof(*memory));
    memory->whole = aligned_alloc(4096, n_bytes + 4096);
    memory->at = memory->whole + (is_host ? 0 : 512);
    memset(memory->at, 0x5a, n_bytes); /* the driver does not promise zeroes */
    memory->n_bytes = n_bytes;
    memory->is_host = is_host;
    memory->id = ++last_id;
    memory->next = memories;
    memories = memory;
    *out = memory->at;
    return CUDA_OK;
}

static int give(void *at)
{
    for (struct memory **from = &memories; *from != NULL; from = &(*from)->next) {
        struct memory *memory = *from;

        if (memory->at == at) {
            *from = memory->next;
            free(memory->whole);
            free(memory);
            return CUDA_OK;
        }
    }
    return CUDA_INVALID_VALUE;
}

static int alloc(cuda_pointer *out, size_t n_bytes)
{
    void *at = NULL;
    int result = take(&at, n_bytes, false);

    *out = (uintptr_t)at;
    driver_now.n_allocated += result == CUDA_OK;
    return result;
}

static int release_memory(cuda_pointer memory)
{
    driver_now.n_allocated--;
    return give((void *)(uintptr_t)memory);
}

static int host_alloc(void **out, size_t n_bytes, unsigned flags)
{
    int result = take(out, n_bytes, true);

    weft_check(flags == (CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
    driver_now.n_host_allocated += result == CUDA_OK;
    return result;
}

static int host_free(void *memory)
{
    driver_now.n_host_allocated--;
    return give(memory);
}

static int set(cuda_pointer memory, unsigned char value, size_t n_bytes)
{
    weft_check(driver_now.n_contexts_pushed == 1);
    memset((void *)(uintptr_t)memory, value, n_bytes);
    return CUDA_OK;
}

static int copy(cuda_pointer to, cuda_pointer from, size_t n_bytes)
{
    weft_check(driver_now.n_contexts_pushed == 1);
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, n_bytes);
    return failing();
}

static int copy_async(cuda_pointer to, cuda_pointer from, size_t n_bytes,
                      struct cuda_stream *stream)
{
    weft_check(stream != NULL);
    driver_now.n_running++;
    return copy(to, from, n_bytes);
}

static int stream_create(struct cuda_stream **out, unsigned flags)
{
    weft_check(flags == CUDA_STREAM_NON_BLOCKING);
    *out = weft_calloc(1, 1);
    driver_now.n_streams++;
    return CUDA_OK;
}

static int stream_destroy(struct cuda_stream *stream)
{
    driver_now.n_streams--;
    free(stream);
    return CUDA_OK;
}

static int stream_sync(struct cuda_stream *stream)
{
    (void)stream;
    driver_now.n_running = 0;
    return CUDA_OK;
}

static int stream_wait(struct cuda_stream *stream, struct cuda_event *event,
                       unsigned flags)
{
    weft_check(stream != NULL && event != NULL && flags == 0);
    return CUDA_OK;
}

static int event_create(struct cuda_event **out, unsigned flags)
{
    weft_check((flags & CUDA_EVENT_NO_TIMING) != 0);
    *out = weft_calloc(1, 1);
    driver_now.n_events++;
    return failing();
}

static int event_destroy(struct cuda_event *event)
{
    driver_now.n_events--;
    free(event);
    return CUDA_OK;
}

static int event_record(struct cuda_event *event, struct cuda_stream *stream)
{
    weft_check(event != NULL && stream != NULL);
    return failing();
}

static int event_query(struct cuda_event *event)
{
    weft_check(event != NULL);
    return failing();
}

static int ipc_export(struct cuda_ipc_handle *out, cuda_pointer memory)
{
    memset(out, 0, sizeof(*out));
    memcpy(out->bytes, &memory, sizeof(memory));
    return CUDA_OK;
}

/* A process cannot open its own memory. */
static int ipc_open(cuda_pointer *out, struct cuda_ipc_handle handle, unsigned flags)
{
    (void)handle;
    weft_check(flags == CUDA_IPC_PEER_ACCESS);
    *out = 0;
    return CUDA_INVALID_CONTEXT;
}

static int ipc_close(cuda_pointer memory)
{
    (void)memory;
    return CUDA_OK;
}

static int ipc_export_event(struct cuda_ipc_handle *out, struct cuda_event *event)
{
    (void)event;
    memset(out, 0, sizeof(*out));
    return CUDA_OK;
}

static int ipc_open_event(struct cuda_event **out, struct cuda_ipc_handle handle)
{
    (void)out;
    (void)handle;
    return CUDA_INVALID_HANDLE;
}

static const struct memory *find(cuda_pointer at)
{
    for (const struct memory *memory = memories; memory != NULL; memory = memory->next) {
        if (at - (uintptr_t)memory->at < memory->n_bytes) {
            return memory;
        }
    }
    return NULL;
}

static int range(cuda_pointer *out_base, size_t *out_n_bytes, cuda_pointer at)
{
    const struct memory *memory = find(at);

    if (memory == NULL) {
        return CUDA_INVALID_VALUE;
    }
    *out_base = (uintptr_t)memory->at;
    *out_n_bytes = memory->n_bytes;
    return CUDA_OK;
}

static int pointer(void *out, int which, cuda_pointer at)
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
        number = memory->is_host ? CUDA_MEMORY_HOST : CUDA_MEMORY_DEVICE;
    } else if (which == CUDA_PTR_LEGACY_IPC) {
        number = !memory->is_host;
    }
    memcpy(out, &number, sizeof(number));
    return CUDA_OK;
}

static int module_load(struct cuda_module **out, const void *image)
{
    *out = weft_calloc(1, 1);
    return image != NULL ? failing() : CUDA_INVALID_VALUE;
}

static int module_unload(struct cuda_module *module)
{
    free(module);
    return CUDA_OK;
}

#define FUNCTIONS_MAX 64
static char functions[FUNCTIONS_MAX][48];
static unsigned n_functions;

static int function(struct cuda_function **out, struct cuda_module *module,
                    const char *called)
{
    weft_check(module != NULL && n_functions < FUNCTIONS_MAX);
    weft_format(functions[n_functions], sizeof(functions[0]), "%s", called);
    *out = (struct cuda_function *)(void *)functions[n_functions++];
    return CUDA_OK;
}

static int launch(struct cuda_function *which, unsigned grid_x, unsigned grid_y,
                  unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                  unsigned shared_bytes, struct cuda_stream *stream, void **arguments,
                  void **extra)
{
    uint64_t n_threads = (uint64_t)grid_x * block_x;

    weft_check(grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1);
    weft_check(shared_bytes == 0 && stream != NULL && extra == NULL);
    for (uint64_t i = 0; i < n_threads; i++) {
        bool is_there =
            kernels_run((const char *)(const void *)which, arguments, i, n_threads);

        weft_check(is_there);
    }
    return CUDA_OK;
}

static int host_function(struct cuda_stream *stream, void (*call)(void *context),
                         void *context)
{
    int result;

    weft_check(stream != NULL);
    result = failing();
    if (result == CUDA_OK) {
        call(context);
    }
    return result;
}

static int flush_writes(int target, int scope)
{
    weft_check(target == CUDA_FLUSH_TARGET_CONTEXT && scope == CUDA_FLUSH_TO_OWNER);
    driver_now.n_flushed++;
    return CUDA_OK;
}

static int range_handle(void *out, cuda_pointer memory, size_t n_bytes, int type,
                        unsigned long long flags)
{
    int fd = memfd_create("dma-buf", MFD_CLOEXEC);

    weft_check(memory % 4096 == 0 && n_bytes % 4096 == 0 && type == CUDA_RANGE_DMA_BUF);
    weft_check(flags == 0 && find(memory) != NULL && find(memory + n_bytes - 1) != NULL);
    *(int *)out = fd;
    return fd >= 0 ? CUDA_OK : CUDA_OPERATING_SYSTEM;
}

struct cuda_driver driver_testing(void)
{
    driver_now = (struct driver_testing){.attributes = {[CUDA_ATTR_MULTIPROCESSORS] = 2,
                                                        [CUDA_ATTR_RDMA_SUPPORTED] = 1,
                                                        [CUDA_ATTR_RDMA_FLUSH] = 1,
                                                        [CUDA_ATTR_IPC_EVENT] = 1}};
    n_functions = 0;
    return (struct cuda_driver){
        .init = ok_flags,
        .version = version,
        .error_name = error_name,
        .count = count,
        .device = device,
        .name = name,
        .attribute = attribute,
        .uuid = uuid,
        .pci_bus_id = pci_bus_id,
        .can_access = can_access,
        .retain = retain,
        .release = release,
        .push = push,
        .pop = pop,
        .alloc = alloc,
        .free = release_memory,
        .host_alloc = host_alloc,
        .host_free = host_free,
        .set = set,
        .copy = copy,
        .copy_async = copy_async,
        .stream_create = stream_create,
        .stream_destroy = stream_destroy,
        .stream_sync = stream_sync,
        .stream_wait = stream_wait,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .event_query = event_query,
        .ipc_export = ipc_export,
        .ipc_open = ipc_open,
        .ipc_close = ipc_close,
        .ipc_export_event = ipc_export_event,
        .ipc_open_event = ipc_open_event,
        .range = range,
        .pointer = pointer,
        .module_load = module_load,
        .module_unload = module_unload,
        .function = function,
        .launch = launch,
        .host_function = host_function,
        .range_handle = range_handle,
        .flush_writes = flush_writes,
    };
}

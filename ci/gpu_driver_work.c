/* Streams, events and kernels of the CUDA driver without a GPU: a thread does the work of each
 * stream, in order, one stream not knowing of the others. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cuda/kernels_testing.h"
#include "ci/gpu_driver.h"

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
    void *out = driver_there(work->places[0]), *a = driver_there(work->places[1]);
    void *b = driver_there(work->places[2]);
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
        memmove(driver_there(work->places[0]), driver_there(work->places[1]),
                work->count);
        atomic_fetch_add(&driver_done.n_copies, 1);
        break;
    case LAUNCH:
        launch_now(work);
        atomic_fetch_add(&driver_done.n_launches, 1);
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
    long late_us = driver_setting("FAKE_CUDA_LATE_US", 0);

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
        abort(); /* no caller here means the default stream */
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
    if (fd < 0 || ftruncate(fd, (off_t)DRIVER_PAGE) != 0) {
        return CUDA_OUT_OF_MEMORY;
    }
    *out = mmap(NULL, DRIVER_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (*out)->fd = fd;
    return CUDA_OK;
}

int cuEventDestroy_v2(struct cuda_event *event);
int cuEventDestroy_v2(struct cuda_event *event)
{
    munmap(event,
           DRIVER_PAGE); /* its file ends with the process: another may still take it */
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

/* ---- events of other processes ---- */

int cuIpcGetEventHandle(struct cuda_ipc_handle *out, struct cuda_event *event);
int cuIpcGetEventHandle(struct cuda_ipc_handle *out, struct cuda_event *event)
{
    return driver_tell(out, event->fd, DRIVER_PAGE);
}

int cuIpcOpenEventHandle(struct cuda_event **out, struct cuda_ipc_handle given);
int cuIpcOpenEventHandle(struct cuda_event **out, struct cuda_ipc_handle given)
{
    struct driver_handle handle;
    int fd = driver_take(&given, &handle);

    if (fd < 0) {
        return CUDA_INVALID_HANDLE;
    }
    *out = mmap(NULL, DRIVER_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return CUDA_OK;
}

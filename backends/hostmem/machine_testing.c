#include "backends/hostmem/machine_testing.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/hostmem/machine_private_testing.h"
#include "base/check.h"
#include "base/text.h"

struct process *hostmem_process_of(struct io_gpu *gpu)
{
    return weft_container_of(gpu, struct process, io);
}

void hostmem_violate(struct process *process, const char *format, ...)
{
    struct hostmem_machine *machine = process->machine;
    char what[128];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    if (machine->n_violations++ == 0) {
        weft_format(machine->violation, sizeof(machine->violation), "process %u: %s",
                    process->pid, what);
    }
}

int hostmem_failing(struct process *process, enum hostmem_call call)
{
    if (process->fails[call].n == 0) {
        return 0;
    }
    process->fails[call].n--;
    return process->fails[call].sys_errno;
}

/* ---- the GPU's own operations ---- */

static int machine_poll(struct io_gpu *gpu, struct io_gpu_op *op)
{
    struct process *process = hostmem_process_of(gpu);
    int result;

    pthread_mutex_lock(&process->machine->lock);
    result = op->done ? op->error : EINPROGRESS;
    pthread_mutex_unlock(&process->machine->lock);
    return result;
}

static int machine_fence(struct io_gpu *gpu, void *memory, size_t n_bytes)
{
    struct process *process = hostmem_process_of(gpu);

    (void)memory;
    (void)n_bytes;
    pthread_mutex_lock(&process->machine->lock);
    while (process->writes != NULL) {
        hostmem_land(process);
    }
    pthread_mutex_unlock(&process->machine->lock);
    return 0;
}

static int machine_transfer(struct io_gpu *gpu, void *to, const void *from,
                            size_t n_bytes)
{
    struct process *process = hostmem_process_of(gpu);

    pthread_mutex_lock(&process->machine->lock);
    memmove(to, from, n_bytes);
    pthread_mutex_unlock(&process->machine->lock);
    return 0;
}

static bool machine_can_access(struct io_gpu *gpu, const char *peer_uuid)
{
    struct process *process = hostmem_process_of(gpu);

    return process->config.reachable == NULL || strcmp(process->uuid, peer_uuid) == 0 ||
           strcmp(process->reachable, peer_uuid) == 0;
}

static const struct io_gpu_ops machine_ops = {
    .alloc = hostmem_machine_alloc,
    .free = hostmem_machine_free,
    .start = hostmem_machine_start,
    .poll = machine_poll,
    .fence = machine_fence,
    .upload = machine_transfer,
    .download = machine_transfer,
    .can_access = machine_can_access,
};

/* ---- the machine ---- */

struct hostmem_machine *hostmem_machine_create(uint64_t seed, uint32_t n_pieces)
{
    struct hostmem_machine *machine = weft_calloc(1, sizeof(*machine));
    int sys_errno = pthread_mutex_init(&machine->lock, NULL);

    weft_check(sys_errno == 0);
    weft_rng_init(&machine->rng, seed, "hostmem");
    machine->n_pieces = n_pieces;
    return machine;
}

struct io_gpu *hostmem_join(struct hostmem_machine *machine,
                            const struct hostmem_process *config)
{
    const uint32_t kinds = 1u << IO_GPU_HANDLE_LEGACY | 1u << IO_GPU_HANDLE_FD;
    struct process *process = weft_calloc(1, sizeof(*process));
    struct io_gpu_stream *own = weft_calloc(1, sizeof(*own));

    process->machine = machine;
    process->config = *config;
    process->config.kinds = config->kinds == 0 ? kinds : config->kinds;
    process->has_context = !config->has_no_context;
    weft_format(process->uuid, sizeof(process->uuid), "%s", config->uuid);
    weft_format(process->reachable, sizeof(process->reachable), "%s",
                config->reachable == NULL ? "" : config->reachable);
    own->process = process;
    process->streams = own;
    process->own = own;
    process->io = (struct io_gpu){.ops = &machine_ops,
                                  .sharing = &hostmem_machine_sharing,
                                  .is_host_memory = true,
                                  .rdma_direct = true};
    weft_format(process->io.name, sizeof(process->io.name), "host memory");
    weft_format(process->io.uuid, sizeof(process->io.uuid), "%s", process->uuid);
    pthread_mutex_lock(&machine->lock);
    process->pid = ++machine->n_processes;
    process->next = machine->processes;
    machine->processes = process;
    pthread_mutex_unlock(&machine->lock);
    return &process->io;
}

/* Ends the pending work of the process. Events that it has not completed never complete. */
static void die(struct process *process)
{
    hostmem_drop_work(process);
    for (struct io_gpu_event *event = process->events; event != NULL;
         event = event->next) {
        event->shared->is_dead |= event->is_own;
    }
    process->is_dead = true;
    process->has_context = false;
    hostmem_memory_die(process);
}

void hostmem_die(struct io_gpu *gpu)
{
    struct process *process = hostmem_process_of(gpu);

    pthread_mutex_lock(&process->machine->lock);
    die(process);
    pthread_mutex_unlock(&process->machine->lock);
}

bool hostmem_step(struct hostmem_machine *machine)
{
    uint32_t n = 0, at;

    pthread_mutex_lock(&machine->lock);
    for (struct process *process = machine->processes; process != NULL;
         process = process->next) {
        n += hostmem_count_work(process);
    }
    if (n > 0) {
        at = (uint32_t)weft_rng_below(&machine->rng, n);
        for (struct process *process = machine->processes; process != NULL;
             process = process->next) {
            uint32_t here = hostmem_count_work(process);

            if (at < here) {
                hostmem_do_work(process, at);
                break;
            }
            at -= here;
        }
    }
    pthread_mutex_unlock(&machine->lock);
    return n > 0;
}

void hostmem_context(struct io_gpu *gpu, bool is_usable)
{
    struct process *process = hostmem_process_of(gpu);

    pthread_mutex_lock(&process->machine->lock);
    process->has_context = is_usable;
    pthread_mutex_unlock(&process->machine->lock);
}

void hostmem_fail(struct io_gpu *gpu, enum hostmem_call call, int sys_errno, uint32_t n)
{
    struct process *process = hostmem_process_of(gpu);

    pthread_mutex_lock(&process->machine->lock);
    process->fails[call].sys_errno = sys_errno;
    process->fails[call].n = n;
    pthread_mutex_unlock(&process->machine->lock);
}

void hostmem_nic_write(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes)
{
    struct process *process = hostmem_process_of(gpu);
    struct nic_write *write = weft_alloc(sizeof(*write) + n_bytes);

    write->next = NULL;
    write->to = to;
    write->n_bytes = n_bytes;
    memcpy(write->bytes, from, n_bytes);
    pthread_mutex_lock(&process->machine->lock);
    if (process->last_write == NULL) {
        process->writes = write;
    } else {
        process->last_write->next = write;
    }
    process->last_write = write;
    pthread_mutex_unlock(&process->machine->lock);
}

uint32_t hostmem_n_violations(struct hostmem_machine *machine)
{
    uint32_t n;

    pthread_mutex_lock(&machine->lock);
    n = machine->n_violations;
    pthread_mutex_unlock(&machine->lock);
    return n;
}

const char *hostmem_violation(struct hostmem_machine *machine)
{
    return machine->violation;
}

static void destroy_process(struct process *process)
{
    die(process);
    while (process->events != NULL) {
        process->io.sharing->event_destroy(&process->io, process->events);
    }
    while (process->streams != NULL) {
        struct io_gpu_stream *stream = process->streams;

        process->streams = stream->next;
        free(stream);
    }
    hostmem_memory_fini(process);
}

void hostmem_machine_destroy(struct hostmem_machine *machine)
{
    if (machine == NULL) {
        return;
    }
    for (struct process *process = machine->processes; process != NULL;
         process = process->next) {
        destroy_process(process);
    }
    while (machine->processes != NULL) {
        struct process *process = machine->processes;

        machine->processes = process->next;
        free(process);
    }
    weft_check(machine->allocations == NULL && machine->events == NULL);
    pthread_mutex_destroy(&machine->lock);
    free(machine);
}

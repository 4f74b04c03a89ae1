#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/hostmem/machine_private_testing.h"
#include "base/check.h"
#include "base/text.h"

#define PAGE_BYTES ((size_t)4096)
#define FREED 0xdb /* content of freed memory */

static bool overlaps(const void *a, size_t n_a, const void *b, size_t n_b)
{
    return (uintptr_t)a < (uintptr_t)b + n_b && (uintptr_t)b < (uintptr_t)a + n_a;
}

/* ---- own memory ---- */

/* Reuses the most recently freed address of this size, so that stale mappings are noticed. */
static uint8_t *take_hole(struct process *process, size_t n_mapped)
{
    for (struct hole **at = &process->holes; *at != NULL; at = &(*at)->next) {
        struct hole *hole = *at;

        if (hole->n_mapped == n_mapped) {
            uint8_t *address = hole->at;

            *at = hole->next;
            free(hole);
            return address;
        }
    }
    return NULL;
}

static void add_hole(struct process *process, uint8_t *address, size_t n_mapped)
{
    struct hole *hole = weft_calloc(1, sizeof(*hole));

    *hole = (struct hole){process->holes, address, n_mapped};
    process->holes = hole;
}

static int map(struct allocation *allocation, uint8_t *wanted)
{
    void *at;

    allocation->fd = memfd_create("weft-hostmem", MFD_CLOEXEC);
    if (allocation->fd < 0) {
        return errno == EMFILE || errno == ENFILE ? errno : ENOMEM;
    }
    at = MAP_FAILED;
    if (ftruncate(allocation->fd, (off_t)allocation->n_mapped) == 0) {
        at = mmap(wanted, allocation->n_mapped, PROT_READ | PROT_WRITE,
                  MAP_SHARED | (wanted == NULL ? 0 : MAP_FIXED), allocation->fd, 0);
    }
    if (at == MAP_FAILED) {
        close(allocation->fd);
        return ENOMEM;
    }
    allocation->at = at;
    return 0;
}

int hostmem_machine_alloc(struct io_gpu *gpu, enum io_memory where, size_t n_bytes,
                          void **out)
{
    struct process *process = hostmem_process_of(gpu);
    struct hostmem_machine *machine = process->machine;
    struct allocation *allocation;
    uint8_t *wanted;
    int sys_errno;

    (void)where;
    if (n_bytes == 0 || n_bytes > SIZE_MAX / 2) {
        return n_bytes == 0 ? EINVAL : ENOMEM;
    }
    pthread_mutex_lock(&machine->lock);
    allocation = weft_calloc(1, sizeof(*allocation));
    allocation->owner = process;
    allocation->n_bytes = n_bytes;
    allocation->n_mapped = (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    sys_errno = hostmem_failing(process, HOSTMEM_ALLOC);
    if (sys_errno == 0) {
        wanted = take_hole(process, allocation->n_mapped);
        sys_errno = map(allocation, wanted);
        if (sys_errno != 0 && wanted != NULL) {
            add_hole(process, wanted, allocation->n_mapped);
        }
    }
    if (sys_errno != 0) {
        free(allocation);
    } else {
        allocation->buffer_id = ++process->n_buffers;
        allocation->secret = weft_rng_next(&machine->rng);
        allocation->next = machine->allocations;
        machine->allocations = allocation;
        *out = allocation->at;
    }
    pthread_mutex_unlock(&machine->lock);
    return sys_errno;
}

static void forget(struct hostmem_machine *machine, struct allocation *allocation)
{
    struct allocation **at = &machine->allocations;

    while (*at != allocation) {
        at = &(*at)->next;
    }
    *at = allocation->next;
    close(allocation->fd);
    free(allocation);
}

/* Unmaps the memory, but keeps its addresses reserved and inaccessible. */
static void unmap_own(struct process *process, struct allocation *allocation)
{
    void *at = mmap(allocation->at, allocation->n_mapped, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);

    weft_check(at == allocation->at);
    add_hole(process, allocation->at, allocation->n_mapped);
    allocation->at = NULL;
    if (allocation->n_imports == 0) {
        forget(process->machine, allocation);
    }
}

static struct allocation *allocation_at(struct process *process, const void *address)
{
    for (struct allocation *at = process->machine->allocations; at != NULL;
         at = at->next) {
        if (at->owner == process && at->at != NULL &&
            (uintptr_t)address - (uintptr_t)at->at < at->n_mapped) {
            return at;
        }
    }
    return NULL;
}

void hostmem_machine_free(struct io_gpu *gpu, void *memory)
{
    struct process *process = hostmem_process_of(gpu);
    struct allocation *allocation;

    if (memory == NULL) {
        return;
    }
    pthread_mutex_lock(&process->machine->lock);
    allocation = allocation_at(process, memory);
    weft_check(allocation != NULL && allocation->at == memory);
    if (hostmem_uses(process, memory, allocation->n_bytes)) {
        hostmem_violate(process, "freed memory that its own work still uses");
    }
    if (allocation->n_imports > 0) {
        hostmem_violate(process, "freed memory that another process has open");
    }
    memset(allocation->at, FREED, allocation->n_bytes);
    unmap_own(process, allocation);
    pthread_mutex_unlock(&process->machine->lock);
}

/* ---- others' memory ---- */

struct memory_handle {
    uint64_t secret;
    uint32_t kind;
};
_Static_assert(sizeof(struct memory_handle) <= IO_GPU_HANDLE_BYTES, "it fits");

/* Prefers kinds in the order of real GPUs: legacy, fabric, descriptor. */
static bool choose_kind(uint32_t kinds, enum io_gpu_handle_kind *out)
{
    static const enum io_gpu_handle_kind order[] = {
        IO_GPU_HANDLE_LEGACY, IO_GPU_HANDLE_FABRIC, IO_GPU_HANDLE_FD};

    for (size_t i = 0; i < WEFT_LENGTH(order); i++) {
        if ((kinds & 1u << order[i]) != 0) {
            *out = order[i];
            return true;
        }
    }
    return false;
}

int hostmem_machine_export(struct io_gpu *gpu, const void *address, uint32_t kinds,
                           struct io_gpu_export *out)
{
    struct process *process = hostmem_process_of(gpu);
    struct memory_handle handle = {0};
    struct allocation *allocation;
    enum io_gpu_handle_kind kind;
    int sys_errno;

    pthread_mutex_lock(&process->machine->lock);
    sys_errno = hostmem_failing(process, HOSTMEM_EXPORT);
    allocation = allocation_at(process, address);
    if (sys_errno == 0 && allocation == NULL) {
        sys_errno = EINVAL;
    }
    if (sys_errno == 0 && !choose_kind(kinds & process->config.kinds, &kind)) {
        sys_errno = EOPNOTSUPP;
    }
    if (sys_errno == 0) {
        handle = (struct memory_handle){allocation->secret, (uint32_t)kind};
        memset(out, 0, sizeof(*out));
        memcpy(out->handle.bytes, &handle, sizeof(handle));
        out->kind = kind;
        out->base = (uintptr_t)allocation->at;
        out->n_bytes = allocation->n_bytes;
        out->buffer_id = allocation->buffer_id;
    }
    pthread_mutex_unlock(&process->machine->lock);
    return sys_errno;
}

void hostmem_machine_unexport(struct io_gpu *gpu, const struct io_gpu_export *exported)
{
    (void)gpu;
    (void)exported;
}

static struct allocation *find_secret(struct hostmem_machine *machine, uint64_t secret)
{
    for (struct allocation *at = machine->allocations; at != NULL; at = at->next) {
        if (at->secret == secret && at->at != NULL) {
            return at;
        }
    }
    return NULL;
}

static bool reaches(const struct process *process, const struct process *owner)
{
    return process->config.reachable == NULL || strcmp(process->uuid, owner->uuid) == 0 ||
           strcmp(process->reachable, owner->uuid) == 0;
}

static int open_allocation(struct process *process, struct allocation *allocation,
                           enum io_gpu_handle_kind kind, void **out)
{
    struct import *import;
    void *at;

    for (import = process->imports; import != NULL; import = import->next) {
        if (import->allocation == allocation) {
            if (kind == IO_GPU_HANDLE_LEGACY) {
                return EALREADY;
            }
            import->n_opened++;
            *out = import->at;
            return 0;
        }
    }
    at = mmap(NULL, allocation->n_mapped, PROT_READ | PROT_WRITE, MAP_SHARED,
              allocation->fd, 0);
    if (at == MAP_FAILED) {
        return ENOMEM;
    }
    import = weft_calloc(1, sizeof(*import));
    *import = (struct import){process->imports, allocation, at, 1};
    process->imports = import;
    allocation->n_imports++;
    *out = at;
    return 0;
}

int hostmem_machine_import(struct io_gpu *gpu, const struct io_gpu_export *exported,
                           void **out)
{
    struct process *process = hostmem_process_of(gpu);
    struct memory_handle handle;
    struct allocation *allocation;
    int sys_errno;

    memcpy(&handle, exported->handle.bytes, sizeof(handle));
    pthread_mutex_lock(&process->machine->lock);
    sys_errno = hostmem_failing(process, HOSTMEM_IMPORT);
    allocation = find_secret(process->machine, handle.secret);
    if (sys_errno == 0 && !process->has_context) {
        sys_errno = EAGAIN;
    } else if (sys_errno == 0 && allocation == NULL) {
        sys_errno = ENOENT;
    } else if (sys_errno == 0 && (handle.kind != (uint32_t)exported->kind ||
                                  exported->n_bytes > allocation->n_bytes ||
                                  allocation->owner == process)) {
        sys_errno = EINVAL;
    } else if (sys_errno == 0 && !reaches(process, allocation->owner)) {
        sys_errno = EACCES;
    }
    if (sys_errno == 0) {
        sys_errno = open_allocation(process, allocation, exported->kind, out);
    }
    pthread_mutex_unlock(&process->machine->lock);
    return sys_errno;
}

static void close_import(struct process *process, struct import **from)
{
    struct import *import = *from;
    struct allocation *allocation = import->allocation;

    *from = import->next;
    munmap(import->at, allocation->n_mapped);
    free(import);
    if (--allocation->n_imports == 0 && allocation->at == NULL) {
        forget(process->machine, allocation);
    }
}

void hostmem_machine_unimport(struct io_gpu *gpu, void *memory)
{
    struct process *process = hostmem_process_of(gpu);
    struct import **at = &process->imports;

    if (memory == NULL) {
        return;
    }
    pthread_mutex_lock(&process->machine->lock);
    while (*at != NULL && (*at)->at != memory) {
        at = &(*at)->next;
    }
    weft_check(*at != NULL);
    if (--(*at)->n_opened == 0) {
        if (hostmem_uses(process, memory, (*at)->allocation->n_bytes)) {
            hostmem_violate(process, "closed memory that its own work still uses");
            hostmem_drop_work(process);
        }
        close_import(process, at);
    }
    pthread_mutex_unlock(&process->machine->lock);
}

uint32_t hostmem_n_imports(struct io_gpu *gpu)
{
    struct process *process = hostmem_process_of(gpu);
    uint32_t n = 0;

    pthread_mutex_lock(&process->machine->lock);
    for (struct import *at = process->imports; at != NULL; at = at->next) {
        n++;
    }
    pthread_mutex_unlock(&process->machine->lock);
    return n;
}

/* ---- checks of accesses ---- */

bool hostmem_may_touch(struct process *process, const void *at, size_t n_bytes)
{
    for (const struct hole *hole = process->holes; hole != NULL; hole = hole->next) {
        if (overlaps(at, n_bytes, hole->at, hole->n_mapped)) {
            hostmem_violate(process, "work uses memory that was freed");
            return false;
        }
    }
    for (const struct import *import = process->imports; import != NULL;
         import = import->next) {
        if (import->allocation->at == NULL && !import->allocation->owner->is_dead &&
            overlaps(at, n_bytes, import->at, import->allocation->n_mapped)) {
            hostmem_violate(process, "work uses memory that its owner freed");
        }
    }
    return true;
}

/* Unmaps the memory of a process that died. Mappings of it in other processes stay valid. */
void hostmem_memory_die(struct process *process)
{
    struct allocation *next;

    while (process->imports != NULL) {
        close_import(process, &process->imports);
    }
    for (struct allocation *at = process->machine->allocations; at != NULL; at = next) {
        next = at->next;
        if (at->owner == process && at->at != NULL) {
            unmap_own(process, at);
        }
    }
}

void hostmem_memory_fini(struct process *process)
{
    while (process->holes != NULL) {
        struct hole *hole = process->holes;

        process->holes = hole->next;
        munmap(hole->at, hole->n_mapped);
        free(hole);
    }
}

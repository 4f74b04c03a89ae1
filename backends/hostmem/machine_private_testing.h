/* Definitions shared by the files of the machine of GPUs. machine.lock guards everything
 * below. */
#ifndef WEFT_BACKENDS_HOSTMEM_MACHINE_PRIVATE_TESTING_H
#define WEFT_BACKENDS_HOSTMEM_MACHINE_PRIVATE_TESTING_H

#include <pthread.h>

#include "backends/hostmem/machine_testing.h"
#include "base/rng.h"

struct process;

struct allocation {
    struct allocation *next;
    struct process *owner; /* Not owned. */
    uint8_t *at;           /* mapping in the owner; NULL once freed */
    size_t n_bytes;        /* as requested */
    size_t n_mapped;       /* n_bytes rounded up to pages */
    int fd;                /* Owned: memfd of the memory */
    uint64_t buffer_id, secret;
    uint32_t n_imports;
};

struct import {
    struct import *next;
    struct allocation *allocation; /* Not owned; exists until the import is closed */
    uint8_t *at;                   /* Owned mapping */
    uint32_t n_opened;             /* opens of kinds that may be opened again */
};

/* A freed address range, which the next allocation of the same size reuses. */
struct hole {
    struct hole *next;
    uint8_t *at;
    size_t n_mapped;
};

enum work_kind { WORK_OP, WORK_RECORD, WORK_WAIT };

struct shared_event {
    struct shared_event *next;
    uint64_t secret;
    uint32_t n_users;
    uint64_t n_recorded, n_done;
    bool is_dead; /* its process died; what is not done never will be */
};

struct work {
    struct work *next;
    enum work_kind kind;
    struct io_gpu_op *op; /* Not owned. */
    size_t n_done;        /* bytes copied so far */
    struct shared_event *event;
    uint64_t ticket;
};

struct io_gpu_event {
    struct io_gpu_event *next;
    struct process *process;
    struct shared_event *shared;
    bool is_own; /* created by this process, not imported */
};

struct io_gpu_stream {
    struct io_gpu_stream *next;
    struct process *process;
    struct work *first, *last; /* Owned */
    /* Errno for the next operation, because a wait before it failed. */
    int broken;
};

struct nic_write {
    struct nic_write *next;
    uint8_t *to;
    size_t n_bytes;
    uint8_t bytes[];
};

struct process {
    struct process *next;
    struct io_gpu io;
    struct hostmem_machine *machine;
    struct hostmem_process config;
    char uuid[48], reachable[48];
    uint32_t pid;
    uint64_t n_buffers;
    bool has_context, is_dead;
    struct import *imports;        /* Owned */
    struct hole *holes;            /* Owned */
    struct io_gpu_stream *streams; /* Owned; includes `own`, the GPU's default stream */
    struct io_gpu_stream *own;
    struct io_gpu_event *events;           /* Owned */
    struct nic_write *writes, *last_write; /* Owned */
    struct {
        int sys_errno;
        uint32_t n;
    } fails[HOSTMEM_N_CALLS];
};

struct hostmem_machine {
    pthread_mutex_t lock;
    struct weft_rng rng;
    uint32_t n_pieces;
    struct process *processes;      /* Owned */
    struct allocation *allocations; /* Owned, of all processes */
    struct shared_event *events;    /* Owned */
    uint32_t n_violations, n_processes;
    char violation[160];
};

struct process *hostmem_process_of(struct io_gpu *gpu);
void hostmem_violate(struct process *process, const char *format, ...) WEFT_PRINTF(2, 3);
/* Returns the errno that hostmem_fail() requested for this call, or 0. */
int hostmem_failing(struct process *process, enum hostmem_call call);

/* machine_memory_testing.c */
int hostmem_machine_alloc(struct io_gpu *gpu, enum io_memory where, size_t n_bytes,
                          void **out);
void hostmem_machine_free(struct io_gpu *gpu, void *memory);
int hostmem_machine_export(struct io_gpu *gpu, const void *address, uint32_t kinds,
                           struct io_gpu_export *out);
void hostmem_machine_unexport(struct io_gpu *gpu, const struct io_gpu_export *exported);
int hostmem_machine_import(struct io_gpu *gpu, const struct io_gpu_export *exported,
                           void **out);
void hostmem_machine_unimport(struct io_gpu *gpu, void *memory);
/* Returns false and records a violation if [at, +n_bytes) overlaps memory that the process freed.
 * Memory that another process freed is a violation, too, but can still be accessed. */
bool hostmem_may_touch(struct process *process, const void *at, size_t n_bytes);
void hostmem_memory_die(struct process *process);
void hostmem_memory_fini(struct process *process);

/* machine_work_testing.c */
int hostmem_machine_start(struct io_gpu *gpu, struct io_gpu_op *op);
bool hostmem_uses(const struct process *process, const void *at, size_t n_bytes);
uint32_t hostmem_count_work(const struct process *process);
/* Performs the pending action number `index` of the process. */
void hostmem_do_work(struct process *process, uint32_t index);
void hostmem_land(struct process *process);
void hostmem_drop_work(struct process *process);

extern const struct io_gpu_sharing_ops hostmem_machine_sharing;

#endif

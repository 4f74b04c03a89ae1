/* Several GPUs of one host without hardware, with the difficulties of real ones. Work on streams
 * progresses at arbitrary times, copies happen in pieces, NIC writes become visible late, freed
 * memory is reused at the same address, handles can be opened only once, and processes die. All
 * memory is host memory, and a seeded generator draws what happens next. Code that forgets to
 * flush or to wait for an event, uses the wrong stream or frees too early gets wrong data or a
 * violation.
 *
 * Several threads can use a machine, each with its own GPUs; operations must then have no
 * tasks. */
#ifndef WEFT_BACKENDS_HOSTMEM_MACHINE_TESTING_H
#define WEFT_BACKENDS_HOSTMEM_MACHINE_TESTING_H

#include "io/gpu.h"

struct hostmem_machine;

struct hostmem_process {
    const char *uuid;      /* of its GPU; need not be unique */
    uint32_t ordinal;      /* number of the GPU within the process */
    uint32_t kinds;        /* mask of 1 << IO_GPU_HANDLE_*; 0: legacy and descriptor */
    uint64_t pid_ns;       /* 0 by default, as for all other processes */
    bool has_no_context;   /* no usable context until hostmem_context() */
    const char *reachable; /* NULL: every GPU; else the only other reachable UUID */
};

/* Calls that can be made to fail. */
enum hostmem_call {
    HOSTMEM_ALLOC,
    HOSTMEM_EXPORT,
    HOSTMEM_IMPORT,
    HOSTMEM_EVENT,
    HOSTMEM_IMPORT_EVENT,
    HOSTMEM_WAIT,
    HOSTMEM_COPY, /* the end of a copy or a reduction */
    HOSTMEM_N_CALLS
};

/* Creates a machine in which a copy happens in about `n_pieces` pieces. Aborts when out of
 * memory. */
struct hostmem_machine *hostmem_machine_create(uint64_t seed, uint32_t n_pieces);
/* Frees the machine and everything in it. Ignores NULL. */
void hostmem_machine_destroy(struct hostmem_machine *machine);
/* Adds a process and returns its GPU, which belongs to the machine. */
struct io_gpu *hostmem_join(struct hostmem_machine *machine,
                            const struct hostmem_process *process);
/* Simulates the death of the process: its pending work ends with EIO. Its memory that others have
 * open stays valid. */
void hostmem_die(struct io_gpu *gpu);
/* Performs one randomly drawn pending action. Returns false if there is none. */
bool hostmem_step(struct hostmem_machine *machine);

/* Makes the context of the GPU usable or unusable. */
void hostmem_context(struct io_gpu *gpu, bool is_usable);
/* Makes the next `n` calls of this kind fail with `sys_errno`. */
void hostmem_fail(struct io_gpu *gpu, enum hostmem_call call, int sys_errno, uint32_t n);
/* Queues a NIC's write into memory of the GPU. It becomes visible at a later step, or at a
 * fence. */
void hostmem_nic_write(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes);

/* Number of forbidden uses of memory, and a description of the first ("" if none). */
uint32_t hostmem_n_violations(struct hostmem_machine *machine);
const char *hostmem_violation(struct hostmem_machine *machine);
/* Returns how many allocations of other processes are mapped in this process. */
uint32_t hostmem_n_imports(struct io_gpu *gpu);

#endif

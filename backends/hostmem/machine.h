/* GPUs that are not there, several in one host, with what makes real ones hard: work on streams
 * goes on when it likes, copies happen in pieces, what a NIC wrote is seen late, freed memory comes
 * again at the same address, handles can be opened once, and processes die. All is host memory;
 * what happens next is drawn from a seed. Whoever forgets to flush, to wait for an event, takes
 * the wrong stream or frees early gets wrong data or a violation, without a GPU.
 *
 * A machine may be used by several threads, each with its own GPUs; then operations have no
 * tasks. */
#ifndef WEFT_BACKENDS_HOSTMEM_MACHINE_H
#define WEFT_BACKENDS_HOSTMEM_MACHINE_H

#include "io/gpu.h"

struct hostmem_machine;

struct hostmem_process {
    const char *uuid;      /* of its GPU; two processes may have the same */
    uint32_t ordinal;      /* as the process counts */
    uint32_t kinds;        /* 0: legacy and descriptors */
    uint64_t pid_ns;       /* 0: that of all others */
    bool has_no_context;   /* until hostmem_context */
    const char *reachable; /* NULL: every GPU; else the one UUID besides its own */
};

/* What can be made to fail. */
enum hostmem_call {
    HOSTMEM_ALLOC,
    HOSTMEM_EXPORT,
    HOSTMEM_IMPORT,
    HOSTMEM_EVENT,
    HOSTMEM_IMPORT_EVENT,
    HOSTMEM_WAIT,
    HOSTMEM_COPY, /* its end */
    HOSTMEM_N_CALLS
};

/* A copy happens in up to `n_pieces`. Aborts when out of memory. */
struct hostmem_machine *hostmem_machine_create(uint64_t seed, uint32_t n_pieces);
/* All that is left of it. NULL is ignored. */
void hostmem_machine_destroy(struct hostmem_machine *machine);
/* The GPU of one more process; belongs to the machine. */
struct io_gpu *hostmem_join(struct hostmem_machine *machine,
                            const struct hostmem_process *process);
/* The process dies: its work ends where it is. What others have open of its memory stays. */
void hostmem_die(struct io_gpu *gpu);
/* Lets one thing happen, of those that can. False: nothing can. */
bool hostmem_step(struct hostmem_machine *machine);

/* A context can be used from now on, or cannot. */
void hostmem_context(struct io_gpu *gpu, bool is_usable);
/* The next `n` calls fail. */
void hostmem_fail(struct io_gpu *gpu, enum hostmem_call call, int sys_errno, uint32_t n);
/* A NIC's write into memory of the GPU: it is seen some time later, or after a fence. */
void hostmem_nic_write(struct io_gpu *gpu, void *to, const void *from, size_t n_bytes);

/* Uses of memory that were forbidden, and the first in words ("" if none). */
uint32_t hostmem_n_violations(struct hostmem_machine *machine);
const char *hostmem_violation(struct hostmem_machine *machine);
/* Mappings of others' memory that are open in this process. */
uint32_t hostmem_n_imports(struct io_gpu *gpu);

#endif

/* GPUs whose memory only they can access. An address in it faults on the CPU and in a simulated
 * NIC alike, and NICs refuse to register it. Copies and reductions happen later and in pieces, as
 * drawn by backends/hostmem/machine_testing.h. */
#ifndef WEFT_BACKENDS_HOSTMEM_FAR_TESTING_H
#define WEFT_BACKENDS_HOSTMEM_FAR_TESTING_H

#include "backends/hostmem/machine_testing.h"
#include "io/env.h"

enum hostmem_far_reach {
    HOSTMEM_FAR_NONE,
    HOSTMEM_FAR_CLAIMED, /* rdma_direct is set, but NICs refuse the memory */
    HOSTMEM_FAR_DMABUF   /* simulated NICs access it by dma-bufs */
};
/* Replaces the GPU of `env` until hostmem_far_close(). */
void hostmem_far_open(struct hostmem_machine *machine, struct io_env *env,
                      enum hostmem_far_reach reach);
/* Removes the GPU. All its memory must have been freed, and the machine and the world must still
 * exist. */
void hostmem_far_close(struct io_env *env);
/* Returns the number of registrations that NICs refused. */
uint32_t hostmem_far_n_refused(const struct io_env *env);

#endif

/* GPUs whose memory only they reach: an address in it faults under the CPU and under a simulated
 * NIC alike, NICs refuse to register it, and what is copied or reduced happens some time later, in
 * pieces, as backends/hostmem/machine.h draws it. */
#ifndef WEFT_BACKENDS_HOSTMEM_FAR_TESTING_H
#define WEFT_BACKENDS_HOSTMEM_FAR_TESTING_H

#include "backends/hostmem/machine.h"
#include "io/env.h"

enum hostmem_far_reach {
    HOSTMEM_FAR_NONE,
    HOSTMEM_FAR_CLAIMED, /* it says that NICs reach its memory: the NIC says otherwise */
    HOSTMEM_FAR_DMABUF   /* simulated NICs do, by dma-bufs */
};
/* Gives `env` such a GPU, until hostmem_far_close. */
void hostmem_far_open(struct hostmem_machine *machine, struct io_env *env,
                      enum hostmem_far_reach reach);
/* Nothing of it is left. Before the machine and the world go. */
void hostmem_far_close(struct io_env *env);
/* Registrations that NICs refused. */
uint32_t hostmem_far_n_refused(const struct io_env *env);

#endif

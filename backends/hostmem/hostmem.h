/* A GPU without hardware: host memory stands in for device memory, and the CPU for the kernels.
 * Copies and reductions are complete when `start` returns. */
#ifndef WEFT_BACKENDS_HOSTMEM_HOSTMEM_H
#define WEFT_BACKENDS_HOSTMEM_HOSTMEM_H

#include "io/gpu.h"

/* Creates the GPU; the caller frees it with hostmem_destroy(). Aborts when out of memory. */
struct io_gpu *hostmem_create(void);
/* Frees the GPU and all memory still allocated from it. Ignores NULL. */
void hostmem_destroy(struct io_gpu *gpu);

#endif

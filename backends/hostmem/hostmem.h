/* The GPU that is not there: host memory that stands in for device memory, and the CPU that
 * stands in for the kernels. Copies and reductions are done when `start` returns, in the order
 * they were started. */
#ifndef WEFT_BACKENDS_HOSTMEM_HOSTMEM_H
#define WEFT_BACKENDS_HOSTMEM_HOSTMEM_H

#include "io/gpu.h"

/* Aborts when out of memory. */
struct io_gpu *hostmem_create(void);
/* Frees what was not. NULL is ignored. */
void hostmem_destroy(struct io_gpu *gpu);

#endif

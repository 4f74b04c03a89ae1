/* The virtual-memory calls of a CUDA driver that is not there: physical memory is a file in memory,
 * which a descriptor names across processes, and a number within this one (the fabric). */
#ifndef WEFT_BACKENDS_CUDA_VIRTUAL_TESTING_H
#define WEFT_BACKENDS_CUDA_VIRTUAL_TESTING_H

#include "backends/cuda/library.h"

struct virtual_testing {
    int n_physical, n_reserved, n_mapped, n_accessible; /* that are there now */
    int fails_with;  /* a CUresult of the `fails_after`th call from now; then 0 */
    int fails_after; /* 0: the next */
};
extern struct virtual_testing virtual_now;

/* Puts them into a driver, afresh. */
void virtual_testing(struct cuda_driver *driver);
/* As a user's cuMemCreate, cuMemAddressReserve and so on; `kinds` CUDA_HANDLE_* or 0. */
cuda_pointer virtual_testing_create(size_t n_bytes, unsigned kinds);
/* As cudaMallocAsync from a pool; `kinds`: of the pool's properties. */
cuda_pointer virtual_testing_of_pool(size_t n_bytes, unsigned kinds);
void virtual_testing_free(cuda_pointer at);

#endif

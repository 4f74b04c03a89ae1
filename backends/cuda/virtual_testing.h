/* The virtual-memory calls of a fake CUDA driver. Physical memory is a memory file, identified by
 * a descriptor across processes, and by a number within this one (the fabric handle). */
#ifndef WEFT_BACKENDS_CUDA_VIRTUAL_TESTING_H
#define WEFT_BACKENDS_CUDA_VIRTUAL_TESTING_H

#include "backends/cuda/library.h"

struct virtual_testing {
    int n_physical, n_reserved, n_mapped, n_accessible; /* current numbers */
    int fails_with;  /* CUresult of a later call; then reset to 0 */
    int fails_after; /* number of calls that succeed before */
};
extern struct virtual_testing virtual_now;

/* Adds the calls to a driver, with a new state. */
void virtual_testing(struct cuda_driver *driver);
/* Like a user's cuMemCreate, cuMemAddressReserve and so on. `kinds` is CUDA_HANDLE_* or 0. */
cuda_pointer virtual_testing_create(size_t n_bytes, unsigned kinds);
/* Like cudaMallocAsync from a pool; `kinds` are those of the pool. */
cuda_pointer virtual_testing_of_pool(size_t n_bytes, unsigned kinds);
void virtual_testing_free(cuda_pointer at);

#endif

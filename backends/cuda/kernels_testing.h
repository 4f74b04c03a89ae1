/* The kernels' bodies as C, for tests: by the names that kernels.cu gives them. */
#ifndef WEFT_BACKENDS_CUDA_KERNELS_TESTING_H
#define WEFT_BACKENDS_CUDA_KERNELS_TESTING_H

#include <stdbool.h>
#include <stdint.h>

/* One of `n_threads` threads of it, with arguments as cuLaunchKernel has them. False: there is no
 * kernel of that name. */
bool kernels_run(const char *name, void **arguments, uint64_t thread, uint64_t n_threads);

#endif

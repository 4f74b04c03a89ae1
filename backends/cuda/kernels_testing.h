/* The kernel bodies as C, for tests, under the names that kernels.cu gives them. */
#ifndef WEFT_BACKENDS_CUDA_KERNELS_TESTING_H
#define WEFT_BACKENDS_CUDA_KERNELS_TESTING_H

#include <stdbool.h>
#include <stdint.h>

/* Runs thread `thread` of `n_threads` of a kernel, with arguments as for cuLaunchKernel. Returns
 * false if there is no kernel with this name. */
bool kernels_run(const char *name, void **arguments, uint64_t thread, uint64_t n_threads);
/* The division of averages of float32, float16 and bfloat16. */
float kernels_divide(float value, float divisor);
/* The division of averages of int8 and uint8. */
int kernels_divide_small(int value, int divisor);

#endif

/* The kernels' bodies as C, for tests: by the names that kernels.cu gives them. */
#ifndef WEFT_BACKENDS_CUDA_KERNELS_TESTING_H
#define WEFT_BACKENDS_CUDA_KERNELS_TESTING_H

#include <stdbool.h>
#include <stdint.h>

/* One of `n_threads` threads of it, with arguments as cuLaunchKernel has them. False: there is no
 * kernel of that name. */
bool kernels_run(const char *name, void **arguments, uint64_t thread, uint64_t n_threads);
/* The division of averages of float, float16 and bfloat16. */
float kernels_divide(float value, float divisor);
/* Of int8 and uint8. */
int kernels_divide_small(int value, int divisor);

#endif

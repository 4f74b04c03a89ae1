#include "backends/cuda/kernels_testing.h"

#include <string.h>

#include "backends/cuda/kernels_body.h"

#define RUN(dtype, op, type)                                                             \
    if (strcmp(name, "weft_" #dtype "_" #op) == 0) {                                     \
        dtype##_##op##_range(*(type **)arguments[0], *(type **)arguments[1],             \
                             *(type **)arguments[2], *(uint64_t *)arguments[3],          \
                             *(int *)arguments[4], thread, n_threads);                   \
        return true;                                                                     \
    }

#define FIND(dtype, type)                                                                \
    RUN(dtype, sum, type)                                                                \
    RUN(dtype, prod, type)                                                               \
    RUN(dtype, min, type)                                                                \
    RUN(dtype, max, type)

bool kernels_run(const char *name, void **arguments, uint64_t thread, uint64_t n_threads)
{
    KERNEL_TYPES(FIND)
    return false;
}

float kernels_divide(float value, float divisor)
{
    return kernel_divide(value, divisor);
}

int kernels_divide_small(int value, int divisor)
{
    return kernel_divide_small(value, divisor);
}

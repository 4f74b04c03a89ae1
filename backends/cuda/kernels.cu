/* The kernels of backends/cuda: weft_<dtype>_<op>, the bodies in kernels_body.h. */
#include "backends/cuda/kernels_body.h"

#define KERNEL(dtype, op, type)                                                          \
    extern "C" __global__ void weft_##dtype##_##op(type *out, const type *a,             \
                                                   const type *b, uint64_t count,        \
                                                   int divisor)                          \
    {                                                                                    \
        uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;                \
                                                                                         \
        dtype##_##op##_range(out, a, b, count, divisor, first,                           \
                             (uint64_t)gridDim.x * blockDim.x);                          \
    }

#define KERNELS(dtype, type)                                                             \
    KERNEL(dtype, sum, type)                                                             \
    KERNEL(dtype, prod, type)                                                            \
    KERNEL(dtype, min, type)                                                             \
    KERNEL(dtype, max, type)

KERNEL_TYPES(KERNELS)

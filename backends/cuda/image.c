/* The kernels that nvcc built from kernels.cu (Makefile), for sm_80, 90, 100 and 121, and as PTX
 * for later GPUs; none without nvcc. */
#include "backends/cuda/cuda.h"

#ifdef WEFT_CUDA_IMAGE
__asm__(".section .rodata\n"
        ".balign 16\n"
        ".hidden weft_cuda_image\n"
        ".globl weft_cuda_image\n"
        "weft_cuda_image:\n"
        ".incbin \"" WEFT_CUDA_IMAGE "\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char weft_cuda_image[];

const void *cuda_built_image(void)
{
    return weft_cuda_image;
}
#else
const void *cuda_built_image(void)
{
    return NULL;
}
#endif

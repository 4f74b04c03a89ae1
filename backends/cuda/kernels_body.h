/* The reductions of base/reduce.h as kernel bodies. Each call processes the elements from `first`
 * in steps of `stride`, 16 bytes at a time if all addresses are aligned. The same code is
 * compiled for GPUs (kernels.cu) and, for tests, as C. Results are bit-identical to base/reduce.c
 * except for NaN payloads. */
#ifndef WEFT_BACKENDS_CUDA_KERNELS_BODY_H
#define WEFT_BACKENDS_CUDA_KERNELS_BODY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define KERNEL_FN static __device__ __forceinline__
#define KERNEL_ALIGNED __align__(16)
#else
#define KERNEL_FN static inline
#define KERNEL_ALIGNED __attribute__((aligned(16)))
#endif

KERNEL_FN float kernel_float(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

KERNEL_FN uint32_t kernel_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

KERNEL_FN float kernel_of_bfloat16(uint16_t half)
{
    return kernel_float((uint32_t)half << 16);
}

/* GPUs convert 16-bit floats with one instruction, which is as exact as the code below. */
KERNEL_FN uint16_t kernel_to_bfloat16(float value)
{
#ifdef __CUDA_ARCH__
    uint16_t half;

    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#else
    uint32_t bits = kernel_bits(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}

/* Exponent and fraction, read as a binary32, are 2^-112 times the value, including subnormals. */
KERNEL_FN float kernel_of_float16(uint16_t half)
{
#ifdef __CUDA_ARCH__
    float result;

    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(half));
    return result;
#else
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const float scale = 5192296858534827628530496329220096.0f; /* 2^112 */
    uint32_t value = kernel_bits(kernel_float(magnitude) * scale);

    return kernel_float(value | (magnitude >= 0x0f800000u ? 0x7f800000u : 0) | sign);
#endif
}

KERNEL_FN uint16_t kernel_to_float16(float value)
{
#ifdef __CUDA_ARCH__
    uint16_t half;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#else
    uint32_t bits = kernel_bits(value), magnitude = bits & 0x7fffffffu, result;

    if (magnitude > 0x7f800000u) {
        result = 0x7e00 | (magnitude >> 13 & 0x3ff);
    } else if (magnitude >= 0x477ff000u) {
        result = 0x7c00; /* 65520 rounds to infinity */
    } else if (magnitude >= 0x38800000u) {
        uint32_t half = magnitude - 0x38000000u;

        result = (half + 0xfff + (half >> 13 & 1)) >> 13;
    } else { /* 0.5 has the unit of subnormals, 2^-24: adding it rounds */
        result = kernel_bits(kernel_float(magnitude) + 0.5f) - 0x3f000000u;
    }
    return (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)result;
#endif
}

/* Returns value / divisor, correctly rounded. A division would stall a GPU's memory pipeline, so
 * this multiplies by the inverse, which the compiler computes once for all elements. The quotient
 * is then at most 1.5 units in the last place off. Its remainder is exact; multiplied by the
 * inverse, which is accurate to 2^-24, it corrects the quotient to less than 2^-23 units. No
 * quotient by an integer below 2^22 is that close to the middle of two floats, so the sum rounds
 * correctly. */
KERNEL_FN float kernel_divide(float value, float divisor)
{
    const uint32_t least = 0x10000000u, infinite = 0x7f800000u; /* 2^-95 */
    float inverse = 1.0f / divisor, quotient = value * inverse;
    uint32_t magnitude = kernel_bits(quotient) & 0x7fffffffu;

    if (magnitude - least < infinite - least && divisor < 4194304) {
        return fmaf(fmaf(-quotient, divisor, value), inverse, quotient);
    }
    return value == 0 || magnitude >= infinite ? quotient : value / divisor;
}

/* Divides an 8-bit value with an inverse scaled by 2^16 and rounded up. The excess of the inverse
 * times 255 is below 1 for divisors up to 256; larger divisors give 0. */
KERNEL_FN int kernel_divide_small(int value, int divisor)
{
    uint32_t inverse = 65536u / (uint32_t)divisor + 1;
    uint32_t quotient = (uint32_t)(value < 0 ? -value : value) * inverse >> 16;

    return value < 0 ? -(int)quotient : (int)quotient;
}

/* Defines one reduction. `expression` combines x and y; `divide` divides a stored value. */
#define KERNEL_DEFINE(name, type, expression, divide)                                    \
    KERNEL_FN type name##_one(type x, type y, int divisor)                               \
    {                                                                                    \
        type result = (type)(expression);                                                \
                                                                                         \
        if (divisor > 1) {                                                               \
            result = divide(type, result, divisor);                                      \
        }                                                                                \
        return result;                                                                   \
    }                                                                                    \
                                                                                         \
    struct KERNEL_ALIGNED name##_pack {                                                  \
        type of[16 / sizeof(type)];                                                      \
    };                                                                                   \
                                                                                         \
    KERNEL_FN void name##_range(type *out, const type *a, const type *b, uint64_t count, \
                                int divisor, uint64_t first, uint64_t stride)            \
    {                                                                                    \
        const uint64_t each = 16 / sizeof(type);                                         \
        uintptr_t places = (uintptr_t)out | (uintptr_t)a | (uintptr_t)b;                 \
        uint64_t n_packs = places % 16 == 0 ? count / each : 0;                          \
                                                                                         \
        for (uint64_t i = first; i < n_packs; i += stride) {                             \
            struct name##_pack x = ((const struct name##_pack *)(const void *)a)[i];     \
            struct name##_pack y = ((const struct name##_pack *)(const void *)b)[i];     \
                                                                                         \
            for (uint64_t j = 0; j < each; j++) {                                        \
                x.of[j] = name##_one(x.of[j], y.of[j], divisor);                         \
            }                                                                            \
            ((struct name##_pack *)(void *)out)[i] = x;                                  \
        }                                                                                \
        for (uint64_t i = n_packs * each + first; i < count; i += stride) {              \
            out[i] = name##_one(a[i], b[i], divisor);                                    \
        }                                                                                \
    }

/* `divisor` is an int above 1. Types narrower than int are divided as ints. */
#define DIVIDE_SMALL(type, value, divisor) (type) kernel_divide_small(value, divisor)
#define DIVIDE_INT(type, value, divisor) (type)((value) / (divisor))
#define DIVIDE_UINT32(type, value, divisor) ((value) / (uint32_t)(divisor))
#define DIVIDE_UINT64(type, value, divisor) ((value) / (uint64_t)(divisor))
#define DIVIDE_FLOAT(type, value, divisor) kernel_divide(value, (float)(divisor))
#define DIVIDE_DOUBLE(type, value, divisor) ((value) / (double)(divisor))
#define DIVIDE_FLOAT16(type, value, divisor)                                             \
    kernel_to_float16(kernel_divide(kernel_of_float16(value), (float)(divisor)))
#define DIVIDE_BFLOAT16(type, value, divisor)                                            \
    kernel_to_bfloat16(kernel_divide(kernel_of_bfloat16(value), (float)(divisor)))

/* `wide` is an unsigned type in which sums and products wrap without promotion to int. */
#define KERNEL_INTS(dtype, type, wide, divide)                                           \
    KERNEL_DEFINE(dtype##_sum, type, (wide)x + (wide)y, divide)                          \
    KERNEL_DEFINE(dtype##_prod, type, (wide)x *(wide)y, divide)                          \
    KERNEL_DEFINE(dtype##_min, type, y < x ? y : x, divide)                              \
    KERNEL_DEFINE(dtype##_max, type, y > x ? y : x, divide)

#define KERNEL_FLOATS(dtype, type, divide)                                               \
    KERNEL_DEFINE(dtype##_sum, type, x + y, divide)                                      \
    KERNEL_DEFINE(dtype##_prod, type, x *y, divide)                                      \
    KERNEL_DEFINE(dtype##_min, type, y < x ? y : x, divide)                              \
    KERNEL_DEFINE(dtype##_max, type, y > x ? y : x, divide)

#define KERNEL_HALVES(dtype, of, to, divide)                                             \
    KERNEL_DEFINE(dtype##_sum, uint16_t, to(of(x) + of(y)), divide)                      \
    KERNEL_DEFINE(dtype##_prod, uint16_t, to(of(x) * of(y)), divide)                     \
    KERNEL_DEFINE(dtype##_min, uint16_t, of(y) < of(x) ? y : x, divide)                  \
    KERNEL_DEFINE(dtype##_max, uint16_t, of(y) > of(x) ? y : x, divide)

KERNEL_INTS(int8, int8_t, uint32_t, DIVIDE_SMALL)
KERNEL_INTS(uint8, uint8_t, uint32_t, DIVIDE_SMALL)
KERNEL_INTS(int16, int16_t, uint32_t, DIVIDE_INT)
KERNEL_INTS(uint16, uint16_t, uint32_t, DIVIDE_INT)
KERNEL_INTS(int32, int32_t, uint32_t, DIVIDE_INT)
KERNEL_INTS(uint32, uint32_t, uint32_t, DIVIDE_UINT32)
KERNEL_INTS(int64, int64_t, uint64_t, DIVIDE_INT)
KERNEL_INTS(uint64, uint64_t, uint64_t, DIVIDE_UINT64)
KERNEL_HALVES(float16, kernel_of_float16, kernel_to_float16, DIVIDE_FLOAT16)
KERNEL_HALVES(bfloat16, kernel_of_bfloat16, kernel_to_bfloat16, DIVIDE_BFLOAT16)
KERNEL_FLOATS(float32, float, DIVIDE_FLOAT)
KERNEL_FLOATS(float64, double, DIVIDE_DOUBLE)

/* Expands X(dtype, type) for each type. */
#define KERNEL_TYPES(X)                                                                  \
    X(int8, int8_t)                                                                      \
    X(uint8, uint8_t)                                                                    \
    X(int16, int16_t)                                                                    \
    X(uint16, uint16_t)                                                                  \
    X(int32, int32_t)                                                                    \
    X(uint32, uint32_t)                                                                  \
    X(int64, int64_t)                                                                    \
    X(uint64, uint64_t)                                                                  \
    X(float16, uint16_t)                                                                 \
    X(bfloat16, uint16_t)                                                                \
    X(float32, float)                                                                    \
    X(float64, double)

#endif

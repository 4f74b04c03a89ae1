#include "base/reduce.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"

static const struct {
    const char *name;
    size_t n_bytes;
} dtypes[WEFT_N_DTYPES] = {
    [WEFT_INT8] = {"int8", 1},       [WEFT_UINT8] = {"uint8", 1},
    [WEFT_INT16] = {"int16", 2},     [WEFT_UINT16] = {"uint16", 2},
    [WEFT_INT32] = {"int32", 4},     [WEFT_UINT32] = {"uint32", 4},
    [WEFT_INT64] = {"int64", 8},     [WEFT_UINT64] = {"uint64", 8},
    [WEFT_FLOAT16] = {"float16", 2}, [WEFT_BFLOAT16] = {"bfloat16", 2},
    [WEFT_FLOAT32] = {"float32", 4}, [WEFT_FLOAT64] = {"float64", 8},
};

static const char *const redops[WEFT_N_REDOPS] = {
    [WEFT_SUM] = "sum", [WEFT_PROD] = "prod", [WEFT_MIN] = "min",
    [WEFT_MAX] = "max", [WEFT_AVG] = "avg",
};

size_t weft_dtype_bytes(enum weft_dtype dtype)
{
    weft_check(dtype < WEFT_N_DTYPES);
    return dtypes[dtype].n_bytes;
}

const char *weft_dtype_name(enum weft_dtype dtype)
{
    weft_check(dtype < WEFT_N_DTYPES);
    return dtypes[dtype].name;
}

const char *weft_redop_name(enum weft_redop op)
{
    weft_check(op < WEFT_N_REDOPS);
    return redops[op];
}

static float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of_bfloat16(uint16_t half)
{
    return float_of_bits((uint32_t)half << 16);
}

/* The conversions below are free of branches, so that compilers can vectorise loops of them.
 * Magnitudes are signed, because vector units compare signed numbers; all are below 2^31. */
static uint16_t bfloat16_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    int32_t magnitude = (int32_t)(bits & 0x7fffffffu);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40; /* a NaN becomes a quiet NaN */

    return (uint16_t)(magnitude > 0x7f800000 ? quiet : rounded);
}

/* Converts IEEE 754 binary16: 1 sign, 5 exponent (bias 15) and 10 fraction bits. Exponent and
 * fraction, read as binary32 (bias 127), are 2^-112 times the value, also for subnormals, so the
 * product is exact. */
static float float_of_float16(uint16_t half)
{
    int32_t magnitude = (half & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t value = bits_of_float(float_of_bits((uint32_t)magnitude) * 0x1p112f);

    /* Infinities and NaNs keep the largest exponent. */
    value |= magnitude >= 0x0f800000 ? 0x7f800000u : 0;
    return float_of_bits(value | sign);
}

/* Adds 0.5 to the magnitude of `value`. The sum's unit in the last place is 2^-24, like that of
 * binary16 subnormals, so the addition rounds to a multiple of it. */
static uint32_t raised_of_float(float value)
{
    return bits_of_float(float_of_bits(bits_of_float(value) & 0x7fffffffu) + 0.5f);
}

/* Returns the binary16 nearest to the binary32 `bits`; `raised` is raised_of_float() of the same
 * number. */
static uint16_t float16_of_bits(uint32_t bits, uint32_t raised)
{
    uint32_t sign = bits >> 16 & 0x8000;
    int32_t magnitude = (int32_t)(bits & 0x7fffffffu);
    int32_t half = magnitude - 0x38000000;
    int32_t normal = (half + 0xfff + (half >> 13 & 1)) >> 13;
    int32_t small = (int32_t)raised - 0x3f000000;
    int32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    int32_t result = magnitude >= 0x38800000 ? normal : small; /* 2^-14: least normal */

    result = magnitude >= 0x477ff000 ? 0x7c00 : result; /* 65520 rounds to infinity */
    result = magnitude > 0x7f800000 ? nan : result;
    return (uint16_t)(sign | (uint32_t)result);
}

static uint16_t float16_of_float(float value)
{
    return float16_of_bits(bits_of_float(value), raised_of_float(value));
}

/* Processes elements in blocks on the stack. The inner loop has a constant length and no aliasing,
 * so that compilers vectorise it at -O2, and `out` may be one of the operands. */
#define BLOCK 32

#define DEFINE_LOOP(name, type, expression)                                              \
    static void name(type *out, const type *a, const type *b, size_t count)              \
    {                                                                                    \
        size_t i = 0;                                                                    \
                                                                                         \
        for (; i + BLOCK <= count; i += BLOCK) {                                         \
            type block[BLOCK];                                                           \
                                                                                         \
            for (size_t j = 0; j < BLOCK; j++) {                                         \
                const type x = a[i + j], y = b[i + j];                                   \
                block[j] = (type)(expression);                                           \
            }                                                                            \
            memcpy(out + i, block, sizeof(block));                                       \
        }                                                                                \
        for (; i < count; i++) {                                                         \
            const type x = a[i], y = b[i];                                               \
            out[i] = (type)(expression);                                                 \
        }                                                                                \
    }

/* `wide` is an unsigned type in which sums and products wrap without promotion to int. */
#define DEFINE_INT(name, type, wide)                                                     \
    DEFINE_LOOP(name##_sum, type, (wide)x + (wide)y)                                     \
    DEFINE_LOOP(name##_prod, type, (wide)x *(wide)y)                                     \
    DEFINE_LOOP(name##_min, type, y < x ? y : x)                                         \
    DEFINE_LOOP(name##_max, type, y > x ? y : x)                                         \
    DEFINE_SWITCH(name, type)

#define DEFINE_FLOAT(name, type)                                                         \
    DEFINE_LOOP(name##_sum, type, x + y)                                                 \
    DEFINE_LOOP(name##_prod, type, x *y)                                                 \
    DEFINE_LOOP(name##_min, type, y < x ? y : x)                                         \
    DEFINE_LOOP(name##_max, type, y > x ? y : x)                                         \
    DEFINE_SWITCH(name, type)

#define DEFINE_HALF_ORDER(name, load)                                                    \
    DEFINE_LOOP(name##_min, uint16_t, load(y) < load(x) ? y : x)                         \
    DEFINE_LOOP(name##_max, uint16_t, load(y) > load(x) ? y : x)                         \
    DEFINE_SWITCH(name, uint16_t)

/* Computes and rounds in two loops, because compilers do not vectorise a loop in which the result
 * of a float addition is used only conditionally. */
#define DEFINE_FLOAT16_LOOP(name, expression)                                            \
    static void name(uint16_t *out, const uint16_t *a, const uint16_t *b, size_t count)  \
    {                                                                                    \
        size_t i = 0;                                                                    \
                                                                                         \
        for (; i + BLOCK <= count; i += BLOCK) {                                         \
            uint32_t bits[BLOCK], raised[BLOCK];                                         \
            uint16_t block[BLOCK];                                                       \
                                                                                         \
            for (size_t j = 0; j < BLOCK; j++) {                                         \
                const float x = float_of_float16(a[i + j]);                              \
                const float y = float_of_float16(b[i + j]);                              \
                const float result = (expression);                                       \
                bits[j] = bits_of_float(result);                                         \
                raised[j] = raised_of_float(result);                                     \
            }                                                                            \
            for (size_t j = 0; j < BLOCK; j++) {                                         \
                block[j] = float16_of_bits(bits[j], raised[j]);                          \
            }                                                                            \
            memcpy(out + i, block, sizeof(block));                                       \
        }                                                                                \
        for (; i < count; i++) {                                                         \
            const float x = float_of_float16(a[i]), y = float_of_float16(b[i]);          \
            out[i] = float16_of_float(expression);                                       \
        }                                                                                \
    }

#define DEFINE_SWITCH(name, type)                                                        \
    static void name(enum weft_redop op, void *out, const void *a, const void *b,        \
                     size_t count)                                                       \
    {                                                                                    \
        switch (op) {                                                                    \
        case WEFT_SUM:                                                                   \
        case WEFT_AVG:                                                                   \
            name##_sum(out, a, b, count);                                                \
            return;                                                                      \
        case WEFT_PROD:                                                                  \
            name##_prod(out, a, b, count);                                               \
            return;                                                                      \
        case WEFT_MIN:                                                                   \
            name##_min(out, a, b, count);                                                \
            return;                                                                      \
        case WEFT_MAX:                                                                   \
            name##_max(out, a, b, count);                                                \
            return;                                                                      \
        case WEFT_N_REDOPS:                                                              \
            break;                                                                       \
        }                                                                                \
        weft_check(op < WEFT_N_REDOPS);                                                  \
    }

DEFINE_INT(reduce_int8, int8_t, uint32_t)
DEFINE_INT(reduce_uint8, uint8_t, uint32_t)
DEFINE_INT(reduce_int16, int16_t, uint32_t)
DEFINE_INT(reduce_uint16, uint16_t, uint32_t)
DEFINE_INT(reduce_int32, int32_t, uint32_t)
DEFINE_INT(reduce_uint32, uint32_t, uint32_t)
DEFINE_INT(reduce_int64, int64_t, uint64_t)
DEFINE_INT(reduce_uint64, uint64_t, uint64_t)
DEFINE_FLOAT(reduce_float32, float)
DEFINE_FLOAT(reduce_float64, double)
DEFINE_FLOAT16_LOOP(reduce_float16_sum, x + y)
DEFINE_FLOAT16_LOOP(reduce_float16_prod, x *y)
DEFINE_HALF_ORDER(reduce_float16, float_of_float16)
DEFINE_LOOP(reduce_bfloat16_sum, uint16_t,
            bfloat16_of_float(float_of_bfloat16(x) + float_of_bfloat16(y)))
DEFINE_LOOP(reduce_bfloat16_prod, uint16_t,
            bfloat16_of_float(float_of_bfloat16(x) * float_of_bfloat16(y)))
DEFINE_HALF_ORDER(reduce_bfloat16, float_of_bfloat16)

static void (*const reducers[WEFT_N_DTYPES])(enum weft_redop op, void *out, const void *a,
                                             const void *b, size_t count) = {
    [WEFT_INT8] = reduce_int8,       [WEFT_UINT8] = reduce_uint8,
    [WEFT_INT16] = reduce_int16,     [WEFT_UINT16] = reduce_uint16,
    [WEFT_INT32] = reduce_int32,     [WEFT_UINT32] = reduce_uint32,
    [WEFT_INT64] = reduce_int64,     [WEFT_UINT64] = reduce_uint64,
    [WEFT_FLOAT16] = reduce_float16, [WEFT_BFLOAT16] = reduce_bfloat16,
    [WEFT_FLOAT32] = reduce_float32, [WEFT_FLOAT64] = reduce_float64,
};

void weft_reduce(enum weft_dtype dtype, enum weft_redop op, void *out, const void *a,
                 const void *b, size_t count)
{
    weft_check(dtype < WEFT_N_DTYPES);
    reducers[dtype](op, out, a, b, count);
}

#define DIVIDE(type, as)                                                                 \
    do {                                                                                 \
        type *at = values;                                                               \
        for (size_t i = 0; i < count; i++) {                                             \
            at[i] = (type)(at[i] / (as)divisor);                                         \
        }                                                                                \
    } while (0)

#define DIVIDE_HALF(load, store)                                                         \
    do {                                                                                 \
        uint16_t *at = values;                                                           \
        for (size_t i = 0; i < count; i++) {                                             \
            at[i] = store(load(at[i]) / (float)divisor);                                 \
        }                                                                                \
    } while (0)

void weft_reduce_divide(enum weft_dtype dtype, void *values, size_t count, int divisor)
{
    weft_check(divisor > 0);
    switch (dtype) {
    case WEFT_INT8:
        DIVIDE(int8_t, int64_t);
        return;
    case WEFT_UINT8:
        DIVIDE(uint8_t, uint64_t);
        return;
    case WEFT_INT16:
        DIVIDE(int16_t, int64_t);
        return;
    case WEFT_UINT16:
        DIVIDE(uint16_t, uint64_t);
        return;
    case WEFT_INT32:
        DIVIDE(int32_t, int64_t);
        return;
    case WEFT_UINT32:
        DIVIDE(uint32_t, uint64_t);
        return;
    case WEFT_INT64:
        DIVIDE(int64_t, int64_t);
        return;
    case WEFT_UINT64:
        DIVIDE(uint64_t, uint64_t);
        return;
    case WEFT_FLOAT16:
        DIVIDE_HALF(float_of_float16, float16_of_float);
        return;
    case WEFT_BFLOAT16:
        DIVIDE_HALF(float_of_bfloat16, bfloat16_of_float);
        return;
    case WEFT_FLOAT32:
        DIVIDE(float, float);
        return;
    case WEFT_FLOAT64:
        DIVIDE(double, double);
        return;
    case WEFT_N_DTYPES:
        break;
    }
    weft_check(dtype < WEFT_N_DTYPES);
}

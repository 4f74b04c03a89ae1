#include "coll/oracle_value.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"

size_t oracle_width(enum weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_INT8:
    case WEFT_UINT8:
        return 1;
    case WEFT_INT16:
    case WEFT_UINT16:
    case WEFT_FLOAT16:
    case WEFT_BFLOAT16:
        return 2;
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_FLOAT32:
        return 4;
    case WEFT_INT64:
    case WEFT_UINT64:
    case WEFT_FLOAT64:
        return 8;
    case WEFT_N_DTYPES:
        break;
    }
    weft_check(dtype < WEFT_N_DTYPES);
    return 0;
}

static bool is_unsigned(enum weft_dtype dtype)
{
    return dtype == WEFT_UINT8 || dtype == WEFT_UINT16 || dtype == WEFT_UINT32 ||
           dtype == WEFT_UINT64;
}

struct oracle_range oracle_range_of(enum weft_dtype dtype, enum weft_redop op,
                                    uint32_t n_ranks)
{
    struct oracle_range range = {.stride = 1};
    int32_t top = 100;

    weft_check(n_ranks > 0);
    if (op == WEFT_SUM || op == WEFT_AVG) {
        top = n_ranks <= 120 ? (int32_t)(120 / n_ranks) : 1;
        range.stride = (n_ranks - 1) / ORACLE_SUM_RANKS_MAX + 1;
    }
    range.low = is_unsigned(dtype) ? 0 : -top;
    range.span = (uint32_t)(top - range.low) + 1;
    return range;
}

/* Finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that mixes well. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Returns the key of the stream of a seed and rank. */
static uint64_t stream_key(uint64_t seed, uint32_t rank)
{
    return mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) + (uint64_t)rank + 1);
}

static int32_t factor_of(uint32_t byte, uint32_t rank, bool has_sign)
{
    int32_t magnitude = rank < 6 && (byte & 1) != 0 ? 2 : 1;

    return has_sign && (byte & 2) != 0 ? -magnitude : magnitude;
}

/* Returns one byte for each of a group of eight elements. */
static uint64_t group_hash(uint64_t key, uint64_t group)
{
    return mix(key + group * UINT64_C(0x9e3779b97f4a7c15));
}

/* Four 16-bit lanes in a word: 255 x 256 does not overflow a lane. */
#define LANES(x) ((uint64_t)(x)*UINT64_C(0x0001000100010001))

void oracle_sums(uint64_t seed, uint32_t first_rank, uint32_t n_ranks,
                 struct oracle_range range, uint64_t first, size_t n, uint16_t *sums)
{
    uint64_t bias = LANES(ORACLE_RESULT_MAX + (int32_t)n_ranks * range.low);
    uint64_t keys[ORACLE_SUM_RANKS_MAX];

    weft_check(n_ranks <= ORACLE_SUM_RANKS_MAX && first % 8 == 0 && range.stride == 1);
    for (uint32_t i = 0; i < n_ranks; i++) {
        keys[i] = stream_key(seed, first_rank + i);
    }
    for (size_t k = 0; k < n; k += 8) {
        uint64_t even = bias, odd = bias;

        for (uint32_t i = 0; i < n_ranks; i++) {
            uint64_t hash = group_hash(keys[i], (first + k) / 8);

            even += (hash & LANES(0xff)) * range.span >> 8 & LANES(0xff);
            odd += (hash >> 8 & LANES(0xff)) * range.span >> 8 & LANES(0xff);
        }
        for (int lane = 0; lane < 4; lane++) {
            sums[k + 2 * (size_t)lane] = (uint16_t)(even >> 16 * lane);
            sums[k + 2 * (size_t)lane + 1] = (uint16_t)(odd >> 16 * lane);
        }
    }
}

void oracle_values(uint64_t seed, uint32_t rank, enum weft_dtype dtype,
                   enum weft_redop op, struct oracle_range range, uint64_t first,
                   size_t n, int32_t *values)
{
    uint64_t key = stream_key(seed, rank);
    bool has_sign = !is_unsigned(dtype);
    size_t k = 0;

    while (k < n) {
        uint64_t at = first + k;
        uint64_t hash = group_hash(key, at / 8);
        size_t lane = at & 7;
        size_t n_lanes = 8 - lane < n - k ? 8 - lane : n - k;

        hash >>= 8 * lane;
        for (size_t j = 0; j < n_lanes; j++) {
            uint32_t byte = (uint32_t)(hash >> (8 * j)) & 0xff;

            values[k + j] = op == WEFT_PROD
                                ? factor_of(byte, rank, has_sign)
                                : range.low + (int32_t)(byte * range.span >> 8);
        }
        k += n_lanes;
    }
    for (size_t i = 0; range.stride > 1 && i < n; i++) {
        values[i] = (first + i + rank) % range.stride == 0 ? values[i] : 0;
    }
}

/* Rounds a positive number to a format of `n_significand` bits (including the leading one)
 * whose least normal exponent is `exponent_min`, as significand * 2^exponent. Does not depend
 * on the machine's representation of floats. */
static uint32_t small_float(double value, int n_significand, int exponent_min, int bias)
{
    int exponent = 0;
    uint32_t whole;
    double scaled = value;

    while (scaled >= 2.0) {
        scaled /= 2.0;
        exponent++;
    }
    while (scaled < 1.0 && exponent > exponent_min) {
        scaled *= 2.0;
        exponent--;
    }
    for (int i = 1; i < n_significand; i++) {
        scaled *= 2.0;
    }
    whole = (uint32_t)scaled;
    if (scaled - whole > 0.5 || (scaled - whole == 0.5 && (whole & 1) != 0)) {
        whole++;
    }
    if (whole == 1u << n_significand) {
        whole >>= 1;
        exponent++;
    }
    if (whole < 1u << (n_significand - 1)) {
        return whole; /* subnormal: the exponent field is 0 */
    }
    return (uint32_t)(exponent + bias) << (n_significand - 1) |
           (whole & ((1u << (n_significand - 1)) - 1));
}

static uint64_t float_bits(enum weft_dtype dtype, int64_t numerator, int32_t divisor)
{
    uint64_t sign = numerator < 0 ? 0x8000 : 0;
    double magnitude = (double)(numerator < 0 ? -numerator : numerator) / divisor;
    float single = (float)numerator / (float)divisor;
    double real = (double)numerator / divisor;
    uint64_t bits = 0;

    if (dtype == WEFT_FLOAT64) {
        memcpy(&bits, &real, sizeof(real));
        return bits;
    }
    if (dtype == WEFT_FLOAT32) {
        uint32_t half;

        memcpy(&half, &single, sizeof(single));
        return half;
    }
    if (numerator == 0) {
        return 0;
    }
    return sign | (dtype == WEFT_FLOAT16 ? small_float(magnitude, 11, -14, 15)
                                         : small_float(magnitude, 8, -126, 127));
}

uint64_t oracle_bits(enum weft_dtype dtype, int64_t numerator, int32_t divisor)
{
    switch (dtype) {
    case WEFT_INT8:
        return (uint8_t)((int8_t)numerator / divisor);
    case WEFT_UINT8:
        return (uint64_t)((uint8_t)numerator / divisor);
    case WEFT_INT16:
        return (uint16_t)((int16_t)numerator / divisor);
    case WEFT_UINT16:
        return (uint64_t)((uint16_t)numerator / divisor);
    case WEFT_INT32:
        return (uint32_t)((int32_t)numerator / divisor);
    case WEFT_UINT32:
        return (uint32_t)numerator / (uint32_t)divisor;
    case WEFT_INT64:
        return (uint64_t)(numerator / divisor);
    case WEFT_UINT64:
        return (uint64_t)numerator / (uint64_t)divisor;
    case WEFT_FLOAT16:
    case WEFT_BFLOAT16:
    case WEFT_FLOAT32:
    case WEFT_FLOAT64:
        return float_bits(dtype, numerator, divisor);
    case WEFT_N_DTYPES:
        break;
    }
    weft_check(dtype < WEFT_N_DTYPES);
    return 0;
}

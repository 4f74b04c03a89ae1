#include "base/reduce.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"

#define N_PAIRS 2000

/* The oracle. Integers: 128-bit arithmetic, cut to width. float16 and bfloat16: the nearest of all
 * their values, found by search. float32: computed in double, which has more than twice the
 * precision, so that rounding twice equals rounding once for + * and /. */
__extension__ typedef __int128 wide;

struct half_format {
    int n_fraction_bits, bias;
    uint16_t infinity;
};
static const struct half_format float16 = {10, 15, 0x7c00};
static const struct half_format bfloat16 = {7, 127, 0x7f80};

/* Returns the value of magnitude bits; infinity counts as the next power of two, as in rounding. */
static double half_magnitude(const struct half_format *format, uint32_t bits)
{
    int exponent = (int)(bits >> format->n_fraction_bits);
    int fraction = (int)(bits & ((1u << format->n_fraction_bits) - 1));

    if (exponent > 0) {
        fraction += 1 << format->n_fraction_bits;
    } else {
        exponent = 1;
    }
    return ldexp(fraction, exponent - format->bias - format->n_fraction_bits);
}

static double half_value(const struct half_format *format, uint16_t bits)
{
    uint16_t magnitude = bits & 0x7fff;
    double value = half_magnitude(format, magnitude);

    if (magnitude >= format->infinity) {
        value = magnitude == format->infinity ? (double)INFINITY : (double)NAN;
    }
    return (bits & 0x8000) != 0 ? -value : value;
}

/* Returns the number nearest to `value`, ties to the even fraction. */
static uint16_t half_nearest(const struct half_format *format, double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    uint32_t low = 0, high = format->infinity;
    double magnitude = fabs(value), below, above;

    if (magnitude >= half_magnitude(format, high)) {
        return (uint16_t)(sign | high);
    }
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;

        if (half_magnitude(format, middle) <= magnitude) {
            low = middle;
        } else {
            high = middle;
        }
    }
    below = magnitude - half_magnitude(format, low);
    above = half_magnitude(format, high) - magnitude;
    if (above < below || (above == below && low % 2 == 1)) {
        low = high;
    }
    return (uint16_t)(sign | low);
}

static double apply(enum weft_redop op, double a, double b)
{
    switch (op) {
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return fmin(a, b);
    case WEFT_MAX:
        return fmax(a, b);
    case WEFT_SUM:
    case WEFT_AVG:
    case WEFT_N_REDOPS:
        break;
    }
    return a + b;
}

static wide apply_wide(enum weft_redop op, wide a, wide b)
{
    switch (op) {
    case WEFT_PROD:
        return (wide)((uint64_t)a * (uint64_t)b); /* only the low 64 bits are kept */
    case WEFT_MIN:
        return a < b ? a : b;
    case WEFT_MAX:
        return a > b ? a : b;
    case WEFT_SUM:
    case WEFT_AVG:
    case WEFT_N_REDOPS:
        break;
    }
    return a + b;
}

static bool is_float(enum weft_dtype dtype)
{
    return dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16 || dtype == WEFT_FLOAT32 ||
           dtype == WEFT_FLOAT64;
}

static bool is_signed(enum weft_dtype dtype)
{
    return dtype == WEFT_INT8 || dtype == WEFT_INT16 || dtype == WEFT_INT32 ||
           dtype == WEFT_INT64;
}

static wide load_int(enum weft_dtype dtype, const uint8_t *at)
{
    size_t n_bytes = weft_dtype_bytes(dtype);
    uint64_t bits = 0;
    wide value;

    memcpy(&bits, at, n_bytes); /* little-endian, as all supported hosts */
    value = (wide)bits;
    if (is_signed(dtype) && (bits >> (8 * n_bytes - 1) & 1) != 0) {
        value -= (wide)1 << (8 * n_bytes);
    }
    return value;
}

static double load_float(enum weft_dtype dtype, const uint8_t *at)
{
    uint16_t half;
    float single;
    double value;

    memcpy(&half, at, 2);
    if (dtype == WEFT_FLOAT16) {
        return half_value(&float16, half);
    }
    if (dtype == WEFT_BFLOAT16) {
        return half_value(&bfloat16, half);
    }
    if (dtype == WEFT_FLOAT32) {
        memcpy(&single, at, 4);
        return (double)single;
    }
    memcpy(&value, at, 8);
    return value;
}

static void store_float(enum weft_dtype dtype, double value, uint8_t *at)
{
    /* As specified: one operation in float32, then one rounding. */
    float single = (float)value;
    uint16_t half;

    if (dtype == WEFT_FLOAT64) {
        memcpy(at, &value, 8);
    } else if (dtype == WEFT_FLOAT32) {
        memcpy(at, &single, 4);
    } else {
        half = half_nearest(dtype == WEFT_FLOAT16 ? &float16 : &bfloat16, (double)single);
        memcpy(at, &half, 2);
    }
}

/* Returns true if `got` is a correct result of `a op b`. Either sign is accepted for zeros from min
 * and max, and any NaN for a NaN. */
static bool agrees(enum weft_dtype dtype, enum weft_redop op, const uint8_t *a,
                   const uint8_t *b, const uint8_t *got)
{
    size_t n_bytes = weft_dtype_bytes(dtype);
    uint8_t expected[8] = {0};
    double x, y;

    if (!is_float(dtype)) {
        wide value = apply_wide(op, load_int(dtype, a), load_int(dtype, b));
        uint64_t bits = (uint64_t)value;

        return memcmp(got, &bits, n_bytes) == 0;
    }
    x = load_float(dtype, a);
    y = load_float(dtype, b);
    if ((op == WEFT_MIN || op == WEFT_MAX) && (isnan(x) || isnan(y))) {
        return true; /* either operand is allowed */
    }
    if (isnan(apply(op, x, y))) {
        return isnan(load_float(dtype, got));
    }
    store_float(dtype, apply(op, x, y), expected);
    if (op == WEFT_MIN || op == WEFT_MAX) {
        return load_float(dtype, got) == load_float(dtype, expected);
    }
    return memcmp(got, expected, n_bytes) == 0;
}

/* Fills `a` and `b` with random bits; half of the pairs have similar exponents and some are
 * equal. */
static void fill(enum weft_dtype dtype, struct weft_rng *rng, uint8_t *a, uint8_t *b)
{
    size_t n_bytes = weft_dtype_bytes(dtype);

    for (size_t i = 0; i < N_PAIRS; i++) {
        uint64_t x = weft_rng_next(rng), y = weft_rng_next(rng);

        if (i % 2 == 0) {
            unsigned n_low = (unsigned)n_bytes * 8 - 3;

            y = (x >> n_low << n_low) ^ (y & ((UINT64_C(1) << n_low) - 1));
        }
        if (i % 64 == 0) {
            y = i % 128 == 0 ? x : 0;
        }
        memcpy(a + i * n_bytes, &x, n_bytes);
        memcpy(b + i * n_bytes, &y, n_bytes);
    }
}

START_TEST(every_dtype_and_op_agrees_with_the_oracle)
{
    enum weft_dtype dtype = (enum weft_dtype)(_i / WEFT_N_REDOPS);
    enum weft_redop op = (enum weft_redop)(_i % WEFT_N_REDOPS);
    size_t n_bytes = weft_dtype_bytes(dtype);
    uint8_t *a = malloc(N_PAIRS * 8), *b = malloc(N_PAIRS * 8),
            *out = malloc(N_PAIRS * 8);
    struct weft_rng rng;

    weft_rng_init(&rng, (uint64_t)_i, "reduce");
    for (int round = 0; round < 2; round++) {
        fill(dtype, &rng, a, b);
        weft_reduce(dtype, op, out, a, b, N_PAIRS);
        for (size_t i = 0; i < N_PAIRS; i++) {
            size_t at = i * n_bytes;

            ck_assert_msg(agrees(dtype, op, a + at, b + at, out + at),
                          "%s %s element %zu", weft_dtype_name(dtype),
                          weft_redop_name(op), i);
        }
    }
    free(a);
    free(b);
    free(out);
}
END_TEST

static bool is_all(const uint8_t *bytes, size_t from, size_t end, uint8_t value)
{
    for (size_t i = from; i < end; i++) {
        if (bytes[i] != value) {
            return false;
        }
    }
    return true;
}

START_TEST(out_may_be_an_operand_and_ends_where_it_should)
{
    for (int d = 0; d < WEFT_N_DTYPES; d++) {
        enum weft_dtype dtype = (enum weft_dtype)d;

        for (size_t count = 0; count < 100; count++) {
            size_t end = count * weft_dtype_bytes(dtype);
            uint8_t a[800], b[800], out[800], in_a[800], in_b[800];

            memset(a, 0x11, sizeof(a));
            memset(b, 0x22, sizeof(b));
            memset(out, 0xee, sizeof(out));
            memcpy(in_a, a, sizeof(a));
            memcpy(in_b, b, sizeof(b));
            weft_reduce(dtype, WEFT_SUM, out, a, b, count);
            weft_reduce(dtype, WEFT_SUM, in_a, in_a, b, count);
            weft_reduce(dtype, WEFT_SUM, in_b, a, in_b, count);
            ck_assert_mem_eq(in_a, out, end);
            ck_assert_mem_eq(in_b, out, end);
            ck_assert(is_all(out, end, sizeof(out), 0xee));
            ck_assert(is_all(in_a, end, sizeof(in_a), 0x11));
            ck_assert(is_all(in_b, end, sizeof(in_b), 0x22));
        }
    }
}
END_TEST

START_TEST(all_halves_survive_a_division_by_one)
{
    const struct half_format *format = _i == 0 ? &float16 : &bfloat16;
    enum weft_dtype dtype = _i == 0 ? WEFT_FLOAT16 : WEFT_BFLOAT16;
    uint16_t *values = malloc(65536 * sizeof(values[0]));

    for (unsigned i = 0; i < 65536; i++) {
        values[i] = (uint16_t)i;
    }
    weft_reduce_divide(dtype, values, 65536, 1);
    for (unsigned i = 0; i < 65536; i++) {
        bool is_nan = (i & 0x7fff) > format->infinity;

        if (is_nan ? (values[i] & 0x7fff) <= format->infinity : values[i] != i) {
            ck_abort_msg("%#x became %#x", i, values[i]);
        }
    }
    free(values);
}
END_TEST

START_TEST(division_agrees_with_the_oracle)
{
    static const int divisors[] = {1, 2, 3, 7, 127, 1000, 65536};
    enum weft_dtype dtype = (enum weft_dtype)_i;
    size_t n_bytes = weft_dtype_bytes(dtype);
    uint8_t *a = malloc(N_PAIRS * 8), *b = malloc(N_PAIRS * 8);
    struct weft_rng rng;

    weft_rng_init(&rng, (uint64_t)_i, "divide");
    for (size_t d = 0; d < sizeof(divisors) / sizeof(divisors[0]); d++) {
        fill(dtype, &rng, a, b);
        memcpy(b, a, N_PAIRS * n_bytes);
        weft_reduce_divide(dtype, b, N_PAIRS, divisors[d]);
        for (size_t i = 0; i < N_PAIRS; i++) {
            uint8_t expected[8];

            if (is_float(dtype)) {
                double x = load_float(dtype, a + i * n_bytes);

                if (isnan(x) && isnan(load_float(dtype, b + i * n_bytes))) {
                    continue;
                }
                store_float(dtype, x / divisors[d], expected);
            } else {
                uint64_t bits =
                    (uint64_t)(load_int(dtype, a + i * n_bytes) / divisors[d]);

                memcpy(expected, &bits, 8);
            }
            if (memcmp(b + i * n_bytes, expected, n_bytes) != 0) {
                ck_abort_msg("%s / %d element %zu", weft_dtype_name(dtype), divisors[d],
                             i);
            }
        }
    }
    free(a);
    free(b);
}
END_TEST

START_TEST(names_are_those_of_scenario_files)
{
    ck_assert_str_eq(weft_dtype_name(WEFT_BFLOAT16), "bfloat16");
    ck_assert_str_eq(weft_redop_name(WEFT_AVG), "avg");
}
END_TEST

START_TEST(division_by_zero_is_our_bug)
{
    float value = 1;

    weft_reduce_divide(WEFT_FLOAT32, &value, 1, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/reduce");
    TCase *tcase = tcase_create("reduce");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, every_dtype_and_op_agrees_with_the_oracle, 0,
                        WEFT_N_DTYPES * WEFT_N_REDOPS);
    tcase_add_test(tcase, out_may_be_an_operand_and_ends_where_it_should);
    tcase_add_loop_test(tcase, all_halves_survive_a_division_by_one, 0, 2);
    tcase_add_loop_test(tcase, division_agrees_with_the_oracle, 0, WEFT_N_DTYPES);
    tcase_add_test(tcase, names_are_those_of_scenario_files);
    tcase_add_test_raise_signal(tcase, division_by_zero_is_our_bug, 6);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

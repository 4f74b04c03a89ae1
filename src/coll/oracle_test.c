/* Tests the oracle against expectations written by hand, and that it detects one wrong bit
 * anywhere. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "coll/oracle.h"
#include "coll/oracle_value.h"

static struct coll_job job_of(enum weft_collective kind, enum weft_dtype dtype,
                              enum weft_redop op, uint64_t count)
{
    return (struct coll_job){.kind = kind, .dtype = dtype, .op = op, .count = count};
}

/* From IEEE 754 and bfloat16 by hand: 1/3 is 0x3eaaaaab in binary32. */
START_TEST(numbers_as_elements)
{
    static const struct {
        enum weft_dtype dtype;
        int64_t numerator;
        int32_t divisor;
        uint64_t bits;
    } rows[] = {
        {WEFT_INT8, -1, 1, 0xff},
        {WEFT_INT8, -7, 2, 0xfd},  /* towards zero: -3 */
        {WEFT_INT8, 130, 1, 0x82}, /* wraps */
        {WEFT_INT8, 130, 2, 0xc1}, /* wraps to -126, then halves */
        {WEFT_UINT8, 200, 3, 66},
        {WEFT_INT16, -2, 1, 0xfffe},
        {WEFT_UINT16, 999, 10, 99},
        {WEFT_INT32, -100, 3, 0xffffffdf},
        {WEFT_UINT32, 100, 3, 33},
        {WEFT_INT64, -1, 1, UINT64_MAX},
        {WEFT_UINT64, 7, 2, 3},
        {WEFT_FLOAT32, 1, 3, 0x3eaaaaab},
        {WEFT_FLOAT32, -3, 1, 0xc0400000},
        {WEFT_FLOAT32, 0, 1, 0},
        {WEFT_FLOAT64, 1, 2, 0x3fe0000000000000},
        {WEFT_FLOAT16, 1, 1, 0x3c00},
        {WEFT_FLOAT16, 1, 3, 0x3555},
        {WEFT_FLOAT16, -120, 1, 0xd780},
        {WEFT_FLOAT16, 0, 3, 0},
        {WEFT_FLOAT16, 2049, 1, 0x6800},    /* a tie: to even, 2048 */
        {WEFT_FLOAT16, 2051, 1, 0x6802},    /* a tie: to even, 2052 */
        {WEFT_FLOAT16, 4095, 1, 0x6c00},    /* rounds up to the next binade */
        {WEFT_FLOAT16, 1, 1 << 24, 0x0001}, /* the least subnormal */
        {WEFT_FLOAT16, 3, 1 << 25, 0x0002}, /* 1.5 of it: a tie, to even */
        {WEFT_BFLOAT16, 1, 1, 0x3f80},
        {WEFT_BFLOAT16, 1, 3, 0x3eab},
        {WEFT_BFLOAT16, -2, 3, 0xbf2b},
        {WEFT_BFLOAT16, 127, 1, 0x42fe},
    };

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        uint64_t bits = oracle_bits(rows[i].dtype, rows[i].numerator, rows[i].divisor);

        ck_assert_msg(bits == rows[i].bits, "row %zu: %llx, want %llx", i,
                      (unsigned long long)bits, (unsigned long long)rows[i].bits);
    }
}
END_TEST

/* Inputs of every rank, as int32, stay in range, use all of it, and differ between seeds,
 * ranks and positions. */
START_TEST(inputs_are_all_different)
{
    struct coll_job job = job_of(WEFT_ALL_REDUCE, WEFT_INT32, WEFT_SUM, 4096);
    static int32_t a[4096], b[4096], seen[81];
    uint32_t n_same = 0, n_same_seed = 0, n_shifted = 0;

    oracle_fill(&job, 7, 0, 3, a, sizeof(a));
    oracle_fill(&job, 7, 1, 3, b, sizeof(b));
    for (size_t i = 0; i < 4096; i++) {
        ck_assert_int_ge(a[i], -40);
        ck_assert_int_le(a[i], 40);
        seen[a[i] + 40]++;
        n_same += a[i] == b[i];
        n_shifted += i > 0 && a[i] == a[i - 1];
    }
    for (size_t i = 0; i < 81; i++) {
        ck_assert_int_gt(seen[i], 10); /* 50 on average */
    }
    oracle_fill(&job, 8, 0, 3, b, sizeof(b));
    for (size_t i = 0; i < 4096; i++) {
        n_same_seed += a[i] == b[i];
    }
    ck_assert_uint_lt(n_same, 120); /* 50 on average */
    ck_assert_uint_lt(n_same_seed, 120);
    ck_assert_uint_lt(n_shifted, 120);
}
END_TEST

#define N 4099 /* more than one block, and not a multiple of eight */

/* Computes all kinds in plain loops over whole inputs. */
static int32_t value_by_hand(const struct coll_job *job, int32_t in[3][N], uint32_t rank,
                             uint64_t i)
{
    uint64_t share = job->count / 3;
    int64_t sum = (int64_t)in[0][i] + in[1][i] + in[2][i];

    switch (job->kind) {
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE:
        switch (job->op) {
        case WEFT_SUM:
            return (int32_t)sum;
        case WEFT_PROD:
            return in[0][i] * in[1][i] * in[2][i];
        case WEFT_MIN:
            return in[0][i] < in[1][i] ? (in[0][i] < in[2][i] ? in[0][i] : in[2][i])
                                       : (in[1][i] < in[2][i] ? in[1][i] : in[2][i]);
        case WEFT_MAX:
            return in[0][i] > in[1][i] ? (in[0][i] > in[2][i] ? in[0][i] : in[2][i])
                                       : (in[1][i] > in[2][i] ? in[1][i] : in[2][i]);
        case WEFT_AVG:
            return (int32_t)(sum / 3);
        case WEFT_N_REDOPS:
            break;
        }
        break;
    case WEFT_REDUCE_SCATTER:
        i += rank * share;
        return in[0][i] + in[1][i] + in[2][i];
    case WEFT_ALL_GATHER:
        return in[i / share][i % share];
    case WEFT_BROADCAST:
        return in[job->root][i];
    case WEFT_ALL_TO_ALL:
        return in[i / share][rank * share + i % share];
    case WEFT_SEND_RECV:
        return in[(rank + 2) % 3][i];
    case WEFT_BARRIER:
        break;
    }
    return 0;
}

static void check_kind(const struct coll_job *job, uint32_t rank, uint64_t n_out)
{
    static int32_t in[3][N], out[N];
    size_t input_bytes, output_bytes;
    uint64_t first = 99;

    oracle_buffer_bytes(job, 3, &input_bytes, &output_bytes);
    ck_assert_uint_eq(output_bytes,
                      (job->kind == WEFT_ALL_GATHER || job->kind == WEFT_ALL_TO_ALL)
                          ? job->count * 4
                          : n_out * 4);
    for (uint32_t r = 0; r < 3; r++) {
        oracle_fill(job, 5, r, 3, in[r], input_bytes);
    }
    for (uint64_t i = 0; i < n_out; i++) {
        out[i] = value_by_hand(job, in, rank, i);
    }
    ck_assert_uint_eq(oracle_check(job, 5, rank, 3, out, output_bytes, &first), 0);
    /* One wrong bit is detected at any position. */
    for (uint64_t i = 0; i < n_out; i += n_out / 7 + 1) {
        out[i] ^= 1 << 20;
        ck_assert_uint_eq(oracle_check(job, 5, rank, 3, out, output_bytes, &first), 1);
        ck_assert_uint_eq(first, i);
        out[i] ^= 1 << 20;
    }
    out[3] ^= 1;
    out[n_out - 1] ^= 1;
    ck_assert_uint_eq(oracle_check(job, 5, rank, 3, out, output_bytes, &first), 2);
    ck_assert_uint_eq(first, 3);
}

START_TEST(every_kind_and_op_by_hand)
{
    static const struct {
        enum weft_collective kind;
        enum weft_redop op;
        uint64_t n_out;
    } rows[] = {
        {WEFT_ALL_REDUCE, WEFT_SUM, N},         {WEFT_ALL_REDUCE, WEFT_PROD, N},
        {WEFT_ALL_REDUCE, WEFT_MIN, N},         {WEFT_ALL_REDUCE, WEFT_MAX, N},
        {WEFT_ALL_REDUCE, WEFT_AVG, N},         {WEFT_REDUCE, WEFT_MAX, N},
        {WEFT_REDUCE_SCATTER, WEFT_SUM, N / 3}, {WEFT_ALL_GATHER, WEFT_PROD, N / 3 * 3},
        {WEFT_BROADCAST, WEFT_AVG, N},          {WEFT_ALL_TO_ALL, WEFT_SUM, N / 3 * 3},
        {WEFT_SEND_RECV, WEFT_SUM, N},
    };

    for (uint32_t rank = 0; rank < 3; rank++) {
        struct coll_job job = job_of(rows[_i].kind, WEFT_INT32, rows[_i].op, N);

        job.root = rank;
        check_kind(&job, rank, rows[_i].n_out);
    }
}
END_TEST

START_TEST(outputs_that_nobody_wrote_are_never_wrong)
{
    struct coll_job job = job_of(WEFT_REDUCE, WEFT_INT32, WEFT_SUM, 3);
    int32_t out[3] = {0};
    size_t input_bytes, output_bytes;

    job.root = 1;
    ck_assert_uint_eq(oracle_check(&job, 1, 0, 3, out, sizeof(out), NULL), 0);
    job.kind = WEFT_BARRIER;
    oracle_buffer_bytes(&job, 3, &input_bytes, &output_bytes);
    ck_assert_uint_eq(input_bytes + output_bytes, 0);
    ck_assert_uint_eq(oracle_check(&job, 1, 0, 3, out, sizeof(out), NULL), 0);
}
END_TEST

/* Checks elements of every type in their own C type: the sum of two ranks of small integers. */
#define CHECK_SUM(type, dtype)                                                           \
    do {                                                                                 \
        struct coll_job job = job_of(WEFT_ALL_REDUCE, dtype, WEFT_SUM, 100);             \
        type a[100], b[100];                                                             \
        oracle_fill(&job, 3, 0, 2, a, sizeof(a));                                        \
        oracle_fill(&job, 3, 1, 2, b, sizeof(b));                                        \
        for (int i = 0; i < 100; i++) {                                                  \
            a[i] = (type)(a[i] + b[i]);                                                  \
        }                                                                                \
        ck_assert_uint_eq(oracle_check(&job, 3, 0, 2, a, sizeof(a), NULL), 0);           \
        a[99] = (type)(a[99] + 1);                                                       \
        ck_assert_uint_eq(oracle_check(&job, 3, 0, 2, a, sizeof(a), NULL), 1);           \
    } while (0)

START_TEST(sums_in_every_type)
{
    CHECK_SUM(int8_t, WEFT_INT8);
    CHECK_SUM(uint8_t, WEFT_UINT8);
    CHECK_SUM(int16_t, WEFT_INT16);
    CHECK_SUM(uint16_t, WEFT_UINT16);
    CHECK_SUM(int32_t, WEFT_INT32);
    CHECK_SUM(uint32_t, WEFT_UINT32);
    CHECK_SUM(int64_t, WEFT_INT64);
    CHECK_SUM(uint64_t, WEFT_UINT64);
    CHECK_SUM(float, WEFT_FLOAT32);
    CHECK_SUM(double, WEFT_FLOAT64);
}
END_TEST

/* No result may depend on the order of reduction: every partial result is an integer that fits
 * in eight bits of significand. */
START_TEST(results_are_exact_in_the_least_type)
{
    static const uint32_t ns[] = {1, 2, 3, 7, 8, 9, 64, 120};

    for (size_t k = 0; k < WEFT_LENGTH(ns); k++) {
        struct oracle_range range = oracle_range_of(WEFT_BFLOAT16, WEFT_SUM, ns[k]);
        int32_t top = range.low + (int32_t)range.span - 1;

        ck_assert_int_eq(top, -range.low);
        ck_assert_int_ge(top, 1);
        ck_assert_int_le(top * (int32_t)ns[k], 127);
        range = oracle_range_of(WEFT_UINT8, WEFT_AVG, ns[k]);
        ck_assert_int_eq(range.low, 0);
        ck_assert_int_le((int32_t)(range.span - 1) * (int32_t)ns[k], 127);
    }
    ck_assert_uint_eq(oracle_range_of(WEFT_INT8, WEFT_SUM, 500).span, 3);
    /* Products are at most 2^6, for any n. */
    for (uint32_t rank = 0; rank < 9; rank++) {
        int32_t values[64];

        oracle_values(1, rank, WEFT_INT8, WEFT_PROD, (struct oracle_range){0, 1, 1}, 0,
                      64, values);
        for (int i = 0; i < 64; i++) {
            ck_assert_int_ne(values[i], 0);
            ck_assert_int_le(abs(values[i]), rank < 6 ? 2 : 1);
        }
    }
}
END_TEST

/* Beyond ORACLE_SUM_RANKS_MAX ranks the sum of any of the inputs at an index is one that every
 * type represents, and every rank adds something somewhere. */
START_TEST(sums_of_many_ranks_are_exact)
{
    static const uint32_t ns[] = {250, 251, 257, 500, 2049, 4096, 65536};
    static const enum weft_dtype dtypes[] = {WEFT_UINT8, WEFT_BFLOAT16, WEFT_UINT64};
    int32_t values[1024];

    for (size_t k = 0; k < WEFT_LENGTH(ns) * WEFT_LENGTH(dtypes); k++) {
        uint32_t n_ranks = ns[k / WEFT_LENGTH(dtypes)], n = n_ranks > 5000 ? 16 : 1024;
        enum weft_dtype dtype = dtypes[k % WEFT_LENGTH(dtypes)];
        struct oracle_range range = oracle_range_of(dtype, WEFT_SUM, n_ranks);
        int32_t totals[1024] = {0}, most = 0;

        for (uint32_t rank = 0; rank < n_ranks; rank++) {
            bool adds = false;

            oracle_values(1, rank, dtype, WEFT_SUM, range, 0, n, values);
            for (uint32_t i = 0; i < n; i++) {
                totals[i] += abs(values[i]);
                adds = adds || values[i] != 0;
            }
            ck_assert_msg(adds || n < 1024, "%u of %u", rank, n_ranks);
        }
        for (uint32_t i = 0; i < n; i++) {
            most = totals[i] > most ? totals[i] : most;
        }
        ck_assert_msg(most <= ORACLE_SUM_RANKS_MAX && most > 60, "%d of %u", most,
                      n_ranks);
    }
    /* Where nothing is added, every rank's input is full. */
    for (int kind = WEFT_ALL_REDUCE; kind <= WEFT_ALL_GATHER; kind++) {
        struct coll_job job =
            job_of((enum weft_collective)kind, WEFT_INT8, WEFT_SUM, 1024);
        int8_t input[1024];
        uint32_t n_not_0 = 0;

        oracle_fill(&job, 1, 3, 2500, input, sizeof(input));
        for (size_t i = 0; i < sizeof(input); i++) {
            n_not_0 += input[i] != 0;
        }
        ck_assert_msg(kind == WEFT_ALL_GATHER ? n_not_0 > 600 : n_not_0 < 100, "%u",
                      n_not_0);
    }
}
END_TEST

/* With and without a memo, in the least and the greatest of unsigned types. */
#define CHECK_MANY(type, dtype)                                                          \
    do {                                                                                 \
        struct coll_job job = job_of(WEFT_ALL_REDUCE, dtype, WEFT_SUM, 20);              \
        struct oracle_memo memo = {0};                                                   \
        type total[20] = {0}, input[20];                                                 \
        for (uint32_t rank = 0; rank < n_ranks; rank++) {                                \
            oracle_fill(&job, 3, rank, n_ranks, input, sizeof(input));                   \
            for (int i = 0; i < 20; i++) {                                               \
                total[i] = (type)(total[i] + input[i]);                                  \
            }                                                                            \
        }                                                                                \
        for (int i = 0; i < 2; i++) {                                                    \
            ck_assert_uint_eq(oracle_check_with(i == 0 ? NULL : &memo, &job, 3, 0,       \
                                                n_ranks, total, sizeof(total), NULL),    \
                              0);                                                        \
        }                                                                                \
        oracle_memo_fini(&memo);                                                         \
    } while (0)

START_TEST(outputs_of_many_ranks_are_right)
{
    static const uint32_t ns[] = {250, 251, 2100, 4096};
    uint32_t n_ranks = ns[_i];

    CHECK_MANY(uint8_t, WEFT_UINT8);
    CHECK_MANY(int8_t, WEFT_INT8);
    CHECK_MANY(uint64_t, WEFT_UINT64);
}
END_TEST

/* Values are the same wherever a block begins, and from both functions that make them. */
START_TEST(values_do_not_depend_on_blocks)
{
    struct oracle_range range = {-40, 81, 1};
    int32_t whole[64], part[64], second[64];
    uint16_t sums[64];

    oracle_values(1, 2, WEFT_INT32, WEFT_SUM, range, 8, 61, whole);
    oracle_values(1, 3, WEFT_INT32, WEFT_SUM, range, 8, 61, second);
    oracle_sums(1, 2, 2, range, 8, 61, sums);
    for (size_t i = 0; i < 61; i++) {
        ck_assert_int_eq(sums[i] - ORACLE_RESULT_MAX, whole[i] + second[i]);
    }

    oracle_values(1, 2, WEFT_INT32, WEFT_SUM, range, 0, 64, whole);
    for (uint64_t first = 0; first < 32; first++) {
        oracle_values(1, 2, WEFT_INT32, WEFT_SUM, range, first, 19, part);
        ck_assert_mem_eq(part, whole + first, 19 * sizeof(*part));
    }
}
END_TEST

/* A memo changes no verdict: for the same job again, longer and shorter ones, other types,
 * operations, seeds and numbers of ranks, and more ranks than fit into one sum. */
START_TEST(a_memo_tells_the_same)
{
    static const struct {
        enum weft_dtype dtype;
        enum weft_redop op;
        uint64_t seed, count;
        uint32_t n_ranks;
    } rows[] = {
        {WEFT_INT32, WEFT_SUM, 1, 1500, 3},   {WEFT_INT32, WEFT_SUM, 1, 1500, 3},
        {WEFT_INT32, WEFT_SUM, 1, 2100, 3},   {WEFT_INT32, WEFT_SUM, 1, 7, 3},
        {WEFT_INT32, WEFT_SUM, 2, 2100, 3},   {WEFT_INT32, WEFT_MAX, 2, 2100, 3},
        {WEFT_INT32, WEFT_SUM, 2, 2100, 4},   {WEFT_INT64, WEFT_SUM, 2, 1100, 4},
        {WEFT_INT32, WEFT_SUM, 2, 1100, 253},
    };
    struct oracle_memo memo = {0};

    for (size_t k = 0; k < WEFT_LENGTH(rows); k++) {
        struct coll_job job =
            job_of(WEFT_ALL_REDUCE, rows[k].dtype, rows[k].op, rows[k].count);
        size_t width = oracle_width(rows[k].dtype), n_bytes = rows[k].count * width;
        uint8_t *right = calloc(rows[k].count, width);
        uint64_t first = UINT64_MAX;

        for (uint64_t i = 0; i < rows[k].count; i++) {
            int32_t total = 0, value;
            int64_t wide;

            for (uint32_t rank = 0; rank < rows[k].n_ranks; rank++) {
                oracle_values(rows[k].seed, rank, rows[k].dtype, rows[k].op,
                              oracle_range_of(rows[k].dtype, rows[k].op, rows[k].n_ranks),
                              i, 1, &value);
                if (rank == 0 || (rows[k].op == WEFT_MAX && value > total)) {
                    total = value;
                } else if (rows[k].op == WEFT_SUM) {
                    total += value;
                }
            }
            wide = total;
            memcpy(right + i * width, width == 8 ? (void *)&wide : (void *)&total, width);
        }
        for (uint32_t rank = 0; rank < 2; rank++) {
            ck_assert_uint_eq(oracle_check_with(&memo, &job, rows[k].seed, rank,
                                                rows[k].n_ranks, right, n_bytes, NULL),
                              0);
        }
        right[n_bytes - width] ^= 1;
        ck_assert_uint_eq(oracle_check_with(&memo, &job, rows[k].seed, 0, rows[k].n_ranks,
                                            right, n_bytes, &first),
                          1);
        ck_assert_uint_eq(first, rows[k].count - 1);
        free(right);
    }
    oracle_memo_fini(&memo);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll/oracle");
    TCase *tcase = tcase_create("oracle");

    tcase_add_test(tcase, numbers_as_elements);
    tcase_add_test(tcase, inputs_are_all_different);
    tcase_add_loop_test(tcase, every_kind_and_op_by_hand, 0, 11);
    tcase_add_test(tcase, outputs_that_nobody_wrote_are_never_wrong);
    tcase_add_test(tcase, sums_in_every_type);
    tcase_add_test(tcase, results_are_exact_in_the_least_type);
    tcase_add_test(tcase, sums_of_many_ranks_are_exact);
    tcase_add_loop_test(tcase, outputs_of_many_ranks_are_right, 0, 4);
    tcase_add_test(tcase, values_do_not_depend_on_blocks);
    tcase_add_test(tcase, a_memo_tells_the_same);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

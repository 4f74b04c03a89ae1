/* The oracle's numbers: the input of rank r at index i, and the representation of small
 * integers in every element type. Used by the oracle alone. */
#ifndef WEFT_COLL_ORACLE_VALUE_H
#define WEFT_COLL_ORACLE_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/reduce.h"

/* A range of inputs, low .. low + span - 1, each made from one byte of a hash. */
struct oracle_range {
    int32_t low;
    uint32_t span; /* 1..256 */
    /* only every stride-th rank has an input other than 0 at an index */
    uint32_t stride;
};

/* Results are assumed to be in [-ORACLE_RESULT_MAX, ORACLE_RESULT_MAX]. */
#define ORACLE_RESULT_MAX 1024

#define ORACLE_SUM_RANKS_MAX 250

/* Returns the range of inputs of `op` over `n_ranks` for which the result is exact in every
 * dtype and every order of reduction: sums stay below 128, which int8, bfloat16 (8 bits of
 * significand) and float16 represent. Beyond 120 ranks sums can exceed it; int8 then wraps,
 * the same in every order. Beyond ORACLE_SUM_RANKS_MAX ranks take turns: at each index no more
 * of them than that add something, so that sums stay within the 256 that bfloat16 represents.
 * oracle_values handles PROD itself: factors are 1, -1 and, on the first six ranks, 2. */
struct oracle_range oracle_range_of(enum weft_dtype dtype, enum weft_redop op,
                                    uint32_t n_ranks);

/* values[k] = the input of `rank` at index first + k, for k < n. */
void oracle_values(uint64_t seed, uint32_t rank, enum weft_dtype dtype,
                   enum weft_redop op, struct oracle_range range, uint64_t first,
                   size_t n, int32_t *values);

/* Computes sums of inputs, eight elements at a time: sums[k] = ORACLE_RESULT_MAX + the sum of
 * the inputs of ranks first_rank .. first_rank + n_ranks - 1 at first + k. `first` must be a
 * multiple of 8, `sums` must have room for n rounded up to 8, n_ranks is at most
 * ORACLE_SUM_RANKS_MAX, and ranks do not take turns. */
void oracle_sums(uint64_t seed, uint32_t first_rank, uint32_t n_ranks,
                 struct oracle_range range, uint64_t first, size_t n, uint16_t *sums);

size_t oracle_width(enum weft_dtype dtype);

/* Returns the bytes of an element that holds numerator / divisor as `dtype` stores it,
 * low-order first: integers are wrapped, then divided towards zero; floats are rounded to
 * nearest even. */
uint64_t oracle_bits(enum weft_dtype dtype, int64_t numerator, int32_t divisor);

#endif

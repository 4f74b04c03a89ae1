/* The oracle's numbers: what rank r's input holds at index i, and how small integers look
 * in every element type. Used by the oracle alone. */
#ifndef WEFT_COLL_ORACLE_VALUE_H
#define WEFT_COLL_ORACLE_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/reduce.h"

/* Inputs are integers low .. low + span - 1, one byte of hash each. */
struct oracle_range {
    int32_t low;
    uint32_t span; /* 1..256 */
};

/* Results of any number of ranks stay in [-ORACLE_RESULT_MAX, ORACLE_RESULT_MAX]. */
#define ORACLE_RESULT_MAX 1024

/* What inputs of `op` over `n_ranks` may be, so that the result is exact in every dtype
 * and every order of association: sums stay below 128, which int8, bfloat16 (8 bits of
 * significand) and float16 hold (beyond 120 ranks int8 wraps, in every order alike). PROD
 * is handled by oracle_values: factors are 1, -1 and, on the first six ranks, 2. */
struct oracle_range oracle_range_of(enum weft_dtype dtype, enum weft_redop op,
                                    uint32_t n_ranks);

/* values[k] = the input of `rank` at index first + k, for k < n. */
void oracle_values(uint64_t seed, uint32_t rank, enum weft_dtype dtype,
                   enum weft_redop op, struct oracle_range range, uint64_t first,
                   size_t n, int32_t *values);

/* The same for sums, eight elements at a time: sums[k] = ORACLE_RESULT_MAX + the sum
 * over ranks first_rank .. first_rank + n_ranks - 1 of their inputs at first + k.
 * `first` is a multiple of 8; the array has room for n rounded up to 8. n_ranks at
 * most ORACLE_SUM_RANKS_MAX. */
#define ORACLE_SUM_RANKS_MAX 250
void oracle_sums(uint64_t seed, uint32_t first_rank, uint32_t n_ranks,
                 struct oracle_range range, uint64_t first, size_t n, uint16_t *sums);

size_t oracle_width(enum weft_dtype dtype);

/* The bytes of an element that holds numerator / divisor as `dtype` stores it, low-order
 * first: integers wrapped, then divided towards zero; floats rounded to nearest even. */
uint64_t oracle_bits(enum weft_dtype dtype, int64_t numerator, int32_t divisor);

#endif

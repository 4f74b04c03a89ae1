/* Computes the expected result of a collective without plans, executor or base/reduce, and
 * compares every byte. Inputs are seeded small integers, so that every order of reduction
 * gives the same representable result. */
#ifndef WEFT_COLL_ORACLE_H
#define WEFT_COLL_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"

/* Fills the input of rank `rank` with elements of job->dtype, as many as fit in out_bytes. */
void oracle_fill(const struct coll_job *job, uint64_t seed, uint32_t rank,
                 uint32_t n_ranks, void *out, size_t out_bytes);
/* Expected results of all_reduce, which all ranks share, kept between checks: a program that
 * simulates n ranks would otherwise generate n inputs n times. Empty when zeroed. */
struct oracle_memo {
    enum weft_dtype dtype; /* the job that the results belong to */
    enum weft_redop op;
    uint64_t seed;
    uint32_t n_ranks;
    uint64_t n_blocks;
    uint16_t *indices; /* Owned */
    bool *is_known;    /* Owned [n_blocks] */
};
void oracle_memo_fini(struct oracle_memo *memo);
/* Returns the number of elements of rank `rank`'s output that are wrong; *out_first is the
 * index of the first one. */
uint64_t oracle_check(const struct coll_job *job, uint64_t seed, uint32_t rank,
                      uint32_t n_ranks, const void *output, size_t output_bytes,
                      uint64_t *out_first);
/* Does the same, and keeps expected results in `memo`. */
uint64_t oracle_check_with(struct oracle_memo *memo, const struct coll_job *job,
                           uint64_t seed, uint32_t rank, uint32_t n_ranks,
                           const void *output, size_t output_bytes, uint64_t *out_first);
/* Computes the size of each buffer on one rank. job->count is nccl-tests' size column in
 * elements: the whole of the larger buffer; the smaller one of reduce_scatter (output) and
 * all_gather (input) holds count / n_ranks. Outputs that a kind does not write (reduce except
 * on the root, barrier) are never wrong. */
void oracle_buffer_bytes(const struct coll_job *job, uint32_t n_ranks, size_t *out_input,
                         size_t *out_output);

#endif

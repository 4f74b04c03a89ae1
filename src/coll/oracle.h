/* What a collective's result must be, computed without plans, executor or base/reduce:
 * every byte is compared. Inputs are seeded small integers, so that every order of
 * association gives the same representable result. */
#ifndef WEFT_COLL_ORACLE_H
#define WEFT_COLL_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"

/* Fills rank `rank`'s input: `count` elements of job->dtype. */
void oracle_fill(const struct coll_job *job, uint64_t seed, uint32_t rank,
                 uint32_t n_ranks, void *out, size_t out_bytes);
/* Right answers that all ranks share, kept from one check to the next: a program that simulates
 * n ranks would else make n inputs n times. Empty when zero. */
struct oracle_memo {
    enum weft_dtype dtype; /* what the answers are of */
    enum weft_redop op;
    uint64_t seed;
    uint32_t n_ranks;
    uint64_t n_blocks;
    uint16_t *indices; /* Owned */
    bool *is_known;    /* Owned [n_blocks] */
};
void oracle_memo_fini(struct oracle_memo *memo);
/* Elements of rank `rank`'s output that differ from the right answer; *out_first is the
 * index of the first wrong one. */
uint64_t oracle_check(const struct coll_job *job, uint64_t seed, uint32_t rank,
                      uint32_t n_ranks, const void *output, size_t output_bytes,
                      uint64_t *out_first);
/* The same with the help of `memo`, which remembers. */
uint64_t oracle_check_with(struct oracle_memo *memo, const struct coll_job *job,
                           uint64_t seed, uint32_t rank, uint32_t n_ranks,
                           const void *output, size_t output_bytes, uint64_t *out_first);
/* Bytes of each buffer on one rank. job->count is nccl-tests' size column in elements:
 * the whole of the larger buffer; the smaller one of reduce_scatter (output) and
 * all_gather (input) holds count / n_ranks. Outputs that a kind leaves alone (reduce off
 * the root, barrier) are never wrong. */
void oracle_buffer_bytes(const struct coll_job *job, uint32_t n_ranks, size_t *out_input,
                         size_t *out_output);

#endif

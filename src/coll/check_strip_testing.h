/* The symbolic contents of a buffer: ranges of elements, each reduced from the inputs of a set
 * of ranks. Private to the plan check. */
#ifndef WEFT_COLL_CHECK_STRIP_TESTING_H
#define WEFT_COLL_CHECK_STRIP_TESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets of ranks, by index. Once made, a set does not change. */
struct check_sets {
    uint32_t n_words;
    uint64_t *words; /* Owned [n * n_words] */
    uint32_t n, cap;
};
#define CHECK_NOTHING 0u /* the empty set: nothing was written */

void check_sets_open(struct check_sets *sets, uint32_t n_ranks);
void check_sets_close(struct check_sets *sets);
uint32_t check_set_one(struct check_sets *sets, uint32_t rank);
/* Sets *out to the union of two disjoint sets. Returns false if they share a rank. */
bool check_set_join(struct check_sets *sets, uint32_t a, uint32_t b, uint32_t *out);
/* Returns the union of two sets. */
uint32_t check_set_union(struct check_sets *sets, uint32_t a, uint32_t b);
bool check_set_equal(const struct check_sets *sets, uint32_t a, uint32_t b);

/* A range of elements, begin .. begin + count - 1. They hold the reduction of the inputs of
 * `set` from element `source` on. */
struct check_piece {
    uint64_t begin, count, source;
    uint32_t set;
    bool is_divided;
};
struct check_strip {
    struct check_piece *pieces; /* Owned [n]: in order, without gaps or overlaps */
    size_t n, cap;
};

/* Makes a strip of `count` elements that hold `set` from element 0 on. */
void check_strip_open(struct check_strip *strip, uint64_t count, uint32_t set);
void check_strip_close(struct check_strip *strip);
/* Splits the piece at `at`. Returns the index of the piece that begins there. */
size_t check_strip_cut(struct check_strip *strip, uint64_t at);
/* Copies `count` elements from from_at to to_at; from != to. */
void check_strip_copy(struct check_strip *to, uint64_t to_at, struct check_strip *from,
                      uint64_t from_at, uint64_t count);

#endif

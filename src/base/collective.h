/* Collectives, and the algorithms that carry them out. Scenario files, plans and bounds share these
 * names (docs/collectives.md derives each algorithm). */
#ifndef WEFT_BASE_COLLECTIVE_H
#define WEFT_BASE_COLLECTIVE_H

#include <stdbool.h>

enum weft_collective {
    WEFT_ALL_REDUCE,
    WEFT_REDUCE_SCATTER,
    WEFT_ALL_GATHER,
    WEFT_BROADCAST,
    WEFT_REDUCE,
    WEFT_ALL_TO_ALL,
    WEFT_SEND_RECV, /* rank i sends to rank i + 1 */
    WEFT_BARRIER
};
#define WEFT_N_COLLECTIVES (WEFT_BARRIER + 1)

enum weft_algorithm {
    WEFT_ALGORITHM_AUTO,  /* the cheapest by the cost model */
    WEFT_ALGORITHM_RING,  /* one ring */
    WEFT_ALGORITHM_RINGS, /* all packed rings, by their shares */
    /* every rank sends what each other rank needs directly to it, all at once */
    WEFT_ALGORITHM_DIRECT,
    WEFT_ALGORITHM_EXCHANGE, /* all_reduce as direct reduce_scatter and all_gather */
    WEFT_ALGORITHM_DOUBLING, /* distances 1, 2, 4 ...; data grows or stays */
    /* distances ..., 4, 2, 1, then back; data shrinks, then grows */
    WEFT_ALGORITHM_HALVING,
    WEFT_ALGORITHM_TREE,  /* one tree, pipelined */
    WEFT_ALGORITHM_TREES, /* all packed trees, by their shares */
    WEFT_ALGORITHM_CHAIN, /* a path through all ranks, pipelined */
    /* all_to_all: each rank forwards what goes beyond its neighbours */
    WEFT_ALGORITHM_FORWARD
};
#define WEFT_N_ALGORITHMS (WEFT_ALGORITHM_FORWARD + 1)

/* Names by enumerator, "all_reduce" and "ring", as in scenario files. */
extern const char *const weft_collective_names[WEFT_N_COLLECTIVES];
extern const char *const weft_algorithm_names[WEFT_N_ALGORITHMS];

const char *weft_collective_name(enum weft_collective collective);
const char *weft_algorithm_name(enum weft_algorithm algorithm);

/* Returns true if `collective` has plans of `algorithm`; always true for AUTO. */
bool weft_collective_has(enum weft_collective collective, enum weft_algorithm algorithm);

#endif

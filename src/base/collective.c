#include "base/collective.h"

#include "base/check.h"

const char *const weft_collective_names[WEFT_N_COLLECTIVES] = {
    [WEFT_ALL_REDUCE] = "all_reduce", [WEFT_REDUCE_SCATTER] = "reduce_scatter",
    [WEFT_ALL_GATHER] = "all_gather", [WEFT_BROADCAST] = "broadcast",
    [WEFT_REDUCE] = "reduce",         [WEFT_ALL_TO_ALL] = "all_to_all",
    [WEFT_SEND_RECV] = "send_recv",   [WEFT_BARRIER] = "barrier"};

const char *const weft_algorithm_names[WEFT_N_ALGORITHMS] = {
    [WEFT_ALGORITHM_AUTO] = "auto",         [WEFT_ALGORITHM_RING] = "ring",
    [WEFT_ALGORITHM_RINGS] = "rings",       [WEFT_ALGORITHM_DIRECT] = "direct",
    [WEFT_ALGORITHM_EXCHANGE] = "exchange", [WEFT_ALGORITHM_DOUBLING] = "doubling",
    [WEFT_ALGORITHM_HALVING] = "halving",   [WEFT_ALGORITHM_TREE] = "tree",
    [WEFT_ALGORITHM_TREES] = "trees",       [WEFT_ALGORITHM_CHAIN] = "chain",
    [WEFT_ALGORITHM_FORWARD] = "forward"};

const char *weft_collective_name(enum weft_collective collective)
{
    weft_check((unsigned)collective < WEFT_N_COLLECTIVES);
    return weft_collective_names[collective];
}

const char *weft_algorithm_name(enum weft_algorithm algorithm)
{
    weft_check((unsigned)algorithm < WEFT_N_ALGORITHMS);
    return weft_algorithm_names[algorithm];
}

#define HAS(algorithm) (1u << WEFT_ALGORITHM_##algorithm)
#define BASIC (HAS(AUTO) | HAS(DIRECT))
#define RINGS (HAS(RING) | HAS(RINGS))
#define TREES (HAS(TREE) | HAS(TREES))

bool weft_collective_has(enum weft_collective collective, enum weft_algorithm algorithm)
{
    static const unsigned algorithms[WEFT_N_COLLECTIVES] = {
        [WEFT_ALL_REDUCE] = HAS(FORWARD) - 1, /* all before it */
        [WEFT_REDUCE_SCATTER] = BASIC | RINGS | TREES | HAS(HALVING),
        [WEFT_ALL_GATHER] = BASIC | RINGS | TREES | HAS(DOUBLING),
        [WEFT_BROADCAST] = BASIC | HAS(CHAIN) | TREES | HAS(DOUBLING),
        [WEFT_REDUCE] = BASIC | HAS(CHAIN) | TREES | HAS(HALVING),
        [WEFT_ALL_TO_ALL] = BASIC | HAS(FORWARD),
        [WEFT_SEND_RECV] = BASIC,
        [WEFT_BARRIER] = BASIC | HAS(DOUBLING) | HAS(TREE),
    };

    weft_check((unsigned)collective < WEFT_N_COLLECTIVES &&
               (unsigned)algorithm < WEFT_N_ALGORITHMS);
    return (algorithms[collective] >> algorithm & 1) != 0;
}

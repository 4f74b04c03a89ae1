/* Longest of the shortest delays between ranks. Private to mesh/. */
#ifndef WEFT_MESH_DELAY_H
#define WEFT_MESH_DELAY_H

#include "mesh/index.h"

/* With more ranks than this the result comes from a few sweeps and can be less than the
 * longest delay. */
#define MESH_DELAY_EXACT_RANKS 256

/* Returns a sum of delays, or a quarter of the greatest number, so that a few sums can be added. */
static inline weft_ps mesh_add_delays(weft_ps a, weft_ps b)
{
    weft_ps most = INT64_MAX / 4;

    return a > most || b > most - a ? most : a + b;
}

/* Returns the longest of the shortest delays between any two connected hosts of `ranks` ([n],
 * n >= 1). With more than MESH_DELAY_EXACT_RANKS ranks, returns a lower bound of it. */
weft_ps mesh_longest_delay(const struct mesh_index *index, const uint32_t *ranks,
                           uint32_t n);

#endif

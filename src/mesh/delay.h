/* The shortest delays between ranks. Private to mesh/. */
#ifndef WEFT_MESH_DELAY_H
#define WEFT_MESH_DELAY_H

#include "mesh/index.h"

/* Above this many ranks the longest is looked for by sweeps, and may be missed. */
#define MESH_DELAY_EXACT_RANKS 256

/* The longest of the shortest delays between two of `ranks` (hosts, [n], n >= 1) that are
 * connected; never more than that. */
weft_ps mesh_longest_delay(const struct mesh_index *index, const uint32_t *ranks,
                           uint32_t n);

#endif

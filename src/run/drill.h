/* Has two neighbours of a run's world exchange random work by verbs, once its processes ended, so
 * that a swarm also judges what the jobs do not use of a NIC: READs, atomics, receives that come
 * late, mistakes and what follows them. A model that knows nothing of packets says what every
 * verb, completion and byte must be.
 *
 * Nothing happens where a fault of the scenario may still act on the world. */
#ifndef WEFT_RUN_DRILL_H
#define WEFT_RUN_DRILL_H

#include "base/text.h"

struct run;

/* Adds what was not as the model has it to `broken`. `is_calm`: nothing disturbs a packet. All
 * objects are destroyed. */
void run_drill(struct run *run, bool is_calm, struct weft_text *broken);

#endif

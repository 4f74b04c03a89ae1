/* What every drill needs of the world of a run whose processes ended: time that passes, verbs that
 * end, and faults that act no more. */
#ifndef WEFT_RUN_DRILL_WORLD_H
#define WEFT_RUN_DRILL_WORLD_H

#include "io/env.h"

struct run;

/* Returns bytes in network order, as immediates have them. */
uint32_t drill_network_order(uint32_t bits);

weft_ns drill_now(const struct run *run);
void drill_pass(struct run *run, weft_ns time);

/* Returns the verb's errno, or DRILL_HANGS if it does not end in `limit` and was abandoned. */
#define DRILL_HANGS (-1)
int drill_verb(struct run *run, struct io_device *device, struct io_op *op,
               weft_ns limit);

/* Returns true if no fault of the scenario can touch what happens from now on, or takes calls by
 * their number. */
bool drill_is_left_alone(const struct run *run);

#endif

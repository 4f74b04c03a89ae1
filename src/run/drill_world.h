/* Helpers for drills in the world of a run whose processes have ended: passing time, waiting for
 * verbs, and detecting faults that can still act. */
#ifndef WEFT_RUN_DRILL_WORLD_H
#define WEFT_RUN_DRILL_WORLD_H

#include "io/env.h"
#include "io/verbs.h"

struct run;

/* Converts to network byte order, as used in immediate data. */
uint32_t drill_network_order(uint32_t bits);

weft_ns drill_now(const struct run *run);
void drill_pass(struct run *run, weft_ns time);

/* Returns the verb's errno, or DRILL_HANGS if it was abandoned because it did not end within
 * `limit`. */
#define DRILL_HANGS (-1)
int drill_verb(struct run *run, struct io_device *device, struct io_op *op,
               weft_ns limit);

/* Returns true if no fault of the scenario can affect what happens from now on, and none counts
 * calls. */
bool drill_is_left_alone(const struct run *run);

#endif

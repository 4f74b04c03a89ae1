/* The simulated fabric as a world: all hosts of a scenario in one process and in virtual time,
 * with the same event log for the same seed. */
#ifndef WEFT_BACKENDS_SIM_BACKEND_H
#define WEFT_BACKENDS_SIM_BACKEND_H

#include "io/world.h"

extern const struct world_ops backend_sim;

#endif

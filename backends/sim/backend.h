/* The simulated fabric as a world: everything of a scenario in one process, in virtual time,
 * the same story for the same seed. */
#ifndef WEFT_BACKENDS_SIM_BACKEND_H
#define WEFT_BACKENDS_SIM_BACKEND_H

#include "io/world.h"

extern const struct world_ops backend_sim;

#endif

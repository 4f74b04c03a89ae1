/* Words of scenario files, indexed by the enum values they mean. */
#ifndef WEFT_SCENARIO_NAMES_H
#define WEFT_SCENARIO_NAMES_H

#include "io/world.h"
#include "scenario/scenario.h"

extern const char *const names_of_boots[SCENARIO_N_BOOTS];
extern const char *const names_of_payloads[SCENARIO_N_PAYLOADS];

#endif

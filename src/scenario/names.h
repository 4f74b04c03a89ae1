/* Words of scenario files, indexed by the enum values they mean. */
#ifndef WEFT_SCENARIO_NAMES_H
#define WEFT_SCENARIO_NAMES_H

#include "io/world.h"
#include "scenario/scenario.h"

extern const char *const names_of_boots[SCENARIO_N_BOOTS];
extern const char *const names_of_payloads[SCENARIO_N_PAYLOADS];

/* A device profile and the number of ports per device. */
struct names_profile {
    const char *name;
    uint32_t n_ports;
};
#define NAMES_N_PROFILES 6
extern const struct names_profile names_of_profiles[NAMES_N_PROFILES];
/* Returns NULL if there is no such profile. */
const struct names_profile *names_profile_find(const char *name);

/* A verb that a fault can affect; `verb` as in struct world_fault. */
struct names_verb {
    const char *name;
    int verb;
};
#define NAMES_N_VERBS 11
extern const struct names_verb names_of_verbs[NAMES_N_VERBS];

#endif

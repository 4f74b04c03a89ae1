/* The built-in profiles. Code outside sim/profiles/ uses sim_profile_find(). */
#ifndef WEFT_SIM_PROFILES_PROFILES_H
#define WEFT_SIM_PROFILES_PROFILES_H

#include "sim/profile.h"

#define SIM_NS ((weft_ps)1000)
#define SIM_US ((weft_ps)1000000)
#define SIM_S ((weft_ps)1000000000000)

extern const struct sim_profile sim_profile_mlx5;
extern const struct sim_profile sim_profile_hns_hip08;
extern const struct sim_profile sim_profile_hns_hip09;
extern const struct sim_profile sim_profile_rxe;
extern const struct sim_profile sim_profile_synth2port;
extern const struct sim_profile sim_profile_minimal;

#endif

#include "base/profile.h"

#include "base/check.h"

const char *const weft_profile_names[WEFT_N_PROFILES] = {
    [WEFT_PROFILE_MLX5] = "mlx5",
    [WEFT_PROFILE_HNS_HIP08] = "hns-hip08",
    [WEFT_PROFILE_HNS_HIP09] = "hns-hip09",
    [WEFT_PROFILE_RXE] = "rxe",
    [WEFT_PROFILE_SYNTH2PORT] = "synth2port",
    [WEFT_PROFILE_MINIMAL] = "minimal",
};

const char *weft_profile_name(enum weft_profile profile)
{
    weft_check((unsigned)profile < WEFT_N_PROFILES);
    return weft_profile_names[profile];
}

uint32_t weft_profile_ports(enum weft_profile profile)
{
    return profile == WEFT_PROFILE_SYNTH2PORT ? 2 : 1;
}

/* Device profiles: the kinds of RDMA devices that can be simulated (sim/profiles). */
#ifndef WEFT_BASE_PROFILE_H
#define WEFT_BASE_PROFILE_H

#include <stdint.h>

enum weft_profile {
    WEFT_PROFILE_MLX5, /* the default of scenarios */
    WEFT_PROFILE_HNS_HIP08,
    WEFT_PROFILE_HNS_HIP09,
    WEFT_PROFILE_RXE,
    WEFT_PROFILE_SYNTH2PORT, /* invented; shows port numbers taken from the wrong end */
    WEFT_PROFILE_MINIMAL,    /* invented; has the least of everything */
    WEFT_N_PROFILES
};

/* Names by enumerator, "hns-hip08", as in scenario files. */
extern const char *const weft_profile_names[WEFT_N_PROFILES];

const char *weft_profile_name(enum weft_profile profile);
/* Returns the number of ports of one device. */
uint32_t weft_profile_ports(enum weft_profile profile);

#endif

/* Policies: whose rules choose ports, GIDs and what a failure does. */
#ifndef WEFT_BASE_POLICY_H
#define WEFT_BASE_POLICY_H

#include <stdbool.h>

enum weft_policy {
    WEFT_POLICY_WEFT,
    WEFT_POLICY_NCCL_2_25,
    WEFT_POLICY_NCCL_2_30_SUBNET_AWARE,
    WEFT_POLICY_MESH_PLUGIN_2026_01,
    WEFT_POLICY_MOONCAKE_2026_06,
    WEFT_POLICY_NCCL_2_29_PORT_RECOVERY,
    WEFT_N_POLICIES
};

/* Names by enumerator, "nccl-2.25", as in files and on the command line. */
extern const char *const weft_policy_names[WEFT_N_POLICIES];

const char *weft_policy_name(enum weft_policy policy);
/* Returns false and leaves `out` as it is if no policy is called `name`. */
bool weft_policy_parse(const char *name, enum weft_policy *out);
/* Returns true for NCCL of any version. */
bool weft_policy_is_nccl(enum weft_policy policy);

#endif

#include "base/policy.h"

#include <string.h>

#include "base/check.h"

const char *const weft_policy_names[WEFT_N_POLICIES] = {
    [WEFT_POLICY_WEFT] = "weft",
    [WEFT_POLICY_NCCL_2_25] = "nccl-2.25",
    [WEFT_POLICY_NCCL_2_30_SUBNET_AWARE] = "nccl-2.30-subnet-aware",
    [WEFT_POLICY_MESH_PLUGIN_2026_01] = "mesh-plugin-2026-01",
    [WEFT_POLICY_MOONCAKE_2026_06] = "mooncake-2026-06",
    [WEFT_POLICY_NCCL_2_29_PORT_RECOVERY] = "nccl-2.29-port-recovery",
};

const char *weft_policy_name(enum weft_policy policy)
{
    weft_check((unsigned)policy < WEFT_N_POLICIES);
    return weft_policy_names[policy];
}

bool weft_policy_parse(const char *name, enum weft_policy *out)
{
    for (int i = 0; i < WEFT_N_POLICIES; i++) {
        if (strcmp(name, weft_policy_names[i]) == 0) {
            *out = (enum weft_policy)i;
            return true;
        }
    }
    return false;
}

bool weft_policy_is_nccl(enum weft_policy policy)
{
    return policy == WEFT_POLICY_NCCL_2_25 ||
           policy == WEFT_POLICY_NCCL_2_30_SUBNET_AWARE ||
           policy == WEFT_POLICY_NCCL_2_29_PORT_RECOVERY;
}

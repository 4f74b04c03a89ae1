#include "run/drill_mistakes.h"

const char *const drill_mistakes[] = {
    [WRONG_KEY] = "a key that is none",
    [BEHIND_END] = "a byte behind the region",
    [BEFORE_START] = "a byte before the region",
    [ATOMIC_AT_END] = "an atomic across the region's end",
    [ATOMIC_ODD] = "an atomic at an odd address",
    [OTHER_DOMAIN] = "a region of another protection domain",
    [GONE_REGION] = "a region that is gone",
    [NO_ACCESS] = "a region without that access",
    [WRONG_LOCAL_KEY] = "a local key that is none",
    [LOCAL_END] = "a byte behind the local region",
    [TOO_LONG] = "a SEND longer than its receive",
    [NOT_READY] = "a SEND that nothing receives",
    [SILENT] = "a peer in RESET",
    [N_MISTAKES] = "a list of work requests",
};

enum ibv_wc_status drill_ends_as(enum mistake mistake)
{
    switch ((int)mistake) {
    case ATOMIC_ODD:
    case TOO_LONG:
        return IBV_WC_REM_INV_REQ_ERR;
    case WRONG_LOCAL_KEY:
    case LOCAL_END:
        return IBV_WC_LOC_PROT_ERR;
    case NOT_READY:
        return IBV_WC_RNR_RETRY_EXC_ERR;
    case SILENT:
        return IBV_WC_RETRY_EXC_ERR;
    default:
        return IBV_WC_REM_ACCESS_ERR;
    }
}

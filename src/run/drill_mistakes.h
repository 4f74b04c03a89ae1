/* Deliberate errors of a drill, and the completion status that each must cause. */
#ifndef WEFT_RUN_DRILL_MISTAKES_H
#define WEFT_RUN_DRILL_MISTAKES_H

#include "io/verbs.h"

enum mistake {
    WRONG_KEY,
    BEHIND_END,
    BEFORE_START,
    ATOMIC_AT_END,
    ATOMIC_ODD,
    OTHER_DOMAIN,
    GONE_REGION,
    NO_ACCESS,
    WRONG_LOCAL_KEY,
    LOCAL_END,
    TOO_LONG,
    NOT_READY,
    SILENT,
    N_MISTAKES
};

/* Short descriptions, indexed by enum mistake; N_MISTAKES stands for a list of work requests. */
extern const char *const drill_mistakes[];

/* Returns the status of the work request that contains the mistake (IBA 11.6.2). */
enum ibv_wc_status drill_ends_as(enum mistake mistake);

#endif

/* Mistakes that a drill makes on purpose, and how each of them must end. */
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

/* Says in a few words what the mistake is. */
extern const char *const drill_mistakes[];

/* The status of the work request with the mistake (IBA 11.6.2). */
enum ibv_wc_status drill_ends_as(enum mistake mistake);

#endif

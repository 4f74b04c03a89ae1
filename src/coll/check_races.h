/* Whether the steps of one rank keep out of each other's way. Private to plan_check.c. */
#ifndef WEFT_COLL_CHECK_RACES_H
#define WEFT_COLL_CHECK_RACES_H

#include "coll/coll.h"

/* NULL: no two steps may touch an element at the same time when one of them writes it. Else
 * what is wrong, with step *out_index. Shapes were checked. */
const char *check_races(const struct coll_job *job, const struct coll_plan *plan,
                        uint32_t *out_index);

#endif

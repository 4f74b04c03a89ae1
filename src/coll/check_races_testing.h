/* Checks that steps of one rank that touch the same element are ordered. Private to
 * plan_check_testing.c. */
#ifndef WEFT_COLL_CHECK_RACES_TESTING_H
#define WEFT_COLL_CHECK_RACES_TESTING_H

#include "coll/coll.h"

/* Returns NULL if no two steps can touch an element at the same time when one of them writes
 * it; otherwise what is wrong, with step *out_index. The shape of the steps must have been
 * checked. */
const char *check_races(const struct coll_job *job, const struct coll_plan *plan,
                        uint32_t *out_index);

#endif

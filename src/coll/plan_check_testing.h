/* The proof that plans are right (docs/collectives.md), for tests. */
#ifndef WEFT_COLL_PLAN_CHECK_TESTING_H
#define WEFT_COLL_PLAN_CHECK_TESTING_H

#include "coll/coll.h"

/* Proves that the plans of all ranks ([n_ranks]) together compute `job`: every element is
 * reduced exactly once per rank into its place and divided exactly once for avg, no step
 * overwrites what another still uses, and no step waits forever, however small the windows
 * are. Works on symbols: moves no data and does not depend on how plans are made. Fails with
 * WEFT_ERR_PROTOCOL. */
weft_status coll_plan_check(const struct coll_job *job, const struct coll_plan *plans,
                            struct weft_error *error) WEFT_MUST_CHECK;

/* Marks in [n_ranks] the ranks that the plan sends to and receives from; removes no marks. */
void coll_plan_peers(const struct coll_plan *plan, bool *sends_to, bool *receives_from);

#endif

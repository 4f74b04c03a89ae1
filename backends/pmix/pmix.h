/* Who this process is under a launcher that speaks PMIx (mpirun, srun --mpi=pmix, prterun): its
 * rank, and where rank 0 is. The library is opened at run time; declarations are ours, after the
 * PMIx standard 4.1 (§3.2 structures, §5 client, §6 data). */
#ifndef WEFT_BACKENDS_PMIX_PMIX_H
#define WEFT_BACKENDS_PMIX_PMIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define PMIX_LIBRARY "libpmix.so.2"

struct pmix_job {
    uint32_t rank, n_ranks;
    uint32_t local_rank;
    char told[128]; /* what rank 0 told; "" if nobody was asked to */
};

/* Joins the job that PMIX_NAMESPACE in the environment names, and leaves it again. `mine` (NULL:
 * nothing is exchanged) is what this process would tell if it were rank 0; `mine_alone` instead, if
 * all ranks are on one machine. Blocks until all ranks have come. WEFT_ERR_ENVIRONMENT: no library
 * (NULL: PMIX_LIBRARY), or no launcher that answers. */
weft_status pmix_join(const char *library, const char *mine, const char *mine_alone,
                      struct pmix_job *out, struct weft_error *error);

#endif

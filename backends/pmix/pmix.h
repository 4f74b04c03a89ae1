/* Rank and rendezvous of a process started by a PMIx launcher (mpirun, srun --mpi=pmix, prterun).
 * Opens the library at run time and declares only what is called, after the PMIx standard 4.1
 * (§3.2 structures, §5 client, §6 data). */
#ifndef WEFT_BACKENDS_PMIX_PMIX_H
#define WEFT_BACKENDS_PMIX_PMIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define PMIX_LIBRARY "libpmix.so.2"

struct pmix_job {
    uint32_t rank, n_ranks;
    uint32_t local_rank;
    char told[128]; /* sent by rank 0; "" if `mine` was NULL */
};

/* Joins the job in PMIX_NAMESPACE of the environment, and leaves it again. `mine` is what this
 * process sends to all ranks if it is rank 0; `mine_alone` is sent instead if all ranks are on
 * one machine. If `mine` is NULL nothing is exchanged; otherwise this blocks until all ranks have
 * joined. `library` NULL: PMIX_LIBRARY. Fails with WEFT_ERR_ENVIRONMENT without a library, or a
 * launcher that answers. */
weft_status pmix_join(const char *library, const char *mine, const char *mine_alone,
                      struct pmix_job *out, struct weft_error *error);

#endif

/* What NCCL would see inside the hosts of a scenario. */
#ifndef WEFT_RUN_INSIDE_H
#define WEFT_RUN_INSIDE_H

#include "scenario/scenario.h"
#include "topo/describe.h"

struct run_inside {
    struct io_machine machine; /* Owned */
    int *ranks;                /* Owned [inside.n_ranks] */
    struct topo_inside inside; /* of these two */
};

/* Of one host; run_inside_fini in any case. */
void run_inside_make(const struct scenario_world *world, uint32_t host, bool merges_nics,
                     struct run_inside *out);
void run_inside_fini(struct run_inside *inside);

/* Whether the topology documents that hosts name are such, and have a GPU for every rank. Else
 * appends "FILE:LINE:COLUMN: topology: DOCUMENT:LINE:COLUMN: what" of the first that is not. */
bool run_check_documents(const struct scenario *scenario, struct weft_text *out);

#endif

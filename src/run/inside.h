/* Describes the inside of a scenario's hosts as NCCL sees it. */
#ifndef WEFT_RUN_INSIDE_H
#define WEFT_RUN_INSIDE_H

#include "nccl/describe.h"
#include "scenario/scenario.h"

struct run_inside {
    struct io_machine machine; /* Owned */
    int *ranks;                /* Owned [inside.n_ranks] */
    struct topo_inside inside; /* refers to `machine` and `ranks` */
};

/* Describes one host. The caller calls run_inside_fini(). */
void run_inside_make(const struct scenario_world *world, uint32_t host, bool merges_nics,
                     struct run_inside *out);
void run_inside_fini(struct run_inside *inside);

/* Checks that the topology documents named by hosts are valid and have a GPU for every rank.
 * Otherwise returns false and appends "FILE:LINE:COLUMN: topology: DOCUMENT:LINE:COLUMN: what" for
 * the first invalid one. */
bool run_check_documents(const struct scenario *scenario, struct weft_text *out);

#endif

/* Describes the inside of the hosts with several ranks. The simulator uses it for the links that
 * copies take, collectives use it for their plans. */
#ifndef WEFT_RUN_INSIDES_H
#define WEFT_RUN_INSIDES_H

#include "coll/inside.h"
#include "scenario/scenario.h"

struct run_insides {
    struct coll_inside *hosts; /* Owned [n]; n 0: fewer than two ranks */
    uint32_t n;
};

/* Also sets world_host.ways of the world's hosts, which is valid until run_insides_fini(). A host
 * that NCCL cannot describe counts as unknown. Hosts have the scenario's GPUs on every backend, so
 * that all ranks compute the same result. */
void run_insides_make(struct scenario_world *world, struct run_insides *out);
/* Returns true if any host has several ranks. */
bool run_insides_any(const struct run_insides *insides);
/* Returns the lower bound on the time of a collective, from the mesh or, if all ranks share a host,
 * from the links inside it. Returns 0 if no bound is known. */
weft_ps run_limit_ps(const struct run_insides *insides, const struct mesh_graph *graph,
                     const uint32_t *hosts, uint32_t n_ranks,
                     enum weft_collective collective, uint64_t size_bytes);
void run_insides_fini(struct run_insides *insides);

#endif

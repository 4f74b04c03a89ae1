/* The inside of the hosts of a scenario that have several ranks: for the simulator, which needs to
 * know over which links copies go, and for plans. */
#ifndef WEFT_RUN_INSIDES_H
#define WEFT_RUN_INSIDES_H

#include "coll/inside.h"
#include "scenario/scenario.h"

struct run_insides {
    struct coll_inside
        *hosts; /* Owned [n], and they; one with n 0 for every other host */
    uint32_t n;
};

/* Also tells the world's hosts (world_host.ways), which is good until run_insides_fini. What NCCL
 * would not make sense of is as if nobody knew it. Hosts are taken to have the GPUs of the
 * scenario: the same inside on every rank, whatever it runs on. */
void run_insides_make(struct scenario_world *world, struct run_insides *out);
/* Whether some host has several ranks. */
bool run_insides_any(const struct run_insides *insides);
/* The physical bound of a collective: of the mesh, or where all ranks share a host, of the links
 * inside it; 0: none is known. */
weft_ps run_limit_ps(const struct run_insides *insides, const struct mesh_graph *graph,
                     const uint32_t *hosts, uint32_t n_ranks,
                     enum mesh_collective collective, uint64_t size_bytes);
void run_insides_fini(struct run_insides *insides);

#endif

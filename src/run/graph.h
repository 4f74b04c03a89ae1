/* The mesh of a world as a graph: what the physical bound and `weft show` look at. */
#ifndef WEFT_RUN_GRAPH_H
#define WEFT_RUN_GRAPH_H

#include "io/world.h"
#include "mesh/mesh.h"

/* Every cable becomes two edges, at the lesser of the cable's and both ports' rates and
 * PCIe roots; switches are nodes behind the hosts. Roots have a rate where the scenario
 * gives one: the profiles know of no limit, and then the cable is the limit. Cables that
 * are down are left out: the bound is of what is there. The caller frees it with
 * mesh_graph_fini. */
void run_graph(const struct world_spec *spec, struct mesh_graph *out);

#endif

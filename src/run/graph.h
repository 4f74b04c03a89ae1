/* Builds the graph of a world's mesh, from which the physical bound and `weft show` are
 * computed. */
#ifndef WEFT_RUN_GRAPH_H
#define WEFT_RUN_GRAPH_H

#include "io/world.h"
#include "mesh/mesh.h"

/* Adds two directed edges for each cable that is up. Their rate is the lowest of the cable's and of
 * both ports' and PCIe roots'. A root without a rate in the scenario does not limit, because
 * profiles have no rates for roots. Switches are nodes numbered after the hosts. The caller frees
 * `out` with mesh_graph_fini(). */
void run_graph(const struct world_spec *spec, struct mesh_graph *out);

#endif

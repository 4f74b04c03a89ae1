/* What a host knows of itself when it is over: its ports as they are by then, their counters and
 * the kernel's settings. */
#ifndef WEFT_RUN_FACTS_H
#define WEFT_RUN_FACTS_H

#include "diag/diag.h"
#include "host/host.h"
#include "io/world.h"

/* Fills `out` (zero) with name, limits, settings and ports; errors, events and the rest stay
 * empty. The caller's to fini. */
void run_facts(const struct host *host, struct diag_host *out);
/* The same of a host on which nothing ran, by what its devices tell. */
void run_facts_before(struct rdma *rdma, struct diag_host *out);
/* Adds the cables of a mesh to `out`, which has none, in order of hosts and ports. */
void run_facts_cables(const struct world_spec *spec, struct diag_input *out);

#endif

/* Worlds of existing machines, cabled as the scenario says: `weft run --backend verbs`. Each
 * member is `weft node` on its machine, with its RDMA devices, started with the command line in
 * WEFT_LAUNCH (backends/lab/elsewhere.h; default ssh). Real time; each machine has its own
 * clock. */
#ifndef WEFT_BACKENDS_MACHINES_BACKEND_H
#define WEFT_BACKENDS_MACHINES_BACKEND_H

#include "base/error.h"
#include "io/world.h"

extern const struct world_ops backend_machines;

/* Checks that real machines can run `spec`. Fails with WEFT_ERR_UNSUPPORTED, naming the first
 * thing that Weft cannot do there: impaired cables, link faults, firewalls, host topologies. */
weft_status machines_can_express(const struct world_spec *spec,
                                 struct weft_error *error) WEFT_MUST_CHECK;

#endif

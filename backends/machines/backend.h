/* Worlds of machines that are there, cabled as the scenario says: `weft run --backend verbs`.
 * Each member is `weft node` on its machine, on its RDMA devices, started from here by the line in
 * WEFT_LAUNCH (backends/lab/elsewhere.h; default ssh). Real time, as many clocks as machines. */
#ifndef WEFT_BACKENDS_MACHINES_BACKEND_H
#define WEFT_BACKENDS_MACHINES_BACKEND_H

#include "base/error.h"
#include "io/world.h"

extern const struct world_ops backend_machines;

/* WEFT_ERR_UNSUPPORTED names the first thing in `spec` that is nobody's to do on real machines:
 * cables that lose or are pulled, firewalls, what is inside a host. */
weft_status machines_can_express(const struct world_spec *spec,
                                 struct weft_error *error) WEFT_MUST_CHECK;

#endif

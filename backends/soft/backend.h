/* Scenarios on simulated NICs in real time: a process per host, in network namespaces with veth
 * cables where this user may have them, else on loopback addresses. WEFT_SOFT_LAYOUT,
 * "namespaces" or "loopback", says which. */
#ifndef WEFT_BACKENDS_SOFT_BACKEND_H
#define WEFT_BACKENDS_SOFT_BACKEND_H

#include "io/world.h"

extern const struct world_ops backend_soft;

/* WEFT_ERR_UNSUPPORTED names the first thing in `spec` that it cannot express at all. */
weft_status soft_can_express(const struct world_spec *spec, struct weft_error *error);

#endif

/* Scenarios on simulated NICs in real time: a process per host, in network namespaces with veth
 * cables if this user may create them, else on loopback addresses. WEFT_SOFT_LAYOUT, "namespaces"
 * or "loopback", selects one. */
#ifndef WEFT_BACKENDS_SOFT_BACKEND_H
#define WEFT_BACKENDS_SOFT_BACKEND_H

#include "io/world.h"

extern const struct world_ops backend_soft;

/* Fails with WEFT_ERR_UNSUPPORTED, naming the first thing in `spec` that this backend cannot
 * express in any layout. */
weft_status soft_can_express(const struct world_spec *spec, struct weft_error *error);

#endif

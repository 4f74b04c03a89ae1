/* Follows the carrier of a port through the faults `down` and `up` of a scenario. */
#ifndef WEFT_RUN_CARRIER_H
#define WEFT_RUN_CARRIER_H

#include "scenario/scenario.h"

/* A time without carrier. */
struct run_dark {
    weft_ns from, to; /* to: WEFT_NEVER if permanent */
};

/* Returns the times, in order, during which faults of this port take its carrier, or it has none
 * from the start (`up: false`). The caller frees them. Both directions need a carrier. The last
 * change of a direction counts, be it the begin or the end of a fault, as on all backends. Of
 * changes at the same time, `down` counts as the last. `up` at the other end changes nothing here,
 * as between two interfaces of a kernel, although `sim` ends a `down` then. */
struct run_dark *run_carrier_dark(const struct scenario *scenario, uint32_t host,
                                  uint32_t port, size_t *out_n);

/* Returns the time of the last change that faults make to the carrier of the port; -1 if none. */
weft_ns run_carrier_quiet_ns(const struct scenario *scenario, uint32_t host,
                             uint32_t port);

#endif

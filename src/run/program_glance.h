/* What the kernel shows of the hosts of programs from outside, while the programs run: no process
 * enters a host, so that programs do not notice it. */
#ifndef WEFT_RUN_PROGRAM_GLANCE_H
#define WEFT_RUN_PROGRAM_GLANCE_H

#include "run/program_look.h"

/* Fills the looks [n_hosts] at the hosts when their devices were new, and now. GIDs, states and
 * counters of devices, and the records of watched programs, are the kernel's; addresses, MTUs and
 * sysctls are those of `spec`, with which the hosts were built. `now` has lost no carrier since. */
void program_glance(const struct world_spec *spec, program_look_device *device,
                    struct program_look *before, struct program_look *now);
/* Sets the MTU of a port: that of its netdev, and the largest of its device that fits in. */
void program_glance_mtu(struct diag_port *port, int64_t mtu_bytes);

#endif

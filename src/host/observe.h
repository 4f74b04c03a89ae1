/* Collects a host's observations of its ports, for diag/. */
#ifndef WEFT_HOST_OBSERVE_H
#define WEFT_HOST_OBSERVE_H

#include "diag/diag.h"
#include "io/env.h"
#include "rdma/choice.h"

/* Returns what members exchange about `n` ports of this host or of another; the caller frees it. */
struct diag_port *observe_ports(const struct rdma_port_facts *facts, uint32_t n);
/* Adds, for this host's own ports, found by name: counters and kind of the devices, settings and
 * VLANs of their netdevs, PCIe links of their cards. */
void observe_devices(struct io_env *env, struct diag_port *ports, uint32_t n_ports);

#endif

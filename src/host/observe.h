/* What a host observes of its ports, for diag/. */
#ifndef WEFT_HOST_OBSERVE_H
#define WEFT_HOST_OBSERVE_H

#include "diag/diag.h"
#include "io/env.h"
#include "rdma/policy.h"

/* The part of it that peers are told, of a port of this host or another. */
void observe_port(const struct rdma_port_facts *facts, struct diag_port *out);
/* The rest, of this host's own ports, found by name: what devices count and are, the settings and
 * VLANs of their netdevs, the slots of their cards. */
void observe_devices(struct io_env *env, struct diag_port *ports, uint32_t n_ports);

#endif

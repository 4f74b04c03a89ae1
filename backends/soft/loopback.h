/* A world's hosts where there may be no namespaces: every address of the scenario has an alias
 * 127.B.x.y of this machine, and only ends of a cable reach each other (linux/aliases.h). B is
 * the run's own, so that runs do not meet. */
#ifndef WEFT_BACKENDS_SOFT_LOOPBACK_H
#define WEFT_BACKENDS_SOFT_LOOPBACK_H

#include "backends/linux/aliases.h"
#include "io/world.h"

struct soft_loopback;

/* What host `host` of `spec` has; the same `block` for all of them. `spec` outlives it. */
struct soft_loopback *soft_loopback_create(const struct world_spec *spec, uint32_t host,
                                           uint8_t block);
void soft_loopback_destroy(struct soft_loopback *loopback);
const struct linux_aliases *soft_loopback_aliases(const struct soft_loopback *loopback);
/* The host sees its port's carrier, or not. */
void soft_loopback_set_up(struct soft_loopback *loopback, uint32_t port, bool is_up);

/* What ports are called there, and their addresses. */
uint32_t soft_loopback_ifindex(uint32_t port);
uint64_t soft_loopback_mac(uint32_t host, uint32_t port);

/* Takes a block that no other run on this machine has; it is ours while `*out_fd` is open. An
 * errno: EADDRINUSE if there is none. */
int soft_loopback_claim(uint8_t *out_block, int *out_fd);

/* The other end of a host's port, if it has a cable. */
bool soft_port_cable(const struct world_spec *spec, uint32_t host, uint32_t port,
                     uint32_t *out_cable);

#endif

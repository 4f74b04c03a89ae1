/* Aliases of a world's hosts for users without namespaces: every address of the scenario has an
 * alias 127.B.x.y on this machine, and only the ends of a cable reach each other
 * (linux/aliases.h). B is unique to the run, so that runs do not interfere. */
#ifndef WEFT_BACKENDS_SOFT_LOOPBACK_H
#define WEFT_BACKENDS_SOFT_LOOPBACK_H

#include "backends/linux/aliases.h"
#include "io/world.h"

struct soft_loopback;

/* Creates the aliases for host `host` of `spec`; all hosts must use the same `block`. `spec` must
 * outlive the result. */
struct soft_loopback *soft_loopback_create(const struct world_spec *spec, uint32_t host,
                                           uint8_t block);
void soft_loopback_destroy(struct soft_loopback *loopback);
const struct linux_aliases *soft_loopback_aliases(const struct soft_loopback *loopback);
/* Sets the carrier of a port, as the host sees it. */
void soft_loopback_set_up(struct soft_loopback *loopback, uint32_t port, bool is_up);

/* Interface index and MAC of a port. */
uint32_t soft_loopback_ifindex(uint32_t port);
uint64_t soft_loopback_mac(uint32_t host, uint32_t port);

/* Reserves a block that no other run on this machine uses, until `*out_fd` is closed. Returns an
 * errno; EADDRINUSE if there is none. */
int soft_loopback_claim(uint8_t *out_block, int *out_fd);

/* Finds the cable of a host's port. Returns false if it has none. */
bool soft_port_cable(const struct world_spec *spec, uint32_t host, uint32_t port,
                     uint32_t *out_cable);

#endif

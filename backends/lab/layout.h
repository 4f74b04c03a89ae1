/* Keeps the netdevs of hosts that share one namespace apart: their names, and the routes by which
 * packets between hosts cross cables. Does nothing if each host has a namespace of its own. */
#ifndef WEFT_BACKENDS_LAB_LAYOUT_H
#define WEFT_BACKENDS_LAB_LAYOUT_H

#include "backends/lab/fabric.h"

/* Chooses the netdevs' names, which are unique if all hosts share a namespace. */
void lab_layout_name(struct lab_fabric *fabric);
/* Adds the routes by which packets between hosts cross cables, once everything is built. Returns an
 * errno. */
int lab_layout_begin(struct lab_fabric *fabric);
void lab_layout_end(struct lab_fabric *fabric);
/* Update the routes after a port came up, or after an address was added or removed. Return an
 * errno. */
int lab_layout_port_up(struct lab_fabric *fabric, uint32_t host, uint32_t port);
int lab_layout_management_up(struct lab_fabric *fabric, uint32_t host);
int lab_layout_address(struct lab_fabric *fabric, uint32_t host, uint32_t port, bool adds,
                       const struct io_prefix *address);

#endif

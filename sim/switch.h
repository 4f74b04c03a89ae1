/* An Ethernet switch: learns addresses, forwards whole frames (store and forward), floods
 * frames to unknown addresses, and has an egress queue at each port. Sources: IEEE 802.1Q
 * (8.6 forwarding, 8.7 learning), 802.3 annex 31B (pause). */
#ifndef WEFT_SIM_SWITCH_H
#define WEFT_SIM_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"

struct sim_switch;
struct sim_port;

/* Copies `name`. The ports are called "0", "1" ... and are cabled like others. */
struct sim_switch *sim_switch_create(struct sim_engine *engine, const char *name,
                                     uint32_t n_ports);
/* Destroys the switch with its ports. NULL is ignored. */
void sim_switch_destroy(struct sim_switch *bridge);
struct sim_port *sim_switch_port(const struct sim_switch *bridge, uint32_t index);

#endif

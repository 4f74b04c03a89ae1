/* An Ethernet switch: learns where addresses are, forwards whole frames (store and
 * forward), floods what it does not know, and has a queue at each port's way out. Sources:
 * IEEE 802.1Q (8.6 forwarding, 8.7 learning), 802.3 annex 31B (pause). */
#ifndef WEFT_SIM_SWITCH_H
#define WEFT_SIM_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"

struct sim_switch;
struct sim_port;
struct sim_packet;
struct sim_frame;

/* `name` is copied. Its ports are called "0", "1" ... and are cabled like any other. */
struct sim_switch *sim_switch_create(struct sim_engine *engine, const char *name,
                                     uint32_t n_ports);
/* With its ports. NULL is ignored. */
void sim_switch_destroy(struct sim_switch *bridge);
struct sim_port *sim_switch_port(const struct sim_switch *bridge, uint32_t index);

/* For ports. What arrived at `port`; the packet is taken over, of the frame what is needed
 * beyond the call. */
void sim_switch_frame(struct sim_switch *bridge, struct sim_port *port,
                      struct sim_frame *frame);
void sim_switch_packet(struct sim_switch *bridge, struct sim_port *port,
                       struct sim_packet *packet);
bool sim_switch_has_frames(const struct sim_switch *bridge, const struct sim_port *port);
/* Takes what `port` is to send next: `*out_packet`, or, if that is NULL, `*out_frame`.
 * False if there is nothing. */
bool sim_switch_pull(struct sim_switch *bridge, const struct sim_port *port,
                     struct sim_frame *out_frame, struct sim_packet **out_packet);
/* The carrier of `port` went: what waits for it is lost, what was learnt is forgotten. */
void sim_switch_carrier_lost(struct sim_switch *bridge, const struct sim_port *port);

#endif

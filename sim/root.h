/* A PCIe root that ports share: one rate out of the host's memory and one into it.
 *
 * Outwards a port that has something to send asks for the root; ports get it in the order
 * in which they asked, for one frame each, as long as that frame takes at the root's rate.
 * Inwards frames wait in the order of their arrival: a NIC takes what arrives, however
 * much, and what it has received is executed once it is through the root. */
#ifndef WEFT_SIM_ROOT_H
#define WEFT_SIM_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"

struct sim_root;

struct sim_root *sim_root_create(struct sim_engine *engine, uint64_t rate_bps);
/* After its ports and NICs. NULL is ignored. */
void sim_root_destroy(struct sim_root *root);

/* For ports. */
struct sim_port;
struct sim_frame;
struct sim_packet;

/* True if `port` may send now; else it is remembered, and sim_port_transmit is called when
 * its turn comes. */
bool sim_root_may_send(struct sim_root *root, struct sim_port *port);
/* `port`, whose turn it is, sends so many bytes from now on. */
void sim_root_occupy(struct sim_root *root, uint32_t wire_bytes);
/* A frame or packet arrived at `port`; it is handed on at once or later. Takes over the
 * packet; of the frame, what it needs beyond the call. */
void sim_root_receive_frame(struct sim_root *root, struct sim_port *port,
                            struct sim_frame *frame);
void sim_root_receive_packet(struct sim_root *root, struct sim_port *port,
                             struct sim_packet *packet);
/* The port goes: it waits for nothing more. */
void sim_root_forget(struct sim_root *root, struct sim_port *port);

#endif

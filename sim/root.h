/* A PCIe root that ports share: one rate out of the host's memory and one into it.
 *
 * Outwards, a port that has something to send requests the root. Ports are served in the
 * order of their requests, for one frame each, which takes its time at the root's rate.
 * Inwards, frames queue in the order of arrival: a NIC receives at any rate, and executes
 * a packet when it has passed the root. */
#ifndef WEFT_SIM_ROOT_H
#define WEFT_SIM_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"

struct sim_root;

struct sim_root *sim_root_create(struct sim_engine *engine, uint64_t rate_bps);
/* Call after its ports and NICs have been destroyed. NULL is ignored. */
void sim_root_destroy(struct sim_root *root);

/* For ports. */
struct sim_port;
struct sim_frame;
struct sim_packet;

/* Calls of a root to its ports, which are above it. */
struct sim_root_ops {
    void (*transmit)(struct sim_port *port); /* it is the port's turn */
    /* Take what has passed the root, and the packet over. */
    void (*deliver_frame)(struct sim_port *port, struct sim_frame *frame);
    void (*deliver_packet)(struct sim_port *port, struct sim_packet *packet);
};

void sim_root_set_ops(struct sim_root *root, const struct sim_root_ops *ops);
/* Returns true if `port` may send now. Otherwise queues the port; transmit() is called at
 * its turn. */
bool sim_root_may_send(struct sim_root *root, struct sim_port *port);
/* Occupies the root for `wire_bytes` from now on, for the port whose turn it is. */
void sim_root_occupy(struct sim_root *root, uint32_t wire_bytes);
/* Pass a frame or packet that arrived at `port` on, at once or later. Take over the
 * packet; of the frame they take over the payload if they need it beyond the call. */
void sim_root_receive_frame(struct sim_root *root, struct sim_port *port,
                            struct sim_frame *frame);
void sim_root_receive_packet(struct sim_root *root, struct sim_port *port,
                             struct sim_packet *packet);
/* Removes a port that is being destroyed from the queues. */
void sim_root_forget(struct sim_root *root, struct sim_port *port);

#endif

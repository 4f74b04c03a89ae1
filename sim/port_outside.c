/* Ports on a wire outside the simulation. */
#include "base/check.h"
#include "sim/link.h"
#include "sim/stack.h"

void sim_port_set_outside(struct sim_port *port, const struct sim_outside *outside)
{
    weft_check(outside->frame != NULL && outside->packet != NULL);
    weft_check(port->out.to == NULL && port->network == NULL);
    port->outside = *outside;
    port->out.cable_bps = outside->rate_bps;
    port->was_up = sim_port_is_up(port);
}

void sim_port_set_outside_carrier(struct sim_port *port, bool is_up)
{
    port->outside.is_up = is_up;
    sim_port_check_carrier(port);
}

size_t sim_port_packet_bytes(const struct sim_port *port, const struct sim_packet *packet,
                             uint8_t *out, size_t out_bytes)
{
    return port->encode == NULL ? 0 : port->encode(packet, out, out_bytes);
}

void sim_port_receive_outside(struct sim_port *port, struct sim_packet *packet)
{
    sim_port_deliver_packet(port, packet);
}

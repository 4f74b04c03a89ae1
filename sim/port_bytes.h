/* RoCE frames as bytes into a port, in place of a cable: from a real wire, or made by hand. */
#ifndef WEFT_SIM_PORT_BYTES_H
#define WEFT_SIM_PORT_BYTES_H

#include "sim/packet.h"
#include "sim/port.h"

/* Gives `port` an Ethernet frame without FCS as if its last bit had just come. What is for
 * another station, partition or VLAN, or no RoCE packet at all, goes no further than into
 * the story; a wrong ICRC is the NIC's to count. Returns what was found. Each combination of
 * addresses, TTL and traffic class that is taken stays interned as long as the port. */
enum sim_packet_reject sim_port_put_bytes(struct sim_port *port, const uint8_t *bytes,
                                          size_t n_bytes);

#endif

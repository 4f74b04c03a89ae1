/* RoCE frames as bytes into a port, in place of a cable: from a real wire, or made by hand. */
#ifndef WEFT_SIM_PORT_BYTES_H
#define WEFT_SIM_PORT_BYTES_H

#include "sim/packet.h"
#include "sim/port.h"

/* Gives `port`, which has neither a switch nor a PCIe root, an Ethernet frame without FCS as if
 * its last bit had just come. A frame for another station, partition or VLAN, or one that is no
 * RoCE packet, is only recorded in the event log; the NIC counts a wrong ICRC. Returns what was
 * found. Looks at no more than the QP that the packet names, whatever arrived before. Keeps
 * nothing of a packet but its payload, and its path if that QP accepts it: the path of the last
 * accepted packet takes the place of the one before. */
enum sim_packet_reject sim_port_put_bytes(struct sim_port *port, const uint8_t *bytes,
                                          size_t n_bytes);

#endif

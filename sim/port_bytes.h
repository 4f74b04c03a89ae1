/* Passes RoCE frames as bytes to a port without a cable: frames from a real wire, or made
 * by tests. */
#ifndef WEFT_SIM_PORT_BYTES_H
#define WEFT_SIM_PORT_BYTES_H

#include "sim/packet.h"
#include "sim/port.h"

/* Passes an Ethernet frame without FCS to `port` as if its last bit had just arrived. The
 * port must have neither a switch nor a PCIe root. Frames for another station, partition
 * or VLAN, and frames that are no RoCE packets, are only recorded in the event log; the
 * NIC counts a wrong ICRC. Returns the result of the checks.
 *
 * The cost does not depend on earlier frames: only the QP that the packet names is looked
 * up. Of a packet only the payload is kept, and its path if the QP accepts it; the path
 * of the last accepted packet replaces the one before. */
enum sim_packet_reject sim_port_put_bytes(struct sim_port *port, const uint8_t *bytes,
                                          size_t n_bytes);

#endif

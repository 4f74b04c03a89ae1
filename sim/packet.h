/* RoCE frames as exact bytes (IBA vol. 1 ch. 9, annexes A16 and A17): for taps and tests.
 */
#ifndef WEFT_SIM_PACKET_H
#define WEFT_SIM_PACKET_H

#include <stddef.h>

#include "sim/frame.h"

#define SIM_PACKET_BYTES_MAX                                                             \
    4400 /* Ethernet, GRH, BTH, the largest headers, 4096 B, ICRC */

/* Writes the Ethernet frame of `frame`, from the destination MAC to the ICRC, without
 * FCS, and returns its length; 0 if it would not fit. */
size_t sim_packet_encode(const struct sim_frame *frame, uint8_t *out, size_t out_bytes);

/* UDP source port of RoCE v2: from the flow label, or if that is 0 from the product of
 * both QPNs (Linux ib_verbs.h, rdma_flow_label_to_udp_sport and rdma_calc_flow_label). */
uint16_t sim_udp_sport(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn);
/* rxe's: a hash of the sender's own QPN (rxe_qp.c, hash_32). */
uint16_t sim_udp_sport_rxe(uint32_t own_qpn);

#endif

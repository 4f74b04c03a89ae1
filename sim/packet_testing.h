/* Packets for tests and fuzzing. */
#ifndef WEFT_SIM_PACKET_TESTING_H
#define WEFT_SIM_PACKET_TESTING_H

#include "base/rng.h"
#include "sim/packet.h"

/* Returns true if all fields except the ICRC, and all payload bytes, are equal. */
bool sim_roce_equal(const struct sim_roce *a, const struct sim_roce *b);

/* Makes a packet of that opcode whose other fields are random, as far as the wire carries
 * them. `payload` receives SIM_PACKET_PAYLOAD_MAX random bytes, to which the packet
 * refers. */
void sim_roce_random(struct weft_rng *rng, uint8_t opcode, enum sim_roce_layer layer,
                     bool has_vlan, uint8_t *payload, struct sim_roce *out);

#endif

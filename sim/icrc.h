/* The invariant CRC of RoCE packets (IBA 7.8.1 and annexes 16, 17). */
#ifndef WEFT_SIM_ICRC_H
#define WEFT_SIM_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the Ethernet CRC-32 of `bytes`, continuing from `crc` (0 at the start). */
uint32_t sim_crc32(uint32_t crc, const uint8_t *bytes, size_t n_bytes);

/* Returns the ICRC of a packet from its IP header (or GRH if `is_v1`) to the end of its
 * padding, as the number that is sent least significant byte first. Fields that routers
 * may change count as ones. `n_bytes` must cover the headers up to the BTH. */
uint32_t sim_icrc(const uint8_t *ip, size_t n_bytes, bool is_v1);

#endif

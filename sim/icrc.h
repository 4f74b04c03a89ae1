/* The invariant CRC of RoCE packets (IBA 7.8.1 and annexes 16, 17). */
#ifndef WEFT_SIM_ICRC_H
#define WEFT_SIM_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CRC-32 of Ethernet over `bytes`, continuing from `crc` (0 at the start). */
uint32_t sim_crc32(uint32_t crc, const uint8_t *bytes, size_t n_bytes);

/* The ICRC of a packet from its IP header (or GRH, `is_v1`) to the end of its padding, as
 * the number that is sent with its least significant byte first. What routers may change
 * is taken as ones. At least the headers up to the BTH must be there. */
uint32_t sim_icrc(const uint8_t *ip, size_t n_bytes, bool is_v1);

#endif

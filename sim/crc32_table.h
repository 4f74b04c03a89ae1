/* The tables of sim/icrc.c. */
#ifndef WEFT_SIM_CRC32_TABLE_H
#define WEFT_SIM_CRC32_TABLE_H

#include <stdint.h>

extern const uint32_t sim_crc32_table[8][256];

#endif

/* Kernel counters of the ports that programs other than Weft use. */
#ifndef WEFT_BACKENDS_LAB_COUNTS_H
#define WEFT_BACKENDS_LAB_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "io/programs.h"

/* Returns a counter of a soft-RoCE device since its creation, or IO_UNKNOWN. The kernel does not
 * show it in a network namespace (drivers/infiniband/sw/rxe/rxe_hw_counters.c). */
int64_t lab_count(const char *device, enum world_program_count count);
/* Returns how often a netdev of this network namespace has lost its carrier, or IO_UNKNOWN
 * (Documentation/ABI/testing/sysfs-class-net: carrier_down_count). */
int64_t lab_count_losses(const char *netdev);
/* Returns true if port 1 of the device is active, which follows the carrier of its netdev. */
bool lab_is_active(const char *device);
/* Stores a GID of port 1 of the device, as an address, and 1 for RoCE v1, 2 for v2, 0 if unknown.
 * Returns false if the slot cannot be read. (Documentation/ABI/stable/sysfs-class-infiniband) */
bool lab_gid(const char *device, int index, struct io_ip *out, int *out_type);

#endif

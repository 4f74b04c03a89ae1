/* The interfaces of this machine, as getifaddrs(3) lists them. */
#ifndef WEFT_BACKENDS_LINUX_INTERFACES_H
#define WEFT_BACKENDS_LINUX_INTERFACES_H

#include "io/hostinfo.h"

/* Returns [*out_n] interfaces in the system's order, which the caller frees. Returns NULL on
 * failure, or if there are none. */
struct io_interface *linux_interfaces(uint32_t *out_n);

#endif

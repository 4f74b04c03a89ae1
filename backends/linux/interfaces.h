/* The interfaces of this machine, as getifaddrs(3) tells programs. */
#ifndef WEFT_BACKENDS_LINUX_INTERFACES_H
#define WEFT_BACKENDS_LINUX_INTERFACES_H

#include "io/hostinfo.h"

/* [*out_n], in the system's order; the caller's to free. NULL: they could not be asked for. */
struct io_interface *linux_interfaces(uint32_t *out_n);

#endif

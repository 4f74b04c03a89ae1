/* Scenarios on the Linux kernel's soft-RoCE: a namespace and a process per host, in real
 * time. Where this kernel cannot, the whole command runs in a guest that can (guest.h). */
#ifndef WEFT_BACKENDS_RXE_BACKEND_H
#define WEFT_BACKENDS_RXE_BACKEND_H

#include "io/world.h"

extern const struct world_ops backend_rxe;

#endif

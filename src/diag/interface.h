/* Whether NCCL finds an interface for its bootstrap. As in NCCL's src/misc/socket.cc
 * (ncclFindInterfaces), src/os/linux.cc (ncclOsFindInterfaces) and src/misc/utils.cc
 * (parseStringList, matchIfList). */
#ifndef WEFT_DIAG_INTERFACE_H
#define WEFT_DIAG_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "io/hostinfo.h"

/* Whether NCCL_SOCKET_IFNAME=`setting` leaves `name`. */
bool diag_interface_is_named(const char *setting, const char *name);

/* Whether it leaves none of `interfaces` [n] that can be used with NCCL_SOCKET_FAMILY=`family`
 * (NULL: not set). Appends those that are named and cannot be used, with the reason, and those
 * that could be used. */
bool diag_interface_missing(const struct io_interface *interfaces, uint32_t n,
                            const char *setting, const char *family,
                            struct weft_text *out_named, struct weft_text *out_others);

#endif

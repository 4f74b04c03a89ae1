/* Predicts whether NCCL finds an interface for its bootstrap. Follows NCCL's src/misc/socket.cc
 * (ncclFindInterfaces) and src/os/linux.cc (ncclOsFindInterfaces). */
#ifndef WEFT_DIAG_INTERFACE_H
#define WEFT_DIAG_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "io/hostinfo.h"

/* Returns true if NCCL_SOCKET_IFNAME=`setting` selects none of the `interfaces` [n] that NCCL can
 * use with NCCL_SOCKET_FAMILY=`family` (NULL if unset). Appends to `out_named` the selected
 * interfaces that are unusable, with the reason, and to `out_others` the usable ones that are not
 * selected. */
bool diag_interface_missing(const struct io_interface *interfaces, uint32_t n,
                            const char *setting, const char *family,
                            struct weft_text *out_named, struct weft_text *out_others);

#endif

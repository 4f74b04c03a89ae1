/* Selects network interfaces as NCCL does. */
#ifndef WEFT_IO_INTERFACE_H
#define WEFT_IO_INTERFACE_H

#include <stdbool.h>

/* Returns true if NCCL_SOCKET_IFNAME=`setting` selects the interface `name`, as in NCCL's
 * src/misc/utils.cc (parseStringList, matchIfList): a list of prefixes, or of whole names after
 * "=", or after "^" all but these. */
bool io_interface_is_selected(const char *setting, const char *name);

#endif

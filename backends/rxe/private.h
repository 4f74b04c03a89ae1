/* What the files of backends/rxe share. */
#ifndef WEFT_BACKENDS_RXE_PRIVATE_H
#define WEFT_BACKENDS_RXE_PRIVATE_H

#include "backends/rxe/fabric.h"

#define RXE_PATH_BYTES 256

/* Takes the name of a namespace away; it goes when its last process and interface do. */
void rxe_unpin(const char *name);

/* ---- impair.c ---- */

/* What the kernel is to add to a veth for this cable: nothing where a veth is as good. */
void rxe_base_impairment(const struct world_cable *cable, uint32_t mtu_bytes,
                         struct netlink_impairment *out);
/* Applies a port's impairment as it is now. An errno. */
int rxe_port_impair(struct rxe_fabric *fabric, uint32_t host, uint32_t port);
/* A fault now; `undo` ends it. EOPNOTSUPP: not this kind. Hosts' processes are not its
 * business. */
int rxe_fault_apply(struct rxe_fabric *fabric, const struct world_fault *fault,
                    bool undo);
/* Whether the fabric, or the processes of hosts, can have this fault at all. */
bool rxe_fault_is_possible(const struct world_fault *fault);

/* ---- tap.c ---- */

/* Counts the RoCE frames of one interface from now on, where the kernel can. */
void rxe_tap_open(const struct rxe_fabric *fabric, const struct rxe_place *place,
                  const char *netdev, struct rxe_tap *out);

#endif

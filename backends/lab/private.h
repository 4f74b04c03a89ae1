/* What the files of backends/lab share. */
#ifndef WEFT_BACKENDS_LAB_PRIVATE_H
#define WEFT_BACKENDS_LAB_PRIVATE_H

#include "backends/lab/fabric.h"

#define LAB_PATH_BYTES 256

/* ---- place.c ---- */

/* A new namespace that ip-netns(8) shows as "weft-PID-NAME". */
weft_status lab_place_make(struct lab_fabric *fabric, struct lab_place *place,
                           const char *name, const struct world_sysctl *sysctl,
                           bool with_devices, struct weft_error *error);
/* A host's own, or ours for all of them: the fabric's layout says. */
weft_status lab_place_make_host(struct lab_fabric *fabric, uint32_t host,
                                bool with_devices, struct weft_error *error);
void lab_place_close(struct lab_place *place);
/* Takes the name of a namespace away; it goes when its last process and interface do. */
void lab_unpin(const char *name);

/* `scope`: "all", "default" or a netdev's name, in the thread's namespace. */
void lab_apply_sysctl(const struct world_sysctl *sysctl, const char *scope);

/* ---- layout.c: hosts in one namespace; nothing to do where each has its own ---- */

/* Names of netdevs, unique where they have to be. */
void lab_layout_name(struct lab_fabric *fabric);
/* Everything is built: from now on packets between hosts cross cables. An errno. */
int lab_layout_begin(struct lab_fabric *fabric);
void lab_layout_end(struct lab_fabric *fabric);
/* A port is up again, or an address of it came or went. An errno. */
int lab_layout_port_up(struct lab_fabric *fabric, uint32_t host, uint32_t port);
int lab_layout_management_up(struct lab_fabric *fabric, uint32_t host);
int lab_layout_address(struct lab_fabric *fabric, uint32_t host, uint32_t port, bool adds,
                       const struct io_prefix *address);

/* ---- impair.c ---- */

/* Returns what the kernel must add to a veth for this cable. `is_exact`: its delay and rate
 * whatever they are, because a veth adds nothing where time is virtual; otherwise only what is
 * worse than a veth. */
void lab_base_impairment(const struct world_cable *cable, uint32_t mtu_bytes,
                         bool is_exact, struct netlink_impairment *out);
/* Applies a port's impairment as it is now. An errno. */
int lab_port_impair(struct lab_fabric *fabric, uint32_t host, uint32_t port);
/* ---- tap.c ---- */

/* Counts the RoCE frames of one interface from now on, where the kernel can. */
void lab_tap_open(const struct lab_fabric *fabric, const struct lab_place *place,
                  const char *netdev, struct lab_tap *out);

#endif

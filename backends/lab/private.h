/* Declarations that the files of backends/lab share. */
#ifndef WEFT_BACKENDS_LAB_PRIVATE_H
#define WEFT_BACKENDS_LAB_PRIVATE_H

#include "backends/lab/fabric.h"

#define LAB_PATH_BYTES 256

/* ---- place.c ---- */

/* Creates a namespace that ip-netns(8) shows as "weft-PID-NAME". */
weft_status lab_place_make(struct lab_fabric *fabric, struct lab_place *place,
                           const char *name, const struct world_sysctl *sysctl,
                           bool with_devices, struct weft_error *error);
/* Creates a host's own namespace, or uses this process's for all hosts, by the fabric's layout. */
weft_status lab_place_make_host(struct lab_fabric *fabric, uint32_t host,
                                bool with_devices, struct weft_error *error);
void lab_place_close(struct lab_place *place);
/* Removes the name of a namespace, which disappears with its last process and interface. */
void lab_unpin(const char *name);

/* Writes a sysctl of `scope` ("all", "default" or a netdev's name) in the thread's namespace. */
void lab_apply_sysctl(const struct world_sysctl *sysctl, const char *scope);

/* ---- layout.c: hosts in one namespace; nothing to do where each has its own ---- */

/* Chooses the netdevs' names, which are unique if all hosts share a namespace. */
void lab_layout_name(struct lab_fabric *fabric);
/* Adds the routes by which packets between hosts cross cables, once everything is built. Returns an
 * errno. */
int lab_layout_begin(struct lab_fabric *fabric);
void lab_layout_end(struct lab_fabric *fabric);
/* Update the routes after a port came up, or after an address was added or removed. Return an
 * errno. */
int lab_layout_port_up(struct lab_fabric *fabric, uint32_t host, uint32_t port);
int lab_layout_management_up(struct lab_fabric *fabric, uint32_t host);
int lab_layout_address(struct lab_fabric *fabric, uint32_t host, uint32_t port, bool adds,
                       const struct io_prefix *address);

/* ---- impair.c ---- */

/* Computes what the kernel must add to a veth for this cable: if `is_exact`, all of its delay and
 * rate, because a veth adds none in virtual time; otherwise only what is worse than a veth. */
void lab_base_impairment(const struct world_cable *cable, uint32_t mtu_bytes,
                         bool is_exact, struct netlink_impairment *out);
/* Applies a port's current impairment. Returns an errno. */
int lab_port_impair(struct lab_fabric *fabric, uint32_t host, uint32_t port);
/* ---- tap.c ---- */

/* Starts to count the RoCE frames of one interface, if the kernel can. */
void lab_tap_open(const struct lab_fabric *fabric, const struct lab_place *place,
                  const char *netdev, struct lab_tap *out);

#endif

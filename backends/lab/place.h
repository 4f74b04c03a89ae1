/* Creates the network namespaces of a fabric, with their sockets, names and sysctls. */
#ifndef WEFT_BACKENDS_LAB_PLACE_H
#define WEFT_BACKENDS_LAB_PLACE_H

#include "backends/lab/fabric.h"

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

#endif

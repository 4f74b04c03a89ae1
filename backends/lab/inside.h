/* A host of a fabric as its programs see it: only its own netdevs, host name, /dev/shm and RDMA
 * devices, and an /etc/hosts with the names of the other hosts.
 *
 * rdma_rxe (7.2) devices cannot be moved to a network namespace, because rdma_rxe has no
 * disassociate_ucontext, which ib_device_set_netns_put (drivers/infiniband/core/device.c)
 * requires. So RDMA devices stay shared between namespaces, and mounts restrict the host's view:
 * /dev/infiniband has nodes of the host's own devices only, and libibverbs skips devices without
 * a node (try_access_device in libibverbs/init.c); /sys/class/infiniband lists only these
 * devices, too. rdma(8), which asks the kernel, shows all devices. */
#ifndef WEFT_BACKENDS_LAB_INSIDE_H
#define WEFT_BACKENDS_LAB_INSIDE_H

#include "backends/lab/fabric.h"
#include "base/text.h"

/* Namespaces in addition to the network namespace of the host's place; -1 if not open. */
struct lab_inside {
    int mount_fd, uts_fd, ipc_fd;
};

/* Moves the calling process into the host; its working directory becomes "/". Returns an
 * errno. */
int lab_inside_enter(const struct lab_fabric *fabric, uint32_t host,
                     const struct lab_inside *inside);

/* Returns the insides of the hosts of `spec`, not open. The caller frees them by
 * lab_insides_free(). */
struct lab_inside *lab_insides_new(const struct world_spec *spec);
/* Creates the namespaces of every host of the fabric. Only their descriptors refer to them. Fails
 * with the errno of the step that the kernel refused. */
weft_status lab_insides_make(const struct lab_fabric *fabric, struct lab_inside *insides,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Closes and frees them. Ignores NULL. */
void lab_insides_free(const struct world_spec *spec, struct lab_inside *insides);

/* Appends the content of /etc/hosts of `host` to `*out`. A host's address is its management
 * address; without one, that of its port on the first cable to `host`; otherwise its first
 * address. Hosts without an address are left out. */
void lab_inside_names(const struct world_spec *spec, uint32_t host,
                      struct weft_text *out);

#endif

/* A host of a fabric as programs in it see it: its netdevs, its name, the names of the others,
 * a /dev/shm of its own, and of the RDMA devices only its own.
 *
 * rdma_rxe (7.2) cannot be given to a network namespace: it has no disassociate_ucontext, which
 * ib_device_set_netns_put of drivers/infiniband/core/device.c asks for. So RDMA stays shared over
 * namespaces, and the host's view is made by mounts: /dev/infiniband has nodes of its own devices
 * only, without which libibverbs leaves a device out (try_access_device in
 * libibverbs/init.c), and /sys/class/infiniband names those only. rdma(8), which asks the kernel,
 * shows all. */
#ifndef WEFT_BACKENDS_LAB_INSIDE_H
#define WEFT_BACKENDS_LAB_INSIDE_H

#include "backends/lab/fabric.h"
#include "base/text.h"

/* Namespaces beside that of the host's place; -1: not there. */
struct lab_inside {
    int mount_fd, uts_fd, ipc_fd;
};

/* Leaves nothing behind but the descriptors; `*out` is to be closed whatever comes. WEFT_ERR_*
 * names what the kernel refused. */
weft_status lab_inside_make(const struct lab_fabric *fabric, uint32_t host,
                            struct lab_inside *out,
                            struct weft_error *error) WEFT_MUST_CHECK;
/* Moves the calling process into the host; its working directory becomes "/". An errno. */
int lab_inside_enter(const struct lab_fabric *fabric, uint32_t host,
                     const struct lab_inside *inside);
void lab_inside_close(struct lab_inside *inside);

/* What /etc/hosts of `host` says, appended to `*out`. Each host is called by its management
 * address; where it has none, by that of the first cable from here to it; else by the first
 * address it has. A host without an address is not named. */
void lab_inside_names(const struct world_spec *spec, uint32_t host,
                      struct weft_text *out);

#endif

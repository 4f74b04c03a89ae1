/* One real host with everything: Linux, RDMA devices of libibverbs, host memory as GPU. For a
 * process that is a host: a rank under backends/rxe, a plugin, a node.
 *
 * Settings: WEFT_DEVICES ("p0=rxe_ab,p1=rxe_ac", or "mlx5_0,mlx5_1") selects devices, their order
 * and names. Without it, all devices with a netdev in the host's network namespace are used,
 * sorted by name; a device with an address of a port of `like` has that port's name.
 * WEFT_MANAGEMENT is the netdev that reaches every host. Without it, WEFT_INTERFACES
 * (io_interface_is_selected) selects the first of its netdevs without an RDMA port; the default is
 * the first that is up, has an address and no RDMA port. */
#ifndef WEFT_BACKENDS_VERBS_HOST_H
#define WEFT_BACKENDS_VERBS_HOST_H

#include "backends/linux/env.h"
#include "io/world.h"

struct verbs_host;
struct verbs_library;

struct verbs_host_config {
    struct linux_env_config env;         /* `management` is ignored */
    const struct verbs_library *library; /* NULL: the system's, opened at run time */
    const char *sysfs;                   /* NULL: "/sys" */
    /* Not owned; only during the call; NULL if none. */
    const struct world_host *like;
    /* The calling thread serves only this host. If the kernel does a device's work on its users'
     * CPUs (rdma_rxe), the thread becomes SCHED_BATCH (sched(7)), so that a completion does not
     * preempt that work and a poll finds many completions. */
    bool owns_thread;
};

/* Creates the host; may block briefly. `loop` must outlive it. Fails with WEFT_ERR_ENVIRONMENT if
 * the library or the named device is missing, or no device has a port in the namespace;
 * WEFT_ERR_INPUT if WEFT_DEVICES is invalid. */
weft_status verbs_host_create(struct linux_loop *loop,
                              const struct verbs_host_config *config,
                              struct verbs_host **out, struct weft_error *error);
/* Destroys the remaining objects and frees the host. Ignores NULL. */
void verbs_host_destroy(struct verbs_host *host);

struct io_env *verbs_host_env(struct verbs_host *host);

#endif

/* One host of the real world with everything: Linux below, RDMA devices of libibverbs, host
 * memory as GPU. For a process that is a host: a rank under backends/rxe, a plugin, a node.
 *
 * Settings that it reads: WEFT_DEVICES ("p0=rxe_ab,p1=rxe_ac", or "mlx5_0,mlx5_1"): these
 * devices, in this order, under these names; otherwise all whose port has a netdev in the
 * host's network namespace, by name; those with an address of a port that the host is said to
 * have (`like`) are called like that. WEFT_MANAGEMENT: the netdev that reaches every host;
 * otherwise the first that is up, has an address and no RDMA port. */
#ifndef WEFT_BACKENDS_VERBS_HOST_H
#define WEFT_BACKENDS_VERBS_HOST_H

#include "backends/linux/env.h"
#include "io/world.h"

struct verbs_host;
struct verbs_library;

struct verbs_host_config {
    struct linux_env_config env;         /* management: wins over WEFT_MANAGEMENT */
    const struct verbs_library *library; /* NULL: the system's, opened at run time */
    const char *sysfs;                   /* NULL: "/sys" */
    const struct world_host *like;       /* Not owned; only during the call; or NULL */
    /* The calling thread serves this host and nothing else. If a device's work is done by the
     * kernel on the processors of its users (rdma_rxe), the thread becomes SCHED_BATCH, sched(7):
     * a completion does not push that work aside, so that a look finds many, not one. */
    bool owns_thread;
};

/* May block for a moment. WEFT_ERR_ENVIRONMENT: no library, no device, none of ours, or not
 * the one that was named; WEFT_ERR_INPUT: WEFT_DEVICES makes no sense. `loop` outlives it. */
weft_status verbs_host_create(struct linux_loop *loop,
                              const struct verbs_host_config *config,
                              struct verbs_host **out, struct weft_error *error);
/* Objects that users left are destroyed. NULL is ignored. */
void verbs_host_destroy(struct verbs_host *host);

struct io_env *verbs_host_env(struct verbs_host *host);

#endif

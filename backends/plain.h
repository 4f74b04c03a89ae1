/* This process on its machine as it is, without a scenario. NCCL's plugin runs on it. */
#ifndef WEFT_BACKENDS_PLAIN_H
#define WEFT_BACKENDS_PLAIN_H

#include "io/world.h"

struct plain_config {
    const char *name; /* name of the host in logs; NULL: gethostname(2) */
    /* Use simulated NICs on netdevs of this machine, instead of RDMA devices. */
    bool is_soft;
    /* soft: comma-separated netdevs; NULL: all that are up and have an address. */
    const char *netdevs;
    /* Netdev that reaches every host, unless it has an RDMA port. For soft, a port that is named
     * carries both. NULL: `interfaces` selects it. */
    const char *management;
    /* Value of NCCL_SOCKET_IFNAME (io_interface_is_selected). The management netdev is the first
     * that it selects: without an RDMA port, or for soft preferably one that is no port. NULL, or
     * if it selects none: as in backends/verbs/host.h; for soft, the first that is up, has an
     * address and is not a port, or none. */
    const char *interfaces;
    /* soft: a host of a mesh on loopback (plain_loopback.h) instead of netdevs; or NULL. */
    const char *loopback;
    /* Replaces all of the above: all hosts of a mesh, "0-1 1-2 0-2", simulated in this process in
     * virtual time, which passes in steps only; or NULL. */
    const char *simulated;
    struct weft_log *log; /* may be NULL; Not owned */
};

/* Creates a world of one host with index 0 in its loop, or of all hosts with `simulated`. Several
 * processes of a host may each have one. Fails with WEFT_ERR_ENVIRONMENT if there is no RDMA
 * device or, with soft, no such netdev. */
weft_status plain_world_create(const struct plain_config *config, struct world **out,
                               struct weft_error *error);
/* Returns the number of hosts; above 1 only if simulated. */
uint32_t plain_world_hosts(struct world *world);
/* plain_world_wake() wakes `task` soon on the loop's thread; any thread can call it while the
 * world exists. One task per world. Not for simulated hosts. */
void plain_world_wakes(struct world *world, struct io_task *task);
void plain_world_wake(struct world *world);

#endif

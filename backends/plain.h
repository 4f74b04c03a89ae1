/* This process on the machine as it is: no scenario says what it should be. What NCCL's plugin
 * runs on. */
#ifndef WEFT_BACKENDS_PLAIN_H
#define WEFT_BACKENDS_PLAIN_H

#include "io/world.h"

struct plain_config {
    const char *name; /* of the host in logs; NULL: gethostname(2) */
    /* Simulated NICs on netdevs of this machine, instead of RDMA devices. */
    bool is_soft;
    /* soft: these netdevs, separated by commas; NULL: all that are up and have an address. */
    const char *netdevs;
    /* That reaches every host; NULL: as backends/verbs/host.h. soft: the first that is no port,
     * or none; a port that is named carries both. */
    const char *management;
    /* soft: a host of a mesh on loopback (plain_loopback.h), instead of netdevs; or NULL. */
    const char *loopback;
    /* Instead of any of these: all hosts of a mesh, "0-1 1-2 0-2", simulated in this process and
     * in virtual time, which passes in steps only; or NULL. */
    const char *simulated;
    struct weft_log *log; /* may be NULL; Not owned */
};

/* One host, index 0 of its loop, but for `simulated`. Several processes of a host may each have
 * one. WEFT_ERR_ENVIRONMENT: no RDMA device; soft: no such netdev. */
weft_status plain_world_create(const struct plain_config *config, struct world **out,
                               struct weft_error *error);
/* Its hosts: more than one where they are simulated. */
uint32_t plain_world_hosts(struct world *world);
/* From any thread, as long as the world lives: `task` (of its loop) is woken in the loop's
 * thread, soon. Only one task a world; not where hosts are simulated. */
void plain_world_wakes(struct world *world, struct io_task *task);
void plain_world_wake(struct world *world);

#endif

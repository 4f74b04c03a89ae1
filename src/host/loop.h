/* The event loop: pops ready tasks in host order, dispatches them, and lets the world's time pass
 * when no task is ready. It serves several hosts in one process (simulation), or one. */
#ifndef WEFT_HOST_LOOP_H
#define WEFT_HOST_LOOP_H

#include "base/error.h"
#include "host/host.h"
#include "io/world.h"

struct host_loop {
    struct world *world;
    struct host *const *hosts; /* [n_hosts] by io_env.host; NULL if there is no rank */
    uint32_t n_hosts;
    weft_ns limit_ns; /* world time at which to give up */
    /* A host that is not over this long after the last start or end of any host is killed as
     * hanging, but not while a host has yet to start. Must exceed every single deadline of a
     * host. 0 if none is killed. */
    weft_ns hang_ns;
    /* Reports the failure or death of a member to the others, as a launcher does. */
    bool reports_ends;
    /* Returns true if the process of a host is stopped and will not go on. Once all others are
     * over, such ones are killed as hanging, without a wait of hang_ns. May be NULL. */
    bool (*is_stopped)(void *context, const struct host *host);
    /* Called occasionally, between two steps of the world. May be NULL. */
    void (*progress)(void *context, weft_ns now);
    void *context; /* of these two */
    /* Returns true if a report about the waits of the hosts is wanted now, which `report` receives.
     * Asked between two steps of the world, at least once per second. Both may be NULL. */
    bool (*is_asked)(void);
    void (*report)(const char *text);
};

/* Starts every host at its time and runs until all are over. WEFT_ERR_TIMEOUT if limit_ns was
 * reached. WEFT_ERR_PROTOCOL if no task is ready and no deadline is set although not all hosts are
 * over, which is a bug. Also returns errors of the world's step. */
weft_status host_loop_run(const struct host_loop *loop,
                          struct weft_error *error) WEFT_MUST_CHECK;

#endif

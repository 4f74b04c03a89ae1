/* The only event loop: pops ready tasks in host order, dispatches them, and lets the
 * world's time pass when nothing is ready. Several hosts in one process (simulation) or
 * one. */
#ifndef WEFT_HOST_LOOP_H
#define WEFT_HOST_LOOP_H

#include "base/error.h"
#include "host/host.h"
#include "io/world.h"

struct host_loop {
    struct world *world;
    struct host *const *hosts; /* [n_hosts] by index in the world; NULL: no rank there */
    uint32_t n_hosts;
    weft_ns limit_ns; /* world time at which to give up */
    /* Who is not over so long after the last start or end of any hangs, and is killed; more than
     * any single deadline of a host. 0: nobody is. */
    weft_ns hang_ns;
    /* The others hear of a member that failed or died, as from a launcher that started all. */
    bool tells_ends;
    /* Called now and then, at least once per row that the lowest rank ended; may be NULL.
     */
    void (*progress)(void *context, weft_ns now);
    void *progress_context;
};

/* Starts every host at its time and runs until all are over. WEFT_ERR_TIMEOUT: limit_ns
 * was reached. WEFT_ERR_PROTOCOL: nothing is ready, nothing is due and not all are over:
 * a bug, reported instead of a hang. Also what the world's step returns. */
weft_status host_loop_run(const struct host_loop *loop,
                          struct weft_error *error) WEFT_MUST_CHECK;

#endif

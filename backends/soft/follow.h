/* Follows what the kernel does to the netdevs of ports: carrier and addresses, as rtnetlink(7)
 * tells, on the engine's thread. */
#ifndef WEFT_BACKENDS_SOFT_FOLLOW_H
#define WEFT_BACKENDS_SOFT_FOLLOW_H

#include "backends/soft/engine.h"
#include "io/addr.h"

struct soft_follow;

/* Called under the engine's lock. */
struct soft_follow_ops {
    void (*carrier)(void *context, uint32_t ifindex, bool is_up);
    /* An address came, or went. `local` is the host's own; `prefix` that of the subnet. */
    void (*address)(void *context, uint32_t ifindex, bool is_there,
                    const struct io_ip *local, const struct io_prefix *prefix);
};

/* Of the calling thread's namespace. A positive errno, or 0. */
int soft_follow_create(struct soft_engine *engine, const struct soft_follow_ops *ops,
                       void *context, struct soft_follow **out);
/* The kernel may be about to tell that this netdev is up: it is asked for a while. Before the
 * engine's thread, or under its lock. */
void soft_follow_ask(struct soft_follow *follow, uint32_t ifindex);
/* After the engine's thread. NULL is ignored. */
void soft_follow_destroy(struct soft_follow *follow);

#endif

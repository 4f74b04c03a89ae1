/* Follows carrier and addresses of the ports' netdevs, as reported by rtnetlink(7), on the
 * engine's thread. If the kernel has lost reports, because they came faster than they were read,
 * everything is listed again. */
#ifndef WEFT_BACKENDS_SOFT_FOLLOW_H
#define WEFT_BACKENDS_SOFT_FOLLOW_H

#include "backends/soft/engine.h"
#include "io/addr.h"

struct soft_follow;

/* Callbacks; called under the engine's lock. */
struct soft_follow_ops {
    void (*carrier)(void *context, uint32_t ifindex, bool is_up);
    /* An address was added, changed or removed; one that exists can be reported repeatedly.
     * `local` is the host's own; `prefix` is that of the
     * subnet. */
    void (*address)(void *context, uint32_t ifindex, bool is_there,
                    const struct io_ip *local, const struct io_prefix *prefix);
};

/* Starts watching the netdevs in the calling thread's network namespace. Returns 0 or a positive
 * errno. */
int soft_follow_create(struct soft_engine *engine, const struct soft_follow_ops *ops,
                       void *context, struct soft_follow **out);
/* Polls this netdev for a while, because the kernel may report only late that it is up. Call
 * before the engine's thread starts, or under its lock. */
void soft_follow_ask(struct soft_follow *follow, uint32_t ifindex);
/* Frees `follow`. The engine's thread must have ended. Ignores NULL. */
void soft_follow_destroy(struct soft_follow *follow);

#endif

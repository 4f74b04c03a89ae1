#include "xfer/attempt.h"

#include "rdma/timers.h"

weft_ns attempt_ns(const struct conn_config *config, bool may_stall, uint32_t n_via)
{
    /* That of a job without patience, because the whole attempt is multiplied below. */
    weft_ns probe = config->probe_ns / (config->patience > 1 ? config->patience : 1);

    if (may_stall && probe < TIMER_PROBE_STALL_NS) {
        probe = TIMER_PROBE_STALL_NS;
    }
    return timer_limit(
        TIMER_ATTEMPT_OF(TIMER_SET_UP_OF(config->probe_tries * probe), n_via),
        config->patience);
}

void attempt_lower(weft_ns *limit, weft_ns most)
{
    if (*limit > most) {
        *limit = most;
    }
}

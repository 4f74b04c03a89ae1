/* The states of a member: names, legal transitions, limits, and what is no failure in CLOSE. */
#include "base/check.h"
#include "base/text.h"
#include "host/private.h"

const char *host_state_name(enum host_state state)
{
    static const char *const names[] = {
        [HOST_NEW] = "new",         [HOST_DISCOVER] = "discover",
        [HOST_LISTEN] = "listen",   [HOST_BOOT] = "boot",
        [HOST_SETUP] = "setup",     [HOST_CONNECT] = "connect",
        [HOST_BARRIER] = "barrier", [HOST_JOBS] = "jobs",
        [HOST_CLOSE] = "close",     [HOST_DONE] = "done",
        [HOST_FAILED] = "failed",   [HOST_DEAD] = "dead",
    };

    return (size_t)state < WEFT_LENGTH(names) ? names[state] : "?";
}

enum weft_phase host_state_phase(enum host_state state)
{
    static const enum weft_phase phases[] = {
        [HOST_DISCOVER] = WEFT_PHASE_DISCOVER, [HOST_LISTEN] = WEFT_PHASE_LISTEN,
        [HOST_BOOT] = WEFT_PHASE_BOOT,         [HOST_SETUP] = WEFT_PHASE_SETUP,
        [HOST_CONNECT] = WEFT_PHASE_CONNECT,   [HOST_BARRIER] = WEFT_PHASE_BARRIER,
        [HOST_JOBS] = WEFT_PHASE_JOBS,         [HOST_CLOSE] = WEFT_PHASE_CLOSE,
    };

    return (size_t)state < WEFT_LENGTH(phases) ? phases[state] : WEFT_PHASE_NONE;
}

bool host_state_follows(enum host_state from, enum host_state to)
{
    bool was_over = from == HOST_DONE || from == HOST_FAILED || from == HOST_DEAD;

    if (to == HOST_FAILED || to == HOST_DEAD) {
        return !was_over;
    }
    if (from == HOST_BOOT && to == HOST_CONNECT) {
        return true; /* no host has several ranks */
    }
    return to == from + 1 && !was_over;
}

void host_forgive(struct host *host)
{
    weft_error_clear(&host->error);
    host->error_is_hearsay = false;
    host->error_peer = HOST_NO_MEMBER;
}

weft_ns host_state_limit(const struct host *host, enum host_state state)
{
    switch (state) {
    case HOST_DISCOVER:
    case HOST_LISTEN:
        return host->config.discover_ns;
    case HOST_BOOT: /* rank 0 can come when this rank's patience is nearly over */
        return 2 * host->config.boot.patience_ns + 2 * host->config.boot.step_ns;
    case HOST_SETUP:
    case HOST_CONNECT:
        return host->config.connect_ns;
    case HOST_BARRIER: /* other members may still be in CONNECT */
        return host->config.connect_ns + 2 * host->config.boot.step_ns;
    case HOST_JOBS: /* each row sets its own limit */
        return host->config.discover_ns;
    case HOST_CLOSE:
        return host->config.work_ns + host->config.close_ns +
               2 * host->config.boot.step_ns;
    case HOST_NEW:
    case HOST_DONE:
    case HOST_FAILED:
    case HOST_DEAD:
        break;
    }
    return WEFT_NEVER;
}

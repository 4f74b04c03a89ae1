/* Causes that lie in a process, its limits, or its way to another process. */
#include <errno.h>
#include <string.h>

#include "diag/private.h"

enum diag_known diag_is_certain(const struct diag_case *c)
{
    (void)c;
    return DIAG_YES;
}

enum diag_known diag_is_memlock(const struct diag_case *c)
{
    int64_t limit = diag_number(c, "memlock_bytes");

    limit = limit == IO_UNKNOWN ? c->host->memlock_bytes : limit;
    if (limit == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    return limit == INT64_MAX ? DIAG_NO : DIAG_YES;
}

/* Did `host` fail to reach `name` with this errno while connections are made? */
static bool failed_to_reach(const struct diag_host *host, const char *name, int sys_errno)
{
    for (uint32_t i = 0; host != NULL && i < host->n_errors; i++) {
        const struct diag_error *error = &host->errors[i];
        bool is_early = strcmp(error->error.phase, "boot") == 0 ||
                        strcmp(error->error.phase, "tcp") == 0;

        if (is_early && strcmp(error->peer, name) == 0 &&
            error->error.sys_errno == sys_errno) {
            return true;
        }
    }
    return false;
}

static enum diag_known both_lived(const struct diag_case *c)
{
    return c->peer == NULL || !c->peer->was_observed ? DIAG_UNKNOWN : DIAG_YES;
}

/* When the peer finally called, nobody listened any more. */
enum diag_known diag_is_peer_late(const struct diag_case *c)
{
    return diag_and(both_lived(c),
                    diag_known_of(failed_to_reach(c->peer, c->host->name, ECONNREFUSED)));
}

/* Nobody answers at a port where somebody waits, as he says himself. */
enum diag_known diag_is_filtered(const struct diag_case *c)
{
    return diag_and(both_lived(c),
                    diag_known_of(c->sys_errno == ETIMEDOUT ||
                                  failed_to_reach(c->peer, c->host->name, ETIMEDOUT)));
}

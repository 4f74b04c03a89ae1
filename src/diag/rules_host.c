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

/* Was it this errno that `host` failed with, reaching `name` while connections are made? Every
 * host of a job that failed has an error: one without has not told it. */
static enum diag_known failed_to_reach(const struct diag_host *host, const char *name,
                                       int sys_errno)
{
    enum diag_known answer = host == NULL || host->n_errors == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; host != NULL && i < host->n_errors; i++) {
        const struct diag_error *error = &host->errors[i];
        const char *phase = error->error.phase;
        enum diag_known is_early =
            phase[0] == '\0'
                ? DIAG_UNKNOWN
                : diag_known_of(strcmp(phase, "boot") == 0 || strcmp(phase, "tcp") == 0);
        enum diag_known is_to = error->peer[0] == '\0'
                                    ? DIAG_UNKNOWN
                                    : diag_known_of(strcmp(error->peer, name) == 0);
        enum diag_known is_it = error->error.sys_errno == 0
                                    ? DIAG_UNKNOWN
                                    : diag_known_of(error->error.sys_errno == sys_errno);

        answer = diag_or(answer, diag_and(is_early, diag_and(is_to, is_it)));
    }
    return answer;
}

static enum diag_known both_lived(const struct diag_case *c)
{
    return c->peer == NULL || !c->peer->was_observed ? DIAG_UNKNOWN : DIAG_YES;
}

/* When the peer finally called, nobody listened any more. */
enum diag_known diag_is_peer_late(const struct diag_case *c)
{
    return diag_and(both_lived(c), failed_to_reach(c->peer, c->host->name, ECONNREFUSED));
}

/* Nobody answers at a port where somebody waits, as he says himself. */
enum diag_known diag_is_filtered(const struct diag_case *c)
{
    return diag_and(both_lived(c),
                    diag_or(diag_known_of(c->sys_errno == ETIMEDOUT),
                            failed_to_reach(c->peer, c->host->name, ETIMEDOUT)));
}

/* Whom this host calls had waited for it, and left. */
enum diag_known diag_is_own_lateness(const struct diag_case *c)
{
    const struct diag_host *peer = c->peer;
    enum diag_known answer = peer == NULL || peer->n_errors == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; peer != NULL && i < peer->n_errors; i++) {
        const struct diag_error *error = &peer->errors[i];
        const char *phase = error->error.phase;
        enum diag_known is_boot =
            phase[0] == '\0' ? DIAG_UNKNOWN : diag_known_of(strcmp(phase, "boot") == 0);
        enum diag_known is_us =
            error->peer[0] == '\0'
                ? DIAG_UNKNOWN
                : diag_known_of(strcmp(error->peer, c->host->name) == 0);
        /* What is not said is read as a protocol error. */
        enum diag_known is_wait =
            error->error.status == WEFT_ERR_PROTOCOL
                ? DIAG_UNKNOWN
                : diag_known_of(error->error.status == WEFT_ERR_TIMEOUT);

        answer = diag_or(answer, diag_and(is_boot, diag_and(is_us, is_wait)));
    }
    return answer;
}

/* Notes of a host for its report: connections, and whom an error concerns. */
#include "base/memory.h"
#include "host/private.h"

bool host_is_hearsay(const struct weft_error *error)
{
    return error->phase == WEFT_PHASE_PEER || error->phase == WEFT_PHASE_EPOCH ||
           (weft_error_value(error, WEFT_VALUE_NEXT_HOP) != NULL &&
            flow_failed_beyond(error));
}

uint32_t host_concerned(const struct host *host, uint32_t member)
{
    const struct weft_value *hop = weft_error_value(&host->error, WEFT_VALUE_NEXT_HOP);

    return hop != NULL ? (uint32_t)hop->number : member;
}

struct host_connection *host_note(struct host *host, const struct host_connection *of)
{
    struct host_connection *out;

    host->connections =
        weft_realloc(host->connections,
                     ((size_t)host->n_connections + 1) * sizeof(*host->connections));
    out = &host->connections[host->n_connections++];
    *out = *of;
    return out;
}

/* What a finding says of its place: at whose end it lies, and which ports would have been right. */
#include <errno.h>

#include "diag/private.h"

/* Two ports of these hosts that do face each other. */
static void name_facing(const struct diag_case *c, struct diag_finding *out)
{
    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            if (diag_facing(&c->local.items[i], &c->remote.items[j]) == DIAG_YES) {
                diag_evidence_text(out, "local_facing_port", c->local.items[i].name);
                diag_evidence_text(out, "remote_facing_port", c->remote.items[j].name);
                return;
            }
        }
    }
}

static bool counted(const struct diag_port *port, enum diag_counter counter)
{
    return port != NULL && port->counters[counter] > 0;
}

/* The failure is the sender's; what drops is at the end that counts. */
static void name_dropper(const struct diag_case *c, enum diag_counter counter,
                         struct diag_finding *out)
{
    bool here = counted(c->local_port, counter);

    if (here != counted(c->remote_port, counter)) {
        diag_evidence_text(out, "dropped_at", here ? c->host->name : c->peer_name);
    }
}

/* Who waited in vain was not filtered: whoever could not reach it tells of it, so that the host
 * with the filter comes last. */
static void tell_of_caller(const struct diag_case *c, struct diag_finding *out)
{
    const struct diag_entry *entry = out->entry;

    if (c->sys_errno == ETIMEDOUT || c->peer == NULL) {
        return;
    }
    for (uint32_t i = 0; i < c->peer->n_errors; i++) {
        struct diag_case caller;

        diag_case_init(&caller, c->input, c->peer, &c->peer->errors[i]);
        if (caller.host == c->peer && caller.peer == c->host &&
            caller.sys_errno == ETIMEDOUT) {
            *out = (struct diag_finding){.entry = entry};
            diag_describe(&caller, out);
            return;
        }
    }
}

/* Where the tables have the GIDs now, whose slots were kept from before. */
static void name_slots(const struct diag_case *c, struct diag_finding *out)
{
    int64_t local, remote;

    (void)diag_find_index(c->local_port, c->has_local_gid, &c->local_gid, c->local_type,
                          &local);
    (void)diag_find_index(c->remote_port, c->has_remote_gid, &c->remote_gid,
                          c->remote_type, &remote);
    diag_evidence_int(out, "local_index", local);
    diag_evidence_int(out, "remote_index", remote);
}

void diag_place(const struct diag_case *c, struct diag_finding *out)
{
    if (out->entry->id == DIAG_CONN_FILTERED) {
        tell_of_caller(c, out);
    } else if (out->entry->id == DIAG_HOST_FIREWALL_ROCE) {
        name_dropper(c, DIAG_RX_FILTERED_PORT, out);
    } else if (out->entry->id == DIAG_HOST_RP_FILTER) {
        name_dropper(c, DIAG_RX_FILTERED_SOURCE, out);
    } else if (out->entry->id == DIAG_ROUTE_FORWARD_OFF ||
               out->entry->id == DIAG_ROUTE_FORWARD_BLOCKED) {
        diag_evidence_text(out, "over", diag_host_between(c)->name);
    } else if (out->entry->id == DIAG_GID_STALE_INDEX) {
        name_slots(c, out);
    } else if (out->entry->place == DIAG_AT_PORTS) {
        name_facing(c, out);
    }
}

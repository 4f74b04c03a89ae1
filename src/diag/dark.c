/* Warns about cables of the scenario that carried no data, because one of their ends has no
 * carrier, no address or no GID. The job succeeds without them, but without their bandwidth. */
#include <string.h>

#include "diag/private.h"

struct end {
    const struct diag_host *host; /* NULL for a switch, or if not in the input */
    const struct diag_port *port;
};

static struct end end_of(const struct diag_input *input, const char *host,
                         const char *port)
{
    struct end end = {.host = diag_find_host(input, host)};

    end.port = diag_find_port(end.host, port);
    return end;
}

/* Returns why this end cannot carry data, or DIAG_N_CODES if no cause is known. A failed device
 * also takes its port down, but the far end keeps its carrier. */
static enum diag_code darkness(const struct end *end, const struct end *far)
{
    enum diag_known is_gone = diag_is_device_gone(end->host, end->port->name);
    bool far_has_carrier = far->port != NULL && far->port->is_up == DIAG_YES;

    if (end->port->is_opened == DIAG_NO || is_gone == DIAG_YES) {
        return DIAG_N_CODES;
    }
    if (end->port->is_up == DIAG_NO) {
        return is_gone == DIAG_UNKNOWN && far_has_carrier ? DIAG_N_CODES : DIAG_LINK_DOWN;
    }
    return diag_is_bare(end->port) == DIAG_YES          ? DIAG_ADDR_MISSING
           : diag_is_without_gid(end->port) == DIAG_YES ? DIAG_GID_MISSING
                                                        : DIAG_N_CODES;
}

static bool is_end(const struct diag_finding *said, const struct end *end)
{
    return end->port != NULL && diag_is_same_machine(said->host, end->host->name) &&
           (said->port[0] == '\0' || strcmp(said->port, end->port->name) == 0);
}

/* Returns true if a finding already concerns this cable. */
static bool is_said(const struct diag_findings *out, const struct end ends[2])
{
    for (uint32_t i = 0; i < out->n; i++) {
        const struct diag_finding *said = &out->items[i];

        for (int k = 0; k < 2; k++) {
            const struct diag_host *other = ends[1 - k].host;

            if (is_end(said, &ends[k]) &&
                (other == NULL || said->peer[0] == '\0' || said->port[0] != '\0' ||
                 diag_is_same_machine(said->peer, other->name))) {
                return true;
            }
        }
    }
    return false;
}

static void inspect(const struct end ends[2], struct diag_findings *out)
{
    for (int k = 0; k < 2; k++) {
        const struct end *near = &ends[k], *far = &ends[1 - k];
        struct diag_finding finding = {.severity = DIAG_WARNING, .is_survived = true};
        enum diag_code code = near->port != NULL && near->host->has_uses
                                  ? darkness(near, far)
                                  : DIAG_N_CODES;

        if (code == DIAG_N_CODES || is_said(out, ends)) {
            continue;
        }
        finding.entry = diag_entry(code);
        diag_name_place(&finding, near->host->name, near->port->name,
                        far->host != NULL ? far->host->name : "");
        diag_evidence_int(&finding, "survived", 1);
        diag_evidence_text(&finding, "local_port", near->port->name);
        diag_evidence_text(&finding, "remote_port",
                           far->port != NULL ? far->port->name : "unknown");
        diag_add(out, &finding);
    }
}

void diag_inspect_dark(const struct diag_input *input, struct diag_findings *out)
{
    for (uint32_t i = 0; !diag_has_failed(input) && i < input->n_cables; i++) {
        const struct diag_cable *cable = &input->cables[i];
        struct end ends[2] = {end_of(input, cable->from, cable->from_port),
                              end_of(input, cable->to, cable->to_port)};
        bool was_met = (ends[0].host == NULL || ends[0].host->was_observed) &&
                       (ends[1].host == NULL || ends[1].host->was_observed);

        if (was_met) {
            inspect(ends, out);
        }
    }
}

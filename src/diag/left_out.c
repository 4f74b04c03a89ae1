/* Warns about rails that could not be set up, and about pairs of hosts without a rail, in a job
 * that other rails and relays carried. */
#include <errno.h>
#include <string.h>

#include "diag/private.h"

/* Returns true if the rail carried data and was not recovered. Its finding keeps the code of the
 * cause. Connections over TCP count attempts, too. */
static bool is_about_recovery(const struct diag_case *c)
{
    return c->phase == WEFT_PHASE_RECOVERY ||
           (c->phase == WEFT_PHASE_NONE &&
            diag_number(c, WEFT_VALUE_ATTEMPTS) != IO_UNKNOWN);
}

/* Returns true if the two hosts have no rail at all, so that none was left out. The finding then
 * keeps the code of the cause, as for a cable that relays replaced because of a known cause. */
static bool is_about_route(const struct diag_case *c)
{
    return c->status == WEFT_ERR_ROUTE && c->phase == WEFT_PHASE_ROUTE;
}

/* Returns true if the cause is a cable, a port or an address, which relays can replace. A host that
 * does not respond, or refuses, can do so because others did not wait for the cable. */
static bool is_of_cable(const struct diag_entry *cause)
{
    return cause->place != DIAG_AT_HOST && cause->id != DIAG_UNDETERMINED &&
           strncmp(cause->code, "conn.", 5) != 0 && strncmp(cause->code, "peer.", 5) != 0;
}

/* Warns about processes of one machine that may not share GPU memory, once for the machine. A
 * driver that only lacked memory can open it the next time. */
static void inspect_ipc(const struct diag_host *host, const struct diag_error *why,
                        struct diag_findings *out)
{
    struct diag_finding finding = {.entry = diag_entry(DIAG_HOST_IPC_REFUSED),
                                   .severity = DIAG_WARNING};

    if (why->error.sys_errno == ENOMEM) {
        return;
    }
    diag_name_place(&finding, host->name, "", "");
    diag_evidence_int(&finding, "errno", why->error.sys_errno);
    diag_evidence_text(&finding, "instead", "shm");
    diag_say(out, &finding);
}

static void inspect(const struct diag_input *input, const struct diag_host *host,
                    const struct diag_error *why, struct diag_findings *out)
{
    struct diag_case c;
    struct diag_finding finding;
    const struct diag_entry *because;
    int64_t n_relays;

    if (why->error.phase == WEFT_PHASE_IPC) {
        inspect_ipc(host, why, out);
        return;
    }
    diag_case_init(&c, input, host, why);
    c.is_left_out = true;
    if (diag_is_left_out_apart(&c)) {
        /* The ends agreed on GIDs of which one has gone since. */
        c.has_local_gid = c.has_remote_gid = false;
    }
    diag_judge(&c, &finding);
    because = finding.entry;
    n_relays = diag_number(&c, WEFT_VALUE_STOOD_IN_RELAYS);
    finding.severity = DIAG_WARNING;
    finding.is_survived = true;
    if (is_about_route(&c) || (n_relays != IO_UNKNOWN && is_of_cable(because))) {
        diag_evidence_int(&finding, "survived", 1);
    } else if (!is_about_recovery(&c)) {
        finding.entry = diag_entry(DIAG_LINK_LEFT_OUT);
        diag_evidence_int(&finding, "survived", 1);
        diag_evidence_text(&finding, "because", because->code);
    }
    if (n_relays != IO_UNKNOWN) {
        diag_evidence_int(&finding, "stood_in_relays", n_relays);
    }
    diag_say(out, &finding);
}

void diag_inspect_left_out(const struct diag_input *input, struct diag_findings *out)
{
    if (diag_has_failed(input)) {
        return;
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        for (uint32_t k = 0; k < input->hosts[i].n_left_out; k++) {
            inspect(input, &input->hosts[i], &input->hosts[i].left_out[k], out);
        }
    }
}

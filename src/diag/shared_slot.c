/* Warns about rails whose ports share one PCIe link that is too slow for them, while a port behind
 * another link that leads to the same peer is idle. Nothing fails because of it. */
#include <string.h>

#include "base/text.h"
#include "diag/private.h"

/* Returns true if two ports of a machine are on one card. Compares the numbers of devices only
 * within a process, because each process numbers the devices that it has opened. */
static bool is_one_card(const struct diag_input *input, const char *machine,
                        const char *a, const char *b)
{
    bool is_one = strcmp(a, b) == 0;

    for (uint32_t h = 0; h < input->n_hosts && !is_one; h++) {
        const struct diag_host *process = &input->hosts[h];
        const struct diag_port *first, *second;

        if (!diag_is_same_machine(process->name, machine)) {
            continue;
        }
        first = diag_find_port(process, a);
        second = diag_find_port(process, b);
        is_one = first != NULL && second != NULL && first->device != IO_UNKNOWN &&
                 first->device == second->device;
    }
    return is_one;
}

uint32_t diag_count_rails(const struct diag_input *input, const char *machine,
                          const char *port, enum diag_end end)
{
    uint32_t n = 0;

    for (uint32_t h = 0; h < input->n_hosts; h++) {
        const struct diag_host *host = &input->hosts[h];

        for (uint32_t i = 0; i < host->n_uses; i++) {
            const struct diag_use *use = &host->uses[i];

            n += diag_is_same_machine(end == DIAG_NEAR ? host->name : use->peer,
                                      machine) &&
                 is_one_card(input, machine,
                             end == DIAG_NEAR ? use->local_port : use->remote_port, port);
        }
    }
    return n;
}

/* Returns true if a process of the machine sends to one of the peer through the port. */
static bool is_used(const struct diag_input *input, const char *machine, const char *port,
                    const char *peer)
{
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        const struct diag_host *host = &input->hosts[h];

        for (uint32_t i = 0; i < host->n_uses; i++) {
            if (diag_is_same_machine(host->name, machine) &&
                diag_is_same_machine(host->uses[i].peer, peer) &&
                strcmp(host->uses[i].local_port, port) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Ports of one card that rails to one machine use. */
struct shared {
    const struct diag_port *first;
    char ports[DIAG_NAME_BYTES];
    uint32_t n_ports;
    int64_t rate_bps;  /* of all of them; IO_UNKNOWN if one is unknown */
    int64_t least_bps; /* of the slowest; 0 or less if it is unknown */
};

static struct shared shared_with(const struct diag_input *input,
                                 const struct diag_host *host,
                                 const struct diag_port *port, const char *peer)
{
    struct shared shared = {.first = port, .rate_bps = 0};

    for (uint32_t i = 0; i < host->n_ports; i++) {
        const struct diag_port *other = &host->ports[i];
        char before[DIAG_NAME_BYTES];

        if (!is_one_card(input, host->name, other->name, port->name) ||
            !is_used(input, host->name, other->name, peer)) {
            continue;
        }
        weft_format(before, sizeof(before), "%s", shared.ports);
        weft_format(shared.ports, sizeof(shared.ports), "%s%s%s", before,
                    shared.n_ports > 0 ? " " : "", other->name);
        shared.first = shared.n_ports == 0 ? other : shared.first;
        shared.least_bps = shared.n_ports == 0 || other->rate_bps < shared.least_bps
                               ? other->rate_bps
                               : shared.least_bps;
        shared.n_ports++;
        if (other->rate_bps <= 0 || shared.rate_bps == IO_UNKNOWN ||
            __builtin_add_overflow(shared.rate_bps, other->rate_bps, &shared.rate_bps)) {
            shared.rate_bps = IO_UNKNOWN;
        }
    }
    return shared;
}

/* Returns true if no rail of any process begins or ends at the card of a port. */
static bool is_idle_card(const struct diag_input *input, const struct diag_host *host,
                         const struct diag_port *port)
{
    return diag_count_rails(input, host->name, port->name, DIAG_NEAR) == 0 &&
           diag_count_rails(input, host->name, port->name, DIAG_FAR) == 0;
}

static bool is_sound(const struct diag_host *host, const struct diag_port *port)
{
    return port->is_up == DIAG_YES && port->device != IO_UNKNOWN && port->rate_bps > 0 &&
           diag_carrier_losses(host, port->name) <= 0;
}

static int64_t rate_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns true if a cable in place of the slowest port that shares the link would add a tenth to
 * what the link carries. Less is not worth a change of the settings. */
static bool is_worth_it(const struct shared *shared, int64_t link_bps, int64_t cable_bps)
{
    int64_t rest_bps = rate_min(link_bps, shared->rate_bps - shared->least_bps);

    return cable_bps >= link_bps + link_bps / 10 - rest_bps;
}

/* Finds a port of a card that is idle, whose cable leads to an idle card of the peer, and is worth
 * it. Returns NULL if there is none. */
static const struct diag_port *find_idle(const struct diag_input *input,
                                         const struct diag_host *host,
                                         const struct diag_host *peer,
                                         const struct shared *shared, int64_t link_bps,
                                         const struct diag_port **out_remote)
{
    for (uint32_t i = 0; i < host->n_ports; i++) {
        const struct diag_port *local = &host->ports[i];

        if (!is_sound(host, local) || !is_idle_card(input, host, local)) {
            continue;
        }
        for (uint32_t k = 0; k < peer->n_ports; k++) {
            *out_remote = &peer->ports[k];
            if (is_sound(peer, *out_remote) && is_idle_card(input, peer, *out_remote) &&
                is_worth_it(shared, link_bps,
                            rate_min(local->rate_bps, (*out_remote)->rate_bps)) &&
                diag_is_one_cable(input, local, *out_remote) == DIAG_YES) {
                return local;
            }
        }
    }
    return NULL;
}

/* Returns the name of the first process of a machine, so that a cause is reported once for it. */
static const char *machine_of(const struct diag_input *input, const char *process)
{
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        if (diag_is_same_machine(input->hosts[h].name, process)) {
            return input->hosts[h].name;
        }
    }
    return process;
}

static void inspect(const struct diag_input *input, const struct diag_host *host,
                    const struct diag_use *use, struct diag_findings *out)
{
    struct diag_finding finding = {.entry = diag_entry(DIAG_HOST_PCIE_SHARED),
                                   .severity = DIAG_WARNING};
    const struct diag_port *port = diag_find_port(host, use->local_port);
    const struct diag_host *peer = diag_find_host(input, use->peer);
    const struct diag_port *idle, *remote = NULL;
    struct shared shared;
    int64_t link_bps;

    if (port == NULL || peer == NULL || port->device == IO_UNKNOWN ||
        diag_is_same_machine(host->name, peer->name)) {
        return;
    }
    shared = shared_with(input, host, port, peer->name);
    link_bps = diag_pcie_rate(port->pcie_lanes, port->pcie_mts);
    if (shared.n_ports < 2 || link_bps == IO_UNKNOWN || shared.rate_bps <= link_bps) {
        return;
    }
    idle = find_idle(input, host, peer, &shared, link_bps, &remote);
    if (idle == NULL) {
        return;
    }
    diag_name_place(&finding, machine_of(input, host->name), shared.first->name,
                    machine_of(input, peer->name));
    diag_evidence_text(&finding, "ports", shared.ports);
    diag_evidence_int(&finding, "rate_bps", shared.rate_bps);
    diag_evidence_int(&finding, "pcie_rate_bps", link_bps);
    diag_evidence_text(&finding, "idle_local_port", idle->name);
    diag_evidence_text(&finding, "idle_remote_port", remote->name);
    if (idle->is_opened == DIAG_NO) {
        diag_evidence_text(&finding, "NCCL_IB_HCA",
                           host->hca_list[0] != '\0' ? host->hca_list : "unknown");
    }
    diag_say(out, &finding);
}

void diag_inspect_shared_slots(const struct diag_input *input, struct diag_findings *out)
{
    for (uint32_t i = 0; !diag_has_failed(input) && i < input->n_hosts; i++) {
        for (uint32_t k = 0; k < input->hosts[i].n_uses; k++) {
            inspect(input, &input->hosts[i], &input->hosts[i].uses[k], out);
        }
    }
}

/* Warns about data on a slow cable while a faster one between the same hosts is idle. Nothing fails
 * because of it. */
#include <string.h>

#include "diag/private.h"

/* Minimum ratio of two rates. Smaller differences are rounding, or cables of one kind. */
#define FASTER_BY 2

/* Returns the rate of a cable between two ports, or IO_UNKNOWN. */
static int64_t rate_of(const struct diag_port *a, const struct diag_port *b)
{
    if (a == NULL || b == NULL || a->rate_bps <= 0 || b->rate_bps <= 0) {
        return IO_UNKNOWN;
    }
    return a->rate_bps < b->rate_bps ? a->rate_bps : b->rate_bps;
}

/* Finds the fastest rail that `host` used to `peer`. Returns its rate, or IO_UNKNOWN if a rate is
 * unknown or no rail was used. */
static int64_t fastest_used(const struct diag_host *host, const struct diag_host *peer,
                            const struct diag_use **out)
{
    int64_t best_bps = IO_UNKNOWN;

    for (uint32_t i = 0; i < host->n_uses; i++) {
        const struct diag_use *use = &host->uses[i];
        int64_t rate_bps;

        if (strcmp(use->peer, peer->name) != 0) {
            continue;
        }
        rate_bps = rate_of(diag_find_port(host, use->local_port),
                           diag_find_port(peer, use->remote_port));
        if (rate_bps == IO_UNKNOWN) {
            return IO_UNKNOWN;
        }
        if (rate_bps > best_bps) {
            best_bps = rate_bps;
            *out = use;
        }
    }
    return best_bps;
}

struct lane {
    const struct diag_port *local, *remote;
    int64_t rate_bps;
};

/* Finds the fastest pair of ports that face each other, are up, and are not known to have lost
 * their carrier. */
static struct lane fastest_cable(const struct diag_host *host,
                                 const struct diag_host *peer)
{
    struct lane best = {NULL, NULL, IO_UNKNOWN};

    for (uint32_t i = 0; i < host->n_ports; i++) {
        for (uint32_t k = 0; k < peer->n_ports; k++) {
            struct lane lane = {&host->ports[i], &peer->ports[k], IO_UNKNOWN};

            lane.rate_bps = rate_of(lane.local, lane.remote);
            if (lane.rate_bps > best.rate_bps && lane.local->is_up == DIAG_YES &&
                lane.remote->is_up == DIAG_YES &&
                diag_carrier_losses(host, lane.local->name) <= 0 &&
                diag_carrier_losses(peer, lane.remote->name) <= 0 &&
                diag_facing(lane.local, lane.remote) == DIAG_YES) {
                best = lane;
            }
        }
    }
    return best;
}

static void inspect(const struct diag_host *host, const struct diag_host *peer,
                    struct diag_findings *out)
{
    struct diag_finding finding = {.entry = diag_entry(DIAG_ROUTE_SLOW_LANE),
                                   .severity = DIAG_WARNING};
    const struct diag_use *use = NULL;
    int64_t used_bps = fastest_used(host, peer, &use);
    struct lane best = fastest_cable(host, peer);

    if (use == NULL || used_bps == IO_UNKNOWN || best.local == NULL ||
        best.rate_bps / FASTER_BY < used_bps) {
        return;
    }
    diag_name_place(&finding, host->name, use->local_port, peer->name);
    diag_evidence_text(&finding, "local_port", use->local_port);
    diag_evidence_text(&finding, "remote_port", use->remote_port);
    diag_evidence_int(&finding, "rate_bps", used_bps);
    diag_evidence_text(&finding, "faster_local_port", best.local->name);
    diag_evidence_text(&finding, "faster_remote_port", best.remote->name);
    diag_evidence_int(&finding, "faster_rate_bps", best.rate_bps);
    diag_say(out, &finding);
}

void diag_inspect_lanes(const struct diag_input *input, struct diag_findings *out)
{
    if (diag_has_failed(input)) {
        return;
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        if (input->hosts[i].n_left_out > 0) {
            return; /* reported with its cause as left out */
        }
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        for (uint32_t k = 0; k < input->n_hosts; k++) {
            if (i != k) {
                inspect(&input->hosts[i], &input->hosts[k], out);
            }
        }
    }
}

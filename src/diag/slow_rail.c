/* Warns about a rail that moved far less than its cable should while it was busy. Nothing fails
 * because of it, and no counter shows it. A rail is spared if anything else can have slowed it
 * down: other data on the same ports or cards, latency, lost frames, pauses, a switch, a software
 * device. */
#include <string.h>

#include "diag/private.h"

/* A rail is slow if its fastest 4 MiB took more than this many times as long as they should. */
#define SLOWER_BY 4
/* Minimum number of bytes that were timed: three times the 4 MiB. The only 4 MiB of a short job can
 * be slow for a reason that passes. */
#define TIMED_BYTES_MIN (INT64_C(12) << 20)
/* Latency counts up to the time that this many bytes take. With more, a rail that has one large
 * part under way at a time is idle for too long. */
#define LATENCY_BYTES (INT64_C(256) << 10)

/* Returns how many rails share the card at which `rail` begins, or the one at which it ends if that
 * is more. A rail without large parts counts, too, because its short messages also take their
 * share. */
static uint32_t count_sharers(const struct diag_input *input,
                              const struct diag_host *host, const struct diag_use *rail)
{
    uint32_t n_out = diag_count_rails(input, host->name, rail->local_port, DIAG_NEAR);
    uint32_t n_in = diag_count_rails(input, rail->peer, rail->remote_port, DIAG_FAR);

    return n_out > n_in ? n_out : n_in;
}

/* Returns true if the port is known to have sent nothing twice. Some devices count what they
 * repeat, others only why. */
static bool repeated_nothing(const struct diag_port *port)
{
    return port->counters[DIAG_RETRANSMITS] == 0 ||
           (port->counters[DIAG_RETRANSMITS] == IO_UNKNOWN &&
            port->counters[DIAG_TIMEOUTS] == 0 &&
            port->counters[DIAG_OUT_OF_SEQUENCE] == 0);
}

static bool is_undisturbed(const struct diag_host *host, const struct diag_port *port)
{
    return port->is_software == DIAG_NO && port->is_up == DIAG_YES &&
           diag_carrier_losses(host, port->name) == 0 && repeated_nothing(port) &&
           port->counters[DIAG_RX_PAUSES] <= 0 &&
           port->counters[DIAG_TX_QUEUE_DROPS] <= 0;
}

static int64_t known_lesser(int64_t a, int64_t b)
{
    if (a == IO_UNKNOWN || b == IO_UNKNOWN) {
        return a == IO_UNKNOWN ? b : a;
    }
    return a < b ? a : b;
}

static bool is_end(const char *host, const struct diag_port *port, const char *name,
                   const char *port_name)
{
    return diag_is_same_machine(host, name) && strcmp(port->name, port_name) == 0;
}

/* Returns the rate of the cable in the file that describes the mesh, or IO_UNKNOWN. */
static int64_t planned_rate(const struct diag_input *input, const struct diag_host *host,
                            const struct diag_port *a, const struct diag_host *peer,
                            const struct diag_port *b)
{
    for (uint32_t i = 0; i < input->n_cables; i++) {
        const struct diag_cable *cable = &input->cables[i];
        bool is_so = is_end(host->name, a, cable->from, cable->from_port) &&
                     is_end(peer->name, b, cable->to, cable->to_port);
        bool is_turned = is_end(host->name, a, cable->to, cable->to_port) &&
                         is_end(peer->name, b, cable->from, cable->from_port);

        if ((is_so || is_turned) && cable->rate_bps > 0) {
            return cable->rate_bps;
        }
    }
    return IO_UNKNOWN;
}

/* Returns what the cable and the PCIe links of both ends should carry, or IO_UNKNOWN. A port that
 * came up at a lower rate than planned reports that rate itself. */
static int64_t rate_of(const struct diag_input *input, const struct diag_host *host,
                       const struct diag_port *a, const struct diag_host *peer,
                       const struct diag_port *b)
{
    int64_t rate_bps = planned_rate(input, host, a, peer, b);

    if (rate_bps == IO_UNKNOWN && a->rate_bps > 0 && b->rate_bps > 0) {
        rate_bps = known_lesser(a->rate_bps, b->rate_bps);
    }
    return rate_bps == IO_UNKNOWN
               ? IO_UNKNOWN
               : known_lesser(rate_bps,
                              known_lesser(diag_pcie_rate(a->pcie_lanes, a->pcie_mts),
                                           diag_pcie_rate(b->pcie_lanes, b->pcie_mts)));
}

static void inspect(const struct diag_input *input, const struct diag_host *host,
                    const struct diag_use *use, struct diag_findings *out)
{
    struct diag_finding finding = {.entry = diag_entry(DIAG_LINK_SLOW),
                                   .severity = DIAG_WARNING};
    const struct diag_host *peer = diag_find_host(input, use->peer);
    const struct diag_port *local = diag_find_port(host, use->local_port);
    const struct diag_port *remote = diag_find_port(peer, use->remote_port);
    int64_t rate_bps, most_rtt_ns;

    if (use->timed_bytes < TIMED_BYTES_MIN || use->best_bps <= 0 || use->rtt_ns <= 0 ||
        local == NULL || remote == NULL || !is_undisturbed(host, local) ||
        !is_undisturbed(peer, remote) ||
        diag_is_one_cable(input, local, remote) != DIAG_YES) {
        return;
    }
    rate_bps = rate_of(input, host, local, peer, remote);
    most_rtt_ns = rate_bps > 0 ? LATENCY_BYTES * 8000 / (rate_bps / 1000000 + 1) : 0;
    if (rate_bps == IO_UNKNOWN || use->rtt_ns > most_rtt_ns ||
        use->best_bps >= rate_bps / SLOWER_BY / count_sharers(input, host, use)) {
        return;
    }
    diag_name_place(&finding, host->name, local->name, peer->name);
    diag_evidence_text(&finding, "local_port", local->name);
    diag_evidence_text(&finding, "remote_port", remote->name);
    diag_evidence_int(&finding, "moved_bps", use->best_bps);
    diag_evidence_int(&finding, "rate_bps", rate_bps);
    diag_evidence_int(&finding, "local_rate_bps", local->rate_bps);
    diag_evidence_int(&finding, "remote_rate_bps", remote->rate_bps);
    diag_evidence_int(&finding, "timed_bytes", use->timed_bytes);
    diag_evidence_int(&finding, "rtt_ns", use->rtt_ns);
    diag_say(out, &finding);
}

/* Returns true if a rail carries data that its host does not know of. */
static bool has_unknown_data(const struct diag_input *input)
{
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        for (uint32_t i = 0; i < input->hosts[h].n_uses; i++) {
            if (input->hosts[h].uses[i].timed_bytes == IO_UNKNOWN) {
                return true;
            }
        }
    }
    return false;
}

void diag_inspect_slow_rails(const struct diag_input *input, struct diag_findings *out)
{
    if (diag_has_failed(input) || has_unknown_data(input)) {
        return;
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        for (uint32_t k = 0; k < input->hosts[i].n_uses; k++) {
            inspect(input, &input->hosts[i], &input->hosts[i].uses[k], out);
        }
    }
}

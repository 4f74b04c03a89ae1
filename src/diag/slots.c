/* Warns about PCIe links that run with fewer lanes or at a lower speed than possible. */
#include "base/text.h"
#include "diag/private.h"

#define LANES_MAX 32
#define MTS_MAX 1000000
/* Minimum transfer rate with 128b/130b coding (8 GT/s); slower links use 8b/10b. */
#define MTS_OF_128_130 8000

int64_t diag_pcie_rate(int64_t lanes, int64_t mts)
{
    if (lanes < 1 || lanes > LANES_MAX || mts < 1 || mts > MTS_MAX) {
        return IO_UNKNOWN;
    }
    return lanes * mts * 1000000 * (mts < MTS_OF_128_130 ? 104 : 128) / 130;
}

static enum diag_known is_narrow(const struct diag_port *port)
{
    int64_t now_bps = diag_pcie_rate(port->pcie_lanes, port->pcie_mts);
    int64_t best_bps = diag_pcie_rate(port->pcie_lanes_max, port->pcie_mts_max);

    if (now_bps == IO_UNKNOWN || best_bps == IO_UNKNOWN || port->rate_bps <= 0) {
        return DIAG_UNKNOWN;
    }
    return diag_known_of(now_bps < best_bps && now_bps < port->rate_bps);
}

static bool has_narrow_slot(const struct diag_host *host, struct diag_finding *out)
{
    const struct diag_port *first = NULL;
    char ports[DIAG_NAME_BYTES] = "";

    for (uint32_t i = host->n_ports; i-- > 0;) {
        if (is_narrow(&host->ports[i]) == DIAG_YES) {
            char others[DIAG_NAME_BYTES];

            first = &host->ports[i];
            weft_format(others, sizeof(others), "%s", ports);
            weft_format(ports, sizeof(ports), "%s%s%s", first->name,
                        others[0] != '\0' ? " " : "", others);
        }
    }
    if (first == NULL) {
        return false;
    }
    *out = (struct diag_finding){.entry = diag_entry(DIAG_HOST_PCIE_NARROW),
                                 .severity = DIAG_WARNING};
    diag_name_place(out, host->name, first->name, "");
    diag_evidence_text(out, "ports", ports);
    diag_evidence_int(out, "pcie_lanes", first->pcie_lanes);
    diag_evidence_int(out, "pcie_lanes_max", first->pcie_lanes_max);
    diag_evidence_int(out, "pcie_mts", first->pcie_mts);
    diag_evidence_int(out, "pcie_mts_max", first->pcie_mts_max);
    diag_evidence_int(out, "pcie_rate_bps",
                      diag_pcie_rate(first->pcie_lanes, first->pcie_mts));
    diag_evidence_int(out, "rate_bps", first->rate_bps);
    return true;
}

void diag_inspect_slots(const struct diag_input *input, struct diag_findings *out)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        struct diag_finding finding;

        if (has_narrow_slot(&input->hosts[i], &finding)) {
            diag_say(out, &finding);
        }
    }
}

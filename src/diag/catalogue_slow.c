/* Catalogue entries about conditions that do not fail a job but can slow it down. */
#include "diag/catalogue_entries.h"

#include "base/check.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_HOST_PCIE_NARROW,
        .decide = "lspci -vv -s BUS_ID: LnkCap, LnkSta",
        .code = "host.pcie_narrow",
        .example = "scenarios/field/s36-narrow-slot.yaml",
        .severity = DIAG_WARNING,
        .place = DIAG_AT_HOST,
        .cause =
            "the PCIe link of a card came up with fewer lanes, or slower, than card and "
            "slot can, and carries less than the port's rate",
        .remedy =
            "reseat the card and power-cycle the host; on a DGX Spark or a sibling of it "
            "update the firmware (`fwupdmgr update`, BIOS of April 2026 or later)",
        .reference =
            "sysfs: current_link_width, max_link_width; PCIe 5.0, 4.2.6: link training",
        .explanation =
            "Card and slot agree on a width and a speed when the machine starts. A "
            "dirty contact, a riser, or a firmware that divides lanes wrongly leaves a "
            "link that works at half its width, and nothing reports it: RDMA and every "
            "test of connectivity pass, at half the rate. On some siblings of the DGX "
            "Spark the second function of the NIC ran with two lanes of four, so that "
            "one of the two rails of each cable carried 63 Gbit/s.\n\n"
            "What the link could do is the lesser of the card and the port that it is "
            "plugged into: a x16 card in a slot of four lanes is as it was built, and "
            "no finding. Nor is a narrow link that still carries the port's rate.",
    },
    {
        .id = DIAG_LINK_LEFT_OUT,
        .decide = "ping -c 3 -I IF ADDRESS, over the port that was left out",
        .code = "link.left_out",
        .example = "scenarios/net/arp-next-path.yaml",
        .severity = DIAG_WARNING,
        .cause =
            "a port that leads to the peer was left out, because no connection came up "
            "over it; another one, or a relay, carries the job",
        .remedy =
            "mend what the evidence names under `because` (see weft explain); until "
            "then the job has the rate of the rails that are left, or, with "
            "`stood_in_relays`, sends what the cable would carry over the cables of "
            "that many other hosts, which their own data shares",
        .reference = "docs/wire.md, Failover",
        .explanation =
            "Where several rails join two hosts, policy weft leaves out one on which "
            "the peer does not answer, and uses the others. If a cable is the only one "
            "between them, it relays the data over other hosts. The job works, and "
            "runs at a fraction of its rate. Because nothing failed, it is reported as "
            "a warning. While the job runs the port is tried again, after a second and "
            "then ever more rarely, down to once a minute: where it works by then it "
            "is used, and there is no finding.\n\n"
            "The failure that the port was left out for is judged like any other; "
            "`because` is its cause, or `undetermined` with the candidates beside it.",
    },
};

const struct diag_entries diag_entries_slow = {entries, WEFT_LENGTH(entries)};

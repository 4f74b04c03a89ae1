/* Catalogue entry about a rail that does not recover. */
#include "diag/catalogue_entries.h"

#include "base/check.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_GID_STALE_INDEX,
        .code = "gid.stale_index",
        .example = "scenarios/field/s26-stale-index.yaml",
        .severity = DIAG_WARNING,
        .place = DIAG_AT_END,
        .cause =
            "a port came back with its GID in another slot, and the program uses the "
            "slot that it looked up when it connected: the port is active, and given up",
        .remedy =
            "make the communicator again, which looks the slot up; look up by value "
            "before each use, as policy weft and NCCL's PR#2183 do",
        .reference = "nccl#2157, PR#2183: net_ib/connect.cc, p2p_resiliency_recovery.cc",
        .decide = "ibv_devinfo -v | grep GID, on both hosts: which slot has the address",
        .explanation =
            "When a port loses its carrier, its GIDs may be removed, and they return "
            "in the order in which the addresses do, each in the first slot that is "
            "free: fe80:: or another address may have the slot by then. NCCL with port "
            "recovery (NCCL_IB_RESILIENCY_PORT_FAILOVER=1, "
            "NCCL_IB_RESILIENCY_PORT_RECOVERY=1) moves the data to the other ports, "
            "and tries five times to get the port back, by queue pairs that name the "
            "slot of before. They use another address, or cannot be made ready at all, "
            "and the port is given up for good, although it is active. Nothing fails: "
            "the job runs at the rate of what is left.\n\n"
            "Evidence is the slot that was kept and where the tables of both ends have "
            "the GID now. In gid.missing and addr.changed the table does not have the "
            "GID any more. In link.down the port has no carrier; attempts during that "
            "time are not reported here.",
    },
};

const struct diag_entries diag_entries_recovery = {entries, WEFT_LENGTH(entries)};

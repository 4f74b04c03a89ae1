/* weft explain --times: prints the timers of recovery (rdma/timers.h). */

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/cli.h"
#include "rdma/timers.h"

struct time_row {
    const char *heading; /* printed before this row, or NULL */
    const char *what;
    weft_ns nic, software; /* nic: no end is software; software: one end is */
};

static const struct time_row rows[] = {
    {"Kernels and NICs, whose times are given", "a neighbour is asked for again",
     TIMER_ARP_NS, TIMER_ARP_NS},
    {NULL, "a queue pair's step to RTR waits for the neighbour, at most",
     TIMER_RESOLVE_NS, TIMER_RESOLVE_NS},
    {NULL, "a SYN is sent again", TIMER_SYN_NS, TIMER_SYN_NS},
    {NULL, "a queue pair gives up (ACK timeout times 1 + retries), at most",
     TIMER_QP_NS(TIMER_ACK_CODE, TIMER_ACK_RETRIES),
     TIMER_QP_NS(TIMER_ACK_CODE_STALL, TIMER_ACK_RETRIES)},
    {"Until it is noticed", "a connection that is quiet is asked for a sign",
     TIMER_BEAT_NS, TIMER_BEAT_NS},
    {NULL, "both ends know that a cable is silent, at most", TIMER_DETECT_NS,
     TIMER_DETECT_STALL_NS},
    {NULL, "a process that says nothing is taken to stand still", TIMER_STILL_AFTER_NS,
     TIMER_STILL_AFTER_NS},
    /* xfer/flow_failover.c doubles with the number of failures, which is 1 at first. */
    {"To connect", "one address is tried, at first", 2 * TIMER_ADDRESS_FIRST_NS,
     TIMER_ADDRESS_NS},
    {NULL, "one address is tried, at most", TIMER_ADDRESS_NS, TIMER_ADDRESS_NS},
    {NULL, "from TCP to proven queue pairs, for each hop, at most", TIMER_SET_UP_NS,
     TIMER_SET_UP_STALL_NS},
    {NULL, "pause after the second failure (none after the first), doubling",
     4 * TIMER_RETRY_FIRST_NS, 4 * TIMER_RETRY_FIRST_NS},
    {NULL, "pause before the next attempt, at most", TIMER_RETRY_NS, TIMER_RETRY_NS},
    {NULL, "a port must be up before it is used again, after one failure",
     2 * TIMER_HOLD_NS, 2 * TIMER_HOLD_NS},
    {NULL, "a port that flapped often must be up, at most", TIMER_HOLD_MAX_NS,
     TIMER_HOLD_MAX_NS},
    {"Recovery, from the end of the last fault until data moves, at most", "over a cable",
     TIMER_RECOVERY_VIA(0), TIMER_RECOVERY_STALL_NS},
    {NULL, "over one relay", TIMER_RECOVERY_VIA(1),
     TIMER_RECOVERY_OF(TIMER_DETECT_STALL_NS, TIMER_SET_UP_STALL_NS, 1)},
    {NULL, "over two relays", TIMER_RECOVERY_VIA(2),
     TIMER_RECOVERY_OF(TIMER_DETECT_STALL_NS, TIMER_SET_UP_STALL_NS, 2)},
    {"Until a job ends", "an outage of all routes of a mesh that every job survives",
     TIMER_OUTAGE_NS, TIMER_OUTAGE_NS},
    {NULL, "no route in a mesh, and no port comes back", TIMER_FAILOVER_NS,
     TIMER_FAILOVER_NS},
    {NULL, "no route in a mesh, although ports come back", TIMER_FAILOVER_MAX_NS,
     TIMER_FAILOVER_MAX_NS},
    {NULL, "no cable of neighbours that no relay joins, after their queue pairs",
     TIMER_CABLES_NS, TIMER_STALL_NS},
    {NULL, "a connection that was never up, since its first failure", TIMER_FIRST_LANE_NS,
     TIMER_FIRST_LANE_NS},
    {NULL, "a process that stands still is waited for", TIMER_STILL_NS, TIMER_STILL_NS},
};

int cli_explain_times(const struct cli_options *options)
{
    struct weft_text out = {NULL, 0, 0};
    int code;

    weft_text_add(&out, "%-68s %10s %10s\n", "", "NICs", "software");
    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        char nic[24], software[24];

        weft_format_time(rows[i].nic / 1000000 * 1000000, nic, sizeof(nic));
        weft_format_time(rows[i].software / 1000000 * 1000000, software,
                         sizeof(software));
        if (rows[i].heading != NULL) {
            weft_text_add(&out, "\n%s%s%s\n", options->style.bold, rows[i].heading,
                          options->style.off);
        }
        weft_text_add(&out, "  %-66s %10s %10s\n", rows[i].what, nic, software);
    }
    weft_text_add(&out,
                  "\nSoftware is the kernel's soft-RoCE, or backend soft, at either end. "
                  "The plugin waits longer\n(docs/plugin-reference.md); policies of "
                  "other programs have their own times (docs/rdma.md).\n");
    code = cli_print(out.bytes, out.n) ? CLI_OK : CLI_USAGE;
    weft_text_fini(&out);
    return code;
}

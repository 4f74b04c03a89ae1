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
    enum { FIXED, LIMIT, LIMIT_OF_SOFTWARE } kind; /* what patience multiplies */
};

static const struct time_row rows[] = {
    {"Kernels and NICs, whose times are given", "a neighbour is asked for again",
     TIMER_ARP_NS, TIMER_ARP_NS, FIXED},
    {NULL, "a queue pair's step to RTR waits for the neighbour, at most",
     TIMER_RESOLVE_NS, TIMER_RESOLVE_NS, FIXED},
    {NULL, "a SYN is sent again", TIMER_SYN_NS, TIMER_SYN_NS, FIXED},
    {NULL, "a queue pair gives up (ACK timeout times 1 + retries), at most",
     TIMER_QP_NS(TIMER_ACK_CODE, TIMER_ACK_RETRIES),
     TIMER_QP_NS(TIMER_ACK_CODE_STALL, TIMER_ACK_RETRIES), FIXED},
    {"Until it is noticed", "a connection that is quiet is asked for a sign",
     TIMER_BEAT_NS, TIMER_BEAT_NS, FIXED},
    {NULL, "both ends know that a cable is silent, at most", TIMER_DETECT_NS,
     TIMER_DETECT_STALL_NS, FIXED},
    {NULL, "a process that says nothing is taken to stand still", TIMER_STILL_AFTER_NS,
     TIMER_STILL_AFTER_NS, FIXED},
    {"To connect", "one address is tried, at first", TIMER_ADDRESS_FIRST_NS,
     TIMER_ADDRESS_NS, LIMIT_OF_SOFTWARE},
    {NULL, "one address is tried, at most", TIMER_ADDRESS_NS, TIMER_ADDRESS_NS, LIMIT},
    {NULL, "from TCP to proven queue pairs, for each hop, at most", TIMER_SET_UP_NS,
     TIMER_SET_UP_STALL_NS, LIMIT},
    {NULL, "pause after the second failure (none after the first), doubling",
     4 * TIMER_RETRY_FIRST_NS, 4 * TIMER_RETRY_FIRST_NS, FIXED},
    {NULL, "pause before the next attempt, at most", TIMER_RETRY_NS, TIMER_RETRY_NS,
     FIXED},
    {NULL, "a port must be up before it is used again, after one failure", TIMER_HOLD_NS,
     TIMER_HOLD_NS, FIXED},
    {NULL, "a port that flapped often must be up, at most", TIMER_HOLD_MAX_NS,
     TIMER_HOLD_MAX_NS, FIXED},
    {"Recovery, from the end of the last fault until data moves, at most", "over a cable",
     TIMER_RECOVERY_VIA(0), TIMER_RECOVERY_STALL_NS, LIMIT},
    {NULL, "over one relay", TIMER_RECOVERY_VIA(1),
     TIMER_RECOVERY_OF(TIMER_DETECT_STALL_NS, TIMER_SET_UP_STALL_NS, 1), LIMIT},
    {NULL, "over two relays", TIMER_RECOVERY_VIA(2),
     TIMER_RECOVERY_OF(TIMER_DETECT_STALL_NS, TIMER_SET_UP_STALL_NS, 2), LIMIT},
    {"Until a job ends", "an outage of all routes of a mesh that every job survives",
     TIMER_OUTAGE_NS, TIMER_OUTAGE_NS, LIMIT},
    {NULL, "no route in a mesh, and no port comes back", TIMER_FAILOVER_NS,
     TIMER_FAILOVER_NS, LIMIT},
    {NULL, "no route in a mesh, although ports come back", TIMER_FAILOVER_MAX_NS,
     TIMER_FAILOVER_MAX_NS, LIMIT},
    {NULL, "no cable of neighbours that no relay joins, after their queue pairs",
     TIMER_CABLES_NS, TIMER_STALL_NS, LIMIT},
    {NULL, "a connection that was never up, since its first failure", TIMER_FIRST_LANE_NS,
     TIMER_FIRST_LANE_NS, LIMIT},
    {NULL, "a process that stands still is waited for", TIMER_STILL_NS, TIMER_STILL_NS,
     LIMIT},
    {"A job", "members wait for those that have not joined (--patience)", TIMER_JOIN_NS,
     TIMER_JOIN_NS, LIMIT},
    {NULL, "members that have joined take part in an all-gather", TIMER_GATHER_NS,
     TIMER_GATHER_NS, LIMIT},
    {NULL, "the management network may be away in a job", TIMER_ABSENCE_NS,
     TIMER_ABSENCE_NS, FIXED},
    {NULL, "a stream of the rendezvous is cut off", TIMER_STREAM_NS, TIMER_STREAM_NS,
     LIMIT},
    {NULL, "a client authenticates", TIMER_AUTHENTICATE_NS, TIMER_AUTHENTICATE_NS, LIMIT},
    {NULL, "the set-up of a first connection", TIMER_TOTAL_NS, TIMER_TOTAL_NS, LIMIT},
    {NULL, "a row, in addition to 20 times its physical bound", TIMER_ROW_NS,
     TIMER_ROW_NS, LIMIT},
    {NULL, "processes end after the first has ended", TIMER_HANG_NS, TIMER_HANG_NS,
     LIMIT},
};

/* Formats a time in whole milliseconds. Returns `out`. */
static char *format(weft_ns time, char *out, size_t out_bytes)
{
    weft_format_time(time / TIMER_MS * TIMER_MS, out, out_bytes);
    return out;
}

int cli_explain_times(const struct cli_options *options)
{
    uint32_t patience = options->patience != 0 ? options->patience : 1;
    struct weft_text out = {NULL, 0, 0};
    int code;

    weft_text_add(&out, "%-68s %10s %10s\n", "", "NICs", "software");
    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        const struct time_row *row = &rows[i];
        uint32_t of_nic = row->kind == LIMIT ? patience : 1;
        uint32_t of_software = row->kind != FIXED ? patience : 1;
        char nic[24], software[24];

        format(timer_limit(row->nic, of_nic), nic, sizeof(nic));
        format(timer_limit(row->software, of_software), software, sizeof(software));
        if (row->heading != NULL) {
            weft_text_add(&out, "\n%s%s%s\n", options->style.bold, row->heading,
                          options->style.off);
        }
        weft_text_add(&out, "%s %-66s %10s %10s\n", row->kind != FIXED ? "*" : " ",
                      row->what, nic, software);
    }
    weft_text_add(&out,
                  "\nLimits (*) are multiplied by the patience of the job, here %u "
                  "(docs/scenario.md).\nSoftware is the kernel's soft-RoCE, or backend "
                  "soft, at either end. "
                  "The plugin waits longer\n(docs/plugin-reference.md); policies of "
                  "other programs have their own times (docs/rdma.md).\n",
                  patience);
    code = cli_print(out.bytes, out.n) ? CLI_OK : CLI_USAGE;
    weft_text_fini(&out);
    return code;
}

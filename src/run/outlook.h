/* Predicts the outcomes that a scenario's faults allow, from the file alone. The judge of
 * invariants compares the run with it. */
#ifndef WEFT_RUN_OUTLOOK_H
#define WEFT_RUN_OUTLOOK_H

#include "base/text.h"
#include "scenario/scenario.h"

struct run_outlook {
    /* True if nothing in the file disturbs a packet, a call or a process. */
    bool is_calm;
    /* True if a fault or setting can end a job; false if every job must succeed. */
    bool may_fail;
    const char *why_may_fail; /* "" if may_fail is false; static */
    /* True if the ranks' hosts can reach each other over cables that are up once all bounded faults
     * have ended. */
    bool is_connected;
    /* True if a host, even one that only relays, is cut off permanently. Without a rendezvous the
     * processes may then wait for it until a timeout. */
    bool is_member_cut_off;
    /* Longest time during which the ranks' hosts could not reach each other, including gaps shorter
     * than 1 s; WEFT_NEVER if permanent. Longest cut that a job of policy weft must survive. */
    weft_ns cut_ns, survived_ns;
    /* Time of the last change: a fault ends, or begins if it has no end, or a process starts. */
    weft_ns quiet_ns;
    /* Owned [n_hosts]; true if a fault that disrupts (or, for is_involved, any fault or impairment)
     * is at this host or its cable. */
    bool *is_touched, *is_involved;
    /* True if every packet that does not arrive on time and in order is lost. */
    bool is_steady;
};

void run_outlook_make(const struct scenario *scenario, enum weft_policy policy,
                      struct run_outlook *out);
void run_outlook_fini(struct run_outlook *outlook);

#endif

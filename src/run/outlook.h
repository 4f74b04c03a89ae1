/* What a scenario's own faults allow a run to come to: read from the file, without a look at
 * what the run did. The judge of invariants compares the run with it. */
#ifndef WEFT_RUN_OUTLOOK_H
#define WEFT_RUN_OUTLOOK_H

#include "base/text.h"
#include "rdma/policy.h"
#include "scenario/scenario.h"

struct run_outlook {
    /* Nothing in the file disturbs a packet, a call or a process. */
    bool is_calm;
    /* Some fault or setting may end a job; false: every job must succeed. */
    bool may_fail;
    const char *why_may_fail; /* "" while it must not; static */
    /* The ranks' hosts can reach each other over cables that are up when all bounded faults have
     * ended. */
    bool is_connected;
    /* Some host is cut off for good, even if it only relays: without a rendezvous the processes may
     * wait for it in vain. */
    bool is_member_cut_off;
    /* Longest time for which they could not, gaps shorter than a second included; and how long a
     * job of policy weft must survive that. */
    weft_ns cut_ns, survived_ns;
    /* When the last fault ended, or began if it has no end, or the last process started. */
    weft_ns quiet_ns;
    /* Owned [n_hosts]; a fault that disrupts, or any fault or impairment, is at this host or its
     * cable. */
    bool *is_touched, *is_involved;
    /* Every packet that does not arrive in time and in order is one that was lost. */
    bool is_steady;
};

void run_outlook_make(const struct scenario *scenario, enum rdma_policy policy,
                      struct run_outlook *out);
void run_outlook_fini(struct run_outlook *outlook);

#endif

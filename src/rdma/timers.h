/* Defines the timers of recovery: those of kernels and NICs, and Weft's own, which are derived from
 * them. Two timers that wait for each other never have the same length, because which of them
 * expires first would depend on the moment of the fault. The assertions at the end hold the order.
 *
 * TIMER_RECOVERY_NS is the bound for a whole mesh: if all faults are over and every pair of members
 * has a route of at most one relay, each flow has a lane again within it (TIMER_RECOVERY_VIA for
 * more relays). A flow is over after TIMER_FAILOVER_NS without a lane, so that an outage of
 * TIMER_OUTAGE_NS is always survived. */
#ifndef WEFT_RDMA_TIMERS_H
#define WEFT_RDMA_TIMERS_H

#include "base/status.h"

#define TIMER_MS INT64_C(1000000)

/* ---- kernels and NICs ---- */

/* Interval of requests for a neighbour that is not known (retrans_time_ms, arp(7)). The first
 * request can leave while the cable is down, so that no answer comes before the second. */
#define TIMER_ARP_NS (1000 * TIMER_MS)
/* Limit of a queue pair's step to RTR, which waits for the neighbour: rdma_resolve_ip in
 * rdma_addr_find_l2_eth_by_grh (Linux drivers/infiniband/core/addr.c). */
#define TIMER_RESOLVE_NS (1000 * TIMER_MS)
/* First retransmission of a SYN (RFC 6298, 2.1). */
#define TIMER_SYN_NS (1000 * TIMER_MS)
/* Time until a queue pair gives up: 4.096 us x 2^code for each of 1 + retries tries
 * (InfiniBand specification, 9.7.6.1.3). */
#define TIMER_QP_NS(code, retries) ((INT64_C(4096) << (code)) * ((retries) + 1))

/* ---- one connection ---- */

/* Time that one waits longer than what it waits for. */
#define TIMER_MARGIN_NS (300 * TIMER_MS)
/* ACK timeout codes: 67 ms per try. On software that might be descheduled: 0.27 s per try, so
 * that an end that is descheduled for 1.8 s is waited for (7 retries, or 6 on rxe). */
#define TIMER_ACK_CODE 14
#define TIMER_ACK_CODE_STALL 16
#define TIMER_ACK_RETRIES 7
/* One try of a probe, and tries. On software it must exceed a retransmission. */
#define TIMER_PROBE_NS (100 * TIMER_MS)
#define TIMER_PROBE_STALL_NS (400 * TIMER_MS)
#define TIMER_PROBE_TRIES 3
/* One address of a listener, TCP and authentication, of a connection that replaces another. The
 * first attempts use less, because another address may answer at once; with each attempt it
 * doubles up to a value that a second ARP request fits in. */
#define TIMER_ADDRESS_FIRST_NS (250 * TIMER_MS)
#define TIMER_ADDRESS_NS (TIMER_ARP_NS + TIMER_MARGIN_NS)
/* The management address and one of the cable. */
#define TIMER_ADDRESSES 2
/* From TCP to proven queue pairs, of a connection that replaces another, for each hop. */
#define TIMER_SET_UP_OF(probes) (TIMER_RESOLVE_NS + (probes) + TIMER_MARGIN_NS)
#define TIMER_SET_UP_NS TIMER_SET_UP_OF((TIMER_PROBE_TRIES * TIMER_PROBE_NS))
#define TIMER_SET_UP_STALL_NS TIMER_SET_UP_OF((TIMER_PROBE_TRIES * TIMER_PROBE_STALL_NS))
/* Limit for flushed completions to arrive, of a lane that failed or a connection that closes. */
#define TIMER_DRAIN_NS (500 * TIMER_MS)

/* ---- one flow ---- */

/* Interval at which a quiet lane is probed, because the receiver's notice that it gave the lane up
 * can be lost with the lane. */
#define TIMER_BEAT_NS (600 * TIMER_MS)
/* Pause before a failed lane is connected again: none, then this, doubled with each failure. */
#define TIMER_RETRY_FIRST_NS (1 * TIMER_MS)
#define TIMER_RETRY_NS (256 * TIMER_MS)
/* The longest such pause for a port of a relay, because no event of this host shows that it is
 * back. */
#define TIMER_RETRY_VIA_NS (100 * TIMER_MS)
/* How long a relay's lane waits for a port before the sender is asked to try again, by another
 * route where there is one. Most flaps are over by then. */
#define TIMER_RELAY_WAIT_NS (100 * TIMER_MS)
/* How long a relay leaves out a port that a failure named, because a relay makes no trials. */
#define TIMER_RELAY_SUSPECT_NS (10000 * TIMER_MS)
/* How long a hop that failed is left out of routes over relays. It exceeds an attempt over another
 * route that fails, too, or a flow would alternate between two of them although a third works. */
#define TIMER_FAILED_HOP_NS                                                              \
    (TIMER_ATTEMPT_OF(TIMER_SET_UP_NS, 1) + TIMER_RETRY_NS + TIMER_MARGIN_NS)
/* Pause of a relayed lane for which there is no route. */
#define TIMER_REROUTE_NS (200 * TIMER_MS)
/* Pause of a process that has no address to listen on, which it waits for as long as for an address
 * of a neighbour. */
#define TIMER_LISTEN_NS (20 * TIMER_MS)
/* How often each end of a connection says that its set-up goes on, and how long a first connection
 * of a flow waits for that. On software it waits as long as for an attempt. */
#define TIMER_BUSY_NS (1000 * TIMER_MS)
#define TIMER_SILENCE_NS (2 * TIMER_BUSY_NS + TIMER_MARGIN_NS)
/* After how long a process that said nothing stands still, if its kernel acknowledges what it was
 * sent. One that lives answers, or sends BUSY. */
#define TIMER_STILL_AFTER_NS (TIMER_BUSY_NS + TIMER_MARGIN_NS / 3)
/* A lane that fails within this time is not a new beginning: pauses grow. */
#define TIMER_STEADY_NS (1000 * TIMER_MS)
/* Least time for a flow that never had a lane: SYNs are sent at 0, 1 and 3 s (RFC 6298). */
#define TIMER_FIRST_LANE_NS (4 * TIMER_SYN_NS + TIMER_SYN_NS)
/* How long a flow that has a lane waits for the others that it begins with. A lane over a cable
 * that is dead comes up later, if ever. It exceeds a second ARP request. */
#define TIMER_FIRST_LANES_NS TIMER_SET_UP_NS
/* How long a port must be up before a lane is moved to it, doubled with each time that it went down
 * within TIMER_FLAPS_NS. */
#define TIMER_HOLD_NS (20 * TIMER_MS)
#define TIMER_HOLD_MAX_NS (10000 * TIMER_MS)
#define TIMER_FLAPS_NS (60000 * TIMER_MS)
/* Pause after a trial of rails that failed, doubled with each. */
#define TIMER_TRIAL_NS (1000 * TIMER_MS)
#define TIMER_TRIAL_MAX_NS (60000 * TIMER_MS)

/* ---- a mesh ---- */

/* From a failure to the moment at which both ends know. */
#define TIMER_DETECT_NS (TIMER_BEAT_NS + TIMER_QP_NS(TIMER_ACK_CODE, TIMER_ACK_RETRIES))
#define TIMER_DETECT_STALL_NS                                                            \
    (TIMER_BEAT_NS + TIMER_QP_NS(TIMER_ACK_CODE_STALL, TIMER_ACK_RETRIES))
/* The longest attempt to connect a lane over `n_via` relays. */
#define TIMER_ATTEMPT_OF(set_up, n_via)                                                  \
    (TIMER_ADDRESSES * TIMER_ADDRESS_NS + (set_up) * ((n_via) + 1))
/* From the end of the last fault until a flow has a lane: detection, an attempt that began before
 * and fails, a pause, and an attempt that succeeds. */
#define TIMER_RECOVERY_OF(detect, set_up, n_via)                                         \
    ((detect) + TIMER_DRAIN_NS + 2 * TIMER_ATTEMPT_OF(set_up, n_via) + TIMER_RETRY_NS)
#define TIMER_RECOVERY_VIA(n_via)                                                        \
    TIMER_RECOVERY_OF(TIMER_DETECT_NS, TIMER_SET_UP_NS, n_via)
#define TIMER_RECOVERY_NS TIMER_RECOVERY_VIA(1)
#define TIMER_RECOVERY_STALL_NS                                                          \
    TIMER_RECOVERY_OF(TIMER_DETECT_STALL_NS, TIMER_SET_UP_STALL_NS, 0)
/* The longest time without any route that a job must survive. */
#define TIMER_OUTAGE_NS (5000 * TIMER_MS)
/* How long a rank's flow may be without a lane. While it has none, each of its ports that comes up
 * gives it TIMER_RECOVERY_NS from then on, up to TIMER_FAILOVER_MAX_NS in total. */
#define TIMER_FAILOVER_NS (TIMER_OUTAGE_NS + TIMER_RECOVERY_NS)
#define TIMER_FAILOVER_MAX_NS (60000 * TIMER_MS)
/* The same for a flow with no route but the cables that both ends share: their ports report that
 * they are back, and the first limit only has to outlast kernels. Also how long a flow that was
 * never up goes on at what no time mends, as far as it knows. */
#define TIMER_CABLES_NS (TIMER_ARP_NS + TIMER_MARGIN_NS)
/* The least such time with software at an end, which on a busy machine takes a second to
 * connect. */
#define TIMER_STALL_NS (3000 * TIMER_MS)
/* How long a flow waits for a process that stands still. */
#define TIMER_STILL_NS (30000 * TIMER_MS)

/* ---- the order ---- */

#define TIMER_ASSERT(condition) _Static_assert(condition, #condition)

/* A second ARP request, and a SYN that follows it, fit in the longest wait for an address. */
TIMER_ASSERT(TIMER_ADDRESS_NS >= TIMER_ARP_NS + TIMER_MARGIN_NS);
TIMER_ASSERT(TIMER_ADDRESS_NS >= TIMER_SYN_NS + TIMER_MARGIN_NS);
/* A first wait leaves room for every other address before a second ARP request. */
TIMER_ASSERT(TIMER_ARP_NS >= TIMER_ADDRESSES * TIMER_ADDRESS_FIRST_NS + TIMER_MARGIN_NS);
/* The step to RTR fails by itself, and probes do, before set-up is given up. */
TIMER_ASSERT(TIMER_SET_UP_NS >= TIMER_RESOLVE_NS + TIMER_MARGIN_NS);
TIMER_ASSERT(TIMER_SET_UP_STALL_NS >= TIMER_RESOLVE_NS + TIMER_MARGIN_NS);
TIMER_ASSERT(TIMER_PROBE_STALL_NS > TIMER_QP_NS(TIMER_ACK_CODE_STALL, 0));
/* A lane that lost its first ARP request is waited for. */
TIMER_ASSERT(TIMER_FIRST_LANES_NS > TIMER_ARP_NS + TIMER_MARGIN_NS);
/* Two attempts that meet nothing but silence leave time for one that succeeds. */
TIMER_ASSERT(3 * TIMER_SILENCE_NS + TIMER_SET_UP_NS < TIMER_FAILOVER_NS);
/* A hop that failed is remembered until another route was tried, and less long than a flow without
 * a lane waits. */
TIMER_ASSERT(TIMER_FAILED_HOP_NS > TIMER_ATTEMPT_OF(TIMER_SET_UP_NS, 1) + TIMER_RETRY_NS);
TIMER_ASSERT(TIMER_FAILED_HOP_NS < TIMER_RECOVERY_NS);
/* What Weft repeats by itself keeps no step with what kernels repeat each second. */
TIMER_ASSERT(TIMER_BEAT_NS + TIMER_MARGIN_NS < TIMER_ARP_NS);
TIMER_ASSERT(TIMER_RETRY_NS + TIMER_MARGIN_NS < TIMER_ARP_NS);
TIMER_ASSERT(TIMER_DRAIN_NS + TIMER_MARGIN_NS < TIMER_ARP_NS);
/* A flow on software outlives a short outage, too; one on NICs lives through all ARP requests. */
TIMER_ASSERT(TIMER_FAILOVER_NS > TIMER_RECOVERY_STALL_NS);
TIMER_ASSERT(TIMER_STALL_NS > TIMER_DETECT_STALL_NS);
/* A process that stands still is noticed before a flow is over, and while one address is tried. */
TIMER_ASSERT(TIMER_STALL_NS > TIMER_STILL_AFTER_NS + TIMER_BEAT_NS);
TIMER_ASSERT(TIMER_ADDRESS_NS > TIMER_STILL_AFTER_NS);
TIMER_ASSERT(TIMER_PROBE_TRIES *TIMER_PROBE_STALL_NS > TIMER_STILL_AFTER_NS);
TIMER_ASSERT(TIMER_STILL_NS > TIMER_OUTAGE_NS + TIMER_RECOVERY_STALL_NS);
/* An attempt begins after an ARP request that was answered, and before the limit. */
TIMER_ASSERT(TIMER_CABLES_NS > TIMER_ARP_NS + TIMER_RETRY_NS);
TIMER_ASSERT(TIMER_CABLES_NS > TIMER_RESOLVE_NS + TIMER_RETRY_NS);
TIMER_ASSERT(TIMER_RECOVERY_NS > 3 * TIMER_ARP_NS + TIMER_MARGIN_NS);

#endif

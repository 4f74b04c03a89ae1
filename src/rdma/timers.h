/* Defines the timers of recovery: those of kernels and NICs, and Weft's own, which are derived from
 * them. Two timers that wait for each other never have the same length. Otherwise the moment of the
 * fault would decide which of them expires first. The assertions at the end check this order.
 *
 * TIMER_RECOVERY_NS is the limit for a whole mesh, from the end of all faults. Each flow has a lane
 * again within it if every pair of members has a route of at most one relay (TIMER_RECOVERY_VIA for
 * more relays). A flow ends after TIMER_FAILOVER_NS without a lane, so that it survives every
 * outage of TIMER_OUTAGE_NS.
 *
 * The patience of a job, a factor from 1 to TIMER_PATIENCE_MAX, extends each limit after which an
 * attempt, a flow or a job fails (timer_limit()). It changes no interval at which something is
 * sent or tried again, and no time of a kernel or a NIC. */
#ifndef WEFT_RDMA_TIMERS_H
#define WEFT_RDMA_TIMERS_H

#include "base/status.h"

#define TIMER_MS INT64_C(1000000)

#define TIMER_PATIENCE_MAX 1000

/* Returns `limit` at `patience`, of which 0 counts as 1. */
static inline weft_ns timer_limit(weft_ns limit, uint32_t patience)
{
    return patience > 1 ? limit * patience : limit;
}

/* ---- kernels and NICs ---- */

/* Interval of ARP requests for an unknown neighbour (retrans_time_ms, arp(7)). The first request
 * can be lost because the cable is still down; the second is then the first that is answered. */
#define TIMER_ARP_NS (1000 * TIMER_MS)
/* Time limit of a queue pair's step to RTR, which waits for the neighbour (rdma_resolve_ip in
 * rdma_addr_find_l2_eth_by_grh, Linux drivers/infiniband/core/addr.c). */
#define TIMER_RESOLVE_NS (1000 * TIMER_MS)
/* Minimum delay of the retransmission of a segment (TCP_RTO_MIN, Linux include/net/tcp.h). */
#define TIMER_SEGMENT_NS (200 * TIMER_MS)
/* Delay of the first retransmission of a SYN (RFC 6298, 2.1). */
#define TIMER_SYN_NS (1000 * TIMER_MS)
/* Time until a queue pair gives up: 4.096 us x 2^code for each of 1 + retries tries
 * (InfiniBand specification, 9.7.6.1.3). */
#define TIMER_QP_NS(code, retries) ((INT64_C(4096) << (code)) * ((retries) + 1))

/* ---- one connection ---- */

/* Time by which a wait exceeds the event that it waits for. */
#define TIMER_MARGIN_NS (300 * TIMER_MS)
/* ACK timeout codes (4.096 us x 2^code): 67 ms per try, or 0.27 s if an end is software that can be
 * descheduled. Such an end may be descheduled for 2.1 s with 7 retries, or for 1.8 s with the 6 of
 * rxe. */
#define TIMER_ACK_CODE 14
#define TIMER_ACK_CODE_STALL 16
#define TIMER_ACK_RETRIES 7
/* Timeout of one try of a probe, and number of tries. With software at an end it must exceed one
 * ACK timeout, so that a lost packet can be retransmitted. */
#define TIMER_PROBE_NS (100 * TIMER_MS)
#define TIMER_PROBE_STALL_NS (400 * TIMER_MS)
#define TIMER_PROBE_TRIES 3
/* Timeout for one address of a listener (TCP and authentication), of a connection that replaces
 * another. The first attempt uses less, because another address may answer at once, but waits for a
 * segment that is sent again. The timeout doubles with each further failure, up to a value that
 * includes a second ARP request. */
#define TIMER_ADDRESS_FIRST_NS (TIMER_SEGMENT_NS + TIMER_MARGIN_NS)
#define TIMER_ADDRESS_NS (TIMER_ARP_NS + TIMER_MARGIN_NS)
/* Number of addresses that are tried: the management address and one of the cable. */
#define TIMER_ADDRESSES 2
/* Timeout from TCP to proven queue pairs, for each hop, of a connection that replaces another. */
#define TIMER_SET_UP_OF(probes) (TIMER_RESOLVE_NS + (probes) + TIMER_MARGIN_NS)
#define TIMER_SET_UP_NS TIMER_SET_UP_OF((TIMER_PROBE_TRIES * TIMER_PROBE_NS))
#define TIMER_SET_UP_STALL_NS TIMER_SET_UP_OF((TIMER_PROBE_TRIES * TIMER_PROBE_STALL_NS))
/* Timeout for flushed completions of a lane that failed or a connection that closes. */
#define TIMER_DRAIN_NS (500 * TIMER_MS)

/* ---- one flow ---- */

/* Interval at which a quiet lane is probed, because the receiver's notice that it gave the lane up
 * can be lost with the lane. */
#define TIMER_BEAT_NS (600 * TIMER_MS)
/* Pause before a failed lane is connected again: none after the first failure, then
 * TIMER_RETRY_FIRST_NS x 2^n after the nth, up to TIMER_RETRY_NS. */
#define TIMER_RETRY_FIRST_NS (1 * TIMER_MS)
#define TIMER_RETRY_NS (256 * TIMER_MS)
/* Maximum pause before a failed lane is connected again if a port of a relay is down. No event of
 * this host shows that it is up again. */
#define TIMER_RETRY_VIA_NS (100 * TIMER_MS)
/* Time for which a relay's lane waits for a port. Most flaps are shorter. Afterwards the sender
 * must try again, by another route if there is one. */
#define TIMER_RELAY_WAIT_NS (100 * TIMER_MS)
/* Time for which a relay leaves out a port that a failure named, because a relay makes no
 * trials. */
#define TIMER_RELAY_SUSPECT_NS (10000 * TIMER_MS)
/* Time for which routes over relays avoid a hop that failed. It exceeds a failing attempt over
 * another route. Otherwise a flow would alternate between two failing routes although a third
 * works. */
#define TIMER_FAILED_HOP_NS                                                              \
    (TIMER_ATTEMPT_OF(TIMER_SET_UP_NS, 1) + TIMER_RETRY_NS + TIMER_MARGIN_NS)
/* Pause of a relayed lane while there is no route for it. */
#define TIMER_REROUTE_NS (200 * TIMER_MS)
/* Interval at which a process that has no address to listen on looks for one, up to TIMER_CABLES_NS
 * in total. Also the minimum interval at which set-ups of connections read the ports again. */
#define TIMER_LISTEN_NS (20 * TIMER_MS)
/* Interval at which each end of a connection sends BUSY during set-up, and the maximum silence of
 * the peer during a flow's first set-up. With software at an end the silence may last as long as an
 * attempt. */
#define TIMER_BUSY_NS (1000 * TIMER_MS)
#define TIMER_SILENCE_NS (2 * TIMER_BUSY_NS + TIMER_MARGIN_NS)
/* Time after which a process that sends nothing counts as stalled, if its kernel acknowledged all
 * that was sent to it. A running process answers or sends BUSY. */
#define TIMER_STILL_AFTER_NS (TIMER_BUSY_NS + TIMER_MARGIN_NS / 3)
/* Minimum time that a lane must be up before a failure of it counts as the first again. Pauses grow
 * otherwise. */
#define TIMER_STEADY_NS (1000 * TIMER_MS)
/* Minimum time for which a flow that never had a lane tries to connect one. SYNs are sent at 0, 1
 * and 3 s (RFC 6298). */
#define TIMER_FIRST_LANE_NS (4 * TIMER_SYN_NS + TIMER_SYN_NS)
/* Time for which a flow that has a lane waits for the others that it begins with. A lane over a
 * cable that is down comes up later, if at all. The time includes a second ARP request. */
#define TIMER_FIRST_LANES_NS TIMER_SET_UP_NS
/* Time for which a port must be up before a lane is moved to it. It doubles each time that a port
 * of the flow goes down within TIMER_FLAPS_NS of the last time. */
#define TIMER_HOLD_NS (20 * TIMER_MS)
#define TIMER_HOLD_MAX_NS (10000 * TIMER_MS)
#define TIMER_FLAPS_NS (60000 * TIMER_MS)
/* Pause before the next trial of failed rails. It doubles with each trial that fails. */
#define TIMER_TRIAL_NS (1000 * TIMER_MS)
#define TIMER_TRIAL_MAX_NS (60000 * TIMER_MS)

/* ---- a mesh ---- */

/* Maximum time from a failure until both ends have noticed it. */
#define TIMER_DETECT_NS (TIMER_BEAT_NS + TIMER_QP_NS(TIMER_ACK_CODE, TIMER_ACK_RETRIES))
#define TIMER_DETECT_STALL_NS                                                            \
    (TIMER_BEAT_NS + TIMER_QP_NS(TIMER_ACK_CODE_STALL, TIMER_ACK_RETRIES))
/* Longest attempt to connect a lane over `n_via` relays. */
#define TIMER_ATTEMPT_OF(set_up, n_via)                                                  \
    (TIMER_ADDRESSES * TIMER_ADDRESS_NS + (set_up) * ((n_via) + 1))
/* Maximum time from the end of the last fault until a flow has a lane. It consists of detection, an
 * attempt that began before and fails, a pause, and an attempt that succeeds. */
#define TIMER_RECOVERY_OF(detect, set_up, n_via)                                         \
    ((detect) + TIMER_DRAIN_NS + 2 * TIMER_ATTEMPT_OF(set_up, n_via) + TIMER_RETRY_NS)
#define TIMER_RECOVERY_VIA(n_via)                                                        \
    TIMER_RECOVERY_OF(TIMER_DETECT_NS, TIMER_SET_UP_NS, n_via)
#define TIMER_RECOVERY_NS TIMER_RECOVERY_VIA(1)
#define TIMER_RECOVERY_STALL_NS                                                          \
    TIMER_RECOVERY_OF(TIMER_DETECT_STALL_NS, TIMER_SET_UP_STALL_NS, 0)
/* Longest time without any route that every job must survive. */
#define TIMER_OUTAGE_NS (5000 * TIMER_MS)
/* Time for which a rank's flow may be without a lane. Each of its ports that comes up meanwhile
 * extends it to TIMER_RECOVERY_NS from then on, up to TIMER_FAILOVER_MAX_NS in total. */
#define TIMER_FAILOVER_NS (TIMER_OUTAGE_NS + TIMER_RECOVERY_NS)
#define TIMER_FAILOVER_MAX_NS (60000 * TIMER_MS)
/* Replaces TIMER_FAILOVER_NS if a flow has no route but the cables that both ends share. It only
 * has to outlast kernels, because the ports report that they are up again. Also the minimum time
 * for which a flow that was never up continues if waiting cannot help, as far as it knows. */
#define TIMER_CABLES_NS (TIMER_ARP_NS + TIMER_MARGIN_NS)
/* Minimum time for which a flow with software at an end may be without a lane. Such an end can need
 * a second to connect on a busy machine. */
#define TIMER_STALL_NS (3000 * TIMER_MS)
/* Maximum time for which a flow without a lane waits for a stalled process. */
#define TIMER_STILL_NS (30000 * TIMER_MS)

/* ---- a job ---- */

/* Time for which members wait for those that have not joined. */
#define TIMER_JOIN_NS (900000 * TIMER_MS)
/* Longest absence of the management network that a job survives once all members have joined,
 * unless it needs that network for data. TCP sends what was lost again after 0.2, 0.6, ... 12.6 and
 * 25.4 s (RFC 6298), the last of which follows such an absence. */
#define TIMER_ABSENCE_NS (20000 * TIMER_MS)
#define TIMER_RESEND_NS (25400 * TIMER_MS)
/* Time after which a stream of the rendezvous fails that is cut off. Flows notice sooner that a
 * machine is dead. */
#define TIMER_STREAM_NS (70000 * TIMER_MS)
/* Time in which all members take part in an all-gather once all have joined. */
#define TIMER_GATHER_NS (30000 * TIMER_MS)
/* Time for a client to authenticate, and for one attempt to connect, and time for the whole set-up
 * of a connection that replaces no other. */
#define TIMER_AUTHENTICATE_NS (5000 * TIMER_MS)
#define TIMER_TOTAL_NS (30000 * TIMER_MS)
/* Time for a row, in addition to 20 times its physical bound for each repetition. */
#define TIMER_ROW_NS (60000 * TIMER_MS)
/* Time from the end of one process until the others count as hung. */
#define TIMER_HANG_NS (90000 * TIMER_MS)

/* ---- the order ---- */

/* No time that patience leaves as it is stands on the larger side of a limit. So what holds without
 * patience holds with every factor. */
#define TIMER_ASSERT(condition) _Static_assert(condition, #condition)

/* The longest timeout for an address includes a second ARP request, and a SYN that follows it. */
TIMER_ASSERT(TIMER_ADDRESS_NS >= TIMER_ARP_NS + TIMER_MARGIN_NS);
TIMER_ASSERT(TIMER_ADDRESS_NS >= TIMER_SYN_NS + TIMER_MARGIN_NS);
/* Another address can answer after the shortest timeouts of all others, before a second ARP
 * request. */
TIMER_ASSERT(TIMER_ARP_NS >=
             (TIMER_ADDRESSES - 1) * TIMER_ADDRESS_FIRST_NS + TIMER_MARGIN_NS);
TIMER_ASSERT(TIMER_ADDRESS_FIRST_NS < TIMER_ADDRESS_NS);
/* The step to RTR and probes fail by themselves before set-up times out. */
TIMER_ASSERT(TIMER_SET_UP_NS >= TIMER_RESOLVE_NS + TIMER_MARGIN_NS);
TIMER_ASSERT(TIMER_SET_UP_STALL_NS >= TIMER_RESOLVE_NS + TIMER_MARGIN_NS);
TIMER_ASSERT(TIMER_PROBE_STALL_NS > TIMER_QP_NS(TIMER_ACK_CODE_STALL, 0));
/* A flow waits for a lane that lost its first ARP request. */
TIMER_ASSERT(TIMER_FIRST_LANES_NS > TIMER_ARP_NS + TIMER_MARGIN_NS);
/* Two attempts without an answer leave time for one that succeeds. */
TIMER_ASSERT(3 * TIMER_SILENCE_NS + TIMER_SET_UP_NS < TIMER_FAILOVER_NS);
/* Routes avoid a hop that failed until another route was tried, but not for as long as a flow waits
 * without a lane. */
TIMER_ASSERT(TIMER_FAILED_HOP_NS > TIMER_ATTEMPT_OF(TIMER_SET_UP_NS, 1) + TIMER_RETRY_NS);
TIMER_ASSERT(TIMER_FAILED_HOP_NS < TIMER_RECOVERY_NS);
/* Weft's own intervals are not in step with those of kernels, which are 1 s. */
TIMER_ASSERT(TIMER_BEAT_NS + TIMER_MARGIN_NS < TIMER_ARP_NS);
TIMER_ASSERT(TIMER_RETRY_NS + TIMER_MARGIN_NS < TIMER_ARP_NS);
TIMER_ASSERT(TIMER_DRAIN_NS + TIMER_MARGIN_NS < TIMER_ARP_NS);
/* A flow with software at an end survives a short outage, too, and does not end before a failure is
 * detected. */
TIMER_ASSERT(TIMER_FAILOVER_NS > TIMER_RECOVERY_STALL_NS);
TIMER_ASSERT(TIMER_STALL_NS > TIMER_DETECT_STALL_NS);
/* A stalled process is noticed before its flow ends, and while one address or probe is tried. The
 * maximum wait for it exceeds an outage and the recovery. */
TIMER_ASSERT(TIMER_STALL_NS > TIMER_STILL_AFTER_NS + TIMER_BEAT_NS);
TIMER_ASSERT(TIMER_ADDRESS_NS > TIMER_STILL_AFTER_NS);
TIMER_ASSERT(TIMER_PROBE_TRIES *TIMER_PROBE_STALL_NS > TIMER_STILL_AFTER_NS);
TIMER_ASSERT(TIMER_STILL_NS > TIMER_OUTAGE_NS + TIMER_RECOVERY_STALL_NS);
/* An attempt begins after an ARP request that was answered, and before the flow ends. Recovery
 * includes three ARP requests. */
TIMER_ASSERT(TIMER_CABLES_NS > TIMER_ARP_NS + TIMER_RETRY_NS);
TIMER_ASSERT(TIMER_CABLES_NS > TIMER_RESOLVE_NS + TIMER_RETRY_NS);
TIMER_ASSERT(TIMER_RECOVERY_NS > 3 * TIMER_ARP_NS + TIMER_MARGIN_NS);
/* An address is given up before the whole attempt. A set-up may last as long as a recovery, and no
 * member counts as late meanwhile. A port that comes up extends the time without a lane. */
TIMER_ASSERT(TIMER_AUTHENTICATE_NS >= TIMER_ADDRESS_NS);
TIMER_ASSERT(TIMER_TOTAL_NS > TIMER_FAILOVER_NS);
TIMER_ASSERT(TIMER_GATHER_NS >= TIMER_TOTAL_NS);
TIMER_ASSERT(TIMER_FAILOVER_MAX_NS > TIMER_FAILOVER_NS + TIMER_RECOVERY_NS);
/* A flow ends before its row counts as stuck, and a row before its process counts as hung. */
TIMER_ASSERT(TIMER_ROW_NS >= TIMER_FAILOVER_MAX_NS);
TIMER_ASSERT(TIMER_HANG_NS > TIMER_ROW_NS + TIMER_FAILOVER_NS);
/* Data delayed by an absence of the management network arrives before a member counts as late. */
TIMER_ASSERT(TIMER_RESEND_NS > TIMER_ABSENCE_NS);
TIMER_ASSERT(TIMER_GATHER_NS > TIMER_RESEND_NS + TIMER_BUSY_NS);
/* Members that wait for rank 0 (boot/client.c) give up before their stream does. */
TIMER_ASSERT(TIMER_STREAM_NS > 2 * TIMER_GATHER_NS);
TIMER_ASSERT(TIMER_ROW_NS + TIMER_HANG_NS > TIMER_STREAM_NS);
/* One BUSY can be lost. */
TIMER_ASSERT(TIMER_SILENCE_NS > 2 * TIMER_BUSY_NS);

#endif

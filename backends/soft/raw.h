/* A packet socket on a netdev: Ethernet frames as they are, packet(7). Needs CAP_NET_RAW.
 *
 * It asks for neighbours (ARP, neighbour discovery) what the simulated stack asks; the kernel
 * answers what others ask, for it has the same addresses. With `carries_frames` it is a port's
 * whole wire: RoCE frames with every header of their own, ICRC checked over all of it, as a
 * peer in the kernel (rdma_rxe) or a NIC wants them. Without, RoCE goes elsewhere (soft/udp.h). */
#ifndef WEFT_BACKENDS_SOFT_RAW_H
#define WEFT_BACKENDS_SOFT_RAW_H

#include "backends/soft/engine.h"
#include "sim/port.h"

struct soft_raw;

struct soft_raw_config {
    struct soft_engine *engine; /* not started; outlives it */
    struct sim_port *port;      /* Not owned */
    uint32_t ifindex;           /* of the calling thread's namespace */
    bool carries_frames;
    uint64_t rate_bps; /* that the port tells, and its carrier; if it carries frames */
    bool is_up;
};

/* A positive errno, or 0: EPERM without the privilege. */
int soft_raw_create(const struct soft_raw_config *config, struct soft_raw **out);
/* After the engine's thread. NULL is ignored. */
void soft_raw_destroy(struct soft_raw *raw);

/* Sends a packet of the simulated stack if it asks for a neighbour; takes it over. */
void soft_raw_ask(struct soft_raw *raw, struct sim_packet *packet);

#endif

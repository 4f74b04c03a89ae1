/* A packet socket on a netdev, which sends and receives Ethernet frames: packet(7). Needs
 * CAP_NET_RAW.
 *
 * It sends the neighbour requests (ARP, neighbour discovery) of the simulated stack; the kernel,
 * which has the same addresses, answers those of others. With `carries_frames` it is the port's
 * whole wire: it sends RoCE frames with all headers and an ICRC over them, as a peer in the
 * kernel (rdma_rxe) or a NIC requires. Otherwise RoCE frames use soft/udp.h. */
#ifndef WEFT_BACKENDS_SOFT_RAW_H
#define WEFT_BACKENDS_SOFT_RAW_H

#include "backends/soft/engine.h"
#include "sim/port.h"

struct soft_raw;

struct soft_raw_config {
    struct soft_engine *engine; /* not started; must outlive this */
    struct sim_port *port;      /* Not owned */
    uint32_t ifindex;           /* in the calling thread's namespace */
    bool carries_frames;
    uint64_t rate_bps; /* rate and carrier that the port reports; if it carries frames */
    bool is_up;
};

/* Returns 0 or a positive errno; EPERM without the privilege. */
int soft_raw_create(const struct soft_raw_config *config, struct soft_raw **out);
/* Frees the socket. The engine's thread must have ended. Ignores NULL. */
void soft_raw_destroy(struct soft_raw *raw);

/* Sends a packet of the simulated stack if it is a neighbour request. Frees the packet. */
void soft_raw_ask(struct soft_raw *raw, struct sim_packet *packet);

#endif

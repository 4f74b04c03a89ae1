/* Remembers what probes showed about path MTUs. Packets of some sizes are lost on the way to a host
 * although both ports allow them (an MTU black hole). All connections of a process share this
 * knowledge, which ends with the process. */
#ifndef WEFT_RDMA_PATH_MTU_H
#define WEFT_RDMA_PATH_MTU_H

#include "rdma/rdma.h"

/* Knowledge about the path from one port of this host to another host. */
struct rdma_path {
    uint32_t device;
    uint8_t port;
    uint8_t peer[16];  /* the host's id */
    uint32_t proven;   /* largest path MTU that crossed in both directions; 0 if none */
    uint32_t vanished; /* smallest path MTU whose loss is confirmed; 0 if none */
    /* Path MTU whose packets were lost once, and when that was reported; 0 if none. */
    uint32_t suspected;
    weft_ns suspected_ns;
};

/* A second loss confirms the first only if its probes began at least this long after the first was
 * reported. Congestion is usually over by then. */
#define RDMA_PATH_PAUSE_NS INT64_C(200000000)

enum rdma_path_verdict {
    /* Not confirmed: try the same path MTU again after RDMA_PATH_PAUSE_NS. */
    RDMA_PATH_AGAIN,
    /* Confirmed: try the next smaller path MTU. */
    RDMA_PATH_LOWERED,
    /* Confirmed, but the path MTU is not the cause: it is the smallest, or has crossed before. */
    RDMA_PATH_OTHER,
};

/* Returns the largest path MTU that is at most `mtu` (bytes, one of the five) and smaller than any
 * whose loss is confirmed. */
uint32_t rdma_path_mtu(const struct rdma *rdma, const struct rdma_port *port,
                       const uint8_t peer[16], uint32_t mtu);
/* Returns the smallest path MTU whose loss is confirmed, or 0. */
uint32_t rdma_path_vanished(const struct rdma *rdma, const struct rdma_port *port,
                            const uint8_t peer[16]);
/* Records that small packets crossed the path, and that packets of `mtu` did not, from `began_ns`
 * until now. Returns the verdict on the path. Sets `*out_next` to the path MTU to try next only if
 * it returns RDMA_PATH_LOWERED. */
enum rdma_path_verdict rdma_path_lost(struct rdma *rdma, const struct rdma_port *port,
                                      const uint8_t peer[16], uint32_t mtu,
                                      weft_ns began_ns, uint32_t *out_next);
/* Records that packets of `mtu` crossed the path in both directions. */
void rdma_path_prove(struct rdma *rdma, const struct rdma_port *port,
                     const uint8_t peer[16], uint32_t mtu);

#endif

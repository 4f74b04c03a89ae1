/* What probes told of path MTUs: which packets vanished on the way to a host although both ports
 * allow them. Known to all connections of a process, forgotten with it. */
#ifndef WEFT_RDMA_PATH_MTU_H
#define WEFT_RDMA_PATH_MTU_H

#include "rdma/rdma.h"

/* From a port of this host to another host. */
struct rdma_path {
    uint32_t device;
    uint8_t port;
    uint8_t peer[16];  /* the host's id */
    uint32_t proven;   /* the largest path MTU that crossed both ways; 0: none yet */
    uint32_t vanished; /* the smallest whose packets vanished; 0: none */
};

/* `mtu` (bytes, one of the five), or what is left to try below what vanished. */
uint32_t rdma_path_mtu(const struct rdma *rdma, const struct rdma_port *port,
                       const uint8_t peer[16], uint32_t mtu);
/* The smallest path MTU whose packets vanished, or 0. */
uint32_t rdma_path_vanished(const struct rdma *rdma, const struct rdma_port *port,
                            const uint8_t peer[16]);
/* Small packets crossed, those of `mtu` did not. Returns the path MTU to try next; 0 if there is
 * none: `mtu` is the least, or has crossed before, so that it is something else that fails. */
uint32_t rdma_path_lower(struct rdma *rdma, const struct rdma_port *port,
                         const uint8_t peer[16], uint32_t mtu);
/* Packets of `mtu` crossed both ways. */
void rdma_path_prove(struct rdma *rdma, const struct rdma_port *port,
                     const uint8_t peer[16], uint32_t mtu);

#endif

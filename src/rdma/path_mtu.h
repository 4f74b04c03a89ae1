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
    /* One whose packets had no answer once, and until when; 0: none. */
    uint32_t suspected;
    weft_ns suspected_ns;
};

/* What is lost for load comes again: probes that began less than this after a first loss say
 * nothing new. */
#define RDMA_PATH_PAUSE_NS INT64_C(200000000)

enum rdma_path_verdict {
    RDMA_PATH_AGAIN,   /* late or lost: to be asked again, after RDMA_PATH_PAUSE_NS */
    RDMA_PATH_LOWERED, /* asked again, and lost again */
    /* ... but it is the least, or has crossed before: something else fails. */
    RDMA_PATH_OTHER,
};

/* `mtu` (bytes, one of the five), or what is left to try below what vanished. */
uint32_t rdma_path_mtu(const struct rdma *rdma, const struct rdma_port *port,
                       const uint8_t peer[16], uint32_t mtu);
/* The smallest path MTU whose packets vanished, or 0. */
uint32_t rdma_path_vanished(const struct rdma *rdma, const struct rdma_port *port,
                            const uint8_t peer[16]);
/* Small packets crossed, those of `mtu` did not, sent from `began_ns` until now: the verdict on
 * the path. `out_next`: the path MTU to try next; set only if it was lowered. */
enum rdma_path_verdict rdma_path_lost(struct rdma *rdma, const struct rdma_port *port,
                                      const uint8_t peer[16], uint32_t mtu,
                                      weft_ns began_ns, uint32_t *out_next);
/* Packets of `mtu` crossed both ways. */
void rdma_path_prove(struct rdma *rdma, const struct rdma_port *port,
                     const uint8_t peer[16], uint32_t mtu);

#endif

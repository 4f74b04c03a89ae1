/* Async events of a host's devices, taken one by one and told apart by what they end. */
#ifndef WEFT_RDMA_ASYNC_H
#define WEFT_RDMA_ASYNC_H

#include "rdma/rdma.h"

/* What an event is about; what to do follows from it. */
enum rdma_async_scope {
    RDMA_ASYNC_DEVICE, /* the device is lost, with everything on it */
    RDMA_ASYNC_PORT,   /* a port came or went, or its facts changed: refresh */
    RDMA_ASYNC_GIDS,   /* a port's GID table changed: refresh, and look GIDs up again */
    RDMA_ASYNC_QP,     /* one queue pair */
    RDMA_ASYNC_CQ,     /* a CQ overran: its queue pairs are lost */
    RDMA_ASYNC_OTHER   /* nothing that this program uses */
};

struct rdma_async {
    enum ibv_event_type type;
    enum rdma_async_scope scope;
    bool is_fatal; /* what it is about is beyond use */
    uint32_t device_index;
    struct rdma_port *port; /* for PORT and GIDS, or NULL if the device names none */
    uint32_t qpn;           /* for QP */
    struct ibv_cq *cq;      /* for CQ; Not owned */
};

/* Wakes `task` for events of every device from now on; NULL stops it. */
void rdma_async_start(struct rdma *rdma, struct io_task *task);

/* Takes the next event, devices in order, and tells it in the story. False: there is
 * none. */
bool rdma_async_next(struct rdma *rdma, struct rdma_async *out);

/* "PORT_ERR" as ibv_get_async_event(3) has it; static text, "?" if unknown. */
const char *rdma_async_name(enum ibv_event_type type);

#endif

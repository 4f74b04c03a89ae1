/* Takes the async events of a host's devices one by one, and classifies each by the object that it
 * is about. */
#ifndef WEFT_RDMA_ASYNC_H
#define WEFT_RDMA_ASYNC_H

#include "rdma/rdma.h"

/* The object that an event is about. It decides how to react. */
enum rdma_async_scope {
    RDMA_ASYNC_DEVICE, /* the device and all objects on it are lost */
    RDMA_ASYNC_PORT,   /* a port went up or down: call rdma_refresh */
    RDMA_ASYNC_GIDS,   /* a port's GID table changed: also look GIDs up again */
    RDMA_ASYNC_QP,     /* one queue pair; also harmless events, such as COMM_EST */
    RDMA_ASYNC_CQ,     /* a CQ overran; its queue pairs are lost */
    RDMA_ASYNC_OTHER   /* an unknown event, or one that this program does not use */
};

struct rdma_async {
    enum ibv_event_type type;
    enum rdma_async_scope scope;
    bool is_fatal; /* the object can no longer be used */
    uint32_t device_index;
    struct rdma_port *port; /* NULL if the event names no port */
    uint32_t qpn;           /* for QP; otherwise 0 */
    struct ibv_cq *cq;      /* for CQ; otherwise NULL. Not owned */
};

/* Makes events of every device wake `task`. NULL stops this. */
void rdma_async_start(struct rdma *rdma, struct io_task *task);

/* Takes the next event, in device order, and writes it to the event log. Returns false if there is
 * none. */
bool rdma_async_next(struct rdma *rdma, struct rdma_async *out);

/* Returns the name in ibv_get_async_event(3) without its prefix, such as "PORT_ERR": static text,
 * "?" if unknown. */
const char *rdma_async_name(enum ibv_event_type type);

#endif

#include "rdma/async.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* Name and object of each event, and whether the object can no longer be used
 * (ibv_get_async_event(3)). */
static const struct {
    const char *name;
    enum rdma_async_scope scope;
    bool is_fatal;
} kinds[] = {
    [IBV_EVENT_CQ_ERR] = {"CQ_ERR", RDMA_ASYNC_CQ, true},
    [IBV_EVENT_QP_FATAL] = {"QP_FATAL", RDMA_ASYNC_QP, true},
    [IBV_EVENT_QP_REQ_ERR] = {"QP_REQ_ERR", RDMA_ASYNC_QP, true},
    [IBV_EVENT_QP_ACCESS_ERR] = {"QP_ACCESS_ERR", RDMA_ASYNC_QP, true},
    [IBV_EVENT_COMM_EST] = {"COMM_EST", RDMA_ASYNC_QP, false},
    [IBV_EVENT_SQ_DRAINED] = {"SQ_DRAINED", RDMA_ASYNC_QP, false},
    [IBV_EVENT_PATH_MIG] = {"PATH_MIG", RDMA_ASYNC_QP, false},
    [IBV_EVENT_PATH_MIG_ERR] = {"PATH_MIG_ERR", RDMA_ASYNC_QP, false},
    [IBV_EVENT_DEVICE_FATAL] = {"DEVICE_FATAL", RDMA_ASYNC_DEVICE, true},
    [IBV_EVENT_PORT_ACTIVE] = {"PORT_ACTIVE", RDMA_ASYNC_PORT, false},
    [IBV_EVENT_PORT_ERR] = {"PORT_ERR", RDMA_ASYNC_PORT, false},
    [IBV_EVENT_LID_CHANGE] = {"LID_CHANGE", RDMA_ASYNC_OTHER, false},
    [IBV_EVENT_PKEY_CHANGE] = {"PKEY_CHANGE", RDMA_ASYNC_OTHER, false},
    [IBV_EVENT_SM_CHANGE] = {"SM_CHANGE", RDMA_ASYNC_OTHER, false},
    [IBV_EVENT_SRQ_ERR] = {"SRQ_ERR", RDMA_ASYNC_OTHER, false},
    [IBV_EVENT_SRQ_LIMIT_REACHED] = {"SRQ_LIMIT_REACHED", RDMA_ASYNC_OTHER, false},
    [IBV_EVENT_QP_LAST_WQE_REACHED] = {"QP_LAST_WQE_REACHED", RDMA_ASYNC_QP, false},
    [IBV_EVENT_CLIENT_REREGISTER] = {"CLIENT_REREGISTER", RDMA_ASYNC_OTHER, false},
    [IBV_EVENT_GID_CHANGE] = {"GID_CHANGE", RDMA_ASYNC_GIDS, false},
};

static bool is_known(enum ibv_event_type type)
{
    return (size_t)type < WEFT_LENGTH(kinds) && kinds[type].name != NULL;
}

const char *rdma_async_name(enum ibv_event_type type)
{
    return is_known(type) ? kinds[type].name : "?";
}

void rdma_async_start(struct rdma *rdma, struct io_task *task)
{
    for (uint32_t d = 0; d < rdma->env->n_devices; d++) {
        rdma->env->devices[d]->async_task = task;
    }
}

static struct rdma_port *port_of(struct rdma *rdma, uint32_t device, uint8_t port)
{
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        if (rdma->ports[i].device_index == device && rdma->ports[i].port == port) {
            return &rdma->ports[i];
        }
    }
    return NULL;
}

static void tell(const struct rdma *rdma, const struct rdma_async *event)
{
    struct io_env *env = rdma->env;
    if (!weft_trace_on(env->trace, WEFT_TRACE_STORY)) {
        return;
    }
    char object[64];
    weft_format(object, sizeof(object), "async:%s",
                event->port != NULL ? event->port->name
                                    : env->devices[event->device_index]->name);
    weft_trace_begin(env->trace, io_now(env), env->name, object,
                     rdma_async_name(event->type));
    if (event->scope == RDMA_ASYNC_QP) {
        weft_trace_int(env->trace, "qpn", event->qpn);
    }
    weft_trace_end(env->trace);
}

bool rdma_async_next(struct rdma *rdma, struct rdma_async *out)
{
    for (uint32_t d = 0; d < rdma->env->n_devices; d++) {
        struct io_device *device = rdma->env->devices[d];
        struct io_async_event event;
        memset(&event, 0, sizeof(event));
        /* EAGAIN means that there is no event. After any other error the device reports none. */
        if (device->ops->async_event(device, &event) != 0) {
            continue;
        }
        memset(out, 0, sizeof(*out));
        out->type = event.type;
        out->scope = is_known(event.type) ? kinds[event.type].scope : RDMA_ASYNC_OTHER;
        out->is_fatal = is_known(event.type) && kinds[event.type].is_fatal;
        out->device_index = d;
        out->port = port_of(rdma, d, event.port);
        out->qpn = event.qp != NULL ? event.qp->qp_num : 0;
        out->cq = event.cq;
        tell(rdma, out);
        return true;
    }
    return false;
}

/* Devices: queries, the data path, asynchronous events and device loss. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fault/private.h"

static struct fault_device *device_of(struct io_device *io)
{
    return weft_container_of(io, struct fault_device, io);
}

/* Returns the errno of a call on the device, or 0. */
static int judge(struct fault_device *device, enum world_call call)
{
    int error = fault_judge(device->env, device->index, call).error;

    fault_env_pass_tasks(device->env);
    return error == 0 && device->is_gone ? EIO : error;
}

static int query_device(struct io_device *io, struct io_device_attr *out)
{
    struct fault_device *device = device_of(io);
    int error = judge(device, WORLD_CALL_QUERY_DEVICE);

    return error != 0 ? error : device->inner->ops->query_device(device->inner, out);
}

static int query_port(struct io_device *io, uint8_t port, struct ibv_port_attr *out)
{
    struct fault_device *device = device_of(io);
    int error = judge(device, WORLD_CALL_QUERY_PORT);

    return error != 0 ? error : device->inner->ops->query_port(device->inner, port, out);
}

static int query_gid(struct io_device *io, uint8_t port, uint32_t index,
                     struct io_gid_entry *out)
{
    struct fault_device *device = device_of(io);
    int error = judge(device, WORLD_CALL_QUERY_GID);

    return error != 0 ? error
                      : device->inner->ops->query_gid(device->inner, port, index, out);
}

static int port_netdev(struct io_device *io, uint8_t port, uint32_t *out_ifindex)
{
    struct io_device *inner = device_of(io)->inner;

    return inner->ops->port_netdev(inner, port, out_ifindex);
}

static int port_counters(struct io_device *io, uint8_t port, struct io_port_counters *out)
{
    struct io_device *inner = device_of(io)->inner;

    return inner->ops->port_counters == NULL
               ? EOPNOTSUPP
               : inner->ops->port_counters(inner, port, out);
}

/* ---- the data path ---- */

/* Returns the number of bytes that a work request sends; 0 if it reads the peer's memory. */
static uint64_t sent_bytes_of(const struct ibv_send_wr *wr)
{
    uint64_t n_bytes = 0;

    switch ((int)wr->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        break;
    default:
        return 0;
    }
    for (int i = 0; i < wr->num_sge; i++) {
        n_bytes += wr->sg_list[i].length;
    }
    return n_bytes;
}

/* Counts the posted requests, from `wr` up to but not including `end` (NULL: all). */
static void count_sent(struct fault_env *env, const struct ibv_send_wr *wr,
                       const struct ibv_send_wr *end)
{
    uint64_t before = env->sent_bytes;

    for (; wr != end; wr = wr->next) {
        env->sent_bytes += sent_bytes_of(wr);
    }
    if (env->sent_bytes > before) {
        io_reached(&env->io, IO_STAGE_SENT, env->sent_bytes);
    }
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr,
                     struct ibv_send_wr **bad)
{
    struct fault_qp *qp = weft_container_of(base, struct fault_qp, base);
    struct fault_device *device = qp->device;
    int error = judge(device, WORLD_CALL_POST_SEND);

    if (error != 0) {
        *bad = wr;
        return error;
    }
    error = device->inner->ops->post_send(qp->inner, wr, bad);
    if (device->env->counts_sent) {
        count_sent(device->env, wr, error == 0 ? NULL : *bad);
    }
    return error;
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr,
                     struct ibv_recv_wr **bad)
{
    struct fault_qp *qp = weft_container_of(base, struct fault_qp, base);
    int error = judge(qp->device, WORLD_CALL_POST_RECV);

    if (error != 0) {
        *bad = wr;
        return error;
    }
    return qp->device->inner->ops->post_recv(qp->inner, wr, bad);
}

/* Also polls a lost device, so that the flushed completions of its QPs are delivered. */
static int poll_cq(struct ibv_cq *base, int n_max, struct ibv_wc *wc, int *out_n)
{
    struct fault_cq *cq = weft_container_of(base, struct fault_cq, base);
    struct fault_device *device = cq->device;
    struct fault_verdict verdict =
        fault_judge(device->env, device->index, WORLD_CALL_POLL_CQ);

    *out_n = 0;
    if (verdict.error != 0 || fault_gate_is_shut(&cq->gate, &verdict)) {
        return verdict.error;
    }
    if (verdict.cap < (size_t)n_max) {
        n_max = (int)verdict.cap;
    }
    return device->inner->ops->poll_cq(cq->inner, n_max, wc, out_n);
}

static int req_notify(struct ibv_cq *base, int solicited_only)
{
    struct fault_cq *cq = weft_container_of(base, struct fault_cq, base);
    int error =
        fault_judge(cq->device->env, cq->device->index, WORLD_CALL_REQ_NOTIFY).error;

    return error != 0 ? error
                      : cq->device->inner->ops->req_notify(cq->inner, solicited_only);
}

/* ---- events ---- */

void fault_device_tell(struct fault_device *device, enum ibv_event_type type,
                       uint8_t port, uint32_t n)
{
    device->events =
        weft_realloc(device->events, (device->n_events + 1) * sizeof(device->events[0]));
    device->events[device->n_events++] = (struct fault_event){type, port, n};
    io_task_wake(device->io.async_task);
}

static struct ibv_qp *find_qp(const struct fault_device *device,
                              const struct ibv_qp *inner)
{
    struct fault_qp *qp = device->qps;

    while (qp != NULL && qp->inner != inner) {
        qp = qp->next;
    }
    return qp == NULL ? NULL : &qp->base;
}

static struct ibv_cq *find_cq(const struct fault_device *device,
                              const struct ibv_cq *inner)
{
    struct fault_cq *cq = device->cqs;

    while (cq != NULL && cq->inner != inner) {
        cq = cq->next;
    }
    return cq == NULL ? NULL : &cq->base;
}

static int async_event(struct io_device *io, struct io_async_event *out)
{
    struct fault_device *device = device_of(io);
    int error;

    fault_env_pass_tasks(device->env);
    if (device->next_event < device->n_events) {
        struct fault_event *event = &device->events[device->next_event];

        *out = (struct io_async_event){.type = event->type, .port = event->port};
        device->next_event += --event->n == 0;
        if (device->next_event == device->n_events) {
            device->next_event = device->n_events = 0;
        }
        return 0;
    }
    error = device->inner->ops->async_event(device->inner, out);
    if (error == 0) {
        out->qp = find_qp(device, out->qp);
        out->cq = find_cq(device, out->cq);
    }
    return error;
}

void fault_device_go(struct fault_device *device)
{
    struct io_device *inner = device->inner;

    if (device->is_gone) {
        return;
    }
    device->is_gone = true;
    for (struct fault_qp *qp = device->qps; qp != NULL; qp = qp->next) {
        if (qp->inner == NULL) {
            continue;
        }
        qp->to_error = (struct io_op){.kind = IO_OP_MODIFY_QP};
        qp->to_error.arg.modify_qp.qp = qp->inner;
        qp->to_error.arg.modify_qp.attr.qp_state = IBV_QPS_ERR;
        qp->to_error.arg.modify_qp.mask = IBV_QP_STATE;
        /* Fails for a QP in RESET, which has nothing to flush. */
        (void)inner->ops->submit(inner, &qp->to_error);
    }
    fault_device_tell(device, IBV_EVENT_DEVICE_FATAL, 0, 1);
}

/* ---- set-up and release ---- */

static const struct io_device_ops ops = {
    .query_device = query_device,
    .query_port = query_port,
    .query_gid = query_gid,
    .port_netdev = port_netdev,
    .port_counters = port_counters,
    .submit = fault_submit,
    .poll = fault_poll,
    .abandon = fault_abandon,
    .post_send = post_send,
    .post_recv = post_recv,
    .poll_cq = poll_cq,
    .req_notify = req_notify,
    .async_event = async_event,
};

void fault_device_init(struct fault_device *device, struct fault_env *env, uint32_t index)
{
    struct io_device *inner = env->inner->devices[index];

    *device = (struct fault_device){.inner = inner, .env = env, .index = index};
    memcpy(&device->io, inner, sizeof(device->io));
    device->io.ops = &ops;
    device->io.async_task = NULL;
}

/* Objects that the user has left are destroyed with the inner world. */
void fault_device_fini(struct fault_device *device)
{
    device->inner->async_task = NULL;
    fault_calls_stop(device);
    while (device->qps != NULL) {
        struct fault_qp *qp = device->qps;

        device->qps = qp->next;
        device->inner->ops->abandon(device->inner, &qp->to_error);
        free(qp);
    }
    while (device->cqs != NULL) {
        struct fault_cq *cq = device->cqs;

        device->cqs = cq->next;
        fault_gate_fini(&cq->gate);
        free(cq);
    }
    free(device->events);
}

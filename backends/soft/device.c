#include "backends/soft/device.h"

#include <errno.h>
#include <stdlib.h>

#include "backends/sim/request.h"
#include "base/check.h"
#include "base/text.h"
#include "io/async_event.h"

/* An io_op in progress; op->backend[0] while it is RUNNING. */
struct soft_call {
    struct sim_request request; /* guarded by the engine's lock until done */
    struct soft_wake done;
    struct io_op *op;
    struct soft_device *device;
    struct soft_cq *cq; /* CREATE_CQ: Owned until done */
    struct soft_call *next;
};

/* The task to wake for a CQ. */
struct soft_cq {
    struct soft_wake wake;
    struct io_task *task; /* Not owned; may be NULL */
    struct ibv_cq *cq;
    struct soft_cq *next;
};

static struct soft_device *device_of(struct io_device *device)
{
    return weft_container_of(device, struct soft_device, io);
}

/* ---- facts ---- */

static int soft_query_device(struct io_device *io, struct io_device_attr *out)
{
    const struct soft_device *device = device_of(io);
    sim_device_attr(device->nic, out);
    out->has_dmabuf = false; /* there is no GPU */
    out->may_stall = true;
    soft_look(device->engine);
    int error = sim_nic_query_device(device->nic, &out->ibv);
    soft_looked(device->engine);
    return error;
}

static int soft_query_port(struct io_device *io, uint8_t port, struct ibv_port_attr *out)
{
    const struct soft_device *device = device_of(io);
    soft_enter(device->engine);
    int error = sim_nic_query_port(device->nic, port, out);
    soft_leave(device->engine);
    return error;
}

static int soft_query_gid(struct io_device *io, uint8_t port, uint32_t index,
                          struct io_gid_entry *out)
{
    const struct soft_device *device = device_of(io);
    struct sim_gid gid;
    soft_look(device->engine);
    int error = sim_nic_query_gid(device->nic, port, index, &gid);
    soft_looked(device->engine);
    if (error == 0) {
        bool is_ports = gid.ifindex == device->sim_ifindexes[port - 1];
        *out =
            (struct io_gid_entry){.gid = gid.gid,
                                  .type = gid.type,
                                  .index = index,
                                  .ifindex = is_ports ? device->ifindexes[port - 1] : 0};
    }
    return error;
}

static int soft_port_netdev(struct io_device *io, uint8_t port, uint32_t *out_ifindex)
{
    if (port == 0 || port > io->n_ports) {
        return EINVAL;
    }
    *out_ifindex = device_of(io)->ifindexes[port - 1];
    return 0;
}

/* Fills the packets that were on the wire: not those that the kernel refused to send. They are
 * unknown on the raw wire, and received ones if the kernel dropped some at the sockets, because a
 * datagram can be several packets. */
static void count_packets(const struct soft_udp *wire, const struct sim_nic_counters *nic,
                          struct io_port_counters *out)
{
    struct soft_udp_counters udp;
    if (wire == NULL) {
        return;
    }
    soft_udp_counters(wire, &udp);
    out->tx_packets = (int64_t)(nic->tx_packets - udp.tx_dropped - udp.tx_refused);
    if (udp.rx_socket_drops == 0) {
        out->rx_packets = (int64_t)nic->rx_packets;
    }
}

/* The NIC counts all its ports together, and each process of a host has a NIC of its own, so
 * nothing is known of a device with two ports, or of a port with several processes. */
static int soft_port_counters(struct io_device *io, uint8_t port,
                              struct io_port_counters *out)
{
    const struct soft_device *device = device_of(io);
    struct sim_nic_counters nic;
    if (port == 0 || port > io->n_ports) {
        return EINVAL;
    }
    sim_counters_unknown(out);
    if (io->n_ports > 1 || device->is_shared) {
        return 0;
    }
    soft_enter(device->engine);
    sim_nic_counters(device->nic, &nic);
    count_packets(device->wires[port - 1], &nic, out);
    soft_leave(device->engine);
    sim_counters_of_transport(&nic, out);
    return 0;
}

/* ---- completions ---- */

static void wake_cq(void *context)
{
    io_task_wake(((struct soft_cq *)context)->task);
}

static struct soft_cq *make_cq(struct soft_device *device, struct io_task *task)
{
    struct soft_cq *cq = weft_calloc(1, sizeof *cq);
    soft_wake_init(&cq->wake, device->engine, wake_cq, cq);
    cq->task = task;
    return cq;
}

static void free_cq(struct soft_cq *cq)
{
    if (cq != NULL) {
        soft_wake_fini(&cq->wake);
        free(cq);
    }
}

/* Frees the entry of a destroyed CQ. */
static void forget_cq(struct soft_device *device, const struct ibv_cq *gone)
{
    for (struct soft_cq **at = &device->cqs; *at != NULL; at = &(*at)->next) {
        if ((*at)->cq == gone) {
            struct soft_cq *cq = *at;
            *at = cq->next;
            free_cq(cq);
            return;
        }
    }
}

/* Stops waking the CQ's task, because it is being destroyed, even if that fails. */
static void mute_cq(struct soft_device *device, const struct ibv_cq *cq)
{
    for (struct soft_cq *at = device->cqs; at != NULL; at = at->next) {
        if (at->cq == cq) {
            at->task = NULL;
        }
    }
}

/* ---- control verbs ---- */

/* Fills the request from `op`. Returns EINVAL if it is not a verb. */
static int fill_request(const struct io_op *op, struct soft_call *call)
{
    int error = sim_request_of(op, &call->request);
    if (op->kind == IO_OP_CREATE_CQ) {
        call->cq = make_cq(call->device, op->arg.create_cq.task);
        call->request.arg.create_cq.waker =
            (struct sim_waker){soft_wake_fire, &call->cq->wake};
    } else if (op->kind == IO_OP_DESTROY_CQ) {
        mute_cq(call->device, op->arg.destroy_cq);
    }
    return error;
}

/* Handles a verb that succeeded: the objects that it created refer to the device. */
static void take_result(struct soft_call *call, struct io_op *op)
{
    struct soft_device *device = call->device;
    if (op->kind == IO_OP_CREATE_CQ) {
        op->out.cq->cq_context = device;
        call->cq->cq = op->out.cq;
        call->cq->next = device->cqs;
        device->cqs = call->cq;
        call->cq = NULL;
    } else if (op->kind == IO_OP_CREATE_QP) {
        op->out.qp->qp_context = device;
    } else if (op->kind == IO_OP_DESTROY_CQ) {
        forget_cq(device, call->request.arg.cq);
    }
}

static void free_call(struct soft_call *call)
{
    struct soft_call **at = &call->device->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    soft_wake_fini(&call->done);
    free_cq(call->cq);
    free(call);
}

/* Completes an operation. Runs on the user's thread. */
static void finish(void *context)
{
    struct soft_call *call = context;
    struct io_op *op = call->op;
    sim_request_result(&call->request, op);
    if (op->error == 0) {
        take_result(call, op);
    }
    op->state = IO_OP_DONE;
    op->backend[0] = NULL;
    free_call(call);
    io_task_wake(op->task);
}

static int soft_submit(struct io_device *io, struct io_op *op)
{
    struct soft_device *device = device_of(io);
    struct soft_call *call = weft_calloc(1, sizeof *call);
    call->op = op;
    call->device = device;
    call->next = device->calls;
    device->calls = call;
    soft_wake_init(&call->done, device->engine, finish, call);
    int error = fill_request(op, call);
    if (error != 0) {
        free_call(call);
        return error;
    }
    call->request.done = (struct sim_waker){soft_wake_post, &call->done};
    op->error = 0;
    op->state = IO_OP_RUNNING;
    op->backend[0] = call;
    soft_enter(device->engine);
    error = sim_nic_submit(device->nic, &call->request);
    if (error != 0) {
        op->state = IO_OP_IDLE;
        op->backend[0] = NULL;
        free_call(call);
    } else if (call->request.is_done) {
        soft_wake_post(&call->done);
    }
    soft_leave(device->engine);
    return error;
}

static int soft_poll(struct io_device *io, struct io_op *op)
{
    (void)io;
    return op->state == IO_OP_RUNNING ? EINPROGRESS : op->error;
}

/* Destroys an object whose creation had ended, but was abandoned before its user saw it. */
static void undo(struct soft_call *call)
{
    struct sim_request *done = &call->request;
    struct sim_request undoing = {.verb = SIM_N_VERBS};
    if (done->error != 0) {
        return;
    }
    if (done->verb == SIM_VERB_ALLOC_PD) {
        undoing.verb = SIM_VERB_DEALLOC_PD;
        undoing.arg.pd = done->out.pd;
    } else if (done->verb == SIM_VERB_REG_MR) {
        undoing.verb = SIM_VERB_DEREG_MR;
        undoing.arg.mr = done->out.mr;
    } else if (done->verb == SIM_VERB_CREATE_CQ) {
        undoing.verb = SIM_VERB_DESTROY_CQ;
        undoing.arg.cq = done->out.cq;
    } else if (done->verb == SIM_VERB_CREATE_QP) {
        undoing.verb = SIM_VERB_DESTROY_QP;
        undoing.arg.qp = done->out.qp;
    } else if (done->verb == SIM_VERB_DESTROY_CQ) {
        forget_cq(call->device, done->arg.cq);
    }
    if (undoing.verb != SIM_N_VERBS && sim_nic_submit(call->device->nic, &undoing) == 0 &&
        !undoing.is_done) {
        sim_nic_cancel(call->device->nic, &undoing); /* cancelling completes it */
    }
}

static void soft_abandon(struct io_device *io, struct io_op *op)
{
    struct soft_device *device = device_of(io);
    if (op->state != IO_OP_RUNNING) {
        return;
    }
    struct soft_call *call = op->backend[0];
    soft_enter(device->engine);
    if (call->request.is_done) {
        undo(call);
    } else {
        if (op->kind == IO_OP_DESTROY_CQ) {
            sim_nic_mute_cq(op->arg.destroy_cq); /* it remains if a QP uses it */
            forget_cq(device, op->arg.destroy_cq);
        }
        sim_nic_cancel(device->nic, &call->request);
    }
    free_call(call);
    op->state = IO_OP_IDLE;
    op->backend[0] = NULL;
    soft_leave(device->engine);
}

/* ---- the data path ---- */

static struct soft_engine *engine_of_qp(const struct ibv_qp *qp)
{
    return ((const struct soft_device *)qp->qp_context)->engine;
}

static struct soft_engine *engine_of_cq(const struct ibv_cq *cq)
{
    return ((const struct soft_device *)cq->cq_context)->engine;
}

static int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                          struct ibv_send_wr **bad)
{
    struct soft_engine *engine = engine_of_qp(qp);
    soft_enter(engine);
    int error = sim_nic_post_send(qp, wr, bad);
    soft_leave(engine);
    return error;
}

static int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                          struct ibv_recv_wr **bad)
{
    struct soft_engine *engine = engine_of_qp(qp);
    soft_enter_only(engine);
    int error = sim_nic_post_recv(qp, wr, bad);
    soft_leave(engine);
    return error;
}

static int soft_poll_cq(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n)
{
    struct soft_engine *engine = engine_of_cq(cq);
    soft_look(engine);
    int error = sim_nic_poll_cq(cq, n_max, wc, out_n);
    soft_looked(engine);
    return error;
}

/* Neither receives nor advances the clock. What becomes due now comes after the arming, so it
 * notifies the user. */
static int soft_req_notify(struct ibv_cq *cq, int solicited_only)
{
    struct soft_engine *engine = engine_of_cq(cq);
    soft_look(engine);
    int error = sim_nic_req_notify(cq, solicited_only != 0);
    soft_leave(engine);
    return error;
}

/* ---- async events ---- */

static int soft_async_event(struct io_device *io, struct io_async_event *out)
{
    const struct soft_device *device = device_of(io);
    struct ibv_async_event event;
    soft_enter(device->engine);
    int error = sim_nic_async_event(device->nic, 0, &event);
    soft_leave(device->engine);
    if (error == 0) {
        *out = io_async_event_of(&event);
    }
    return error;
}

static void wake_async(void *context)
{
    io_task_wake(((struct soft_device *)context)->io.async_task);
}

static const struct io_device_ops ops = {
    .query_device = soft_query_device,
    .query_port = soft_query_port,
    .query_gid = soft_query_gid,
    .port_netdev = soft_port_netdev,
    .port_counters = soft_port_counters,
    .submit = soft_submit,
    .poll = soft_poll,
    .abandon = soft_abandon,
    .post_send = soft_post_send,
    .post_recv = soft_post_recv,
    .poll_cq = soft_poll_cq,
    .req_notify = soft_req_notify,
    .async_event = soft_async_event,
};

/* ---- set-up and release ---- */

void soft_device_init(struct soft_device *device, struct soft_engine *engine,
                      struct sim_nic *nic)
{
    device->io.ops = &ops;
    device->engine = engine;
    device->nic = nic;
    soft_wake_init(&device->async, engine, wake_async, device);
    sim_nic_async_waker(nic, 0, (struct sim_waker){soft_wake_fire, &device->async});
}

void soft_device_fini(struct soft_device *device)
{
    while (device->calls != NULL) {
        struct soft_call *call = device->calls;
        if (!call->request.is_done) {
            sim_nic_cancel(device->nic, &call->request);
        }
        call->op->state = IO_OP_DONE;
        call->op->error = EIO;
        call->op->backend[0] = NULL;
        free_call(call);
    }
    while (device->cqs != NULL) {
        struct soft_cq *cq = device->cqs;
        device->cqs = cq->next;
        free_cq(cq);
    }
    soft_wake_fini(&device->async);
}

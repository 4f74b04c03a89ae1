/* The verbs of the I/O interface over sim/nic. Control verbs become requests; the data path calls
 * the NIC's functions directly. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/request.h"
#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/text.h"
#include "io/async_event.h"

/* An io_op in progress; op->backend[0] while it is RUNNING. */
struct sim_verb_call {
    struct sim_request request;
    struct io_op *op;
    struct sim_device *device;
    struct sim_verb_call *next;
};

static struct sim_device *device_of(struct io_device *device)
{
    return weft_container_of(device, struct sim_device, io);
}

static int verbs_query_device(struct io_device *io, struct io_device_attr *out)
{
    const struct sim_device *device = device_of(io);
    sim_device_attr(device->nic, out);
    return sim_nic_query_device(device->nic, &out->ibv);
}

static int verbs_query_port(struct io_device *io, uint8_t port, struct ibv_port_attr *out)
{
    return sim_nic_query_port(device_of(io)->nic, port, out);
}

static int verbs_query_gid(struct io_device *io, uint8_t port, uint32_t index,
                           struct io_gid_entry *out)
{
    struct sim_gid gid;
    int error = sim_nic_query_gid(device_of(io)->nic, port, index, &gid);
    if (error == 0) {
        *out = (struct io_gid_entry){
            .gid = gid.gid, .type = gid.type, .index = index, .ifindex = gid.ifindex};
    }
    return error;
}

static int verbs_port_netdev(struct io_device *io, uint8_t port, uint32_t *out_ifindex)
{
    if (port == 0 || port > io->n_ports) {
        return EINVAL;
    }
    *out_ifindex = device_of(io)->ifindexes[port - 1];
    return 0;
}

/* A NIC counts all its ports together, so its counters are reported only for single-port NICs. */
static int verbs_port_counters(struct io_device *io, uint8_t port,
                               struct io_port_counters *out)
{
    struct sim_device *device = device_of(io);
    struct sim_nic_counters nic;
    if (port == 0 || port > io->n_ports) {
        return EINVAL;
    }
    struct sim_port_drops drops = sim_port_dropped(device->ports[port - 1]);
    sim_counters_unknown(out);
    out->rx_oversize = (int64_t)drops.rx_oversize;
    out->tx_queue_drops = (int64_t)drops.tx_queue_full;
    out->rx_pauses = (int64_t)drops.rx_pauses;
    out->rx_pause_ns = drops.rx_pause_ps / 1000;
    if (io->n_ports > 1) {
        return 0;
    }
    sim_nic_counters(device->nic, &nic);
    out->tx_packets = (int64_t)nic.tx_packets;
    out->rx_packets = (int64_t)nic.rx_packets;
    sim_counters_of_transport(&nic, out);
    if (sim_nic_profile(device->nic)->in_ip_stack) {
        out->rx_packets -= (int64_t)(nic.filtered_source + nic.filtered_port);
        out->rx_filtered_source = (int64_t)nic.filtered_source;
        out->rx_filtered_port = (int64_t)nic.filtered_port;
    }
    return 0;
}

/* ---- control verbs ---- */

/* Fills the request from `op`. Returns EINVAL if it is not a verb. */
static int fill_request(const struct sim_device *device, const struct io_op *op,
                        struct sim_request *request)
{
    int error = sim_request_of(op, request);
    if (op->kind == IO_OP_REG_MR) {
        request->arg.reg_mr.is_gpu =
            sim_gpu_device_has(&device->process->gpu, op->arg.reg_mr.addr);
    } else if (op->kind == IO_OP_CREATE_CQ) {
        request->arg.create_cq.waker = sim_task_waker(op->arg.create_cq.task);
    } else if (op->kind == IO_OP_DESTROY_CQ) {
        /* Even if destroying fails, because its task no longer listens. */
        sim_nic_mute_cq(op->arg.destroy_cq);
    }
    return error;
}

static void forget(struct sim_verb_call *call)
{
    struct sim_verb_call **at = &call->device->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    free(call);
}

static void on_done(void *context)
{
    struct sim_verb_call *call = context;
    struct io_op *op = call->op;
    sim_request_result(&call->request, op);
    op->state = IO_OP_DONE;
    op->backend[0] = NULL;
    forget(call);
    io_task_wake(op->task);
}

static int verbs_submit(struct io_device *io, struct io_op *op)
{
    struct sim_device *device = device_of(io);
    if (device->process->is_dead || device->process->host->is_dead) {
        return EIO; /* the objects of a dead process no longer exist */
    }
    struct sim_verb_call *call = weft_calloc(1, sizeof *call);
    int error = fill_request(device, op, &call->request);
    if (error != 0) {
        free(call);
        return error;
    }
    call->op = op;
    call->device = device;
    call->request.user = device->process->index;
    call->request.done = (struct sim_waker){on_done, call};
    call->next = device->calls;
    device->calls = call;
    op->error = 0;
    op->state = IO_OP_RUNNING;
    op->backend[0] = call;
    error = sim_nic_submit(device->nic, &call->request);
    if (error != 0) {
        op->state = IO_OP_IDLE;
        op->backend[0] = NULL;
        forget(call);
    } else if (op->state == IO_OP_RUNNING && call->request.is_done) {
        on_done(call);
    }
    return error;
}

static int verbs_poll(struct io_device *io, struct io_op *op)
{
    (void)io;
    return op->state == IO_OP_RUNNING ? EINPROGRESS : op->error;
}

static void verbs_abandon(struct io_device *io, struct io_op *op)
{
    if (op->state != IO_OP_RUNNING) {
        return;
    }
    struct sim_verb_call *call = op->backend[0];
    sim_nic_cancel(device_of(io)->nic, &call->request);
    forget(call);
    op->state = IO_OP_IDLE;
    op->backend[0] = NULL;
}

void sim_device_stop(struct sim_device *device)
{
    while (device->calls != NULL) {
        struct sim_verb_call *call = device->calls;
        sim_nic_cancel(device->nic, &call->request);
        call->op->state = IO_OP_DONE;
        call->op->error = EIO;
        call->op->backend[0] = NULL;
        forget(call);
    }
}

/* ---- data path and events ---- */

static int verbs_req_notify(struct ibv_cq *cq, int solicited_only)
{
    return sim_nic_req_notify(cq, solicited_only != 0);
}

static int verbs_async_event(struct io_device *io, struct io_async_event *out)
{
    const struct sim_device *device = device_of(io);
    struct ibv_async_event event;
    int error = sim_nic_async_event(device->nic, device->process->index, &event);
    if (error == 0) {
        *out = io_async_event_of(&event);
    }
    return error;
}

const struct io_device_ops sim_device_ops = {
    .query_device = verbs_query_device,
    .query_port = verbs_query_port,
    .query_gid = verbs_query_gid,
    .port_netdev = verbs_port_netdev,
    .port_counters = verbs_port_counters,
    .submit = verbs_submit,
    .poll = verbs_poll,
    .abandon = verbs_abandon,
    .post_send = sim_nic_post_send,
    .post_recv = sim_nic_post_recv,
    .poll_cq = sim_nic_poll_cq,
    .req_notify = verbs_req_notify,
    .async_event = verbs_async_event,
};

#define _GNU_SOURCE
#include "backends/verbs/device.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "io/async_event.h"

/* ---- data path ---- */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    return verbs_result(qp->context->ops.post_send(qp, wr, bad));
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    const struct verbs_cq *cq = qp->recv_cq->cq_context;
    int result = verbs_result(qp->context->ops.post_recv(qp, wr, bad));
    if (result == 0) {
        verbs_flush_receives(cq->device, qp);
    }
    return result;
}

/* ---- events ---- */

static void on_async(void *context)
{
    struct verbs_device *device = context;
    io_task_wake(device->io.async_task);
}

static int async_event(struct io_device *io, struct io_async_event *out)
{
    struct verbs_device *device = verbs_device_of(io);
    struct ibv_async_event event;
    errno = 0;
    if (device->library->get_async_event(device->context, &event) != 0) {
        return errno == 0 || errno == EINTR ? EAGAIN : errno;
    }
    *out = io_async_event_of(&event);
    device->library->ack_async_event(&event);
    return 0;
}

/* ---- facts ---- */

static int query_device(struct io_device *io, struct io_device_attr *out)
{
    *out = verbs_device_of(io)->attr;
    return 0;
}

static bool has_port(const struct io_device *io, uint8_t port)
{
    return port >= 1 && port <= io->n_ports;
}

static int query_port(struct io_device *io, uint8_t port, struct ibv_port_attr *out)
{
    return has_port(io, port) ? verbs_query_port(verbs_device_of(io), port, out) : EINVAL;
}

static int query_gid(struct io_device *io, uint8_t port, uint32_t index,
                     struct io_gid_entry *out)
{
    return has_port(io, port) ? verbs_query_gid(verbs_device_of(io), port, index, out)
                              : EINVAL;
}

static int port_netdev(struct io_device *io, uint8_t port, uint32_t *out_ifindex)
{
    if (!has_port(io, port)) {
        return EINVAL;
    }
    *out_ifindex = verbs_device_of(io)->ifindexes[port - 1];
    return 0;
}

static const struct io_device_ops device_ops = {
    .query_device = query_device,
    .query_port = query_port,
    .query_gid = query_gid,
    .port_netdev = port_netdev,
    .port_counters = verbs_port_counters,
    .submit = verbs_submit,
    .poll = verbs_poll,
    .abandon = verbs_abandon,
    .post_send = post_send,
    .post_recv = post_recv,
    .poll_cq = verbs_poll_cq,
    .req_notify = verbs_req_notify,
    .async_event = async_event,
};

/* ---- open and close ---- */

static int watch_without_blocking(struct verbs_device *device, int fd,
                                  void (*ready)(void *context), struct linux_watch **out)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return errno;
    }
    return linux_loop_watch(device->loop, fd, ready, device, out);
}

static int start(struct verbs_device *device, const struct verbs_device_config *config)
{
    int result = verbs_learn_facts(device, config);
    if (result != 0) {
        return result;
    }
    errno = 0;
    device->channel = device->library->create_comp_channel(device->context);
    if (device->channel == NULL) {
        return errno != 0 ? errno : EIO;
    }
    result = watch_without_blocking(device, device->channel->fd, verbs_on_completion,
                                    &device->channel_watch);
    if (result == 0) {
        result = watch_without_blocking(device, device->context->async_fd, on_async,
                                        &device->async_watch);
    }
    device->source = (struct linux_source){
        .look = verbs_look_at_cqs, .arm = verbs_arm_cqs, .context = device};
    linux_loop_add(device->loop, &device->source);
    return result != 0 ? result : verbs_workers_start(device);
}

/* Frees everything except the workers. */
static void release(struct verbs_device *device)
{
    linux_loop_remove(device->loop, &device->source);
    linux_loop_unwatch(device->channel_watch);
    linux_loop_unwatch(device->async_watch);
    if (device->channel != NULL) {
        int result = verbs_result(device->library->destroy_comp_channel(device->channel));
        if (result != 0) { /* CQs remain; closing the device destroys them */
            weft_log(device->log, WEFT_LOG_WARN, "%s: completion channel: errno %d",
                     device->kernel_name, result);
        }
    }
    device->library->close_device(device->context);
    while (device->cqs != NULL) {
        struct verbs_cq *cq = device->cqs;
        device->cqs = cq->next;
        free(cq);
    }
    free(device->gid_tbl_len);
    free(device->ifindexes);
    free(device);
}

weft_status verbs_device_open(const struct verbs_library *library,
                              struct ibv_device *from,
                              const struct verbs_device_config *config,
                              struct verbs_device **out, struct weft_error *error)
{
    struct verbs_device *device = weft_calloc(1, sizeof *device);
    device->library = library;
    device->loop = config->loop;
    device->log = config->log;
    device->io.ops = &device_ops;
    device->io.guid = be64toh(library->get_device_guid(from));
    weft_format(device->kernel_name, sizeof device->kernel_name, "%s",
                library->get_device_name(from));
    weft_format(device->io.name, sizeof device->io.name, "%s", device->kernel_name);
    weft_format(device->sysfs, sizeof device->sysfs, "%s/class/infiniband/%s",
                config->sysfs, device->kernel_name);
    device->asks_kernel = strcmp(config->sysfs, "/sys") == 0;
    weft_error_object(error, "%s", device->kernel_name);
    errno = 0;
    device->context = library->open_device(from);
    if (device->context == NULL) {
        int result = errno != 0 ? errno : EIO;
        free(device);
        return weft_fail_errno(error, result, WEFT_PHASE_START, "cannot open the device");
    }
    int result = start(device, config);
    if (result != 0) {
        release(device);
        return weft_fail_errno(error, result, WEFT_PHASE_START, "cannot use the device");
    }
    *out = device;
    return WEFT_OK;
}

void verbs_device_close(struct verbs_device *device)
{
    if (device == NULL) {
        return;
    }
    verbs_workers_stop(device);
    verbs_destroy_objects(device);
    release(device);
}

/* Unsolicited events: async events of devices, and exits of other members. */
#include <errno.h>

#include "base/text.h"
#include "host/private.h"

void host_hear_of_ends(struct host *host)
{
    uint32_t member;

    while (host->boot != NULL && io_next_ended(host->env, &member)) {
        boot_ended(host->boot, member);
    }
}

static const char *name_of(const struct host *host, uint32_t device, uint8_t port)
{
    if (port == 0) {
        return host->env->devices[device]->name;
    }
    for (uint32_t i = 0; host->rdma != NULL && i < host->rdma->n_ports; i++) {
        if (host->rdma->ports[i].device_index == device &&
            host->rdma->ports[i].port == port) {
            return host->rdma->ports[i].name;
        }
    }
    return "";
}

/* Fails if the last device is lost and this member must reach other hosts; it need not wait until
 * its queue pairs, if any, report an error. */
static weft_status check_devices(struct host *host, uint32_t lost)
{
    for (uint32_t i = 0; i < host->env->n_devices; i++) {
        if (host->rdma == NULL || !host->rdma->is_lost[i]) {
            return WEFT_OK;
        }
    }
    if (host->state == HOST_CLOSE || host_is_alone(host)) {
        return WEFT_OK;
    }
    host->error_peer = host_trouble(host, HOST_NO_MEMBER);
    if (host->error_peer != HOST_NO_MEMBER && !host_is_hearsay(&host->error)) {
        return host->error.status;
    }
    host_forgive(host); /* a peer's report is less specific than the loss of the device */
    return weft_fail_errno(&host->error, EIO, WEFT_PHASE_DEVICE, "%s is gone",
                           host->env->devices[lost]->name);
}

static void keep(struct host *host, uint32_t device, const struct io_async_event *event)
{
    struct host_event *to;

    if (host->n_events == HOST_EVENTS_MAX) {
        host->are_events_cut = true;
        return;
    }
    to = &host->events[host->n_events++];
    *to = (struct host_event){.type = event->type,
                              .device = device,
                              .port = event->port,
                              .at_ns = io_now(host->env)};
    weft_format(to->name, sizeof(to->name), "%s", name_of(host, device, event->port));
}

weft_status host_take_events(struct host *host)
{
    struct io_env *env = host->env;
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < env->n_devices; i++) {
        struct io_device *device = env->devices[i];
        struct io_async_event event;
        struct io_async_event gids;
        bool has_gids = false;

        while (device->ops->async_event(device, &event) == 0) {
            weft_trace_event(env->trace, io_now(env), env->name, device->name, "async",
                             "type=%d port=%d", (int)event.type, (int)event.port);
            keep(host, i, &event);
            if (event.type == IBV_EVENT_GID_CHANGE) {
                gids = event;
                has_gids = true;
                continue;
            }
            host_device_event(host, i, &event);
            if (event.type == IBV_EVENT_DEVICE_FATAL && status == WEFT_OK) {
                status = check_devices(host, i);
            }
        }
        /* Handle GID events once, because each reads all tables again. */
        if (has_gids) {
            host_device_event(host, i, &gids);
        }
    }
    return status;
}

/* What comes unasked: async events of the devices, and ends of other members. */
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
    for (uint32_t i = 0; host->rdma != NULL && i < host->rdma->n_ports; i++) {
        if (host->rdma->ports[i].device_index == device &&
            host->rdma->ports[i].port == port) {
            return host->rdma->ports[i].name;
        }
    }
    return "";
}

void host_take_events(struct host *host)
{
    struct io_env *env = host->env;

    for (uint32_t i = 0; i < env->n_devices; i++) {
        struct io_device *device = env->devices[i];
        struct io_async_event event;

        while (device->ops->async_event(device, &event) == 0) {
            weft_trace_event(env->trace, io_now(env), env->name, device->name, "async",
                             "type=%d port=%d", (int)event.type, (int)event.port);
            if (event.type == IBV_EVENT_PORT_ERR || event.type == IBV_EVENT_PORT_ACTIVE) {
                host_port_event(host, i, event.port, event.type == IBV_EVENT_PORT_ACTIVE);
            }
            if (host->n_events < HOST_EVENTS_MAX) {
                struct host_event *to = &host->events[host->n_events++];

                *to = (struct host_event){.type = event.type,
                                          .device = i,
                                          .port = event.port,
                                          .at_ns = io_now(env)};
                weft_format(to->name, sizeof(to->name), "%s",
                            name_of(host, i, event.port));
            }
        }
    }
}

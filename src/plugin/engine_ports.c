/* The devices that NCCL sees: ports that are not excluded and have a link and an address. */
#include "base/text.h"
#include "nccl/policies.h"
#include "plugin/engine_private.h"

weft_status engine_ports_exclude(struct engine *engine)
{
    struct conn_config *config = &engine->config.conn;
    const struct rdma *rdma = engine->rdma;
    uint32_t n_left = 0;

    for (uint32_t i = 0; i < rdma->n_ports && engine->config.hca != NULL; i++) {
        const struct rdma_port *port = &rdma->ports[i];

        if (nccl_opens(engine->config.hca, port->device->name, port->port)) {
            n_left++;
            continue;
        }
        weft_log(engine->env->log, WEFT_LOG_INFO, "port %s is left out: NCCL_IB_HCA",
                 port->name);
        if (config->n_excluded == CONN_EXCLUDED_MAX) {
            return weft_fail(&engine->error, WEFT_ERR_LIMIT, WEFT_PHASE_START,
                             "NCCL_IB_HCA leaves out more than %d ports",
                             CONN_EXCLUDED_MAX);
        }
        config->excluded[config->n_excluded].device = port->device_index;
        config->excluded[config->n_excluded++].port = port->port;
    }
    if (engine->config.hca != NULL && n_left == 0) {
        return weft_fail(&engine->error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START,
                         "NCCL_IB_HCA=%.80s leaves none of %u ports", engine->config.hca,
                         rdma->n_ports);
    }
    return WEFT_OK;
}

void engine_ports_describe(struct engine *engine)
{
    const struct io_hostinfo *info = engine->env->ops->hostinfo(engine->env);

    engine->ports = weft_calloc(engine->rdma->n_ports + 1, sizeof(*engine->ports));
    for (uint32_t i = 0; i < engine->rdma->n_ports; i++) {
        const struct rdma_port *port = &engine->rdma->ports[i];
        struct engine_port *out = &engine->ports[engine->n_ports];
        const struct io_netdev *netdev = io_hostinfo_netdev(info, port->ifindex);
        uint64_t speed = netdev == NULL ? 0 : netdev->speed_bps;

        if (conn_excludes(&engine->config.conn, port->device_index, port->port)) {
            continue;
        }
        if (!port->is_active || port->n_gids == 0) {
            weft_log(engine->env->log, WEFT_LOG_INFO, "port %s is left out: %s",
                     port->name, port->is_active ? "no address" : "no link");
            continue;
        }
        weft_format(out->name, sizeof(out->name), "%s%s%s",
                    engine->config.names_host ? engine->env->name : "",
                    engine->config.names_host ? ":" : "", port->name);
        weft_format(out->pci_path, sizeof(out->pci_path), "%s", port->device->pci_path);
        speed = speed == 0 ? port->rate_bps : speed;
        out->speed_mbps = speed == 0 ? 10000 : (uint32_t)(speed / 1000000);
        out->port = port->port;
        out->guid = port->device->guid ^ ((uint64_t)port->port << 56);
        weft_log(engine->env->log, WEFT_LOG_INFO, "port %s, netdev %s, %u Mb/s, %s",
                 out->name, port->netdev, out->speed_mbps,
                 out->pci_path[0] == '\0' ? "no PCI path" : out->pci_path);
        engine->n_ports++;
    }
}

uint32_t engine_n_ports(const struct engine *engine)
{
    return engine->n_ports;
}

const struct engine_port *engine_port(const struct engine *engine, uint32_t port)
{
    return port < engine->n_ports ? &engine->ports[port] : NULL;
}

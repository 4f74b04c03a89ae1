#include "run/graph.h"

#include "base/text.h"

static const struct world_port *port_at(const struct world_spec *spec,
                                        const struct world_end *end)
{
    return &spec->hosts[end->node].ports[end->port];
}

static uint64_t lesser_rate(uint64_t a, uint64_t b)
{
    return b != 0 && b < a ? b : a;
}

/* The rate at which one end can feed its cable. */
static uint64_t end_rate(const struct world_spec *spec, const struct world_end *end,
                         uint64_t rate_bps)
{
    const struct world_host *host = &spec->hosts[end->node];
    const struct world_port *port = port_at(spec, end);

    rate_bps = lesser_rate(rate_bps, port->rate_bps);
    if (port->pcie_root < host->n_pcie_roots) {
        rate_bps = lesser_rate(rate_bps, host->pcie_root_bps[port->pcie_root]);
    }
    return rate_bps;
}

/* RoCE runs over IPv6 when either end has no IPv4 address. */
static bool is_ipv6(const struct world_port *port)
{
    for (uint32_t i = 0; i < port->n_addresses; i++) {
        if (io_ip_is_v4(&port->addresses[i].ip)) {
            return false;
        }
    }
    return true;
}

static struct mesh_edge edge_of(const struct world_spec *spec, uint32_t cable, int from)
{
    const struct world_cable *at = &spec->cables[cable];
    const struct world_end *ends[2] = {&at->ends[from], &at->ends[1 - from]};
    const struct world_port *ports[2] = {port_at(spec, ends[0]), port_at(spec, ends[1])};
    uint64_t rate_bps = end_rate(spec, ends[1], end_rate(spec, ends[0], at->rate_bps));
    uint32_t mtu = ports[0]->mtu_bytes < ports[1]->mtu_bytes ? ports[0]->mtu_bytes
                                                             : ports[1]->mtu_bytes;

    return (struct mesh_edge){.from = ends[0]->node,
                              .to = ends[1]->node,
                              .from_port = ends[0]->port,
                              .to_port = ends[1]->port,
                              .cable = cable,
                              .rate_bps = rate_bps,
                              .delay_ps = at->delay_ps,
                              .mtu_bytes = mtu,
                              .is_ipv6 = is_ipv6(ports[0]) || is_ipv6(ports[1])};
}

void run_graph(const struct world_spec *spec, struct mesh_graph *out)
{
    out->n_hosts = spec->n_hosts;
    out->n_edges = 0;
    out->edges = weft_calloc(2 * (size_t)spec->n_cables + 1, sizeof(*out->edges));
    for (uint32_t i = 0; i < spec->n_cables; i++) {
        const struct world_cable *cable = &spec->cables[i];

        if (cable->ends[0].is_switch || cable->ends[1].is_switch || !cable->up) {
            continue;
        }
        out->edges[out->n_edges++] = edge_of(spec, i, 0);
        out->edges[out->n_edges++] = edge_of(spec, i, 1);
    }
}

#include "run/graph.h"

#include <stdlib.h>

#include "base/text.h"

/* Returns NULL for a switch. */
static const struct world_port *port_at(const struct world_spec *spec,
                                        const struct world_end *end)
{
    return end->is_switch ? NULL : &spec->hosts[end->node].ports[end->port];
}

static uint64_t lesser_rate(uint64_t a, uint64_t b)
{
    return b != 0 && (a == 0 || b < a) ? b : a;
}

/* Returns the rate of an end's PCIe root; 0 if it has no limit. */
static uint64_t root_rate(const struct world_spec *spec, const struct world_end *end)
{
    if (end->is_switch) {
        return 0;
    }
    const struct world_host *host = &spec->hosts[end->node];
    uint32_t root = host->ports[end->port].pcie_root;
    return root < host->n_pcie_roots ? host->pcie_root_bps[root] : 0;
}

/* Returns the rate at which one end can feed its cable. */
static uint64_t end_rate(const struct world_spec *spec, const struct world_end *end,
                         uint64_t rate_bps)
{
    const struct world_port *port = port_at(spec, end);
    if (port != NULL) {
        rate_bps = lesser_rate(rate_bps, port->rate_bps);
    }
    return lesser_rate(rate_bps, root_rate(spec, end));
}

/* Returns true if the port has no IPv4 address. RoCE then uses IPv6 on its cable. */
static bool is_ipv6(const struct world_port *port)
{
    for (uint32_t i = 0; port != NULL && i < port->n_addresses; i++) {
        if (io_ip_is_v4(&port->addresses[i].ip)) {
            return false;
        }
    }
    return port != NULL;
}

/* A switch forwards packets of any size. */
static uint32_t mtu_of(const struct world_port *port)
{
    return port == NULL ? UINT32_MAX : port->mtu_bytes;
}

/* Index of each host's first PCIe root in the graph's list. */
struct roots {
    struct mesh_graph *graph;
    uint32_t *first; /* Owned [n_hosts] */
};

static void roots_init(struct roots *roots, const struct world_spec *spec,
                       struct mesh_graph *graph)
{
    uint32_t n = 0;
    roots->graph = graph;
    roots->first = weft_calloc((size_t)spec->n_hosts + 1, sizeof(uint32_t));
    for (uint32_t h = 0; h < spec->n_hosts; h++) {
        roots->first[h] = n;
        n += spec->hosts[h].n_pcie_roots;
    }
    graph->roots = weft_calloc((size_t)n + 1, sizeof(*graph->roots));
    graph->n_roots = n;
    for (uint32_t h = 0; h < spec->n_hosts; h++) {
        for (uint32_t r = 0; r < spec->hosts[h].n_pcie_roots; r++) {
            graph->roots[roots->first[h] + r] =
                (struct mesh_root){h, spec->hosts[h].pcie_root_bps[r]};
        }
    }
}

static uint32_t root_of(const struct roots *roots, const struct world_spec *spec,
                        const struct world_end *end)
{
    return root_rate(spec, end) == 0
               ? MESH_NO_ROOT
               : roots->first[end->node] + port_at(spec, end)->pcie_root;
}

static uint32_t node_of(const struct world_spec *spec, const struct world_end *end)
{
    return end->is_switch ? spec->n_hosts + end->node : end->node;
}

static struct mesh_edge edge_of(const struct world_spec *spec, const struct roots *roots,
                                uint32_t cable, int from)
{
    const struct world_cable *at = &spec->cables[cable];
    const struct world_end *ends[2] = {&at->ends[from], &at->ends[1 - from]};
    const struct world_port *ports[2] = {port_at(spec, ends[0]), port_at(spec, ends[1])};
    uint32_t mtu[2] = {mtu_of(ports[0]), mtu_of(ports[1])};

    return (struct mesh_edge){
        .from = node_of(spec, ends[0]),
        .to = node_of(spec, ends[1]),
        .from_port = ends[0]->port,
        .to_port = ends[1]->port,
        .cable = cable,
        .rate_bps = end_rate(spec, ends[1], end_rate(spec, ends[0], at->rate_bps)),
        .delay_ps = at->delay_ps,
        .mtu_bytes = mtu[0] < mtu[1] ? mtu[0] : mtu[1],
        .is_ipv6 = is_ipv6(ports[0]) || is_ipv6(ports[1]),
        .from_root = root_of(roots, spec, ends[0]),
        .to_root = root_of(roots, spec, ends[1])};
}

void run_graph(const struct world_spec *spec, struct mesh_graph *out)
{
    struct roots roots;
    *out = (struct mesh_graph){.n_hosts = spec->n_hosts,
                               .n_nodes = spec->n_hosts + spec->n_switches};
    out->edges = weft_calloc(2 * (size_t)spec->n_cables + 1, sizeof(*out->edges));
    roots_init(&roots, spec, out);
    for (uint32_t i = 0; i < spec->n_cables; i++) {
        if (spec->cables[i].up) {
            out->edges[out->n_edges++] = edge_of(spec, &roots, i, 0);
            out->edges[out->n_edges++] = edge_of(spec, &roots, i, 1);
        }
    }
    free(roots.first);
}

#include "mesh/network.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* Least overhead of any driver (rxe), for the largest path MTU that a cable can get. */
#define LEAST_MTU_OVERHEAD 80

__extension__ typedef unsigned __int128 u128;

/* Returns the payload share of `rate_bps`, rounded up so that the result stays a bound. */
static uint64_t payload_rate(const struct mesh_edge *edge, uint64_t rate_bps)
{
    if (edge->mtu_bytes == MESH_RAW_MTU) {
        return rate_bps;
    }
    uint32_t mtu = mesh_path_mtu(edge->mtu_bytes, LEAST_MTU_OVERHEAD);
    if (mtu == 0) {
        return 0;
    }
    uint32_t wire = mtu + mesh_packet_overhead(edge->is_ipv6);
    return (uint64_t)(((u128)rate_bps * mtu + wire - 1) / wire);
}

/* Raises the payload rate of a root to what the packets of `edge` would make of its rate. */
static void raise_root(struct mesh_network *network, uint32_t root,
                       const struct mesh_edge *edge)
{
    if (root < network->graph->n_roots) {
        uint64_t rate = payload_rate(edge, network->graph->roots[root].rate_bps);
        uint64_t *most = &network->root_bps[root];
        *most = rate > *most ? rate : *most;
    }
}

static void add_arc(struct mesh_network *network, uint32_t from, uint32_t to,
                    uint64_t capacity)
{
    network->arcs[network->n_arcs++] = (struct mesh_arc){from, to, capacity};
}

static void add_arcs(struct mesh_network *network)
{
    const struct mesh_graph *graph = network->graph;
    for (size_t e = 0; e < graph->n_edges; e++) {
        const struct mesh_edge *edge = &graph->edges[e];
        uint32_t from = edge->from_root < graph->n_roots
                            ? network->n_nodes + edge->from_root
                            : edge->from;
        uint32_t to = edge->to_root < graph->n_roots
                          ? network->n_nodes + graph->n_roots + edge->to_root
                          : edge->to;
        add_arc(network, from, to, network->edge_bps[e]);
    }
    for (uint32_t r = 0; r < graph->n_roots; r++) {
        uint32_t host = graph->roots[r].host;
        add_arc(network, host, network->n_nodes + r, network->root_bps[r]);
        add_arc(network, network->n_nodes + graph->n_roots + r, host,
                network->root_bps[r]);
    }
}

void mesh_network_init(struct mesh_network *network, const struct mesh_graph *graph)
{
    uint32_t n_nodes = mesh_n_nodes(graph);
    uint32_t n_vertices = n_nodes + 2 * graph->n_roots;
    size_t n_roots = (size_t)graph->n_roots + 1;
    *network = (struct mesh_network){
        .graph = graph,
        .n_nodes = n_nodes,
        .n_vertices = n_vertices,
        .edge_bps = weft_calloc(graph->n_edges + 1, sizeof(uint64_t)),
        .root_bps = weft_calloc(n_roots, sizeof(uint64_t)),
        .arcs = weft_calloc(graph->n_edges + 2 * n_roots, sizeof(struct mesh_arc)),
        .side = weft_calloc((size_t)n_vertices + 1, sizeof(bool)),
        .sums = {weft_calloc(n_roots, sizeof(uint64_t)),
                 weft_calloc(n_roots, sizeof(uint64_t))},
        .is_full = {weft_calloc(n_roots, sizeof(bool)),
                    weft_calloc(n_roots, sizeof(bool))},
    };
    for (size_t e = 0; e < graph->n_edges; e++) {
        const struct mesh_edge *edge = &graph->edges[e];
        weft_check(edge->from < n_nodes && edge->to < n_nodes);
        network->edge_bps[e] = payload_rate(edge, edge->rate_bps);
        raise_root(network, edge->from_root, edge);
        raise_root(network, edge->to_root, edge);
    }
    add_arcs(network);
}

void mesh_network_fini(struct mesh_network *network)
{
    free(network->edge_bps);
    free(network->root_bps);
    free(network->arcs);
    free(network->side);
    for (int way = 0; way < 2; way++) {
        free(network->sums[way]);
        free(network->is_full[way]);
    }
}

/* ---- cuts ---- */

/* Returns the root that an edge passes outwards (0) or inwards (1), or UINT32_MAX. */
static uint32_t root_of(const struct mesh_network *network, size_t e, int way)
{
    const struct mesh_edge *edge = &network->graph->edges[e];
    uint32_t root = way == 0 ? edge->from_root : edge->to_root;
    return root < network->graph->n_roots ? root : UINT32_MAX;
}

/* Decides which roots of one direction are full, given those of the other. Returns the
 * capacity of the cut with that choice. */
static uint64_t fill_roots(struct mesh_network *network, const bool *is_a, int way)
{
    const struct mesh_graph *graph = network->graph;
    uint64_t capacity = 0;
    memset(network->sums[way], 0, graph->n_roots * sizeof(uint64_t));
    for (size_t e = 0; e < graph->n_edges; e++) {
        uint32_t mine = root_of(network, e, way);
        uint32_t other = root_of(network, e, 1 - way);
        bool is_covered = other != UINT32_MAX && network->is_full[1 - way][other];
        if (!is_a[graph->edges[e].from] || is_a[graph->edges[e].to] || is_covered) {
            continue;
        }
        if (mine == UINT32_MAX) {
            capacity += network->edge_bps[e];
        } else {
            network->sums[way][mine] += network->edge_bps[e];
        }
    }
    for (uint32_t r = 0; r < graph->n_roots; r++) {
        bool is_full = network->sums[way][r] > network->root_bps[r];
        network->is_full[way][r] = is_full;
        capacity += is_full ? network->root_bps[r] : network->sums[way][r];
        capacity += network->is_full[1 - way][r] ? network->root_bps[r] : 0;
    }
    return capacity;
}

/* Alternates between the directions, beginning with `way`, while the capacity decreases. */
static uint64_t cut_from(struct mesh_network *network, const bool *is_a, int way)
{
    memset(network->is_full[0], 0, network->graph->n_roots * sizeof(bool));
    memset(network->is_full[1], 0, network->graph->n_roots * sizeof(bool));
    uint64_t best = fill_roots(network, is_a, way);
    while (true) {
        way = 1 - way;
        uint64_t next = fill_roots(network, is_a, way);
        if (next >= best) {
            return best;
        }
        best = next;
    }
}

uint64_t mesh_network_cut(struct mesh_network *network, const bool *is_a)
{
    uint64_t outwards = cut_from(network, is_a, 0);
    uint64_t inwards =
        network->graph->n_roots == 0 ? outwards : cut_from(network, is_a, 1);
    return outwards < inwards ? outwards : inwards;
}

void mesh_network_least_cut(struct mesh_network *network, uint32_t source, uint32_t sink,
                            bool *out_is_a)
{
    (void)mesh_least_cut(network->n_vertices, network->arcs, network->n_arcs, source,
                         sink, network->side);
    memcpy(out_is_a, network->side, network->n_nodes * sizeof(*out_is_a));
}

/* Returns the rate at which hosts send (way 0) or receive (way 1). */
static uint64_t hosts_one_way(struct mesh_network *network, int way)
{
    const struct mesh_graph *graph = network->graph;
    uint64_t total = 0;
    memset(network->sums[way], 0, graph->n_roots * sizeof(uint64_t));
    for (size_t e = 0; e < graph->n_edges; e++) {
        uint32_t root = root_of(network, e, way);
        uint32_t node = way == 0 ? graph->edges[e].from : graph->edges[e].to;
        if (node >= graph->n_hosts) {
            continue;
        }
        if (root == UINT32_MAX) {
            total += network->edge_bps[e];
        } else {
            network->sums[way][root] += network->edge_bps[e];
        }
    }
    for (uint32_t r = 0; r < graph->n_roots; r++) {
        uint64_t sum = network->sums[way][r];
        total += sum < network->root_bps[r] ? sum : network->root_bps[r];
    }
    return total;
}

uint64_t mesh_network_hosts(struct mesh_network *network)
{
    uint64_t given = hosts_one_way(network, 0);
    uint64_t taken = hosts_one_way(network, 1);
    return given < taken ? given : taken;
}

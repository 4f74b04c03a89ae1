/* Everybody computes the ways of all pairs from the same description, so both ends of a flow
 * find the same without asking. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/private.h"

/* Up to here the ways of all pairs are chosen together, so that they spread over the cables;
 * beyond, each pair takes its shortest. */
#define TOGETHER_MAX 32

static const struct mesh_graph *graph_of(const struct host *host)
{
    bool has_routes = host->config.conn.policy == RDMA_POLICY_WEFT;

    return has_routes && host->config.map != NULL ? host->config.map->graph : NULL;
}

/* The member that relays for a node of the graph: the first that lives there. */
static uint32_t relay_of(const struct host *host, uint32_t node)
{
    for (uint32_t i = 0; i < host->config.n_members; i++) {
        if (host->config.map->member_hosts[i] == node) {
            return i;
        }
    }
    return HOST_NOBODY;
}

bool host_is_alone(const struct host *host)
{
    const struct host_map *map = host->config.map;

    for (uint32_t i = 1; map != NULL && i < host->config.n_members; i++) {
        if (map->member_hosts[i] != map->member_hosts[0]) {
            return false;
        }
    }
    return map != NULL;
}

uint32_t host_owner(const struct host *host, uint32_t member)
{
    return host->config.map == NULL
               ? member
               : relay_of(host, host->config.map->member_hosts[member]);
}

/* Every ordered pair of hosts that have ranks, once. */
static void make_all_routes(struct host *host)
{
    const uint32_t *hosts = host->config.map->member_hosts;
    uint32_t n = host->config.n_ranks;
    struct mesh_pair *pairs = weft_calloc((size_t)n * n + 1, sizeof(*pairs));
    size_t n_pairs = 0;

    for (uint32_t from = 0; from < n; from++) {
        for (uint32_t to = 0; to < n; to++) {
            if (hosts[from] != hosts[to] && host_owner(host, from) == from &&
                host_owner(host, to) == to) {
                pairs[n_pairs].from = hosts[from];
                pairs[n_pairs++].to = hosts[to];
            }
        }
    }
    mesh_routes_make(graph_of(host), NULL, pairs, n_pairs, &host->private->routes);
    host->private->has_routes = true;
    free(pairs);
}

static const struct mesh_pair *find_pair(const struct mesh_routes *routes, uint32_t from,
                                         uint32_t to)
{
    for (size_t i = 0; i < routes->n_pairs; i++) {
        if (routes->pairs[i].from == from && routes->pairs[i].to == to) {
            return &routes->pairs[i];
        }
    }
    return NULL;
}

/* Appends a lane; ways with more relays than a purpose can name are none. */
static void add_lane(struct host *host, const struct mesh_route *route, uint32_t share,
                     struct flow_config *out)
{
    uint32_t *via;

    if (route->n_via > HOST_VIA_MAX || out->n_lanes == FLOW_LANES_MAX) {
        return;
    }
    via = host->private->via[out->n_lanes];
    for (uint32_t i = 0; i < route->n_via; i++) {
        via[i] = relay_of(host, route->via[i]);
        if (via[i] == HOST_NOBODY) {
            return;
        }
    }
    out->lanes[out->n_lanes].share = share;
    out->lanes[out->n_lanes].via = via;
    out->lanes[out->n_lanes].n_via = route->n_via;
    out->n_lanes++;
}

static void add_pair(struct host *host, const struct mesh_pair *pair,
                     struct flow_config *out)
{
    uint32_t left = FLOW_SHARE_WHOLE;

    for (uint32_t i = 0; i < pair->n_routes; i++) {
        add_lane(host, &pair->routes[i], pair->routes[i].share, out);
    }
    for (uint32_t i = 1; i < out->n_lanes; i++) {
        left -= out->lanes[i].share;
    }
    out->lanes[0].share = left; /* and what a way that was left out had */
}

/* The best way round the cables between both hosts: for when these are gone. */
static void add_detour(struct host *host, uint32_t from, uint32_t to,
                       struct flow_config *out)
{
    const struct mesh_graph *graph = graph_of(host);
    struct mesh_graph rest = *graph;
    struct mesh_pair pair = {.from = from, .to = to};
    struct mesh_routes routes;

    rest.edges = weft_calloc(graph->n_edges + 1, sizeof(*rest.edges));
    rest.n_edges = 0;
    for (size_t i = 0; i < graph->n_edges; i++) {
        const struct mesh_edge *edge = &graph->edges[i];
        bool is_between = (edge->from == from && edge->to == to) ||
                          (edge->from == to && edge->to == from);

        if (!is_between) {
            rest.edges[rest.n_edges++] = *edge;
        }
    }
    mesh_routes_make(&rest, NULL, &pair, 1, &routes);
    if (routes.pairs[0].n_routes > 0 && routes.pairs[0].routes[0].n_via > 0) {
        add_lane(host, &routes.pairs[0].routes[0], 0, out);
    }
    mesh_routes_fini(&routes);
    free(rest.edges);
}

static void add_routes(struct host *host, uint32_t from, uint32_t to,
                       struct flow_config *out)
{
    struct mesh_pair pair = {.from = from, .to = to};
    struct mesh_routes routes;

    if (host->config.n_ranks <= TOGETHER_MAX) {
        if (!host->private->has_routes) {
            make_all_routes(host);
        }
        add_pair(host, find_pair(&host->private->routes, from, to), out);
    } else {
        mesh_routes_make(graph_of(host), NULL, &pair, 1, &routes);
        add_pair(host, &routes.pairs[0], out);
        mesh_routes_fini(&routes);
    }
    if (out->n_lanes == 1 && out->lanes[0].n_via == 0) {
        add_detour(host, from, to, out);
    }
}

void host_lanes(struct host *host, uint32_t from, uint32_t to, struct flow_config *out)
{
    const struct mesh_graph *graph = graph_of(host);
    static const struct mesh_route direct = {.n_via = 0};

    out->n_lanes = 0;
    if (graph != NULL) {
        const uint32_t *hosts = host->config.map->member_hosts;

        if (hosts[from] != hosts[to]) {
            add_routes(host, hosts[from], hosts[to], out);
        }
    }
    if (out->n_lanes == 0) {
        /* One host, a policy without relays, or no way: connecting tells what is missing. */
        add_lane(host, &direct, FLOW_SHARE_WHOLE, out);
    }
    for (uint32_t i = 0; i < out->n_lanes; i++) {
        uint32_t next = out->lanes[i].n_via > 0 ? out->lanes[i].via[0] : to;

        memcpy(out->lanes[i].handle, host->peers[next].handle, CONN_HANDLE_BYTES);
    }
}

/* Routes of flows. Every member computes the routes of all pairs from the same description, so both
 * ends of a flow agree without communication. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/private.h"

/* Maximum number of ranks for which the routes of all pairs are chosen together, so that they
 * spread over the cables. With more ranks each pair uses its shortest route. */
#define TOGETHER_MAX 32

_Static_assert(HOST_VIA_MAX == COLL_RELAYS_MAX, "what plans may need");

static const struct mesh_graph *graph_of(const struct host *host)
{
    bool has_routes = host->config.conn.policy == WEFT_POLICY_WEFT;

    return has_routes && host->config.map != NULL ? host->config.map->graph : NULL;
}

/* Returns the member that relays for a node of the graph: the first on that host. */
static uint32_t relay_of(const struct host *host, uint32_t node)
{
    for (uint32_t i = 0; i < host->config.n_members; i++) {
        if (host->config.map->member_hosts[i] == node) {
            return i;
        }
    }
    return HOST_NO_MEMBER;
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

/* Computes the routes of every ordered pair of hosts that have ranks. */
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

/* Appends a lane. Ignores routes with more than HOST_VIA_MAX relays, or through a host without a
 * member. */
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
        if (via[i] == HOST_NO_MEMBER) {
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
    out->lanes[0].share = left; /* including the share of ignored routes */
}

/* Selects the edges that a route can use. */
struct edge_filter {
    const struct host *host;
    uint32_t from, to; /* ends of the route; cables between them are excluded */
    /* First failure that counts: an index into failed_hops, modulo its size. */
    uint32_t first_failure;
};

/* Returns true if a and b are c and d, in either order. */
static bool is_pair(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return (a == c && b == d) || (a == d && b == c);
}

static bool joins(const struct mesh_edge *edge, uint32_t a, uint32_t b)
{
    return is_pair(edge->from, edge->to, a, b);
}

static bool is_kept(const struct edge_filter *filter, const struct mesh_edge *edge)
{
    const struct host_private *private = filter->host->private;
    weft_ns now = io_now(filter->host->env);

    for (uint32_t i = filter->first_failure; i < private->n_failed_hops; i++) {
        const struct host_failed_hop *hop = &private->failed_hops[i % HOST_FAILED_HOPS];

        if (now < hop->until_ns && joins(edge, hop->a, hop->b)) {
            return false;
        }
    }
    return !joins(edge, filter->from, filter->to);
}

/* Copies the edges of the graph that the filter keeps. The caller frees out->edges. */
static void filter_edges(const struct edge_filter *filter, struct mesh_graph *out)
{
    const struct mesh_graph *graph = graph_of(filter->host);

    *out = *graph;
    out->edges = weft_calloc(graph->n_edges + 1, sizeof(*out->edges));
    out->n_edges = 0;
    for (size_t i = 0; i < graph->n_edges; i++) {
        if (is_kept(filter, &graph->edges[i])) {
            out->edges[out->n_edges++] = graph->edges[i];
        }
    }
}

/* Adds the best route that avoids the cables between both hosts, for use when these are down. */
static void add_detour(struct host *host, uint32_t from, uint32_t to,
                       struct flow_config *out)
{
    /* Ignore failures observed here, because both ends must compute the same. */
    struct edge_filter filter = {.host = host,
                                 .from = from,
                                 .to = to,
                                 .first_failure = host->private->n_failed_hops};
    struct mesh_pair pair = {.from = from, .to = to};
    struct mesh_graph rest;
    struct mesh_routes routes;

    filter_edges(&filter, &rest);
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
        /* One host, a policy without relays, or no route, in which case connecting fails and
         * reports what is missing. */
        add_lane(host, &direct, FLOW_SHARE_WHOLE, out);
    }
    for (uint32_t i = 0; i < out->n_lanes; i++) {
        uint32_t next = out->lanes[i].n_via > 0 ? out->lanes[i].via[0] : to;

        memcpy(out->lanes[i].handle, host->peers[next].handle, CONN_HANDLE_BYTES);
    }
}

/* ---- routes that avoid failed hops ---- */

/* Returns the node of the host with member i of the path from, via..., to. */
static uint32_t node_on(const struct host_route *route, const uint16_t *via,
                        uint32_t n_via, uint32_t i)
{
    const uint32_t *hosts = route->host->config.map->member_hosts;

    return i == 0 ? hosts[route->host->config.rank]
                  : hosts[i <= n_via ? via[i - 1] : route->to];
}

/* Records a failed hop. Each pair of hosts has at most one entry in effect, that of its last
 * failure. */
static void note_failed_hop(struct host *host, uint32_t a, uint32_t b)
{
    struct host_private *private = host->private;
    struct host_failed_hop *hop;

    for (uint32_t i = 0; i < private->n_failed_hops && i < HOST_FAILED_HOPS; i++) {
        hop = &private->failed_hops[i];
        if (is_pair(hop->a, hop->b, a, b)) {
            hop->until_ns = 0;
        }
    }
    hop = &private->failed_hops[private->n_failed_hops++ % HOST_FAILED_HOPS];
    *hop = (struct host_failed_hop){
        .a = a,
        .b = b,
        .until_ns = io_now(host->env) +
                    timer_limit(TIMER_FAILED_HOP_NS, host->config.conn.patience)};
}

/* Returns true if the receiver ended or replaced the lane, which says nothing about its hops. If
 * the peer's queue pairs or probes got no answer, the first hop may have failed. */
static bool is_receivers_choice(const struct weft_error *why)
{
    enum weft_phase there = weft_error_peer_phase(why);

    if (why->phase != WEFT_PHASE_PEER) {
        return why->phase == WEFT_PHASE_EPOCH;
    }
    return there != WEFT_PHASE_RTR && there != WEFT_PHASE_PROBE;
}

void host_lane_failed(void *user, const uint16_t *via, uint32_t n_via,
                      const struct weft_error *why)
{
    const struct host_route *route = user;
    const struct weft_value *lost = weft_error_value(why, WEFT_VALUE_RELAY);
    uint32_t i = 1;

    if (graph_of(route->host) == NULL || is_receivers_choice(why)) {
        return;
    }
    /* A relay names the member that it lost; otherwise the first hop has failed. */
    while (lost != NULL && i <= n_via && via[i - 1] != lost->number) {
        i++;
    }
    note_failed_hop(route->host, node_on(route, via, n_via, i - 1),
                    node_on(route, via, n_via, i));
}

/* Finds a relayed route in `graph`. Returns false if there is none. */
static bool find_relayed(struct host *host, const struct mesh_graph *graph, uint32_t from,
                         uint32_t to, uint32_t *via, uint32_t *out_n_via)
{
    struct mesh_pair pair = {.from = from, .to = to};
    struct flow_config lanes = {0};
    struct mesh_routes routes;

    mesh_routes_make(graph, NULL, &pair, 1, &routes);
    if (routes.pairs[0].n_routes > 0 && routes.pairs[0].routes[0].n_via > 0) {
        add_lane(host, &routes.pairs[0].routes[0], 0, &lanes);
    }
    mesh_routes_fini(&routes);
    if (lanes.n_lanes == 0) {
        return false;
    }
    memcpy(via, lanes.lanes[0].via, lanes.lanes[0].n_via * sizeof(*via));
    *out_n_via = lanes.lanes[0].n_via;
    return true;
}

/* Finds a relayed route that avoids failed hops. If there is none, the oldest failures are ignored
 * first, so that every route is tried in turn. Returns false if there is no relayed route. */
static bool find_way_round(struct host *host, uint32_t from, uint32_t to, uint32_t *via,
                           uint32_t *out_n_via)
{
    const struct host_private *private = host->private;
    uint32_t n = private->n_failed_hops;
    uint32_t oldest = n > HOST_FAILED_HOPS ? n - HOST_FAILED_HOPS : 0;
    bool is_found = false;

    for (uint32_t i = oldest; i <= n && !is_found; i++) {
        struct edge_filter filter = {
            .host = host, .from = from, .to = to, .first_failure = i};
        struct mesh_graph rest;

        if (i > oldest && io_now(host->env) >=
                              private->failed_hops[(i - 1) % HOST_FAILED_HOPS].until_ns) {
            continue; /* it has expired, so the result would be the same */
        }
        filter_edges(&filter, &rest);
        is_found = find_relayed(host, &rest, from, to, via, out_n_via);
        free(rest.edges);
    }
    return is_found;
}

weft_status host_reroute(void *user, uint32_t lane, uint8_t handle[CONN_HANDLE_BYTES],
                         uint32_t *via, uint32_t *out_n_via)
{
    const struct host_route *route = user;
    struct host *host = route->host;
    const uint32_t *hosts = host->config.map->member_hosts;
    uint32_t from = hosts[host->config.rank], to = hosts[route->to];
    const struct flow *flow = host->peers[route->to].send;
    struct flow_config lanes = {0};
    bool is_found = false;

    /* While another lane is up, this one keeps its own route. */
    if (flow != NULL && flow_trouble(flow) != NULL) {
        is_found = find_way_round(host, from, to, via, out_n_via);
    }
    if (!is_found) {
        host_lanes(host, host->config.rank, route->to, &lanes);
        weft_check(lane < lanes.n_lanes && lanes.lanes[lane].n_via > 0);
        memcpy(via, lanes.lanes[lane].via, lanes.lanes[lane].n_via * sizeof(*via));
        *out_n_via = lanes.lanes[lane].n_via;
    }
    memcpy(handle, host->peers[via[0]].handle, CONN_HANDLE_BYTES);
    return WEFT_OK;
}

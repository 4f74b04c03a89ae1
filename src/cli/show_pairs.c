/* weft show: prints the rails, routes and distances between ranks. */
#include <stdlib.h>

#include "cli/show_view.h"
#include "mesh/routes.h"
#include "report/columns.h"

const char *show_host_of(const struct view *view, uint32_t rank)
{
    return view->scenario->hosts[view->hosts[rank]].name;
}

static const char *node_name(const struct view *view, uint32_t node)
{
    uint32_t n_hosts = view->scenario->n_hosts;
    return node < n_hosts ? view->scenario->hosts[node].name
                          : view->scenario->switches[node - n_hosts].name;
}

static json_t *port_name(const struct view *view, uint32_t node, uint32_t port)
{
    if (node >= view->scenario->n_hosts) {
        return json_sprintf("%u", port);
    }
    return json_string(view->scenario->hosts[node].ports[port].name);
}

static void add_rail(const struct view *view, const struct mesh_edge *out_edge,
                     const struct mesh_edge *in_edge, json_t *rails,
                     struct weft_text *out)
{
    const struct world_host *hosts = view->scenario->hosts;
    bool is_switched = out_edge != in_edge;
    const char *local = hosts[out_edge->from].ports[out_edge->from_port].name;
    const char *remote = hosts[in_edge->to].ports[in_edge->to_port].name;
    const char *middle = is_switched ? node_name(view, out_edge->to) : "";
    uint64_t rate =
        out_edge->rate_bps < in_edge->rate_bps ? out_edge->rate_bps : in_edge->rate_bps;
    weft_text_add(out, "%s%s → %s%s%s", json_array_size(rails) > 0 ? ", " : "", local,
                  middle, is_switched ? " → " : "", remote);
    json_array_append_new(rails,
                          json_pack("{s:s, s:s, s:o, s:I}", "local_port", local,
                                    "remote_port", remote, "switch",
                                    is_switched ? json_string(middle) : json_null(),
                                    "rate_bps", (json_int_t)rate));
}

/* Lists the cables between two hosts, and those that connect them through one switch. */
static json_t *list_rails(const struct view *view, uint32_t a, uint32_t b,
                          struct weft_text *out)
{
    const struct mesh_graph *graph = &view->graph;
    json_t *rails = json_array();
    for (size_t i = 0; i < graph->n_edges; i++) {
        const struct mesh_edge *edge = &graph->edges[i];
        if (edge->from != a) {
            continue;
        }
        if (edge->to == b) {
            add_rail(view, edge, edge, rails, out);
        }
        for (size_t k = 0; edge->to >= graph->n_hosts && k < graph->n_edges; k++) {
            if (graph->edges[k].from == edge->to && graph->edges[k].to == b) {
                add_rail(view, edge, &graph->edges[k], rails, out);
            }
        }
    }
    return rails;
}

/* Lists routes over other hosts, such as "via b 50 %; via d 50 %". */
static json_t *list_routes(const struct view *view, const struct mesh_pair *pair,
                           struct weft_text *out)
{
    json_t *routes = json_array();
    for (uint32_t i = 0; i < pair->n_routes; i++) {
        const struct mesh_route *route = &pair->routes[i];
        json_t *via = json_array();
        for (uint32_t k = 0; k < route->n_via; k++) {
            const char *name = node_name(view, route->via[k]);
            weft_text_add(out, "%s%s", k > 0 ? ", " : i > 0 ? "; via " : "via ", name);
            json_array_append_new(via, json_string(name));
        }
        if (route->n_via > 0 && pair->n_routes > 1) {
            weft_text_add(out, " %.0f %%", route->share * 100.0 / 65536);
        }
        json_array_append_new(routes,
                              json_pack("{s:o, s:f, s:I, s:I}", "via", via, "share",
                                        route->share / 65536.0, "rate_bps",
                                        (json_int_t)route->rate_bps, "delay_ns",
                                        (json_int_t)(route->delay_ps / 1000)));
    }
    return routes;
}

/* Computes the routes of all ordered pairs of ranks on different hosts. */
static void find_routes(const struct view *view, struct mesh_routes *out)
{
    uint32_t n = view->scenario->n_ranks;
    struct mesh_pair *pairs = weft_calloc((size_t)n * n + 1, sizeof(*pairs));
    size_t n_pairs = 0;
    for (uint32_t from = 0; from < n; from++) {
        for (uint32_t to = 0; to < n; to++) {
            if (view->hosts[from] != view->hosts[to]) {
                pairs[n_pairs].from = view->hosts[from];
                pairs[n_pairs++].to = view->hosts[to];
            }
        }
    }
    mesh_routes_make(&view->graph, NULL, pairs, n_pairs, out);
    free(pairs);
}

/* `pair` contains the routes, or is NULL for ranks on one host. */
static json_t *show_pair(const struct view *view, uint32_t from, uint32_t to,
                         const struct mesh_pair *pair, struct columns *columns)
{
    struct weft_text how = {NULL, 0, 0};
    json_t *rails = list_rails(view, view->hosts[from], view->hosts[to], &how);
    static const struct mesh_pair none;
    json_t *routes = list_routes(view, pair == NULL ? &none : pair, &how);
    json_t *hops = json_integer(0);
    if (pair == NULL) {
        weft_text_add(&how, "same host");
    } else if (pair->n_routes == 0) {
        weft_text_add(&how, "no path");
        json_decref(hops);
        hops = json_null();
    } else {
        json_integer_set(hops, (json_int_t)pair->routes[0].n_via + 1);
    }
    if (how.n == 0) {
        weft_text_add(&how, "over several switches");
    }
    columns_row(columns);
    columns_cell(columns, "%u %s", from, show_host_of(view, from));
    columns_cell(columns, "→ %u %s", to, show_host_of(view, to));
    columns_cell(columns, "%s", how.bytes);
    weft_text_fini(&how);
    return json_pack("{s:i, s:i, s:s, s:s, s:o, s:o, s:o}", "from", (int)from, "to",
                     (int)to, "from_host", show_host_of(view, from), "to_host",
                     show_host_of(view, to), "rails", rails, "routes", routes, "hops",
                     hops);
}

json_t *show_pairs(const struct view *view, struct weft_text *out)
{
    static const char *const heads[] = {"from", "to", "rails and routes"};
    uint32_t n = view->scenario->n_ranks;
    if (n > SHOW_PAIRS_MAX) {
        return json_null();
    }
    json_t *pairs = json_array();
    struct columns columns;
    struct mesh_routes routes;
    size_t at = 0;
    find_routes(view, &routes);
    columns_init(&columns, heads, 3);
    for (uint32_t from = 0; from < n; from++) {
        for (uint32_t to = 0; to < n; to++) {
            bool is_apart = view->hosts[from] != view->hosts[to];
            if (from != to) {
                const struct mesh_pair *pair = is_apart ? &routes.pairs[at++] : NULL;
                json_array_append_new(pairs, show_pair(view, from, to, pair, &columns));
            }
        }
    }
    if (n <= SHOW_RANKS_MAX) {
        weft_text_add(out, "\nranks\n");
        columns_print(&columns, "  ", out);
    }
    columns_fini(&columns);
    mesh_routes_fini(&routes);
    return pairs;
}

/* Counts the pairs of ranks by distance in hops; with more than SHOW_HOPS_MAX ranks only from the
 * first. */
json_t *show_hops(const struct view *view, struct weft_text *out)
{
    uint32_t n = view->scenario->n_ranks;
    uint32_t n_from = n <= SHOW_HOPS_MAX ? n : 1;
    uint32_t n_nodes = mesh_n_nodes(&view->graph);
    uint32_t *hops = weft_calloc((size_t)n_nodes + 1, sizeof(*hops));
    uint64_t *count = weft_calloc((size_t)n_nodes + 1, sizeof(*count));
    uint64_t n_apart = 0;
    json_t *list = json_array();
    for (uint32_t from = 0; from < n_from; from++) {
        mesh_distances(&view->graph, view->hosts[from], hops);
        for (uint32_t to = 0; to < n; to++) {
            uint32_t distance = hops[view->hosts[to]];
            n_apart += distance == UINT32_MAX;
            count[distance == UINT32_MAX ? 0 : distance] +=
                to != from && distance != UINT32_MAX;
        }
    }
    if (n > SHOW_RANKS_MAX) {
        weft_text_add(out, "\n%u ranks; hops from %s to others:", n,
                      n_from == n ? "each" : "the first");
    }
    for (uint32_t distance = 0; distance < n_nodes; distance++) {
        if (count[distance] > 0 && n > SHOW_RANKS_MAX) {
            weft_text_add(out, " %u: %llu", distance,
                          (unsigned long long)count[distance]);
        }
        if (count[distance] > 0) {
            json_array_append_new(list, json_pack("{s:i, s:I}", "hops", (int)distance,
                                                  "pairs", (json_int_t)count[distance]));
        }
    }
    if (n > SHOW_RANKS_MAX) {
        weft_text_add(out, n_apart > 0 ? "; no path: %llu\n" : "\n",
                      (unsigned long long)n_apart);
    }
    free(hops);
    free(count);
    return json_pack("{s:b, s:o, s:I}", "all_pairs", n_from == n, "distances", list,
                     "no_path", (json_int_t)n_apart);
}

json_t *show_cables(const struct view *view)
{
    json_t *cables = json_array();
    for (size_t i = 0; i < view->graph.n_edges; i += 2) {
        const struct mesh_edge *edge = &view->graph.edges[i];
        json_array_append_new(cables,
                              json_pack("{s:s, s:o, s:s, s:o, s:I, s:I, s:I}", "from",
                                        node_name(view, edge->from), "from_port",
                                        port_name(view, edge->from, edge->from_port),
                                        "to", node_name(view, edge->to), "to_port",
                                        port_name(view, edge->to, edge->to_port),
                                        "rate_bps", (json_int_t)edge->rate_bps,
                                        "delay_ns", (json_int_t)(edge->delay_ps / 1000),
                                        "mtu", (json_int_t)edge->mtu_bytes));
    }
    return cables;
}

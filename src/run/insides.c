#include "run/insides.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "nccl/transports.h"
#include "run/seeing.h"

/* ---- paths ---- */

struct surveying {
    const struct topo_system *system;
    struct coll_inside *inside;
    const struct world_host *host;
    /* Owned; index of each node's first link, by node type and index. */
    uint32_t *begin[TOPO_N_TYPES];
    uint32_t n_ways, n_links, cap_links;
};

static const char *no_setting(void *context, const char *name)
{
    (void)context;
    (void)name;
    return NULL;
}

/* Converts GB/s to bytes per microsecond. */
static uint64_t width_of(const struct topo_link *link)
{
    uint64_t rate = link->bw <= 0 ? 0 : (uint64_t)((double)link->bw * 1000);

    return rate == 0 ? 1 : rate;
}

static void number_links(struct surveying *surveying)
{
    const struct topo_system *system = surveying->system;
    struct coll_inside *inside = surveying->inside;
    uint32_t n = 0;

    for (int type = 0; type < TOPO_N_TYPES; type++) {
        surveying->begin[type] = weft_calloc((size_t)system->n[type] + 1, sizeof(n));
        for (uint32_t i = 0; i < system->n[type]; i++) {
            const struct topo_node *node = system->nodes[type][i];

            surveying->begin[type][i] = n;
            inside->bytes_per_us =
                weft_realloc(inside->bytes_per_us, ((size_t)n + node->n_links + 1) *
                                                       sizeof(*inside->bytes_per_us));
            for (uint32_t k = 0; k < node->n_links; k++) {
                inside->bytes_per_us[n++] = width_of(&node->links[k]);
            }
        }
    }
    inside->ways.n_links = n;
}

static void add_link(struct surveying *surveying, uint32_t link)
{
    struct coll_inside *inside = surveying->inside;

    if (surveying->n_links == surveying->cap_links) {
        surveying->cap_links = 2 * surveying->cap_links + 64;
        inside->links =
            weft_realloc(inside->links, surveying->cap_links * sizeof(*inside->links));
    }
    inside->links[surveying->n_links++] = link;
}

/* Adds the next path, in the order of world_ways. It has no links if there is no path or an end is
 * NULL. */
static void add_way(struct surveying *surveying, const struct topo_node *from,
                    const struct topo_node *to)
{
    const struct topo_path *path =
        from == NULL || to == NULL || from == to ? NULL : topo_path(from, to);
    const struct topo_node *at = from;

    surveying->inside->first[surveying->n_ways++] = surveying->n_links;
    for (uint32_t i = 0; path != NULL && path->bw > 0 && i < path->n_hops; i++) {
        const struct topo_link *link = path->hops[i];

        add_link(surveying,
                 surveying->begin[at->type][at->index] + (uint32_t)(link - at->links));
        at = link->to;
    }
}

/* Returns the node of a memory: for i < n of rank i's GPU, for n + i of the CPU nearest to it. */
static const struct topo_node *node_of(const struct surveying *surveying, uint32_t place)
{
    const struct coll_inside *inside = surveying->inside;
    uint32_t i = world_host_gpu(surveying->host, place % inside->n);
    const struct topo_node *gpu = topo_gpu_of(surveying->system, (int)inside->ranks[i]);

    return gpu == NULL || place < inside->n ? gpu
                                            : topo_local_cpu(surveying->system, gpu);
}

static bool carries_data(const struct topo_node *node)
{
    return node->type != TOPO_NIC && node->type != TOPO_NET;
}

/* Returns the number of a node in the graph: a GPU has its rank's index, all others follow in
 * order. */
static uint32_t number_of(const struct surveying *surveying, const struct topo_node *node)
{
    const struct topo_system *system = surveying->system;
    uint32_t n = node->index;

    if (node->type == TOPO_GPU) {
        for (n = 0; n < surveying->inside->n; n++) {
            if ((int)surveying->inside->ranks[n] == node->u.gpu.rank) {
                break;
            }
        }
        return n;
    }
    for (int type = 0; type < (int)node->type; type++) {
        n += system->n[type];
    }
    return n;
}

static void add_edges(struct surveying *surveying, const struct topo_node *node)
{
    struct mesh_graph *graph = &surveying->inside->graph;

    graph->edges = weft_realloc(graph->edges, (graph->n_edges + node->n_links + 1) *
                                                  sizeof(*graph->edges));
    for (uint32_t i = 0; i < node->n_links; i++) {
        const struct topo_link *link = &node->links[i];

        if (carries_data(link->to) && link->to != node && link->bw > 0) {
            graph->edges[graph->n_edges++] =
                (struct mesh_edge){.from = number_of(surveying, node),
                                   .to = number_of(surveying, link->to),
                                   .rate_bps = width_of(link) * 8000000,
                                   .mtu_bytes = MESH_RAW_MTU,
                                   .from_root = MESH_NO_ROOT,
                                   .to_root = MESH_NO_ROOT};
        }
    }
}

static void make_graph(struct surveying *surveying)
{
    const struct topo_system *system = surveying->system;
    struct mesh_graph *graph = &surveying->inside->graph;

    if (system->n[TOPO_GPU] != surveying->inside->n ||
        surveying->host->n_gpus < surveying->inside->n) {
        return; /* some GPUs are out of reach, or ranks share a GPU */
    }
    graph->n_hosts = surveying->inside->n;
    for (int type = 0; type < TOPO_N_TYPES; type++) {
        graph->n_nodes += system->n[type];
        for (uint32_t i = 0; i < system->n[type]; i++) {
            if (carries_data(system->nodes[type][i])) {
                add_edges(surveying, system->nodes[type][i]);
            }
        }
    }
    graph->n_nodes -= system->n[TOPO_NIC] + system->n[TOPO_NET];
}

static void survey(const struct topo_system *system, const struct world_host *host,
                   struct coll_inside *inside)
{
    struct surveying surveying = {.system = system, .inside = inside, .host = host};
    uint32_t n = 2 * inside->n;

    number_links(&surveying);
    inside->first = weft_calloc((size_t)n * n + 1, sizeof(*inside->first));
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < n; b++) {
            bool is_host = a >= inside->n && b >= inside->n;

            add_way(&surveying, is_host ? NULL : node_of(&surveying, a),
                    node_of(&surveying, b));
        }
    }
    inside->first[surveying.n_ways] = surveying.n_links;
    make_graph(&surveying);
    for (int type = 0; type < TOPO_N_TYPES; type++) {
        free(surveying.begin[type]);
    }
    inside->ways.bytes_per_us = inside->bytes_per_us;
    inside->ways.first = inside->first;
    inside->ways.links = inside->links;
}

/* Computes the machine's paths as they are before NCCL's settings change any. */
static void find_ways(const struct scenario_world *world, uint32_t host,
                      struct coll_inside *inside)
{
    const struct topo_rules *rules = topo_rules_find("2.25");
    struct topo_settings settings;
    struct topo_view view = {.settings = &settings};
    struct weft_error ignored = {0};
    struct run_inside described;

    run_inside_make(world, host, false, &described);
    topo_settings_read(rules, no_setting, NULL, &settings);
    if (topo_of_host(&described.inside, rules, &view.system, &ignored) == WEFT_OK) {
        if (topo_compute_paths(&view, &ignored) == WEFT_OK) {
            survey(view.system, &world->spec.hosts[host], inside);
        }
        topo_free(view.system);
    }
    run_inside_fini(&described);
}

/* ---- transports and channels ---- */

/* Returns the value of the last setting of that name, or NULL. */
static const char *setting_of(const struct world_host *host, const char *name)
{
    const char *value = NULL;

    for (uint32_t i = 0; i < host->n_settings; i++) {
        value =
            strcmp(host->settings[i].name, name) == 0 ? host->settings[i].value : value;
    }
    return value;
}

static bool is_set_to(const struct world_host *host, const char *name, const char *value)
{
    const char *set = setting_of(host, name);

    return set != NULL && strcmp(set, value) == 0;
}

/* As in transport/inside_round.c and ipc/node.c. */
static bool is_ipc_off(const struct world_host *host, bool is_same_gpu)
{
    return is_set_to(host, "WEFT_IPC", "off") ||
           (is_same_gpu && is_set_to(host, "WEFT_IPC_SAME_GPU", "0"));
}

static bool goes_directly(const struct world_host *host)
{
    const char *is_off = setting_of(host, "NCCL_P2P_DIRECT_DISABLE");

    return is_off == NULL || strtol(is_off, NULL, 0) == 0;
}

static void find_hops(const struct run_seeing *seeing, const struct world_host *host,
                      struct coll_inside *inside)
{
    bool is_direct = goes_directly(host);

    for (uint32_t i = 0; i < inside->n; i++) {
        for (uint32_t k = 0; k < inside->n; k++) {
            struct coll_inside_hop *hop = &inside->hops[i * inside->n + k];
            bool is_same =
                host->n_gpus > 0 && world_host_gpu(host, i) == world_host_gpu(host, k);
            struct transport_question question = {
                .view = &seeing->view,
                .self = inside->ranks[i],
                .peer = inside->ranks[k],
                .is_same_gpu = is_same,
                .can_access = is_same || !host->has_no_peer_access,
                .is_ipc_off = is_ipc_off(host, is_same)};
            struct transport_choice choice;
            struct weft_error ignored = {0};

            if (i != k && transport_choose(&question, &choice, &ignored) == WEFT_OK &&
                choice.is_made) {
                *hop = (struct coll_inside_hop){choice.kind, choice.reads,
                                                is_direct &&
                                                    choice.kind == WEFT_TRANSPORT_P2P};
            }
        }
    }
}

/* Copies the ranks of each channel if all GPUs of this host are on it. */
static uint32_t take_channels(const struct run_seeing *seeing,
                              const struct topo_graph *graph,
                              const struct coll_inside *inside, uint32_t **out)
{
    uint32_t n_gpus = seeing->system->n[TOPO_GPU];
    uint32_t n = n_gpus == inside->n ? (uint32_t)graph->n_channels * n_gpus : 0;

    *out = weft_calloc((size_t)n + 1, sizeof(**out));
    for (uint32_t i = 0; i < n; i++) {
        (*out)[i] = (uint32_t)graph->ranks[i];
    }
    return n == 0 ? 0 : (uint32_t)graph->n_channels;
}

static void look_inside(const struct scenario_world *world, struct coll_inside *inside)
{
    struct weft_error ignored = {0};
    struct topo_graph *tree = weft_calloc(1, sizeof(*tree));
    struct run_seeing seeing;

    if (run_see(world, inside->ranks[0], false, &seeing, &ignored) == WEFT_OK) {
        find_hops(&seeing, &world->spec.hosts[world->ranks[inside->ranks[0]].host],
                  inside);
        inside->n_rings = take_channels(&seeing, seeing.ring, inside, &inside->rings);
        if (topo_graph_tree(&seeing.view, seeing.ring, tree, &ignored) == WEFT_OK) {
            inside->n_trees = take_channels(&seeing, tree, inside, &inside->trees);
        }
    }
    run_unsee(&seeing);
    free(tree);
}

/* ---- all hosts ---- */

static void make_host(const struct scenario_world *world, uint32_t host,
                      struct coll_inside *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < world->n_ranks; i++) {
        n += world->ranks[i].host == host;
    }
    if (n < 2) {
        return;
    }
    out->n = n;
    out->ranks = weft_calloc(n, sizeof(*out->ranks));
    out->hops = weft_calloc((size_t)n * n, sizeof(*out->hops));
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        if (world->ranks[i].host == host) {
            weft_check(world->ranks[i].local_rank < n);
            out->ranks[world->ranks[i].local_rank] = i;
        }
    }
    for (uint32_t i = 0; i < n * n; i++) {
        out->hops[i].kind =
            WEFT_TRANSPORT_SHM; /* unless NCCL's topology says otherwise */
    }
    find_ways(world, host, out);
    look_inside(world, out);
}

void run_insides_make(struct scenario_world *world, struct run_insides *out)
{
    uint32_t n = world->spec.n_hosts;
    struct world_host *hosts = weft_calloc((size_t)n + 1, sizeof(*hosts));
    bool any = false;

    *out = (struct run_insides){weft_calloc((size_t)n + 1, sizeof(*out->hosts)), n};
    for (uint32_t i = 0; i < n; i++) {
        hosts[i] = world->spec.hosts[i];
        make_host(world, i, &out->hosts[i]);
        if (out->hosts[i].ways.n_links > 0 &&
            out->hosts[i].n == world_host_processes(&hosts[i])) {
            hosts[i].ways = &out->hosts[i].ways;
            any = true;
        }
    }
    if (any) {
        scenario_world_hosts(world, hosts);
    }
    free(hosts);
}

bool run_insides_any(const struct run_insides *insides)
{
    for (uint32_t i = 0; i < insides->n; i++) {
        if (insides->hosts[i].n > 1) {
            return true;
        }
    }
    return false;
}

weft_ps run_limit_ps(const struct run_insides *insides, const struct mesh_graph *graph,
                     const uint32_t *hosts, uint32_t n_ranks,
                     enum weft_collective collective, uint64_t size_bytes)
{
    const struct coll_inside *inside = &insides->hosts[hosts[0]];
    uint32_t *places;
    weft_ps limit = 0;

    for (uint32_t i = 1; i < n_ranks; i++) {
        if (hosts[i] != hosts[0]) {
            return mesh_limit_ps(graph, hosts, n_ranks, collective, size_bytes);
        }
    }
    if (inside->graph.n_edges > 0 && inside->n == n_ranks) {
        places = weft_calloc((size_t)n_ranks + 1, sizeof(*places));
        for (uint32_t i = 0; i < n_ranks; i++) {
            places[inside->ranks[i]] = i;
        }
        limit = mesh_limit_ps(&inside->graph, places, n_ranks, collective, size_bytes);
        free(places);
    }
    return limit;
}

void run_insides_fini(struct run_insides *insides)
{
    for (uint32_t i = 0; i < insides->n; i++) {
        coll_inside_fini(&insides->hosts[i]);
    }
    free(insides->hosts);
    *insides = (struct run_insides){NULL, 0};
}

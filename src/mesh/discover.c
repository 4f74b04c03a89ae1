#include "mesh/discover.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define NOBODY UINT32_MAX

/* A port of a host, and the network it is on. */
struct port {
    uint32_t host, port;
    const struct mesh_member_port *facts;
    /* index of a port nearer to the network's first one, which has its own */
    uint32_t network;
    uint32_t n_on; /* first port only: number of ports on its network */
    uint32_t node; /* first port only: its switch, or NOBODY */
    bool faces_v4; /* faces another port by an IPv4 address */
};

struct discovery {
    struct port *ports; /* Owned [n_ports] */
    uint32_t n_ports;
    uint32_t *first;                 /* Owned [n_hosts + 1]: ports of a host */
    const struct mesh_member **head; /* Owned [n_hosts]: the first member */
    uint32_t n_hosts;
};

/* ---- hosts ---- */

static bool is_unknown(const struct mesh_member *member)
{
    static const uint8_t nothing[MESH_HOST_ID_BYTES];
    return memcmp(member->host_id, nothing, sizeof(nothing)) == 0;
}

static uint32_t host_of(const struct discovery *discovery,
                        const struct mesh_member *member)
{
    for (uint32_t h = 0; h < discovery->n_hosts && !is_unknown(member); h++) {
        if (memcmp(discovery->head[h]->host_id, member->host_id, MESH_HOST_ID_BYTES) ==
            0) {
            return h;
        }
    }
    return NOBODY;
}

static void find_hosts(struct discovery *discovery, const struct mesh_member *members,
                       uint32_t n_members, uint32_t *out_hosts)
{
    size_t n_ports = 0;
    for (uint32_t i = 0; i < n_members; i++) {
        uint32_t host = host_of(discovery, &members[i]);
        if (host == NOBODY) {
            host = discovery->n_hosts++;
            discovery->head[host] = &members[i];
            n_ports += members[i].n_ports;
        }
        out_hosts[i] = host;
    }
    discovery->ports = weft_calloc(n_ports + 1, sizeof(*discovery->ports));
    for (uint32_t h = 0; h < discovery->n_hosts; h++) {
        discovery->first[h] = discovery->n_ports;
        for (uint32_t p = 0; p < discovery->head[h]->n_ports; p++) {
            uint32_t at = discovery->n_ports++;
            discovery->ports[at] = (struct port){.host = h,
                                                 .port = p,
                                                 .facts = &discovery->head[h]->ports[p],
                                                 .network = at,
                                                 .node = NOBODY};
        }
    }
    discovery->first[discovery->n_hosts] = discovery->n_ports;
}

/* ---- networks ---- */

static uint32_t network_of(struct discovery *discovery, uint32_t port)
{
    while (discovery->ports[port].network != port) {
        port = discovery->ports[port].network;
    }
    return port;
}

/* Joins two networks. The lesser index becomes the first port. */
static void join(struct discovery *discovery, uint32_t a, uint32_t b)
{
    a = network_of(discovery, a);
    b = network_of(discovery, b);
    discovery->ports[a > b ? a : b].network = a < b ? a : b;
}

/* Lists the addresses of the host's active ports; `port` is the index among all ports. */
static size_t list_addresses(const struct discovery *discovery, uint32_t host,
                             struct mesh_address **out)
{
    size_t n = 0;
    for (uint32_t p = discovery->first[host]; p < discovery->first[host + 1]; p++) {
        n += discovery->ports[p].facts->n_addresses;
    }
    *out = weft_calloc(n + 1, sizeof(**out));
    n = 0;
    for (uint32_t p = discovery->first[host]; p < discovery->first[host + 1]; p++) {
        const struct mesh_member_port *facts = discovery->ports[p].facts;
        for (uint32_t i = 0; i < facts->n_addresses && facts->is_active; i++) {
            (*out)[n++] = (struct mesh_address){p, facts->addresses[i]};
        }
    }
    return n;
}

static void match(struct discovery *discovery, const struct mesh_address *a, size_t n_a,
                  const struct mesh_address *b, size_t n_b)
{
    size_t cap = n_a * n_b;
    struct mesh_facing *facing = weft_calloc(cap + 1, sizeof(*facing));
    size_t n = mesh_find_facing(a, n_a, b, n_b, false, facing, cap);
    for (size_t i = 0; i < n; i++) {
        const struct mesh_address *one = &a[facing[i].local];
        const struct mesh_address *two = &b[facing[i].remote];
        bool is_v4 = io_ip_is_v4(&one->prefix.ip);
        join(discovery, one->port, two->port);
        discovery->ports[one->port].faces_v4 |= is_v4;
        discovery->ports[two->port].faces_v4 |= is_v4;
    }
    free(facing);
}

static void find_networks(struct discovery *discovery)
{
    struct mesh_address **lists =
        weft_calloc((size_t)discovery->n_hosts + 1, sizeof(*lists));
    size_t *n = weft_calloc((size_t)discovery->n_hosts + 1, sizeof(*n));
    for (uint32_t h = 0; h < discovery->n_hosts; h++) {
        n[h] = list_addresses(discovery, h, &lists[h]);
    }
    for (uint32_t a = 0; a < discovery->n_hosts; a++) {
        for (uint32_t b = a + 1; b < discovery->n_hosts; b++) {
            match(discovery, lists[a], n[a], lists[b], n[b]);
        }
        free(lists[a]);
    }
    free(lists);
    free(n);
    for (uint32_t p = 0; p < discovery->n_ports; p++) {
        discovery->ports[network_of(discovery, p)].n_on++;
    }
}

/* ---- the graph ---- */

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Adds both directions of a cable between port `a` and port `b`, or switch `node` if `b` is
 * NULL. */
static void add_cable(struct mesh_graph *graph, const struct port *a,
                      const struct port *b, uint32_t node, uint32_t switch_port)
{
    const struct mesh_member_port *other = b == NULL ? a->facts : b->facts;
    struct mesh_edge edge = {
        .from = a->host,
        .to = b == NULL ? node : b->host,
        .from_port = a->port,
        .to_port = b == NULL ? switch_port : b->port,
        .cable = (uint32_t)(graph->n_edges / 2),
        .rate_bps = lesser(a->facts->rate_bps, other->rate_bps),
        .mtu_bytes = (uint32_t)lesser(a->facts->mtu_bytes, other->mtu_bytes),
        .is_ipv6 = !a->faces_v4 || (b != NULL && !b->faces_v4),
        .from_root = MESH_NO_ROOT,
        .to_root = MESH_NO_ROOT,
    };
    graph->edges[graph->n_edges++] = edge;
    edge.from = b == NULL ? node : b->host;
    edge.to = a->host;
    edge.from_port = b == NULL ? switch_port : b->port;
    edge.to_port = a->port;
    graph->edges[graph->n_edges++] = edge;
}

/* Adds cables and switches in order of ports: a cable at its second port, a switch at its
 * first. */
static void add_cables(struct discovery *discovery, struct mesh_graph *graph)
{
    uint32_t *n_used = weft_calloc((size_t)discovery->n_ports + 1, sizeof(*n_used));
    for (uint32_t p = 0; p < discovery->n_ports; p++) {
        uint32_t network = network_of(discovery, p);
        struct port *first = &discovery->ports[network];
        if (first->n_on == 2 && p != network) {
            add_cable(graph, first, &discovery->ports[p], 0, 0);
        } else if (first->n_on > 2) {
            if (first->node == NOBODY) {
                first->node = graph->n_nodes++;
            }
            add_cable(graph, &discovery->ports[p], NULL, first->node, n_used[network]++);
        }
    }
    free(n_used);
}

void mesh_discover(const struct mesh_member *members, uint32_t n_members,
                   struct mesh_graph *out, uint32_t *out_hosts)
{
    struct discovery discovery = {
        .first = weft_calloc((size_t)n_members + 2, sizeof(uint32_t)),
        .head = weft_calloc((size_t)n_members + 1, sizeof(void *)),
    };
    find_hosts(&discovery, members, n_members, out_hosts);
    find_networks(&discovery);
    *out = (struct mesh_graph){
        .n_hosts = discovery.n_hosts,
        .n_nodes = discovery.n_hosts,
        .edges = weft_calloc(2 * (size_t)discovery.n_ports + 1, sizeof(*out->edges)),
    };
    add_cables(&discovery, out);
    free(discovery.ports);
    free(discovery.first);
    free(discovery.head);
}

/* ---- adopting a known graph ---- */

#define A_SWITCH (UINT32_MAX - 1)

/* Returns the node's number in `known`, A_SWITCH, or NOBODY for an unknown host. */
static uint32_t known_host(const struct mesh_graph *graph, const uint32_t *known_hosts,
                           uint32_t node)
{
    if (node >= graph->n_hosts) {
        return A_SWITCH;
    }
    return known_hosts == NULL ? node : known_hosts[node];
}

static bool is_end(const struct mesh_graph *known, uint32_t node, uint32_t port,
                   uint32_t host, uint32_t host_port)
{
    return host == A_SWITCH ? node >= known->n_hosts : node == host && port == host_port;
}

void mesh_adopt(struct mesh_graph *graph, const struct mesh_graph *known,
                const uint32_t *known_hosts)
{
    free(graph->roots);
    graph->roots = weft_calloc((size_t)known->n_roots + 1, sizeof(*graph->roots));
    graph->n_roots = known->n_roots;
    for (uint32_t r = 0; r < known->n_roots; r++) {
        graph->roots[r] = (struct mesh_root){NOBODY, known->roots[r].rate_bps};
        for (uint32_t h = 0; h < graph->n_hosts; h++) {
            if (known_host(graph, known_hosts, h) == known->roots[r].host) {
                graph->roots[r].host = h;
            }
        }
    }
    for (size_t e = 0; e < graph->n_edges; e++) {
        struct mesh_edge *edge = &graph->edges[e];
        uint32_t from = known_host(graph, known_hosts, edge->from);
        uint32_t to = known_host(graph, known_hosts, edge->to);
        for (size_t k = 0; k < known->n_edges && (from < A_SWITCH || to < A_SWITCH);
             k++) {
            const struct mesh_edge *like = &known->edges[k];
            if (is_end(known, like->from, like->from_port, from, edge->from_port) &&
                is_end(known, like->to, like->to_port, to, edge->to_port)) {
                edge->delay_ps = like->delay_ps;
                edge->rate_bps = like->rate_bps;
                edge->from_root = like->from_root;
                edge->to_root = like->to_root;
                break;
            }
        }
    }
}

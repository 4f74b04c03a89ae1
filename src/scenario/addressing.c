#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/arena.h"
#include "scenario/topology.h"

#define MANAGEMENT UINT32_MAX

/* A network used by a link or by management. */
struct use {
    struct io_prefix network;
    uint32_t link;  /* index of the link, or MANAGEMENT */
    bool is_subnet; /* from `subnet`, so that the ends get their addresses from it */
    bool may_overlap;
    bool has_switch;
    struct scenario_mark mark;
};

struct uses {
    struct use *items; /* [n] */
    uint32_t n;
};

enum { KEY_SUBNET, KEY_RATE, KEY_DELAY };
static const struct walk_key management_keys[] = {
    [KEY_SUBNET] = {.name = "subnet"},
    [KEY_RATE] = {.name = "rate",
                  .type = WALK_RATE,
                  .offset = offsetof(struct scenario_management, rate_bps)},
    [KEY_DELAY] = {.name = "delay",
                   .type = WALK_TIME,
                   .offset = offsetof(struct scenario_management, delay_ns)},
};
static const struct walk_table management_table = {"management", management_keys,
                                                   WEFT_LENGTH(management_keys)};

void management_read(struct topology *topology, const struct tree_node *node)
{
    struct loader *loader = topology->loader;
    struct scenario *s = loader->scenario;
    struct scenario_management *m = &s->management;
    struct walk_seen seen = {0};
    struct io_prefix last;
    char text[IO_IP_TEXT_BYTES];
    *m = (struct scenario_management){.exists = true,
                                      .subnet = {io_ip_v4(10, 0, 0, 0), 24},
                                      .rate_bps = UINT64_C(10000000000),
                                      .delay_ns = 50000};
    if (node != NULL) {
        m->mark = node->mark;
        if (node->kind == TREE_SCALAR && strcmp(node->text, "none") == 0) {
            *m = (struct scenario_management){.mark = node->mark};
            return;
        }
        if (!walk_map(loader, node, &management_table, &seen, m) ||
            (seen.at[KEY_SUBNET] != NULL &&
             !subnet_read(loader, seen.at[KEY_SUBNET], "subnet", &m->subnet))) {
            return;
        }
    }
    if (!subnet_host(&m->subnet, s->n_hosts, &last)) {
        complain(loader,
                 seen.at[KEY_SUBNET] != NULL ? seen.at[KEY_SUBNET]->mark : m->mark,
                 "management: %s has no room for %u nodes",
                 subnet_format(&m->subnet, text), s->n_hosts);
        return;
    }
    for (uint32_t i = 0; i < s->n_hosts; i++) {
        struct io_prefix address;
        if (subnet_host(&m->subnet, i + 1, &address)) {
            s->hosts[i].management_ip = address.ip;
        }
    }
}

static void add_address(const struct topology *topology, const struct world_end *end,
                        const struct io_prefix *address, const struct io_ip *peer)
{
    struct scenario_arena *arena = topology->loader->arena;
    struct world_port *port = &topology->hosts[end->node].ports[end->port];
    uint32_t n = port->n_addresses++;
    struct io_ip *peers = arena_grow(arena, port->peers, n, n + 1, sizeof(peers[0]));
    struct io_prefix *addresses =
        arena_grow(arena, port->addresses, n, n + 1, sizeof(addresses[0]));
    if (peer != NULL) {
        peers[n] = *peer;
    }
    addresses[n] = *address;
    port->peers = peers;
    port->addresses = addresses;
}

/* Adds an address of the link itself, which is on the link's VLAN if there is one. */
static void add_link_address(const struct topology *topology, const struct world_end *end,
                             const struct io_prefix *address, const struct io_ip *peer)
{
    struct world_port *port = &topology->hosts[end->node].ports[end->port];
    add_address(topology, end, address, peer);
    port->n_vlan_addresses += port->vlan_id != 0;
}

static unsigned n_host_ends(const struct world_cable *link)
{
    return (link->ends[0].is_switch ? 0u : 1u) + (link->ends[1].is_switch ? 0u : 1u);
}

static struct use *add_use(struct loader *loader, struct uses *uses, uint32_t link,
                           const struct link_addresses *from,
                           const struct tree_node *node, struct io_prefix network)
{
    struct use *use = &uses->items[uses->n++];
    *use = (struct use){.network = network,
                        .link = link,
                        .may_overlap = from->may_overlap,
                        .has_switch = n_host_ends(&loader->scenario->cables[link]) < 2,
                        .mark = node->mark};
    return use;
}

/* Returns true if two ends can communicate: one network contains the other, or each network
 * contains the other end's address (with peers, a network is all that an end reaches). */
static bool meet(const struct io_prefix *a, const struct io_prefix *b,
                 const struct io_prefix *own_a, const struct io_prefix *own_b)
{
    struct io_prefix host_a = {own_a->ip, io_ip_is_v4(&own_a->ip) ? 32 : 128};
    struct io_prefix host_b = {own_b->ip, io_ip_is_v4(&own_b->ip) ? 32 : 128};
    return subnet_contains(a, b) || subnet_contains(b, a) ||
           (subnet_contains(a, &host_b) && subnet_contains(b, &host_a));
}

/* Reads `addresses:` of a link, one for each end that is a host. */
static void read_addresses(const struct topology *topology, uint32_t index,
                           const struct link_addresses *from, struct uses *uses)
{
    struct loader *loader = topology->loader;
    const struct world_cable *link = &loader->scenario->cables[index];
    const struct tree_node *list = from->addresses;
    unsigned n = n_host_ends(link), n_read = 0;
    struct io_prefix found[2], networks[2];
    if (!read_list(loader, list, "addresses", n, n)) {
        return;
    }
    for (unsigned end = 0; end < 2; end++) {
        if (link->ends[end].is_switch) {
            continue;
        }
        const struct tree_node *node = list->items[n_read];
        struct io_ip peer;
        if (!address_read_peer(loader, node, "addresses", &found[n_read], &peer)) {
            return;
        }
        add_link_address(topology, &link->ends[end], &found[n_read], &peer);
        struct io_prefix reached = found[n_read];
        if (!io_ip_is_zero(&peer)) {
            reached.ip = peer;
        }
        networks[n_read] = subnet_network(&reached);
        n_read++;
    }
    if (n == 2) {
        if (io_ip_equal(&found[0].ip, &found[1].ip)) {
            complain(loader, list->items[1]->mark, "addresses: both ends have %s",
                     list->items[1]->text);
        } else if (!meet(&networks[0], &networks[1], &found[0], &found[1])) {
            complain(loader, list->items[1]->mark,
                     "addresses: %s and %s are in different networks; to "
                     "try this mistake, give them to the nodes instead",
                     list->items[0]->text, list->items[1]->text);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        add_use(loader, uses, index, from, list->items[i], networks[i]);
    }
}

static void read_subnet(struct loader *loader, uint32_t index,
                        const struct link_addresses *from, struct uses *uses)
{
    struct io_prefix network;
    if (n_host_ends(&loader->scenario->cables[index]) == 0) {
        complain(loader, from->subnet->mark, "subnet: neither end is a node");
    } else if (subnet_read(loader, from->subnet,
                           loader->scenario->links[index].is_cage_rail ? "subnets"
                                                                       : "subnet",
                           &network)) {
        add_use(loader, uses, index, from, from->subnet, network)->is_subnet = true;
    }
}

/* Sorts by network, the wider first, then by order in the file. */
static int compare_uses(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    int order = memcmp(x->network.ip.bytes, y->network.ip.bytes, 16);
    if (order == 0) {
        order = (int)x->network.prefix_len - (int)y->network.prefix_len;
    }
    if (order == 0) {
        order = x->link < y->link ? -1 : x->link > y->link;
    }
    return order;
}

/* Assigns the addresses of each subnet: to the first end, the second end, and so on through
 * all links that share it. */
static void assign(const struct topology *topology, const struct uses *uses)
{
    struct loader *loader = topology->loader;
    uint64_t n = 0;
    for (uint32_t i = 0; i < uses->n; i++) {
        const struct use *use = &uses->items[i];
        bool is_same = i > 0 && use->is_subnet && uses->items[i - 1].is_subnet &&
                       use->network.prefix_len == uses->items[i - 1].network.prefix_len &&
                       io_ip_equal(&use->network.ip, &uses->items[i - 1].network.ip);
        n = is_same ? n : 0;
        if (!use->is_subnet) {
            continue;
        }
        const struct world_cable *link = &loader->scenario->cables[use->link];
        for (unsigned end = 0; end < 2; end++) {
            struct io_prefix address;
            char text[IO_IP_TEXT_BYTES];
            if (link->ends[end].is_switch) {
                continue;
            }
            if (!subnet_host(&use->network, ++n, &address)) {
                complain(loader, use->mark,
                         "subnet: %s has no address left for this link",
                         subnet_format(&use->network, text));
                break;
            }
            add_link_address(topology, &link->ends[end], &address, NULL);
        }
    }
}

static void check_pair(struct loader *loader, const struct use *a, const struct use *b)
{
    bool is_equal = a->network.prefix_len == b->network.prefix_len;
    if (a->link == b->link || a->may_overlap || b->may_overlap ||
        (is_equal && a->has_switch && b->has_switch)) {
        return;
    }
    bool is_later = a->link != MANAGEMENT && (b->link == MANAGEMENT || a->link > b->link);
    const struct use *later = is_later ? a : b, *earlier = is_later ? b : a;
    char x[IO_IP_TEXT_BYTES], y[IO_IP_TEXT_BYTES];
    subnet_format(&later->network, x);
    subnet_format(&earlier->network, y);
    if (earlier->link == MANAGEMENT) {
        complain(loader, later->mark,
                 "subnet %s overlaps the management network %s; give "
                 "topology.management another subnet",
                 x, y);
    } else {
        complain(loader, later->mark,
                 "subnet %s overlaps %s of the link at line %u; if that is meant, write "
                 "'overlap: allowed'",
                 x, y, loader->scenario->links[earlier->link].mark.line);
    }
}

/* Prefixes nest or are disjoint, so in sorted order those that contain the current one form a
 * stack. A stack larger than any chain of different prefixes contains equal ones; complaining
 * about the first of these is enough. */
#define STACK_MAX 160

static void check_overlaps(struct loader *loader, const struct uses *uses)
{
    const struct use *stack[STACK_MAX];
    unsigned n = 0;
    for (uint32_t i = 0; i < uses->n; i++) {
        const struct use *use = &uses->items[i];
        while (n > 0 && !subnet_contains(&stack[n - 1]->network, &use->network)) {
            n--;
        }
        for (unsigned k = 0; k < n; k++) {
            check_pair(loader, stack[k], use);
        }
        if (n < STACK_MAX) {
            stack[n++] = use;
        }
    }
}

/* Reads `addresses:` of a node. */
static void read_more(struct topology *topology, uint32_t host)
{
    struct loader *loader = topology->loader;
    const struct tree_node *map = topology->hosts[host].addresses;
    if (map == NULL || !read_map(loader, map, "addresses")) {
        return;
    }
    walk_duplicates(loader, map, "addresses");
    for (uint32_t i = 0; i < map->n; i++) {
        const struct tree_node *list = map->pairs[i].value;
        struct world_end end = {.node = host};
        if (!topology_find_port(topology, map->pairs[i].key, "addresses", host,
                                &end.port) ||
            !read_list(loader, list, "addresses", 0, 64)) {
            continue;
        }
        for (uint32_t k = 0; k < list->n; k++) {
            const struct world_port *port =
                &loader->scenario->hosts[host].ports[end.port];
            struct io_prefix address;
            struct io_ip peer;
            bool is_new =
                address_read_peer(loader, list->items[k], "addresses", &address, &peer);
            for (uint32_t j = 0; is_new && j < port->n_addresses; j++) {
                if (io_ip_equal(&port->addresses[j].ip, &address.ip)) {
                    is_new = complain(loader, list->items[k]->mark,
                                      "addresses: port '%s' already has %s", port->name,
                                      list->items[k]->text);
                }
            }
            if (is_new) {
                add_address(topology, &end, &address, &peer);
            }
        }
    }
}

/* IPv6 link-local networks exist once per link and all have the same prefix. */
static bool is_per_link(const struct use *use)
{
    return !io_ip_is_v4(&use->network.ip) && io_ip_is_link_local(&use->network.ip);
}

void addressing_read(struct topology *topology, const struct link_addresses *links)
{
    struct loader *loader = topology->loader;
    struct scenario *s = loader->scenario;
    struct uses uses = {0}, checked = {0};
    uses.items =
        arena_calloc(loader->arena, 2 * (size_t)s->n_links + 1, sizeof(struct use));
    checked.items =
        arena_calloc(loader->arena, 2 * (size_t)s->n_links + 1, sizeof(struct use));
    for (uint32_t i = 0; i < s->n_links; i++) {
        if (links[i].subnet != NULL) {
            read_subnet(loader, i, &links[i], &uses);
        } else if (links[i].addresses != NULL) {
            read_addresses(topology, i, &links[i], &uses);
        }
    }
    qsort(uses.items, uses.n, sizeof(uses.items[0]), compare_uses);
    assign(topology, &uses);
    for (uint32_t i = 0; i < uses.n; i++) {
        if (!is_per_link(&uses.items[i])) {
            checked.items[checked.n++] = uses.items[i];
        }
    }
    if (s->management.exists) {
        checked.items[checked.n++] =
            (struct use){.network = s->management.subnet, .link = MANAGEMENT};
        qsort(checked.items, checked.n, sizeof(checked.items[0]), compare_uses);
    }
    check_overlaps(loader, &checked);
    for (uint32_t i = 0; i < s->n_hosts; i++) {
        read_more(topology, i);
        bonds_read(topology, i);
        routes_read(topology, i);
    }
}

#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/arena.h"
#include "scenario/topology.h"

enum {
    KEY_ENDPOINTS,
    KEY_SUBNET,
    KEY_SUBNETS,
    KEY_ADDRESSES,
    KEY_OVERLAP,
    KEY_MTU,
    KEY_VLAN,
    KEY_RATE,
    KEY_DELAY,
    KEY_PATH_LIMIT,
    KEY_LOSS,
    KEY_CORRUPT,
    KEY_DUPLICATE,
    KEY_REORDER,
    KEY_ECN,
    KEY_QUEUE,
    KEY_PAUSE,
    KEY_UP,
    N_KEYS
};

#define FIELD(member) .offset = offsetof(struct world_cable, member)
static const struct walk_key link_keys[N_KEYS] = {
    [KEY_ENDPOINTS] = {.name = "endpoints"},
    [KEY_SUBNET] = {.name = "subnet"},
    [KEY_SUBNETS] = {.name = "subnets"},
    [KEY_ADDRESSES] = {.name = "addresses"},
    [KEY_OVERLAP] = {.name = "overlap"},
    [KEY_MTU] = {.name = "mtu"},
    [KEY_VLAN] = {.name = "vlan"},
    [KEY_RATE] = {.name = "rate", .type = WALK_RATE, FIELD(rate_bps)},
    [KEY_DELAY] = {.name = "delay", .type = WALK_TIME_PS, FIELD(delay_ps)},
    [KEY_PATH_LIMIT] = {.name = "path_limit",
                        .type = WALK_SIZE32,
                        FIELD(path_limit_bytes),
                        .min = TOPOLOGY_MTU_MIN,
                        .max = TOPOLOGY_MTU_MAX},
    [KEY_LOSS] = {.name = "loss", .type = WALK_SHARE, FIELD(impairment.loss_ppb)},
    [KEY_CORRUPT] = {.name = "corrupt",
                     .type = WALK_SHARE,
                     FIELD(impairment.corrupt_ppb)},
    [KEY_DUPLICATE] = {.name = "duplicate",
                       .type = WALK_SHARE,
                       FIELD(impairment.duplicate_ppb)},
    [KEY_REORDER] = {.name = "reorder",
                     .type = WALK_SHARE,
                     FIELD(impairment.reorder_ppb)},
    [KEY_ECN] = {.name = "ecn", .type = WALK_SHARE, FIELD(impairment.ecn_ppb)},
    [KEY_QUEUE] = {.name = "queue",
                   .type = WALK_SIZE,
                   FIELD(queue_bytes),
                   .min = 1,
                   .max = WALK_SIZE_MAX},
    [KEY_PAUSE] = {.name = "pause", .type = WALK_BOOL, FIELD(pause)},
    [KEY_UP] = {.name = "up", .type = WALK_BOOL, FIELD(up)},
};
const struct walk_table links_table = {"a link", link_keys, N_KEYS};

/* A link of the file, before a cable between cages is split into rails. */
struct link_in {
    const struct tree_node *node;
    struct walk_seen own;
    struct world_cable values;
    struct topology_place places[2];
    const char *texts[2];
    struct scenario_mark marks[2];
    bool may_overlap;
};

static bool read_mtu(struct loader *loader, const struct tree_node *node, uint32_t *out)
{
    uint64_t mtu;
    if (!read_size(loader, node, "mtu", TOPOLOGY_MTU_MIN, TOPOLOGY_MTU_MAX, &mtu)) {
        return false;
    }
    *out = (uint32_t)mtu;
    return true;
}

static void see_defaults(const struct topology *topology, struct walk_seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    for (unsigned i = KEY_RATE; i < N_KEYS; i++) {
        seen->at[i] = tree_get(topology->defaults, link_keys[i].name);
    }
}

static void start_link(struct world_cable *link)
{
    *link = (struct world_cable){
        .rate_bps = UINT64_C(100000000000), .delay_ps = 1000000, .up = true};
}

void links_read_defaults(struct topology *topology)
{
    const struct tree_node *mtu = tree_get(topology->defaults, "mtu");
    struct world_cable link;
    struct walk_seen seen;
    start_link(&link);
    see_defaults(topology, &seen);
    walk_values(topology->loader, &links_table, &seen, &link);
    topology->default_rate_bps = link.rate_bps;
    topology->default_mtu_bytes = 9000;
    if (mtu != NULL) {
        read_mtu(topology->loader, mtu, &topology->default_mtu_bytes);
    }
}

static bool read_endpoints(struct topology *topology, struct link_in *in)
{
    struct loader *loader = topology->loader;
    const struct tree_node *list = in->own.at[KEY_ENDPOINTS];
    if (list == NULL) {
        return complain(loader, in->node->mark, "a link: 'endpoints' is missing");
    }
    if (!read_list(loader, list, "endpoints", 2, 2)) {
        return false;
    }
    bool is_fine = true;
    for (unsigned i = 0; i < 2; i++) {
        const struct tree_node *end = list->items[i];
        in->marks[i] = end->mark;
        if (!read_text(loader, end, "endpoints", &in->texts[i]) ||
            !topology_find(topology, end->mark, "endpoints", in->texts[i],
                           &in->places[i])) {
            is_fine = false;
        } else if (in->places[i].n_ports == 0) {
            is_fine = complain(loader, end->mark,
                               "endpoints: '%s' names no port; write '%s:PORT'",
                               in->texts[i], in->texts[i]);
        }
    }
    return is_fine;
}

static bool check_endpoints(struct topology *topology, const struct link_in *in)
{
    struct loader *loader = topology->loader;
    const struct topology_place *a = &in->places[0], *b = &in->places[1];
    if (a->is_switch == b->is_switch && a->node == b->node) {
        return complain(loader, in->marks[1], "endpoints: '%s' and '%s' are one node",
                        in->texts[0], in->texts[1]);
    }
    if (a->is_cage != b->is_cage) {
        const char *cage = in->texts[a->is_cage ? 0 : 1];
        return complain(loader, in->marks[a->is_cage ? 0 : 1],
                        "endpoints: '%s' is a cage and '%s' is not; a cage is cabled to "
                        "a cage, its functions are '%s.0' and '%s.1'",
                        cage, in->texts[a->is_cage ? 1 : 0], cage, cage);
    }
    return true;
}

/* Connects one end of link `index` to a port. Complains if the port is used already. */
static void plug(struct topology *topology, const struct link_in *in, unsigned end,
                 uint32_t port, uint32_t index)
{
    struct scenario *s = topology->loader->scenario;
    const struct topology_place *place = &in->places[end];
    uint32_t line = 0;
    if (place->is_switch) {
        uint32_t *taken = &topology->switch_lines[place->node][port];
        line = *taken;
        *taken = in->node->mark.line;
    } else {
        struct scenario_port *p = &s->nodes[place->node].ports[port];
        line = p->link >= 0 ? s->links[p->link].mark.line : 0;
        p->link = (int32_t)index;
        p->end = end;
        topology->hosts[place->node].ports[port].rate_bps = in->values.rate_bps;
    }
    if (line != 0) {
        complain(topology->loader, in->marks[end],
                 "endpoints: '%s' is used twice; the other link is at line %u",
                 in->texts[end], line);
    }
}

static const char *port_name(const struct scenario *s, const struct world_end *end,
                             char *out, size_t out_bytes)
{
    if (end->is_switch) {
        weft_format(out, out_bytes, "%s:%u", s->switches[end->node].name, end->port);
    } else {
        const struct world_host *host = &s->hosts[end->node];
        weft_format(out, out_bytes, "%s:%s", host->name, host->ports[end->port].name);
    }
    return out;
}

static void add_link(struct topology *topology, const struct link_in *in, unsigned rail,
                     struct link_addresses *addresses)
{
    struct loader *loader = topology->loader;
    struct scenario *s = loader->scenario;
    uint32_t index = s->n_links++;
    struct scenario_link *link = &s->links[index];
    const struct tree_node *subnets = in->own.at[KEY_SUBNETS];
    char a[128], b[128], name[260];

    struct world_cable *cable = &s->cables[index];

    *cable = in->values;
    link->mark = in->node->mark;
    link->is_cage_rail = in->places[0].is_cage;
    for (unsigned end = 0; end < 2; end++) {
        const struct topology_place *place = &in->places[end];
        cable->ends[end] =
            (struct world_end){place->is_switch, place->node, place->ports[rail]};
        plug(topology, in, end, place->ports[rail], index);
    }
    weft_format(name, sizeof(name), "%s-%s", port_name(s, &cable->ends[0], a, sizeof(a)),
                port_name(s, &cable->ends[1], b, sizeof(b)));
    link->name = arena_strdup(loader->arena, name);
    addresses[index] = (struct link_addresses){
        in->own.at[KEY_SUBNET], in->own.at[KEY_ADDRESSES], in->may_overlap};
    if (link->is_cage_rail) {
        addresses[index].subnet = subnets != NULL ? subnets->items[rail] : NULL;
        addresses[index].addresses = NULL;
    }
}

/* Reader and setter of a value for the ends of a link: "mtu" or "vlan". */
typedef bool (*end_reader)(struct loader *loader, const struct tree_node *node,
                           uint32_t *out);
typedef void (*end_setter)(struct world_port *port, uint32_t value);

static void set_mtu(struct world_port *port, uint32_t mtu_bytes)
{
    port->mtu_bytes = mtu_bytes;
}

static bool read_vlan(struct loader *loader, const struct tree_node *node, uint32_t *out)
{
    return read_u32(loader, node, "vlan", 1, 4094, out);
}

static void set_vlan(struct world_port *port, uint32_t vlan)
{
    port->vlan_id = (uint16_t)vlan;
}

static void set_end(struct topology *topology, const struct topology_place *place,
                    end_setter set, uint32_t value)
{
    if (place->is_switch) {
        return;
    }
    for (uint32_t i = 0; i < place->n_ports; i++) {
        set(&topology->hosts[place->node].ports[place->ports[i]], value);
    }
}

/* Refuses a list of values, and writes the map that it stands for. */
static void refuse_list(struct loader *loader, const struct link_in *in,
                        const struct tree_node *list, const char *name)
{
    char quoted[2][DIAGNOSE_QUOTE_BYTES];
    const char *values[2] = {"...", "..."};

    for (uint32_t i = 0; i < 2 && list->n == 2; i++) {
        if (list->items[i]->kind == TREE_SCALAR) {
            values[i] = diagnose_quote(list->items[i]->text, quoted[i]);
        }
    }
    complain(loader, list->mark,
             "%s: a list does not say which end has which value; write {'%s': %s, '%s': "
             "%s}, or one value for both ends",
             name, in->texts[0], values[0], in->texts[1], values[1]);
}

/* Reads one value for both ends, or a map from end to value. */
static void read_ends(struct topology *topology, const struct link_in *in, unsigned key,
                      end_reader read, end_setter set)
{
    struct loader *loader = topology->loader;
    const struct tree_node *node = in->own.at[key];
    const char *name = link_keys[key].name;
    uint32_t value;
    if (node == NULL) {
        return;
    }
    if (node->kind == TREE_LIST) {
        refuse_list(loader, in, node, name);
        return;
    }
    if (node->kind != TREE_MAP) {
        if (read(loader, node, &value)) {
            set_end(topology, &in->places[0], set, value);
            set_end(topology, &in->places[1], set, value);
        }
        return;
    }
    walk_duplicates(loader, node, name);
    for (uint32_t i = 0; i < node->n; i++) {
        const struct tree_node *at = node->pairs[i].key;
        bool is_first = strcmp(at->text, in->texts[0]) == 0;
        char quoted[DIAGNOSE_QUOTE_BYTES];
        if (!is_first && strcmp(at->text, in->texts[1]) != 0) {
            complain(loader, at->mark,
                     "%s: '%s' is no end of this link, '%s' and '%s' are", name,
                     diagnose_quote(at->text, quoted), in->texts[0], in->texts[1]);
        } else if (read(loader, node->pairs[i].value, &value)) {
            set_end(topology, &in->places[is_first ? 0 : 1], set, value);
        }
    }
}

/* Checks that the address keys fit the kind of link. */
static bool check_address_keys(struct loader *loader, const struct link_in *in)
{
    const struct tree_node *subnet = in->own.at[KEY_SUBNET];
    const struct tree_node *subnets = in->own.at[KEY_SUBNETS];
    const struct tree_node *addresses = in->own.at[KEY_ADDRESSES];
    bool is_cage = in->places[0].is_cage;
    if (is_cage && subnet != NULL) {
        return complain(loader, subnet->mark,
                        "subnet: a cable between cages is two rails; write 'subnets' "
                        "with two");
    }
    if (is_cage && addresses != NULL) {
        return complain(loader, addresses->mark,
                        "addresses: not on a cable between cages; cable '%s.0' and "
                        "'%s.1' one by one",
                        in->texts[0], in->texts[0]);
    }
    if (!is_cage && subnets != NULL) {
        return complain(loader, subnets->mark,
                        "subnets: only a cable between cages has two; write 'subnet'");
    }
    if (subnet != NULL && addresses != NULL) {
        return complain(loader, addresses->mark,
                        "addresses: instead of 'subnet', not beside it");
    }
    return subnets == NULL || read_list(loader, subnets, "subnets", 2, 2);
}

static void read_link(struct topology *topology, const struct tree_node *node,
                      struct link_addresses *addresses)
{
    static const char *const overlaps[] = {"forbidden", "allowed"};
    struct loader *loader = topology->loader;
    struct link_in in = {.node = node};
    struct walk_seen defaults;
    unsigned overlap = 0;

    if (!walk_keys(loader, node, &links_table, &in.own)) {
        return;
    }
    start_link(&in.values);
    see_defaults(topology, &defaults);
    walk_values(loader, &links_table, &defaults, &in.values);
    walk_values(loader, &links_table, &in.own, &in.values);
    in.values.is_rate_assumed =
        defaults.at[KEY_RATE] == NULL && in.own.at[KEY_RATE] == NULL;
    if (in.own.at[KEY_OVERLAP] != NULL) {
        read_choice(loader, in.own.at[KEY_OVERLAP], "overlap", overlaps, 2, &overlap);
    }
    in.may_overlap = overlap == 1;
    if (!read_endpoints(topology, &in) || !check_endpoints(topology, &in) ||
        !check_address_keys(loader, &in)) {
        return;
    }
    unsigned n_rails = in.places[0].is_cage ? 2 : 1;
    for (unsigned rail = 0; rail < n_rails; rail++) {
        add_link(topology, &in, rail, addresses);
    }
    read_ends(topology, &in, KEY_MTU, read_mtu, set_mtu);
    read_ends(topology, &in, KEY_VLAN, read_vlan, set_vlan);
}

static void start_ports(struct topology *topology)
{
    struct scenario *s = topology->loader->scenario;
    struct scenario_arena *arena = topology->loader->arena;
    for (uint32_t i = 0; i < s->n_hosts; i++) {
        for (uint32_t k = 0; k < s->hosts[i].n_ports; k++) {
            topology->hosts[i].ports[k].mtu_bytes = topology->default_mtu_bytes;
            topology->hosts[i].ports[k].rate_bps = topology->default_rate_bps;
        }
    }
    topology->switch_lines =
        arena_calloc(arena, s->n_switches, sizeof(topology->switch_lines[0]));
    for (uint32_t i = 0; i < s->n_switches; i++) {
        topology->switch_lines[i] =
            arena_calloc(arena, s->switches[i].n_ports, sizeof(uint32_t));
    }
}

void links_read(struct topology *topology, const struct tree_node *node)
{
    struct loader *loader = topology->loader;
    struct scenario *s = loader->scenario;
    const struct tree_node none = {.kind = TREE_LIST};
    start_ports(topology);
    if (node == NULL || !read_list(loader, node, "links", 0, TOPOLOGY_LINKS_MAX)) {
        node = &none;
    }
    s->cables = arena_calloc(loader->arena, 2 * (size_t)node->n, sizeof(s->cables[0]));
    s->links = arena_calloc(loader->arena, 2 * (size_t)node->n, sizeof(s->links[0]));
    struct link_addresses *addresses =
        arena_calloc(loader->arena, 2 * (size_t)node->n, sizeof(addresses[0]));
    for (uint32_t i = 0; i < node->n; i++) {
        read_link(topology, node->items[i], addresses);
    }
    addressing_read(topology, addresses);
}

/* Writes hosts, cables and addresses as a scenario. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "import/model.h"

#define MTU_KERNEL 1500u /* default of the kernel, if no file sets it */

/* One link of the file. */
struct cable {
    struct import_device *ends[2]; /* [1] is NULL if at a switch */
    bool is_whole;                 /* joins both functions of two cages */
    bool overlaps;                 /* its network overlaps that of another cable */
};

struct cables {
    struct cable *items; /* Owned; [n] */
    size_t n, cap;
};

static uint32_t mtu_of(const struct import_device *device)
{
    return device->mtu_bytes != 0 ? device->mtu_bytes : MTU_KERNEL;
}

static bool is_written(const struct import_device *device)
{
    return import_is_port(device) && device->left == IMPORT_KEPT;
}

/* ---- cables and their order ---- */

static int compare_ends(const struct import_device *a, const struct import_device *b)
{
    int order = (a->used == NULL) - (b->used == NULL);

    if (order == 0 && a->used != NULL) {
        order = memcmp(a->used->ip.bytes, b->used->ip.bytes, 16);
    }
    if (order == 0) {
        order = (int)a->host - (int)b->host;
    }
    return order != 0 ? order : strcmp(a->id, b->id);
}

static int compare_cables(const void *a, const void *b)
{
    return compare_ends(((const struct cable *)a)->ends[0],
                        ((const struct cable *)b)->ends[0]);
}

/* Returns true if the loader would derive the addresses of both ends from `subnet`. */
static bool is_by_rule(const struct import_device *a, const struct import_device *b)
{
    struct io_prefix network, first, second;

    if (a->used == NULL || b->used == NULL || a->is_tagged != b->is_tagged) {
        return false;
    }
    network = subnet_network(a->used);
    return subnet_host(&network, 1, &first) && subnet_host(&network, 2, &second) &&
           io_ip_equal(&first.ip, &a->used->ip) && io_ip_equal(&second.ip, &b->used->ip);
}

static bool are_alike(const struct import_device *a, const struct import_device *b)
{
    return mtu_of(a) == mtu_of(b) && a->vlan == NULL && b->vlan == NULL;
}

/* Returns true if one link between cages describes the cable at function 0 of `a` completely. */
static bool is_whole(const struct import_device *a)
{
    const struct import_device *b = a->peer;

    return a->is_cage && b != NULL && b->is_cage && a->function == 0 &&
           is_by_rule(a, b) && is_by_rule(a->twin, b->twin) && are_alike(a, a->twin) &&
           are_alike(b, b->twin) && !import_overlap(a->used, a->twin->used);
}

static void add_cable(struct cables *cables, struct import_device *a,
                      struct import_device *b, bool is_of_two)
{
    if (cables->n == cables->cap) {
        cables->cap = cables->cap == 0 ? 16 : 2 * cables->cap;
        cables->items = weft_realloc(cables->items, cables->cap * sizeof(*cables->items));
    }
    cables->items[cables->n++] = (struct cable){{a, b}, is_of_two, false};
}

/* A network used by a cable. */
struct use {
    struct io_prefix network;
    size_t cable;
    const struct import_switch *hub;
};

static int compare_uses(const void *a, const void *b)
{
    const struct use *x = a;
    const struct use *y = b;
    int order = memcmp(x->network.ip.bytes, y->network.ip.bytes, 16);

    if (order == 0) {
        order = (int)x->network.prefix_len - (int)y->network.prefix_len;
    }
    return order != 0 ? order : x->cable < y->cable ? -1 : x->cable > y->cable;
}

/* Marks cables whose networks overlap; those at one switch share theirs. Networks are nested or
 * disjoint, so in sorted order it is enough to compare each with the widest one that contains
 * it. */
static void find_overlaps(struct cables *cables)
{
    struct use *uses = weft_calloc(4 * cables->n + 1, sizeof(*uses));
    size_t n = 0, wide = 0;

    for (size_t i = 0; i < cables->n; i++) {
        for (unsigned k = 0; k < 4; k++) {
            const struct import_device *end = cables->items[i].ends[k / 2];

            end = end != NULL && k % 2 == 1
                      ? (cables->items[i].is_whole ? end->twin : NULL)
                      : end;
            if (end != NULL && end->used != NULL) {
                uses[n++] = (struct use){subnet_network(end->used), i, end->hub};
            }
        }
    }
    qsort(uses, n, sizeof(*uses), compare_uses);
    for (size_t i = 1; i < n; i++) {
        if (!subnet_contains(&uses[wide].network, &uses[i].network)) {
            wide = i;
        } else if (uses[wide].cable != uses[i].cable &&
                   (uses[i].hub == NULL || uses[i].hub != uses[wide].hub)) {
            cables->items[uses[wide].cable].overlaps = true;
            cables->items[uses[i].cable].overlaps = true;
        }
    }
    free(uses);
}

/* Splits cables of cages whose networks others use too, because with `subnets` the loader would
 * number their addresses consecutively. */
static void split_overlapping(struct cables *cables)
{
    const size_t n = cables->n;

    for (size_t i = 0; i < n; i++) {
        if (cables->items[i].is_whole && cables->items[i].overlaps) {
            struct cable *cable = &cables->items[i];

            cable->is_whole = false;
            add_cable(cables, cable->ends[0]->twin, cable->ends[1]->twin, false);
            cables->items[cables->n - 1].overlaps = true;
        }
    }
}

static void find_cables(const struct import *import, struct cables *cables)
{
    for (uint32_t h = 0; h < import->n_hosts; h++) {
        for (uint32_t d = 0; d < import->hosts[h].n_devices; d++) {
            struct import_device *a = import->hosts[h].devices[d];
            struct import_device *b = a->peer;

            if (!is_written(a) || (b == NULL && a->hub == NULL)) {
                continue;
            }
            if (b == NULL) {
                add_cable(cables, a, NULL, false);
            } else if (is_whole(a)) {
                add_cable(cables, a, b, true);
            } else if (a->is_cage && b->is_cage && a->function == 1 &&
                       (is_whole(a->twin) || is_whole(b->twin))) {
                continue; /* written with function 0 */
            } else if (!(a->function == 0 && b->is_cage && is_whole(b)) &&
                       compare_ends(a, b) < 0) {
                add_cable(cables, a, b, false);
            }
        }
    }
    if (cables->n > 0) {
        qsort(cables->items, cables->n, sizeof(*cables->items), compare_cables);
    }
    find_overlaps(cables);
    split_overlapping(cables);
}

/* ---- nodes ---- */

/* Adds `begin` before the first item, ", " before others. */
static void add_item(struct weft_text *out, bool *is_first, const char *begin)
{
    weft_text_add(out, "%s", *is_first ? begin : ", ");
    *is_first = false;
}

static void write_ports(const struct import_host *host, struct weft_text *out,
                        bool *is_first)
{
    bool is_first_port = true;

    for (uint32_t d = 0; d < host->n_devices; d++) {
        const struct import_device *device = host->devices[d];

        if (is_written(device) && !device->is_cage) {
            if (is_first_port) {
                add_item(out, is_first, "");
            }
            add_item(out, &is_first_port, "ports: [");
            weft_text_add(out, "\"%s\"", device->name);
        }
    }
    weft_text_add(out, "%s", is_first_port ? "" : "]");
}

/* Writes the addresses that no link defines. */
static void write_addresses(const struct import_host *host, struct weft_text *out,
                            bool *is_first)
{
    bool is_first_port = true;

    for (uint32_t d = 0; d < host->n_devices; d++) {
        const struct import_device *device = host->devices[d];
        bool is_first_address = true;
        char text[IO_IP_TEXT_BYTES];
        char name[64];

        for (uint32_t i = 0; is_written(device) && i < device->n_addresses; i++) {
            if (&device->addresses[i] == device->used) {
                continue;
            }
            if (is_first_port) {
                add_item(out, is_first, "");
            }
            if (is_first_address) {
                add_item(out, &is_first_port, "addresses: {");
                weft_text_add(out, "\"%s\": ", import_port(device, name, sizeof(name)));
            }
            add_item(out, &is_first_address, "[");
            weft_text_add(out, "\"%s\"", subnet_format(&device->addresses[i], text));
        }
        weft_text_add(out, "%s", is_first_address ? "" : "]");
    }
    weft_text_add(out, "%s", is_first_port ? "" : "}");
}

static void write_bond(const struct import_host *host, const struct import_device *bond,
                       struct weft_text *out)
{
    bool is_first = true;
    char text[IO_IP_TEXT_BYTES];
    char name[64];

    weft_text_add(out, "\"%s\": {", bond->name);
    for (uint32_t i = 0; i < bond->n_members; i++) {
        const struct import_device *port = import_find(host, bond->members[i]);

        if (port != NULL && port->bond == bond) {
            add_item(out, &is_first, "ports: [");
            weft_text_add(out, "\"%s\"", import_port(port, name, sizeof(name)));
        }
    }
    weft_text_add(out, "%s", is_first ? "" : "]");
    for (uint32_t i = 0; i < bond->n_addresses; i++) {
        weft_text_add(out, "%s\"%s\"", i == 0 ? ", addresses: [" : ", ",
                      subnet_format(&bond->addresses[i], text));
    }
    weft_text_add(out, "%s}", bond->n_addresses > 0 ? "]" : "");
}

static void write_bonds(const struct import_host *host, struct weft_text *out,
                        bool *is_first)
{
    bool is_first_bond = true;

    for (uint32_t d = 0; d < host->n_devices; d++) {
        const struct import_device *device = host->devices[d];

        if (device->kind == IMPORT_BOND && device->left == IMPORT_KEPT &&
            device->n_members > 0) {
            if (is_first_bond) {
                add_item(out, is_first, "");
            }
            add_item(out, &is_first_bond, "bonds: {");
            write_bond(host, device, out);
        }
    }
    weft_text_add(out, "%s", is_first_bond ? "" : "}");
}

/* Returns true if a port or bond of the host is in the same network as a gateway. */
static bool reaches(const struct import_host *host, const struct io_ip *via)
{
    for (uint32_t d = 0; d < host->n_devices; d++) {
        const struct import_device *device = host->devices[d];

        for (uint32_t i = 0; device->left == IMPORT_KEPT && i < device->n_addresses &&
                             device->kind != IMPORT_OTHER;
             i++) {
            const struct io_prefix *own = &device->addresses[i];

            if (io_ip_same_subnet(&own->ip, via, own->prefix_len) &&
                !io_ip_equal(&own->ip, via)) {
                return true;
            }
        }
    }
    return false;
}

static void write_routes(const struct import_host *host, struct weft_text *out,
                         bool *is_first)
{
    bool is_first_route = true;

    for (uint32_t d = 0; d < host->n_devices; d++) {
        const struct import_device *device = host->devices[d];

        for (uint32_t i = 0; device->left == IMPORT_KEPT && i < device->n_routes; i++) {
            const struct import_route *route = &device->routes[i];
            char to[IO_IP_TEXT_BYTES], via[IO_IP_TEXT_BYTES];

            if (!reaches(host, &route->via) ||
                io_ip_is_v4(&route->to.ip) != io_ip_is_v4(&route->via)) {
                continue;
            }
            if (is_first_route) {
                add_item(out, is_first, "");
            }
            add_item(out, &is_first_route, "routes: [");
            weft_text_add(out, "\"%s via %s\"", subnet_format(&route->to, to),
                          io_ip_format(&route->via, via, sizeof(via)));
        }
    }
    weft_text_add(out, "%s", is_first_route ? "" : "]");
}

#define SPARK "cages: [p0, p1], pcie: {root0: 100Gbps, root1: 100Gbps}"

static void write_nodes(const struct import *import, bool are_all_sparks,
                        struct weft_text *out)
{
    weft_text_add(out, "  nodes:\n");
    for (uint32_t h = 0; h < import->n_hosts; h++) {
        const struct import_host *host = &import->hosts[h];
        bool is_first = true;

        weft_text_add(out, "    \"%s\": {", host->name);
        write_ports(host, out, &is_first);
        if (host->has_cages && !are_all_sparks) {
            add_item(out, &is_first, "");
            weft_text_add(out, SPARK);
        }
        write_addresses(host, out, &is_first);
        write_bonds(host, out, &is_first);
        write_routes(host, out, &is_first);
        weft_text_add(out, "}\n");
    }
}

/* ---- links ---- */

static const char *hub_prefix(const struct import *import)
{
    for (uint32_t h = 0; h < import->n_hosts; h++) {
        if (strncmp(import->hosts[h].name, "sw", 2) == 0) {
            return "netplan-switch-";
        }
    }
    return "sw";
}

static void write_end(const struct import *import, const struct cable *cable,
                      unsigned end, struct weft_text *out)
{
    const struct import_device *device = cable->ends[end];
    char name[64];

    if (device == NULL) {
        const struct import_device *port = cable->ends[0];

        weft_text_add(out, "\"%s%u:%u\"", hub_prefix(import), port->hub->index,
                      port->hub_port);
    } else if (cable->is_whole) {
        weft_text_add(out, "\"%s:p%u\"", import->hosts[device->host].name, device->cage);
    } else {
        weft_text_add(out, "\"%s:%s\"", import->hosts[device->host].name,
                      import_port(device, name, sizeof(name)));
    }
}

static void write_link_addresses(const struct cable *cable, struct weft_text *out)
{
    const struct import_device *a = cable->ends[0];
    const struct import_device *b = cable->ends[1];
    char x[IO_IP_TEXT_BYTES], y[IO_IP_TEXT_BYTES];
    struct io_prefix networks[2];

    if (a->used == NULL || (b != NULL && b->used == NULL)) {
        return;
    }
    networks[0] = subnet_network(a->used);
    if (cable->is_whole) {
        networks[1] = subnet_network(a->twin->used);
        weft_text_add(out, ", subnets: [\"%s\", \"%s\"]", subnet_format(&networks[0], x),
                      subnet_format(&networks[1], y));
    } else if (b == NULL) {
        weft_text_add(out, ", addresses: [\"%s\"]", subnet_format(a->used, x));
    } else if (is_by_rule(a, b) && !cable->overlaps) {
        weft_text_add(out, ", subnet: \"%s\"", subnet_format(&networks[0], x));
    } else {
        weft_text_add(out, ", addresses: [\"%s\", \"%s\"]", subnet_format(a->used, x),
                      subnet_format(b->used, y));
    }
}

/* Writes `key` as one value, or one per end if they differ. A value of 0 is omitted. */
static void write_by_end(const struct import *import, const struct cable *cable,
                         const char *key, const uint32_t values[2], struct weft_text *out)
{
    bool is_first = true;

    if (values[0] == values[1]) {
        if (values[0] != 0) {
            weft_text_add(out, ", %s: %u", key, values[0]);
        }
        return;
    }
    weft_text_add(out, ", %s: {", key);
    for (unsigned end = 0; end < 2; end++) {
        if (values[end] != 0) {
            add_item(out, &is_first, "");
            write_end(import, cable, end, out);
            weft_text_add(out, ": %u", values[end]);
        }
    }
    weft_text_add(out, "}");
}

static uint32_t tag_of(const struct import_device *device)
{
    return device != NULL && device->is_tagged ? device->vlan->vlan_id : 0;
}

static void write_link(const struct import *import, const struct cable *cable,
                       struct weft_text *out)
{
    const struct import_device *a = cable->ends[0];
    const struct import_device *b = cable->ends[1];
    uint32_t mtus[2] = {mtu_of(a), mtu_of(b != NULL ? b : a)};
    uint32_t tags[2] = {tag_of(a), b != NULL ? tag_of(b) : tag_of(a)};

    weft_text_add(out, "    - {endpoints: [");
    write_end(import, cable, 0, out);
    weft_text_add(out, ", ");
    write_end(import, cable, 1, out);
    weft_text_add(out, "]");
    write_link_addresses(cable, out);
    write_by_end(import, cable, "vlan", tags, out);
    if (mtus[0] != IMPORT_MTU_DEFAULT || mtus[1] != IMPORT_MTU_DEFAULT) {
        write_by_end(import, cable, "mtu", mtus, out);
    }
    weft_text_add(out, "%s}\n", cable->overlaps ? ", overlap: allowed" : "");
}

/* ---- the rest ---- */

/* Returns true if no address of the scenario overlaps `network`. */
static bool is_unused(const struct import *import, const struct io_prefix *network)
{
    for (uint32_t h = 0; h < import->n_hosts; h++) {
        for (uint32_t d = 0; d < import->hosts[h].n_devices; d++) {
            const struct import_device *device = import->hosts[h].devices[d];

            for (uint32_t i = 0; device->left == IMPORT_KEPT && i < device->n_addresses;
                 i++) {
                if (import_overlap(network, &device->addresses[i])) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Writes the management network: one of the hosts' own that has room and that no cable uses,
 * because a scenario's management network never carries data; otherwise one that is free. */
static void write_management(const struct import *import, struct weft_text *out)
{
    static const char *const others[] = {"10.0.0.0/24", "198.18.0.0/15", "172.31.0.0/16",
                                         "192.168.252.0/22"};
    struct io_prefix network, last;
    char text[IO_IP_TEXT_BYTES];

    for (uint32_t i = 0; i < import->n_management; i++) {
        network = import->management[i];
        if (subnet_host(&network, import->n_hosts + 1, &last) &&
            is_unused(import, &network)) {
            weft_text_add(out, "  management: {subnet: \"%s\"}\n",
                          subnet_format(&network, text));
            return;
        }
    }
    for (size_t i = 0; i < WEFT_LENGTH(others); i++) {
        if (io_prefix_parse(others[i], &network) &&
            subnet_host(&network, import->n_hosts + 1, &last) &&
            is_unused(import, &network)) {
            if (i > 0) { /* the first is the default */
                weft_text_add(out, "  management: {subnet: \"%s\"}\n", others[i]);
            }
            return;
        }
    }
    weft_text_add(out, "  management: none\n");
}

static void write_left_out(const struct import *import, struct weft_text *out)
{
    static const char *const why[] = {
        [IMPORT_KEPT] = "no port of a mesh",
        [IMPORT_WITHOUT] = "--without",
        [IMPORT_DHCP] = "DHCP",
        [IMPORT_MANAGEMENT] = "management network",
        [IMPORT_BRIDGED] = "bridge",
        [IMPORT_UNADDRESSED] = "no address",
    };
    bool is_first = true;

    for (uint32_t h = 0; h < import->n_hosts; h++) {
        for (uint32_t d = 0; d < import->hosts[h].n_devices; d++) {
            const struct import_device *device = import->hosts[h].devices[d];
            char place[IMPORT_PLACE_BYTES];

            if (device->left == IMPORT_KEPT && device->kind != IMPORT_OTHER) {
                continue;
            }
            add_item(out, &is_first, "# Left out: ");
            weft_text_add(out, "%s (%s)",
                          import_place(import, device, place, sizeof(place)),
                          why[device->left]);
        }
    }
    weft_text_add(out, "%s", is_first ? "" : ".\n");
}

void import_write(const struct import *import, struct weft_text *out)
{
    struct cables cables = {NULL, 0, 0};
    bool are_all_sparks = true;

    for (uint32_t h = 0; h < import->n_hosts; h++) {
        are_all_sparks = are_all_sparks && import->hosts[h].has_cages;
    }
    find_cables(import, &cables);
    weft_text_add(out, "# Made by `weft import %s`. %s: those are defaults.\n",
                  import->is_of_hosts ? "hosts" : "netplan",
                  import->is_of_hosts ? "A hosts file says nothing of MTUs and rates"
                                      : "Netplan says nothing of rates");
    write_left_out(import, out);
    weft_text_add(out, "%s\ntopology:\n",
                  import->is_of_hosts
                      ? "name: hosts\ndescription: \"hosts as a hosts file names them\""
                      : "name: netplan\ndescription: \"hosts as their netplan files "
                        "address them\"");
    write_management(import, out);
    if (are_all_sparks) {
        weft_text_add(out, "  defaults: {" SPARK "}\n");
    }
    write_nodes(import, are_all_sparks, out);
    weft_text_add(out, "%s", import->n_switches > 0 ? "  switches:\n" : "");
    for (uint32_t i = 0; i < import->n_switches; i++) {
        weft_text_add(out, "    \"%s%u\": {ports: %u}\n", hub_prefix(import), i,
                      import->switches[i]->n_ports);
    }
    weft_text_add(out, "  links:\n");
    for (size_t i = 0; i < cables.n; i++) {
        write_link(import, &cables.items[i], out);
    }
    weft_text_add(out, "jobs:\n"
                       "  - all_reduce: {bytes: [8, 1MiB, 16MiB]}\n"
                       "  - all_gather: {bytes: 16MiB}\n"
                       "  - all_to_all: {bytes: 4MiB}\n"
                       "  - send_recv: {bytes: 4MiB}\n"
                       "expect:\n  data: exact\n");
    free(cables.items);
}

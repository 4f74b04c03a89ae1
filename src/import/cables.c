/* Infers cables and switches from the networks that ports share, and asks where that is ambiguous.
 * A port has one cable; the two functions of a cage share one. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "import/model.h"

/* An address of a port or bond, in its network. */
struct end {
    struct io_prefix network;
    const struct io_prefix *address;
    struct import_device *device; /* a port or a bond */
    struct import_device
        *unit; /* owner of the cable: a cage's first function, or `device` */
};

struct ends {
    struct end *items; /* Owned; [n] */
    size_t n, cap;
};

/* ---- ends ---- */

static struct import_device *unit_of(struct import_device *device)
{
    return device->is_cage && device->function == 1 ? device->twin : device;
}

/* Returns true if a port (regardless of its twin) or a bond has its cable. */
static bool is_cabled(const struct import_device *device)
{
    return device->peer != NULL || device->hub != NULL || device->is_told;
}

static bool has_cable(const struct import_device *unit)
{
    return is_cabled(unit) || (unit->twin != NULL && is_cabled(unit->twin));
}

/* Returns the bond or cage of a port, or the port itself. */
static struct import_device *whole(struct import_device *port)
{
    return port->bond != NULL ? port->bond : unit_of(port);
}

static void add_ends(struct ends *ends, struct import_device *device,
                     const struct import_device *from)
{
    for (uint32_t i = 0; i < from->n_addresses; i++) {
        const struct io_prefix *address = &from->addresses[i];

        if (io_ip_is_link_local(&address->ip) ||
            address->prefix_len == (io_ip_is_v4(&address->ip) ? 32 : 128)) {
            continue; /* does not identify the other end */
        }
        if (ends->n == ends->cap) {
            ends->cap = ends->cap == 0 ? 64 : 2 * ends->cap;
            ends->items = weft_realloc(ends->items, ends->cap * sizeof(*ends->items));
        }
        ends->items[ends->n++] =
            (struct end){subnet_network(address), address, device, unit_of(device)};
    }
}

static int compare_addresses(const void *a, const void *b)
{
    const struct end *x = a;
    const struct end *y = b;

    return memcmp(x->address->ip.bytes, y->address->ip.bytes, 16);
}

static int compare_ends(const void *a, const void *b)
{
    const struct end *x = a;
    const struct end *y = b;
    int order = memcmp(x->network.ip.bytes, y->network.ip.bytes, 16);

    if (order == 0) {
        order = (int)x->network.prefix_len - (int)y->network.prefix_len;
    }
    if (order == 0) {
        order = memcmp(x->address->ip.bytes, y->address->ip.bytes, 16);
    }
    if (order == 0) {
        order = (int)x->device->host - (int)y->device->host;
    }
    return order != 0 ? order : strcmp(x->device->id, y->device->id);
}

static void collect(struct import *import, struct ends *ends)
{
    for (uint32_t h = 0; h < import->n_hosts; h++) {
        for (uint32_t d = 0; d < import->hosts[h].n_devices; d++) {
            struct import_device *device = import->hosts[h].devices[d];

            if (device->left != IMPORT_KEPT ||
                (!import_is_port(device) && device->kind != IMPORT_BOND)) {
                continue;
            }
            add_ends(ends, device, device);
            if (device->vlan != NULL) {
                add_ends(ends, device, device->vlan);
            }
        }
    }
}

/* Complains about each address that occurs twice. */
static void check_twice(struct import *import, const struct ends *ends)
{
    if (ends->n == 0) {
        return;
    }
    qsort(ends->items, ends->n, sizeof(*ends->items), compare_addresses);
    for (size_t i = 1; i < ends->n; i++) {
        const struct end *a = &ends->items[i - 1];
        const struct end *b = &ends->items[i];
        char ip[IO_IP_TEXT_BYTES], x[IMPORT_PLACE_BYTES], y[IMPORT_PLACE_BYTES];

        if (io_ip_equal(&a->address->ip, &b->address->ip)) {
            import_place(import, a->device, x, sizeof(x));
            import_place(import, b->device, y, sizeof(y));
            import_complain(import,
                            "%s is the address of %s and of %s; correct a file, or leave "
                            "one out by --without %s",
                            io_ip_format(&a->address->ip, ip, sizeof(ip)), x, y, y);
        }
    }
    qsort(ends->items, ends->n, sizeof(*ends->items), compare_ends);
}

/* ---- cables ---- */

/* Connects two ports, and their twins if both are in cages. */
static void join(struct import_device *a, struct import_device *b)
{
    if (a->is_cage && b->is_cage) {
        struct import_device *x = unit_of(a);
        struct import_device *y = unit_of(b);

        x->peer = y;
        y->peer = x;
        x->twin->peer = y->twin;
        y->twin->peer = x->twin;
    } else {
        a->peer = b;
        b->peer = a;
    }
}

/* Returns true if `name` is its netdev, its key, or a Spark's cage (p0) or function (p0.1). */
static bool is_called(const struct import_device *device, const char *name)
{
    char cage[8];
    char port[64];

    weft_format(cage, sizeof(cage), "p%u", device->cage);
    return strcmp(device->name, name) == 0 || strcmp(device->id, name) == 0 ||
           (device->is_cage && device->function == 0 && strcmp(cage, name) == 0) ||
           (device->is_cage &&
            strcmp(import_port(device, port, sizeof(port)), name) == 0);
}

/* Finds "HOST:PORT"; PORT is a netdev, a port's key, or a cage (p0, p1) of a Spark. */
static struct import_device *find_place(struct import *import, const char *text, size_t n)
{
    const char *colon = memchr(text, ':', n);
    char quoted[DIAGNOSE_QUOTE_BYTES];
    char place[IMPORT_PLACE_BYTES];

    weft_format(place, sizeof(place), "%.*s",
                (int)(n < sizeof(place) ? n : sizeof(place) - 1), text);
    for (uint32_t h = 0; colon != NULL && h < import->n_hosts; h++) {
        const struct import_host *host = &import->hosts[h];
        size_t n_host = strlen(host->name);

        if (n_host != (size_t)(colon - text) || strncmp(host->name, text, n_host) != 0) {
            continue;
        }
        for (uint32_t d = 0; d < host->n_devices; d++) {
            struct import_device *device = host->devices[d];

            if (is_called(device, place + n_host + 1)) {
                return device->link != NULL ? import_find(host, device->link) : device;
            }
        }
    }
    import_complain(import, "--cable: no file has the port '%s' (HOST:PORT)",
                    diagnose_quote(place, quoted));
    return NULL;
}

/* Connects the two ports of a --cable. */
static void join_told(struct import *import, const char *text)
{
    const char *comma = strchr(text, ',');
    struct import_device *ends[2];
    char x[IMPORT_PLACE_BYTES], y[IMPORT_PLACE_BYTES], quoted[DIAGNOSE_QUOTE_BYTES];

    if (comma == NULL) {
        import_complain(import, "--cable: expected HOST:PORT,HOST:PORT, got '%s'",
                        diagnose_quote(text, quoted));
        return;
    }
    ends[0] = find_place(import, text, (size_t)(comma - text));
    ends[1] = find_place(import, comma + 1, strlen(comma + 1));
    if (ends[0] == NULL || ends[1] == NULL) {
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        if (!import_is_port(ends[i])) {
            import_complain(import, "--cable: %s is no port; name the port of its cable",
                            import_place(import, ends[i], x, sizeof(x)));
            return;
        }
    }
    if (ends[0]->host == ends[1]->host || has_cable(ends[0]) || has_cable(ends[1])) {
        import_complain(import,
                        "--cable: %s and %s are ports of one host, or one has a cable "
                        "already",
                        import_place(import, ends[0], x, sizeof(x)),
                        import_place(import, ends[1], y, sizeof(y)));
        return;
    }
    join(ends[0], ends[1]);
    for (unsigned i = 0; i < 2; i++) {
        struct import_device *device = ends[i];

        device->left = IMPORT_KEPT;
        device->is_told = true;
        if (device->bond != NULL) {
            device->bond->is_told = true;
        }
        if (device->twin != NULL && device->twin->peer != NULL) {
            device->twin->is_told = true;
        }
    }
}

/* ---- one network ---- */

struct group {
    struct end *ends; /* [n], in one network */
    size_t n;
    struct import_device **units; /* Owned; [n_units], distinct, by address */
    size_t n_units;
    bool are_hosts_distinct;
};

static int compare_pointers_by_place(const void *a, const void *b)
{
    const struct import_device *x = *(struct import_device *const *)a;
    const struct import_device *y = *(struct import_device *const *)b;
    int order = (int)x->host - (int)y->host;

    return order != 0 ? order : strcmp(x->id, y->id);
}

static void find_units(struct group *group)
{
    struct import_device **all = weft_calloc(group->n, sizeof(struct import_device *));

    for (size_t i = 0; i < group->n; i++) {
        all[i] = group->ends[i].unit;
    }
    qsort(all, group->n, sizeof(struct import_device *), compare_pointers_by_place);
    group->units = all;
    group->are_hosts_distinct = true;
    for (size_t i = 0; i < group->n; i++) {
        if (group->n_units == 0 || all[group->n_units - 1] != all[i]) {
            group->are_hosts_distinct =
                group->are_hosts_distinct &&
                (group->n_units == 0 || all[group->n_units - 1]->host != all[i]->host);
            all[group->n_units++] = all[i];
        }
    }
}

/* Appends a list of up to 8 units: "a:p0, b:p1 and 3 more". */
static void list_units(const struct import *import, const struct group *group,
                       struct weft_text *out)
{
    for (size_t i = 0; i < group->n_units && i < 8; i++) {
        char place[IMPORT_PLACE_BYTES];

        weft_text_add(out, "%s%s", i > 0 ? ", " : "",
                      import_place(import, group->units[i], place, sizeof(place)));
    }
    if (group->n_units > 8) {
        weft_text_add(out, " and %zu more", group->n_units - 8);
    }
}

static void ask_how(struct import *import, const struct group *group, const char *why)
{
    struct weft_text list = {NULL, 0, 0};
    char network[IO_IP_TEXT_BYTES];

    list_units(import, group, &list);
    subnet_format(&group->ends[0].network, network);
    import_complain(import,
                    "network %s: %s are in it, and %s; say each cable by --cable "
                    "HOST:PORT,HOST:PORT, or one switch for all by --switch %s, or leave "
                    "ports out by --without",
                    network, list.bytes, why, network);
    weft_text_fini(&list);
}

static void ask_other_end(struct import *import, const struct group *group)
{
    char network[IO_IP_TEXT_BYTES], place[IMPORT_PLACE_BYTES];

    import_place(import, group->ends[0].device, place, sizeof(place));
    import_complain(import,
                    "network %s: only %s is in it, so the other end of its cable is not "
                    "known; add the file of the host there, or say --cable %s,HOST:PORT "
                    "or --without %s",
                    subnet_format(&group->ends[0].network, network), place, place, place);
}

static bool is_switch_told(const struct import *import, const struct io_prefix *network)
{
    for (size_t i = 0; i < import->answers->n_switches; i++) {
        struct io_prefix told;

        if (io_prefix_parse(import->answers->switches[i], &told) &&
            import_same_network(&told, network)) {
            return true;
        }
    }
    return false;
}

static void plug_in(struct import_switch *hub, struct import_device *device)
{
    if (device->hub == NULL) {
        device->hub = hub;
        device->hub_port = hub->n_ports++;
    }
}

/* Connects all ports of a network, and every port of its bonds, to one switch. */
static void join_by_switch(struct import *import, const struct group *group)
{
    struct import_switch *hub = arena_calloc(import->arena, 1, sizeof(*hub));

    hub->network = group->ends[0].network;
    hub->index = import->n_switches;
    import->switches = arena_grow(import->arena, import->switches, import->n_switches,
                                  import->n_switches + 1, sizeof(struct import_switch *));
    import->switches[import->n_switches++] = hub;
    for (size_t i = 0; i < group->n; i++) {
        struct import_device *device = group->ends[i].device;
        const struct import_host *host = &import->hosts[device->host];

        for (uint32_t k = 0; k < device->n_members; k++) {
            struct import_device *port = import_find(host, device->members[k]);

            if (port != NULL && port->bond == device && port->peer == NULL) {
                plug_in(hub, port);
            }
        }
        if (device->kind == IMPORT_BOND) {
            device->hub = hub; /* makes has_cable() true */
        } else {
            plug_in(hub, device);
        }
    }
}

/* Returns the port itself, or the only port of a bond; NULL if a bond has several. */
static struct import_device *only_port(struct import *import,
                                       struct import_device *device)
{
    if (device->kind != IMPORT_BOND) {
        return device;
    }
    return device->n_members == 1
               ? import_find(&import->hosts[device->host], device->members[0])
               : NULL;
}

static void join_two(struct import *import, const struct group *group)
{
    struct import_device *a = only_port(import, group->units[0]);
    struct import_device *b = only_port(import, group->units[1]);

    if (a == NULL || b == NULL) {
        ask_how(import, group, "nothing says which ports of a bond a cable joins");
        return;
    }
    if (a->is_cage != b->is_cage) { /* connect single functions */
        for (size_t i = 0; i < group->n; i++) {
            a = group->ends[i].unit == group->units[0] ? group->ends[i].device : a;
            b = group->ends[i].unit == group->units[1] ? group->ends[i].device : b;
        }
    }
    if (a->is_cage && b->is_cage ? has_cable(a) || has_cable(b)
                                 : is_cabled(a) || is_cabled(b)) {
        ask_how(import, group, "one of them has a cable already");
        return;
    }
    join(a, b);
    for (unsigned i = 0; i < 2; i++) {
        if (group->units[i]->kind == IMPORT_BOND) {
            group->units[i]->peer = i == 0 ? b : a;
        }
    }
}

static bool leads_to(const struct import_device *a, const struct import_device *b)
{
    return (a->peer != NULL && whole(a->peer) == b) ||
           (a->twin != NULL && a->twin->peer != NULL && whole(a->twin->peer) == b);
}

/* Returns true if all units of a network are on one switch, or its two units on one cable. */
static bool are_joined(const struct group *group)
{
    const struct import_device *a = group->units[0];
    const struct import_device *b = group->units[1];
    bool is_one_switch = a->hub != NULL;

    for (size_t i = 1; i < group->n_units; i++) {
        is_one_switch = is_one_switch && group->units[i]->hub == a->hub;
    }
    return is_one_switch || (group->n_units == 2 && (leads_to(a, b) || leads_to(b, a)));
}

static void decide(struct import *import, const struct group *group)
{
    size_t n_taken = 0, n_told = 0;

    for (size_t i = 0; i < group->n_units; i++) {
        group->units[i]->is_taken = false;
    }
    for (size_t i = 0; i < group->n; i++) {
        group->ends[i].unit->is_taken =
            group->ends[i].unit->is_taken || is_cabled(group->ends[i].device);
    }
    for (size_t i = 0; i < group->n_units; i++) {
        const struct import_device *unit = group->units[i];

        n_taken += unit->is_taken;
        n_told += unit->is_told || (unit->twin != NULL && unit->twin->is_told);
    }
    if (group->n_units == 1 /* see ask_of_single */ || n_told == group->n_units ||
        (n_taken == group->n_units && are_joined(group))) {
        return;
    }
    if (is_switch_told(import, &group->ends[0].network) ||
        (group->n_units > 2 && group->are_hosts_distinct && n_taken == 0)) {
        join_by_switch(import, group);
    } else if (group->n_units == 2 && n_taken == 0 && group->are_hosts_distinct) {
        join_two(import, group);
    } else {
        ask_how(import, group,
                n_taken > 0 ? "some of them are cabled already, by another network or by "
                              "--cable"
                            : "cables could join them in several ways");
    }
}

/* Calls `visit` for each network, in order. */
static void visit_groups(struct import *import, const struct ends *ends,
                         void (*visit)(struct import *import, const struct group *group))
{
    for (size_t i = 0; i < ends->n;) {
        struct group group = {.ends = &ends->items[i]};

        while (i < ends->n &&
               group.ends[0].network.prefix_len == ends->items[i].network.prefix_len &&
               io_ip_equal(&group.ends[0].network.ip, &ends->items[i].network.ip)) {
            group.n++;
            i++;
        }
        find_units(&group);
        visit(import, &group);
        free(group.units);
    }
}

static void ask_of_single(struct import *import, const struct group *group)
{
    if (group->n_units == 1 && !has_cable(group->units[0])) {
        ask_other_end(import, group);
    }
}

/* ---- addresses on the cables ---- */

/* Returns candidate `i` for the address of an end: its VLAN's addresses first, then its own; NULL
 * past the last. */
static const struct io_prefix *candidate(const struct import_device *device, uint32_t i,
                                         bool *out_is_tagged)
{
    uint32_t n_tagged = device->vlan != NULL ? device->vlan->n_addresses : 0;

    *out_is_tagged = i < n_tagged;
    if (i < n_tagged) {
        return &device->vlan->addresses[i];
    }
    return i - n_tagged < device->n_addresses ? &device->addresses[i - n_tagged] : NULL;
}

/* Uses the first pair of addresses of the two ends that are in one network. */
static void choose_addresses(struct import_device *a, struct import_device *b)
{
    const struct io_prefix *x, *y;
    bool tags[2];

    for (uint32_t i = 0; (x = candidate(a, i, &tags[0])) != NULL; i++) {
        for (uint32_t k = 0; (y = candidate(b, k, &tags[1])) != NULL; k++) {
            if (import_same_network(x, y) && !io_ip_equal(&x->ip, &y->ip)) {
                a->used = x;
                b->used = y;
                a->is_tagged = tags[0];
                b->is_tagged = tags[1];
                return;
            }
        }
    }
}

static void choose_at_switch(struct import_device *device)
{
    const struct io_prefix *x;
    bool is_tagged;

    for (uint32_t i = 0; (x = candidate(device, i, &is_tagged)) != NULL; i++) {
        if (import_same_network(x, &device->hub->network)) {
            device->used = x;
            device->is_tagged = is_tagged;
            return;
        }
    }
}

/* Assigns link-local addresses to the two ends of a cable, because no file contains those that
 * hosts derive from their MAC addresses. `index` is the number of the cable, from 0. */
static void assign_self(struct import *import, struct import_device *a, uint32_t index)
{
    struct io_prefix *drawn = arena_calloc(import->arena, 2, sizeof(*drawn));

    for (unsigned end = 0; end < 2; end++) {
        drawn[end].ip =
            io_ip_v4(169, 254, (uint8_t)(1 + index % 254), (uint8_t)(1 + end));
        drawn[end].prefix_len = 16;
    }
    a->used = &drawn[0];
    a->peer->used = &drawn[1];
}

/* Complains about addresses of a VLAN that a scenario cannot express. */
static void check_vlan(struct import *import, const struct import_device *device)
{
    char place[IMPORT_PLACE_BYTES];

    if (device->vlan != NULL && (!device->is_tagged || device->vlan->n_addresses > 1)) {
        import_place(import, device->vlan, place, sizeof(place));
        import_complain(import,
                        "%s: a scenario has one address on a VLAN, that of the cable; "
                        "leave the VLAN out by --without %s, or its further addresses "
                        "out of the file",
                        place, place);
    }
}

static void finish_port(struct import *import, struct import_device *device)
{
    char place[IMPORT_PLACE_BYTES];

    if (device->peer != NULL && device->used == NULL) {
        choose_addresses(device, device->peer);
    } else if (device->hub != NULL) {
        choose_at_switch(device);
    } else if (device->peer == NULL && device->is_self_assigned && device->bond == NULL) {
        import_place(import, device, place, sizeof(place));
        import_complain(import,
                        "%s: its address is self-assigned (169.254.0.0/16), which says "
                        "nothing of its cable; say --cable %s,HOST:PORT or --without %s",
                        place, place, place);
    } else if (device->peer == NULL && device->n_addresses == 0 && !device->is_cage &&
               device->vlan == NULL && device->bond == NULL) {
        device->left = IMPORT_UNADDRESSED;
    }
    if (device->peer != NULL || device->hub != NULL) {
        check_vlan(import, device);
    }
}

static void check_host(struct import *import, const struct import_host *host)
{
    bool any = host->has_cages;

    for (uint32_t d = 0; d < host->n_devices; d++) {
        any = any ||
              (import_is_port(host->devices[d]) && host->devices[d]->left == IMPORT_KEPT);
    }
    if (!any) {
        import_complain(import,
                        "%s: no port of the mesh is in its files: they have no ports "
                        "with static addresses beside those of the management network; "
                        "add the file that has them, or say --cable %s:PORT,HOST:PORT",
                        host->name, host->name);
    }
}

static void check_switches(struct import *import)
{
    for (size_t i = 0; i < import->answers->n_switches; i++) {
        const char *text = import->answers->switches[i];
        char quoted[DIAGNOSE_QUOTE_BYTES];
        struct io_prefix told;
        bool is_found = false;

        if (io_prefix_parse(text, &told)) {
            for (uint32_t k = 0; k < import->n_switches; k++) {
                is_found =
                    is_found || import_same_network(&told, &import->switches[k]->network);
            }
        }
        if (!is_found) {
            import_complain(import,
                            "--switch: expected a network of several ports, such as "
                            "192.168.1.0/24, got '%s'",
                            diagnose_quote(text, quoted));
        }
    }
}

void import_join(struct import *import)
{
    struct ends ends = {NULL, 0, 0};
    uint32_t n_drawn = 0;
    bool any = false;

    for (size_t i = 0; i < import->answers->n_cables; i++) {
        join_told(import, import->answers->cables[i]);
    }
    collect(import, &ends);
    check_twice(import, &ends);
    visit_groups(import, &ends, decide);
    visit_groups(import, &ends, ask_of_single);
    free(ends.items);
    check_switches(import);
    for (uint32_t h = 0; h < import->n_hosts; h++) {
        for (uint32_t d = 0; d < import->hosts[h].n_devices; d++) {
            struct import_device *device = import->hosts[h].devices[d];

            if (import_is_port(device) && device->left == IMPORT_KEPT) {
                finish_port(import, device);
                any = any || device->peer != NULL || device->hub != NULL;
                if (device->peer != NULL && device->used == NULL &&
                    device->is_self_assigned && device->peer->is_self_assigned) {
                    assign_self(import, device, n_drawn++);
                }
            }
        }
        check_host(import, &import->hosts[h]);
    }
    if (!any && import->n_wrong == 0) {
        import_complain(import, "no network joins two hosts, so there is no cable; add "
                                "the files of the other hosts, or say --cable");
    }
}

/* Reads netplan's files (netplan(5)), and merges those of each host. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "import/model.h"

void import_complain(struct import *import, const char *format, ...)
{
    char message[1200], line[1216];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    import->n_wrong++;
    weft_format(line, sizeof(line), "weft import: %s\n", message);
    /* A file or an answer can be given twice. */
    if (import->wrong->n > 0 && strstr(import->wrong->bytes, line) != NULL) {
        return;
    }
    if (import->n_asked++ < IMPORT_COMPLAINTS_MAX) {
        weft_text_add(import->wrong, "%s", line);
    }
}

/* ---- the host of a file ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* Returns true for a file name as in /etc/netplan: digits, then a dash, a dot or nothing. */
static bool is_numbered(const char *name)
{
    size_t n = strspn(name, "0123456789");

    return n > 0 && (name[n] == '-' || name[n] == '.' || name[n] == '\0');
}

static bool is_passed_over(const char *folder, size_t n)
{
    static const char *const names[] = {"netplan", "etc", "run", "usr", "lib", ".", ".."};

    for (size_t i = 0; i < WEFT_LENGTH(names); i++) {
        if (strlen(names[i]) == n && strncmp(names[i], folder, n) == 0) {
            return true;
        }
    }
    return n == 0;
}

bool import_host_of(const char *path, char *out, size_t out_bytes)
{
    const char *name = base_name(path);
    const char *dot = strrchr(name, '.');
    const char *end = path + (name - path);

    if (!is_numbered(name)) {
        int n = dot != NULL && dot > name ? (int)(dot - name) : (int)strlen(name);

        weft_format(out, out_bytes, "%.*s", n, name);
        return n > 0;
    }
    while (end > path) {
        const char *begin = --end; /* points to a slash */

        while (begin > path && begin[-1] != '/') {
            begin--;
        }
        if (!is_passed_over(begin, (size_t)(end - begin))) {
            weft_format(out, out_bytes, "%.*s", (int)(end - begin), begin);
            return true;
        }
        end = begin;
    }
    return false;
}

/* ---- one device ---- */

struct reading {
    struct import *import;
    struct loader loader;
    struct import_host *host;
};

static void add_address(struct reading *reading, struct import_device *device,
                        const struct tree_node *node)
{
    struct scenario_arena *arena = reading->import->arena;
    struct io_prefix address;

    if (node->kind == TREE_MAP && node->n == 1) {
        node = node->pairs[0].key; /* has a label or a lifetime */
    }
    if (!address_read(&reading->loader, node, "addresses", &address)) {
        return;
    }
    for (uint32_t i = 0; i < device->n_addresses; i++) {
        if (io_ip_equal(&device->addresses[i].ip, &address.ip) &&
            device->addresses[i].prefix_len == address.prefix_len) {
            return;
        }
    }
    if (device->n_addresses == IMPORT_ADDRESSES_MAX) {
        complain(&reading->loader, node->mark, "addresses: more than %u of one device",
                 IMPORT_ADDRESSES_MAX);
        return;
    }
    device->addresses = arena_grow(arena, device->addresses, device->n_addresses,
                                   device->n_addresses + 1, sizeof(address));
    device->addresses[device->n_addresses++] = address;
}

static bool is_default(const char *text)
{
    return strcmp(text, "default") == 0 || strcmp(text, "0.0.0.0/0") == 0 ||
           strcmp(text, "::/0") == 0 || strcmp(text, "0/0") == 0;
}

/* Adds a route through a gateway. Ignores routes without one (scope link), which addresses create
 * too. */
static void add_route(struct reading *reading, struct import_device *device,
                      const struct tree_node *node)
{
    const struct tree_node *to = tree_get(node, "to");
    const struct tree_node *via = tree_get(node, "via");
    struct import_route route;

    if (to == NULL || to->kind != TREE_SCALAR) {
        complain(&reading->loader, node->mark, "routes: 'to' is missing");
        return;
    }
    if (is_default(to->text)) {
        device->has_default_route = true;
        return;
    }
    if (via == NULL || via->kind != TREE_SCALAR) {
        return;
    }
    if (device->n_routes == IMPORT_ROUTES_MAX) {
        complain(&reading->loader, node->mark, "routes: more than %u of one device",
                 IMPORT_ROUTES_MAX);
        return;
    }
    if (!io_prefix_parse(to->text, &route.to)) {
        struct io_ip ip;

        if (!io_ip_parse(to->text, &ip)) {
            complain_type(&reading->loader, to, "to", "a network or 'default'");
            return;
        }
        route.to = (struct io_prefix){ip, io_ip_is_v4(&ip) ? 32 : 128};
    }
    if (!io_ip_parse(via->text, &route.via)) {
        complain_type(&reading->loader, via, "via", "an address");
        return;
    }
    route.to = subnet_network(&route.to);
    device->routes = arena_grow(reading->import->arena, device->routes, device->n_routes,
                                device->n_routes + 1, sizeof(route));
    device->routes[device->n_routes++] = route;
}

static void add_member(struct reading *reading, struct import_device *device,
                       const struct tree_node *node)
{
    const char *id;

    if (!read_scalar(&reading->loader, node, "interfaces", &id)) {
        return;
    }
    for (uint32_t i = 0; i < device->n_members; i++) {
        if (strcmp(device->members[i], id) == 0) {
            return;
        }
    }
    if (device->n_members == IMPORT_MEMBERS_MAX) {
        complain(&reading->loader, node->mark, "interfaces: more than %u",
                 IMPORT_MEMBERS_MAX);
        return;
    }
    device->members = arena_grow(reading->import->arena, device->members,
                                 device->n_members, device->n_members + 1, sizeof(id));
    device->members[device->n_members++] = id;
}

typedef void (*adder)(struct reading *reading, struct import_device *device,
                      const struct tree_node *node);

/* Adds all items of a list; a later file extends the list of an earlier one. */
static void add_all(struct reading *reading, struct import_device *device,
                    const struct tree_node *list, const char *key, adder add)
{
    if (read_list(&reading->loader, list, key, 0, UINT32_MAX)) {
        for (uint32_t i = 0; i < list->n; i++) {
            add(reading, device, list->items[i]);
        }
    }
}

static void read_link_local(struct reading *reading, struct import_device *device,
                            const struct tree_node *list)
{
    if (read_list(&reading->loader, list, "link-local", 0, 2)) {
        device->is_self_assigned = false;
        for (uint32_t i = 0; i < list->n; i++) {
            device->is_self_assigned |= list->items[i]->kind == TREE_SCALAR &&
                                        strcmp(list->items[i]->text, "ipv4") == 0;
        }
    }
}

static void read_dhcp(struct reading *reading, struct import_device *device,
                      const struct tree_node *node, const char *key)
{
    read_bool(&reading->loader, node, key,
              &device->has_dhcp[strcmp(key, "dhcp6") == 0 ? 1 : 0]);
}

/* Rejects an unknown key that is similar to one that is read here. Netplan rejects such a file, and
 * the import would miss its address. */
static void refuse_misspelt(struct loader *loader, const struct tree_node *key)
{
    static const char *const read[] = {"addresses", "routes",   "interfaces", "mtu",
                                       "dhcp4",     "dhcp6",    "link-local", "set-name",
                                       "gateway4",  "gateway6", "link"};
    const char *nearest = diagnose_nearest(key->text, read, WEFT_LENGTH(read));
    char quoted[DIAGNOSE_QUOTE_BYTES];

    if (nearest != NULL) {
        complain(loader, key->mark, "unknown key '%s'; did you mean '%s'?",
                 diagnose_quote(key->text, quoted), nearest);
    }
}

/* Reads one key of a device. Netplan's other keys do not affect cables and addresses. */
static void read_key(struct reading *reading, struct import_device *device,
                     const struct tree_node *name, const struct tree_node *value)
{
    struct loader *loader = &reading->loader;
    const char *key = name->text;

    if (strcmp(key, "addresses") == 0) {
        add_all(reading, device, value, key, add_address);
    } else if (strcmp(key, "routes") == 0) {
        add_all(reading, device, value, key, add_route);
    } else if (strcmp(key, "interfaces") == 0) {
        add_all(reading, device, value, key, add_member);
    } else if (strcmp(key, "mtu") == 0) {
        read_u32(loader, value, key, TOPOLOGY_MTU_MIN, TOPOLOGY_MTU_MAX,
                 &device->mtu_bytes);
    } else if (strcmp(key, "dhcp4") == 0 || strcmp(key, "dhcp6") == 0) {
        read_dhcp(reading, device, value, key);
    } else if (strcmp(key, "link-local") == 0) {
        read_link_local(reading, device, value);
    } else if (strcmp(key, "set-name") == 0) {
        read_scalar(loader, value, key, &device->name);
    } else if (strcmp(key, "gateway4") == 0 || strcmp(key, "gateway6") == 0) {
        device->has_default_route = true;
    } else if (strcmp(key, "id") == 0 && device->kind == IMPORT_VLAN) {
        read_u32(loader, value, key, 1, 4094, &device->vlan_id);
    } else if (strcmp(key, "link") == 0 && device->kind == IMPORT_VLAN) {
        read_scalar(loader, value, key, &device->link);
    } else {
        refuse_misspelt(loader, name);
    }
}

struct import_device *import_find(const struct import_host *host, const char *id)
{
    for (uint32_t i = 0; i < host->n_devices; i++) {
        if (strcmp(host->devices[i]->id, id) == 0) {
            return host->devices[i];
        }
    }
    return NULL;
}

static struct import_device *add_device(struct reading *reading, enum import_kind kind,
                                        const struct tree_node *key)
{
    struct import_host *host = reading->host;
    struct import_device *device = import_find(host, key->text);
    char quoted[DIAGNOSE_QUOTE_BYTES];

    if (device != NULL) {
        if (device->kind != kind) {
            complain(&reading->loader, key->mark,
                     "'%s' is a device of another kind in this host's files",
                     diagnose_quote(key->text, quoted));
            return NULL;
        }
        return device;
    }
    if (host->n_devices == IMPORT_DEVICES_MAX) {
        complain(&reading->loader, key->mark, "more than %u devices of one host",
                 IMPORT_DEVICES_MAX);
        return NULL;
    }
    if (host->n_devices == host->cap) {
        uint32_t cap = host->cap == 0 ? 8 : 2 * host->cap;

        host->devices = arena_grow(reading->import->arena, host->devices, host->n_devices,
                                   cap, sizeof(device));
        host->cap = cap;
    }
    device = arena_calloc(reading->import->arena, 1, sizeof(*device));
    device->kind = kind;
    device->id = key->text;
    device->name = key->text;
    device->host = (uint32_t)(host - reading->import->hosts);
    host->devices[host->n_devices++] = device;
    return device;
}

/* ---- one file ---- */

static const struct {
    const char *key;
    enum import_kind kind;
    bool has_devices;
} sections[] = {
    {"ethernets", IMPORT_ETHERNET, true},  {"vlans", IMPORT_VLAN, true},
    {"bonds", IMPORT_BOND, true},          {"bridges", IMPORT_BRIDGE, true},
    {"wifis", IMPORT_OTHER, true},         {"modems", IMPORT_OTHER, true},
    {"tunnels", IMPORT_OTHER, true},       {"vrfs", IMPORT_OTHER, true},
    {"dummy-devices", IMPORT_OTHER, true}, {"virtual-ethernets", IMPORT_OTHER, true},
    {"nm-devices", IMPORT_OTHER, true},    {"version", IMPORT_OTHER, false},
    {"renderer", IMPORT_OTHER, false},     {"openvswitch", IMPORT_OTHER, false},
};

static void read_section(struct reading *reading, enum import_kind kind, const char *name,
                         const struct tree_node *map)
{
    if (map->kind == TREE_SCALAR && tree_scalar_kind(map) == TREE_NULL) {
        return; /* `ethernets:` without devices */
    }
    if (!read_map(&reading->loader, map, name)) {
        return;
    }
    for (uint32_t i = 0; i < map->n; i++) {
        struct import_device *device = add_device(reading, kind, map->pairs[i].key);
        const struct tree_node *value = map->pairs[i].value;

        if (device == NULL ||
            (value->kind == TREE_SCALAR && tree_scalar_kind(value) == TREE_NULL) ||
            !read_map(&reading->loader, value, device->id)) {
            continue;
        }
        for (uint32_t k = 0; k < value->n; k++) {
            read_key(reading, device, value->pairs[k].key, value->pairs[k].value);
        }
    }
}

static void read_network(struct reading *reading, const struct tree_node *network)
{
    const char *names[WEFT_LENGTH(sections)];

    if (!read_map(&reading->loader, network, "network")) {
        return;
    }
    for (size_t i = 0; i < WEFT_LENGTH(sections); i++) {
        names[i] = sections[i].key;
    }
    for (uint32_t i = 0; i < network->n; i++) {
        const struct tree_node *key = network->pairs[i].key;
        const struct tree_node *value = network->pairs[i].value;
        size_t k = 0;

        while (k < WEFT_LENGTH(sections) && strcmp(key->text, sections[k].key) != 0) {
            k++;
        }
        if (k == WEFT_LENGTH(sections)) {
            char quoted[DIAGNOSE_QUOTE_BYTES];
            char hint[80];

            complain(
                &reading->loader, key->mark, "unknown key '%s' in network%s",
                diagnose_quote(key->text, quoted),
                diagnose_hint(key->text, names, WEFT_LENGTH(names), hint, sizeof(hint)));
        } else if (strcmp(key->text, "version") == 0 &&
                   (value->kind != TREE_SCALAR || strcmp(value->text, "2") != 0)) {
            complain(&reading->loader, value->mark,
                     "version: expected 2, netplan's form (1 is cloud-init's own: give "
                     "the file that it made in /etc/netplan)");
        } else if (sections[k].has_devices) {
            read_section(reading, sections[k].kind, key->text, value);
        }
    }
}

static void read_file(struct import *import, struct import_host *host,
                      const struct import_file *file)
{
    struct scenario_diagnostics diag = {NULL, 0, 0};
    struct reading reading = {
        .import = import,
        .host = host,
        .loader = {.file = file->path, .arena = import->arena, .diag = &diag},
    };
    const struct tree_node *root =
        tree_parse(&reading.loader, file->bytes, file->n_bytes, 0);
    const struct tree_node *network = tree_get(root, "network");

    if (network != NULL) {
        read_network(&reading, network);
    } else if (root != NULL) {
        complain(&reading.loader, root->mark,
                 "no netplan file: the key 'network' is missing");
    }
    diagnose_sort(&diag);
    for (size_t i = 0; i < diag.n; i++) {
        weft_text_add(import->wrong, "%s\n", diag.items[i].text);
        import->n_wrong++;
    }
    if (diag.n_left_out > 0) {
        weft_text_add(import->wrong, "%s: and %zu more\n", file->path, diag.n_left_out);
    }
    scenario_diagnostics_fini(&diag);
}

/* ---- the files of all hosts ---- */

/* A file, with the keys that determine the order in which netplan reads it. */
struct entry {
    const struct import_file *file;
    /* Name of its host. Has room for one more character of UTF-8 than a name may have, so that a
     * longer name is noticed. */
    char given[IMPORT_HOST_NAME_BYTES + 4];
    uint32_t host;
    size_t order;
    unsigned folder; /* 3 for /run, 2 for /etc, 1 for /lib, 0 for others */
};

static unsigned folder_of(const char *path)
{
    static const char *const folders[] = {"lib/netplan/", "etc/netplan/", "run/netplan/"};
    const char *name = base_name(path);

    for (unsigned i = 0; i < WEFT_LENGTH(folders); i++) {
        size_t n = strlen(folders[i]);

        if ((size_t)(name - path) >= n && strncmp(name - n, folders[i], n) == 0) {
            return i + 1;
        }
    }
    return 0;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    int order = x->host < y->host ? -1 : x->host > y->host;

    if (order == 0) {
        order = strcmp(base_name(x->file->path), base_name(y->file->path));
    }
    if (order == 0) {
        order = (int)x->folder - (int)y->folder;
    }
    return order != 0 ? order : x->order < y->order ? -1 : x->order > y->order;
}

/* Converts a host's name to what a scenario allows: [a-z0-9-]+. */
static void host_name(const char *given, char *out, size_t out_bytes)
{
    size_t n = 0;

    for (; n < out_bytes - 1 && given[n] != '\0'; n++) {
        char c = (char)tolower((unsigned char)given[n]);

        out[n] = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && n > 0)
                     ? c
                     : (n > 0 ? '-' : 'x');
    }
    out[n] = '\0';
}

uint32_t import_host(struct import *import, const char *given)
{
    struct import_host *host;
    char name[IMPORT_HOST_NAME_BYTES];

    host_name(given, name, sizeof(name));
    for (uint32_t i = 0; i < import->n_hosts; i++) {
        if (strcmp(import->hosts[i].name, name) == 0) {
            if (strcmp(import->hosts[i].given, given) != 0) {
                import_complain(import,
                                "'%s' and '%s' would be one host '%s' in a scenario; %s",
                                import->hosts[i].given, given, name,
                                import->is_of_hosts ? "rename one in the file"
                                                    : "name them by HOST=FILE");
            }
            return i;
        }
    }
    host = &import->hosts[import->n_hosts];
    weft_format(host->name, sizeof(host->name), "%s", name);
    host->given = arena_strdup(import->arena, given);
    return import->n_hosts++;
}

static bool name_entry(struct import *import, struct entry *entry)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];

    if (entry->file->host != NULL) {
        weft_format(entry->given, sizeof(entry->given), "%s", entry->file->host);
    } else if (!import_host_of(entry->file->path, entry->given, sizeof(entry->given))) {
        import_complain(import,
                        "%s: no folder of the path is named after its host; write "
                        "HOST=%s",
                        diagnose_quote(entry->file->path, quoted), entry->file->path);
        return false;
    }
    if (entry->given[0] == '\0') {
        import_complain(import, "=%s: the host's name is empty; write HOST=%s",
                        entry->file->path, entry->file->path);
        return false;
    }
    if (strlen(entry->given) >= IMPORT_HOST_NAME_BYTES) {
        import_complain(import,
                        "%s: the name of its host has more than %d characters, which a "
                        "scenario does not allow; write HOST=%s",
                        diagnose_quote(entry->file->path, quoted),
                        IMPORT_HOST_NAME_BYTES - 1, entry->file->path);
        return false;
    }
    entry->host = import_host(import, entry->given);
    return true;
}

void import_read(struct import *import, const struct import_file *files, size_t n_files)
{
    struct entry *entries = weft_calloc(n_files + 1, sizeof(*entries));
    size_t n = 0;

    import->hosts = arena_calloc(import->arena, n_files + 1, sizeof(*import->hosts));
    for (size_t i = 0; i < n_files; i++) {
        entries[n] = (struct entry){.file = &files[i], .order = i};
        entries[n].folder = folder_of(files[i].path);
        n += name_entry(import, &entries[n]);
    }
    qsort(entries, n, sizeof(*entries), compare_entries);
    for (size_t i = 0; i < n; i++) {
        const struct entry *next = i + 1 < n ? &entries[i + 1] : NULL;
        bool is_hidden =
            next != NULL && next->host == entries[i].host && entries[i].folder > 0 &&
            next->folder > entries[i].folder &&
            strcmp(base_name(next->file->path), base_name(entries[i].file->path)) == 0;

        if (!is_hidden) {
            read_file(import, &import->hosts[entries[i].host], entries[i].file);
        }
    }
    free(entries);
}

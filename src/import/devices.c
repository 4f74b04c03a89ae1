/* Relates the devices of each host: ports of bonds, VLANs on ports, cages of a DGX Spark. Also
 * decides which devices are not part of the mesh. */
#include <string.h>

#include "base/check.h"
#include "import/model.h"

/* ---- cages ---- */

/* Netdevs of a DGX Spark: the four functions of its ConnectX-7. */
static const char *const spark_names[2][2] = {{"enp1s0f0np0", "enP2p1s0f0np0"},
                                              {"enp1s0f1np1", "enP2p1s0f1np1"}};

static struct import_device *find_named(const struct import_host *host, const char *name)
{
    for (uint32_t i = 0; i < host->n_devices; i++) {
        if (import_is_port(host->devices[i]) &&
            strcmp(host->devices[i]->name, name) == 0) {
            return host->devices[i];
        }
    }
    return NULL;
}

/* Recognises a Spark by functions on both PCIe domains, because `enp1s0f0np0` alone is a common
 * name. */
static void find_cages(struct import *import, struct import_host *host)
{
    struct import_device *found[2][2];
    bool has_domain[2] = {false, false};

    for (unsigned cage = 0; cage < 2; cage++) {
        for (unsigned f = 0; f < 2; f++) {
            found[cage][f] = find_named(host, spark_names[cage][f]);
            has_domain[f] = has_domain[f] || found[cage][f] != NULL;
        }
    }
    if (!has_domain[0] || !has_domain[1]) {
        return;
    }
    host->has_cages = true;
    for (unsigned cage = 0; cage < 2; cage++) {
        for (unsigned f = 0; f < 2; f++) {
            struct import_device *device = found[cage][f];

            if (device == NULL) { /* no file has it, but the machine does */
                device = arena_calloc(import->arena, 1, sizeof(*device));
                device->id = device->name = spark_names[cage][f];
                device->host = (uint32_t)(host - import->hosts);
                host->devices = arena_grow(import->arena, host->devices, host->n_devices,
                                           host->n_devices + 1, sizeof(device));
                host->devices[host->n_devices++] = device;
                host->cap = host->n_devices;
                found[cage][f] = device;
            }
            device->is_cage = true;
            device->cage = cage;
            device->function = f;
        }
        found[cage][0]->twin = found[cage][1];
        found[cage][1]->twin = found[cage][0];
    }
}

/* ---- VLANs, bonds, bridges ---- */

static void relate_vlan(struct import *import, struct import_host *host,
                        struct import_device *vlan)
{
    struct import_device *port =
        vlan->link != NULL ? import_find(host, vlan->link) : NULL;
    char place[IMPORT_PLACE_BYTES];

    import_place(import, vlan, place, sizeof(place));
    if (vlan->left != IMPORT_KEPT) {
        return;
    }
    if (port == NULL || vlan->vlan_id == 0) {
        import_complain(import, "%s: a VLAN needs an 'id' and, as 'link', a device of %s",
                        place, host->name);
    } else if (vlan->n_addresses == 0) {
        vlan->left = vlan->has_dhcp[0] ? IMPORT_DHCP : IMPORT_UNADDRESSED;
    } else if (!import_is_port(port)) {
        import_complain(import,
                        "%s: a scenario has VLANs on ports only, and %s is none; leave "
                        "it out by --without %s",
                        place, port->name, place);
    } else if (port->vlan != NULL) {
        import_complain(import,
                        "%s: a scenario has one VLAN on a port, and %s has %s, too; "
                        "leave one out by --without %s",
                        place, port->name, port->vlan->name, place);
    } else {
        port->vlan = vlan;
        port->left = port->left == IMPORT_DHCP ? IMPORT_KEPT : port->left;
    }
}

static void relate_members(struct import *import, struct import_host *host,
                           struct import_device *master)
{
    char place[IMPORT_PLACE_BYTES];

    import_place(import, master, place, sizeof(place));
    if (master->kind == IMPORT_BRIDGE) {
        master->left = master->left == IMPORT_KEPT ? IMPORT_BRIDGED : master->left;
    }
    for (uint32_t i = 0; i < master->n_members; i++) {
        struct import_device *port = import_find(host, master->members[i]);
        char quoted[DIAGNOSE_QUOTE_BYTES];

        if (port == NULL) {
            import_complain(import, "%s: 'interfaces' has '%s', which no file of %s has",
                            place, diagnose_quote(master->members[i], quoted),
                            host->name);
        } else if (master->left != IMPORT_KEPT) {
            port->left = port->left == IMPORT_KEPT ? master->left : port->left;
        } else if (port->bond != NULL || !import_is_port(port) || port->n_addresses > 0) {
            import_complain(import,
                            "%s: %s is in another bond, has addresses of its own, or is "
                            "no port; correct the file, or use --without %s",
                            place, port->name, place);
        } else {
            port->bond = master;
            port->mtu_bytes =
                master->mtu_bytes != 0 ? master->mtu_bytes : port->mtu_bytes;
        }
    }
}

/* ---- devices that are left out ---- */

static void leave_out(struct import *import)
{
    const struct import_answers *answers = import->answers;

    for (size_t i = 0; i < answers->n_without; i++) {
        const char *text = answers->without[i];
        const char *colon = strchr(text, ':');
        const char *name = colon == NULL ? text : colon + 1;
        char quoted[DIAGNOSE_QUOTE_BYTES];
        bool any = false;

        for (uint32_t h = 0; h < import->n_hosts; h++) {
            struct import_host *host = &import->hosts[h];

            if (colon != NULL && (strlen(host->name) != (size_t)(colon - text) ||
                                  strncmp(host->name, text, strlen(host->name)) != 0)) {
                continue;
            }
            for (uint32_t d = 0; d < host->n_devices; d++) {
                if (strcmp(host->devices[d]->name, name) == 0 ||
                    strcmp(host->devices[d]->id, name) == 0) {
                    host->devices[d]->left = IMPORT_WITHOUT;
                    any = true;
                }
            }
        }
        if (!any) {
            import_complain(import, "--without: no file has the device '%s'",
                            diagnose_quote(text, quoted));
        }
    }
}

#define MANAGEMENT_MAX 1024u

/* Adds the network of an address. Ignores link-local ones, because every link has the same. */
static void add_management(struct import *import, const struct io_prefix *address)
{
    if (io_ip_is_link_local(&address->ip)) {
        return;
    }
    for (uint32_t i = 0; i < import->n_management; i++) {
        if (import_same_network(&import->management[i], address)) {
            return;
        }
    }
    if (import->n_management == MANAGEMENT_MAX) {
        import_complain(import, "more than %u networks have a default route",
                        MANAGEMENT_MAX);
        return;
    }
    import->management =
        arena_grow(import->arena, import->management, import->n_management,
                   import->n_management + 1, sizeof(*address));
    import->management[import->n_management++] = subnet_network(address);
}

/* Calls `visit` for every address of every device of every host. */
typedef void (*visitor)(struct import *import, struct import_device *device,
                        const struct io_prefix *address, const void *context);
static void visit_addresses(struct import *import, visitor visit, const void *context)
{
    for (uint32_t h = 0; h < import->n_hosts; h++) {
        for (uint32_t d = 0; d < import->hosts[h].n_devices; d++) {
            struct import_device *device = import->hosts[h].devices[d];

            for (uint32_t i = 0; i < device->n_addresses; i++) {
                visit(import, device, &device->addresses[i], context);
            }
        }
    }
}

static void note_default_route(struct import *import, struct import_device *device,
                               const struct io_prefix *address, const void *context)
{
    (void)context;
    if (device->has_default_route) {
        add_management(import, address);
    }
}

static void note_listed(struct import *import, struct import_device *device,
                        const struct io_prefix *address, const void *context)
{
    (void)device;
    if (io_ip_equal(&address->ip, context)) {
        add_management(import, address);
    }
}

static void note_management(struct import *import, struct import_device *device,
                            const struct io_prefix *address, const void *context)
{
    (void)context;
    for (uint32_t i = 0; i < import->n_management && device->left == IMPORT_KEPT; i++) {
        if (import_same_network(&import->management[i], address)) {
            device->left = IMPORT_MANAGEMENT;
        }
    }
}

static void note_address(struct import *import, const struct io_ip *ip)
{
    visit_addresses(import, note_listed, ip);
}

static void check_name(struct import *import, const struct import_device *device)
{
    char place[IMPORT_PLACE_BYTES];

    if ((import_is_port(device) && !is_name(device->name, 31, false, "._-")) ||
        (device->kind == IMPORT_BOND && !is_name(device->name, 15, false, "._-"))) {
        import_complain(import,
                        "%s: a scenario has no such name of a port; give it one %s, of "
                        "letters, digits and ._-, or use --without",
                        import_place(import, device, place, sizeof(place)),
                        import->is_of_hosts ? "in the file" : "by 'set-name'");
    }
}

void import_relate(struct import *import)
{
    for (uint32_t h = 0; h < import->n_hosts; h++) {
        find_cages(import, &import->hosts[h]);
    }
    leave_out(import);
    visit_addresses(import, note_default_route, NULL);
    if (import->answers->hosts != NULL) {
        import_read_management(import, note_address);
    }
    visit_addresses(import, note_management, NULL);
    for (uint32_t h = 0; h < import->n_hosts; h++) {
        struct import_host *host = &import->hosts[h];

        for (uint32_t d = 0; d < host->n_devices; d++) {
            struct import_device *device = host->devices[d];

            if (device->left == IMPORT_KEPT && device->n_addresses == 0 &&
                (device->has_dhcp[0] || device->has_dhcp[1])) {
                device->left = IMPORT_DHCP;
            }
        }
        for (uint32_t d = 0; d < host->n_devices; d++) {
            struct import_device *device = host->devices[d];

            if (device->kind == IMPORT_VLAN) {
                relate_vlan(import, host, device);
            } else if (device->n_members > 0) {
                relate_members(import, host, device);
            }
        }
        for (uint32_t d = 0; d < host->n_devices; d++) {
            if (host->devices[d]->left == IMPORT_KEPT) {
                check_name(import, host->devices[d]);
            }
        }
    }
}

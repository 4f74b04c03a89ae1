/* Reads `bonds:` of a node. */
#include <string.h>

#include "base/check.h"
#include "scenario/arena.h"
#include "scenario/topology.h"

#define BONDS_MAX 16u
#define SLAVES_MAX 16u

enum { KEY_PORTS, KEY_ADDRESSES };
static const struct walk_key bond_keys[] = {
    [KEY_PORTS] = {.name = "ports"}, [KEY_ADDRESSES] = {.name = "addresses"}};
static const struct walk_table bond_table = {"a bond", bond_keys, WEFT_LENGTH(bond_keys)};

static bool is_taken(const struct world_host *host, uint32_t port)
{
    for (uint32_t i = 0; i < host->n_bonds; i++) {
        for (uint32_t k = 0; k < host->bonds[i].n_ports; k++) {
            if (host->bonds[i].ports[k] == port) {
                return true;
            }
        }
    }
    return false;
}

static void read_slaves(struct topology *topology, uint32_t index,
                        const struct tree_node *list, struct world_bond *bond)
{
    struct loader *loader = topology->loader;
    const struct world_host *host = &loader->scenario->hosts[index];
    if (!read_list(loader, list, "ports", 1, SLAVES_MAX)) {
        return;
    }
    uint32_t *ports = arena_calloc(loader->arena, list->n, sizeof(ports[0]));
    bond->ports = ports;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct tree_node *node = list->items[i];
        uint32_t port;
        if (!topology_find_port(topology, node, "ports", index, &port)) {
            continue;
        }
        if (host->ports[port].n_addresses > 0) {
            complain(loader, node->mark,
                     "ports: '%s' has an address of its own; in a bond only the bond has",
                     host->ports[port].name);
        } else if (is_taken(host, port)) {
            complain(loader, node->mark, "ports: '%s' is in a bond already",
                     host->ports[port].name);
        } else {
            ports[bond->n_ports++] = port;
        }
    }
}

static void read_addresses(struct loader *loader, const struct tree_node *list,
                           struct world_bond *bond)
{
    if (!read_list(loader, list, "addresses", 0, 64)) {
        return;
    }
    struct io_prefix *addresses =
        arena_calloc(loader->arena, list->n, sizeof(addresses[0]));
    bond->addresses = addresses;
    for (uint32_t i = 0; i < list->n; i++) {
        bond->n_addresses += address_read(loader, list->items[i], "addresses",
                                          &addresses[bond->n_addresses]);
    }
}

void bonds_read(struct topology *topology, uint32_t index)
{
    struct loader *loader = topology->loader;
    struct world_host *host = &loader->scenario->hosts[index];
    const struct tree_node *map = topology->hosts[index].bonds;
    if (map == NULL || !read_map(loader, map, "bonds")) {
        return;
    }
    if (map->n > BONDS_MAX) {
        complain(loader, map->mark, "bonds: more than %u", BONDS_MAX);
        return;
    }
    walk_duplicates(loader, map, "bonds");
    struct world_bond *bonds = arena_calloc(loader->arena, map->n, sizeof(bonds[0]));
    host->bonds = bonds;
    for (uint32_t i = 0; i < map->n; i++) {
        const struct tree_pair *pair = &map->pairs[i];
        struct world_bond *bond = &bonds[host->n_bonds++];
        struct walk_seen seen;
        char quoted[DIAGNOSE_QUOTE_BYTES];
        bond->name = pair->key->text;
        if (!is_name(bond->name, 15, false, "._-")) {
            complain(loader, pair->key->mark, "bonds: bad name '%s'",
                     diagnose_quote(bond->name, quoted));
        }
        if (!walk_keys(loader, pair->value, &bond_table, &seen)) {
            continue;
        }
        if (seen.at[KEY_PORTS] == NULL) {
            complain(loader, pair->key->mark, "a bond: 'ports' is missing");
        } else {
            read_slaves(topology, index, seen.at[KEY_PORTS], bond);
        }
        if (seen.at[KEY_ADDRESSES] != NULL) {
            read_addresses(loader, seen.at[KEY_ADDRESSES], bond);
        }
    }
}

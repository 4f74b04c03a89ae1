#include "scenario/topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/arena.h"

enum { KEY_MANAGEMENT, KEY_DEFAULTS, KEY_NODES, KEY_SWITCHES, KEY_LINKS };

static const struct walk_key topology_keys[] = {
    [KEY_MANAGEMENT] = {.name = "management"}, [KEY_DEFAULTS] = {.name = "defaults"},
    [KEY_NODES] = {.name = "nodes"},           [KEY_SWITCHES] = {.name = "switches"},
    [KEY_LINKS] = {.name = "links"},
};
static const struct walk_table topology_table = {"topology", topology_keys,
                                                 WEFT_LENGTH(topology_keys)};

/* Returns false for keys of nodes and links that name one particular thing, which are useless
 * as a default. */
static bool can_be_default(const char *key)
{
    static const char *const particular[] = {"endpoints", "subnet", "subnets",
                                             "addresses", "routes", "overlap"};
    for (size_t i = 0; i < WEFT_LENGTH(particular); i++) {
        if (strcmp(key, particular[i]) == 0) {
            return false;
        }
    }
    return true;
}

static unsigned add_default_keys(const struct walk_table *from, struct walk_key *keys,
                                 unsigned n)
{
    for (unsigned i = 0; i < from->n_keys; i++) {
        if (can_be_default(from->keys[i].name)) {
            weft_check(n < WALK_KEYS_MAX);
            keys[n++] = (struct walk_key){.name = from->keys[i].name};
        }
    }
    return n;
}

static void read_defaults(struct topology *topology, const struct tree_node *node)
{
    struct walk_key keys[WALK_KEYS_MAX];
    unsigned n = add_default_keys(&hosts_table, keys, 0);
    n = add_default_keys(&links_table, keys, n);
    const struct walk_table table = {"topology.defaults", keys, n};
    struct walk_seen seen;
    if (walk_keys(topology->loader, node, &table, &seen)) {
        topology->defaults = node;
        hosts_check_defaults(topology);
    }
}

bool topology_read(struct loader *loader, const struct tree_node *node,
                   struct topology *topology)
{
    struct walk_seen seen;
    *topology = (struct topology){.loader = loader};
    if (!walk_keys(loader, node, &topology_table, &seen)) {
        return false;
    }
    if (seen.at[KEY_NODES] == NULL) {
        return complain(loader, node->mark, "topology: 'nodes' is missing");
    }
    if (seen.at[KEY_DEFAULTS] != NULL) {
        read_defaults(topology, seen.at[KEY_DEFAULTS]);
    }
    links_read_defaults(topology);
    hosts_read(topology, seen.at[KEY_NODES]);
    if (seen.at[KEY_SWITCHES] != NULL) {
        switches_read(topology, seen.at[KEY_SWITCHES]);
    }
    if (loader->scenario->n_hosts == 0) {
        return false;
    }
    topology_index(topology);
    management_read(topology, seen.at[KEY_MANAGEMENT]);
    links_read(topology, seen.at[KEY_LINKS]);
    return true;
}

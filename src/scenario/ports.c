#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "scenario/arena.h"
#include "scenario/names.h"
#include "scenario/topology.h"

/* Allows capitals, because real device names have them: roceP2p1s0f0. */
static bool is_port_name(struct loader *loader, const struct tree_node *node,
                         const char *what, size_t n_max, const char **out)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];
    if (!read_text(loader, node, what, out)) {
        return false;
    }
    return is_name(*out, n_max, false, "._-") ||
           complain(loader, node->mark,
                    "%s: bad name '%s'; write [A-Za-z0-9._-]+, at most %zu", what,
                    diagnose_quote(*out, quoted), n_max);
}

/* A host whose ports are read. */
struct reading {
    struct loader *loader;
    struct world_host *host;
    struct scenario_node *node;
    struct topology_host *extra;
};

static bool add_port(struct reading *in, const char *name, uint32_t pcie_root,
                     bool is_cage, struct scenario_mark mark)
{
    if (world_port_index(in->host, name) < in->host->n_ports) {
        return complain(in->loader, mark, "ports: duplicate port '%s'", name);
    }
    uint32_t index = in->host->n_ports++;
    in->extra->ports[index] =
        (struct world_port){.name = name, .pcie_root = pcie_root, .is_cage = is_cage};
    in->node->ports[index] = (struct scenario_port){.link = -1, .mark = mark};
    return true;
}

static void read_plain(struct reading *in, const struct tree_node *list)
{
    struct loader *loader = in->loader;
    for (uint32_t i = 0; i < list->n; i++) {
        const char *name;
        if (!is_port_name(loader, list->items[i], "ports", 31, &name) ||
            !add_port(in, name, 0, false, list->items[i]->mark)) {
            in->extra->has_bad_ports = true;
        }
    }
    in->extra->n_plain = in->host->n_ports;
}

static void read_cages(struct reading *in, const struct tree_node *list)
{
    struct loader *loader = in->loader;
    struct topology_host *extra = in->extra;
    const struct tree_node **nodes =
        arena_calloc(loader->arena, list->n, sizeof(const void *));
    for (uint32_t i = 0; i < list->n; i++) {
        const char *name;
        if (!is_port_name(loader, list->items[i], "cages", 29, &name)) {
            extra->has_bad_ports = true;
            continue;
        }
        nodes[extra->n_cages] = list->items[i];
        extra->cages[extra->n_cages++] = name;
    }
    for (uint32_t root = 0; root < 2; root++) {
        for (uint32_t i = 0; i < extra->n_cages; i++) {
            char name[40];
            weft_format(name, sizeof(name), "%s.%u", extra->cages[i], root);
            if (!add_port(in, arena_strdup(loader->arena, name), root, true,
                          nodes[i]->mark)) {
                extra->has_bad_ports = true;
            }
        }
    }
}

void ports_read(struct topology *topology, struct world_host *host,
                struct scenario_node *node, struct topology_host *extra,
                const struct tree_node *ports, const struct tree_node *cages)
{
    struct loader *loader = topology->loader;
    struct reading in = {loader, host, node, extra};
    const struct tree_node none = {.kind = TREE_LIST};
    if (ports != NULL && !read_list(loader, ports, "ports", 0, TOPOLOGY_PORTS_MAX / 2)) {
        extra->has_bad_ports = true;
        ports = NULL;
    }
    if (cages != NULL && !read_list(loader, cages, "cages", 0, TOPOLOGY_CAGES_MAX)) {
        extra->has_bad_ports = true;
        cages = NULL;
    }
    ports = ports != NULL ? ports : &none;
    cages = cages != NULL ? cages : &none;
    uint32_t n = ports->n + 2 * cages->n;
    host->n_ports = 0;
    host->ports = extra->ports = arena_calloc(loader->arena, n, sizeof(extra->ports[0]));
    node->ports = arena_calloc(loader->arena, n, sizeof(node->ports[0]));
    extra->cages = arena_calloc(loader->arena, cages->n, sizeof(extra->cages[0]));
    read_plain(&in, ports);
    read_cages(&in, cages);

    /* With a profile of two ports per device, each two ports in order share a device. */
    uint32_t n_per_device = weft_profile_ports(host->profile);
    for (uint32_t i = 0; i < host->n_ports; i++) {
        struct world_port *port = &extra->ports[i];
        port->device = i / n_per_device;
        port->port = (uint8_t)(i % n_per_device + 1);
        if (port->pcie_root >= host->n_pcie_roots) {
            host->n_pcie_roots = port->pcie_root + 1;
        }
    }
    host->pcie_root_bps = extra->pcie_root_bps =
        arena_calloc(loader->arena, host->n_pcie_roots, sizeof(extra->pcie_root_bps[0]));
}

void pcie_read(struct topology *topology, const struct world_host *host,
               const struct topology_host *extra, const struct tree_node *node)
{
    struct loader *loader = topology->loader;
    if (!read_map(loader, node, "pcie")) {
        return;
    }
    walk_duplicates(loader, node, "pcie");
    for (uint32_t i = 0; i < node->n; i++) {
        const struct tree_node *key = node->pairs[i].key;
        uint32_t root = 0;
        uint64_t rate_bps;
        char name[16], quoted[DIAGNOSE_QUOTE_BYTES];
        while (root < host->n_pcie_roots) {
            weft_format(name, sizeof(name), "root%u", root);
            if (strcmp(key->text, name) == 0) {
                break;
            }
            root++;
        }
        if (root == host->n_pcie_roots) {
            complain(loader, key->mark, "pcie: no port of '%s' is behind '%s'",
                     host->name, diagnose_quote(key->text, quoted));
        } else if (read_rate(loader, node->pairs[i].value, name, &rate_bps)) {
            extra->pcie_root_bps[root] = rate_bps;
        }
    }
}

/* Finds the nodes, ports and cages that a file names. */
#include <stdlib.h>
#include <string.h>

#include "scenario/arena.h"
#include "scenario/topology.h"

static int compare_names(const void *a, const void *b)
{
    const struct topology_name *x = a, *y = b;
    return strcmp(x->name, y->name);
}

void topology_index(struct topology *topology)
{
    const struct scenario *s = topology->loader->scenario;
    uint32_t n = 0;
    topology->names = arena_calloc(topology->loader->arena, s->n_hosts + s->n_switches,
                                   sizeof(topology->names[0]));
    for (uint32_t i = 0; i < s->n_hosts; i++) {
        topology->names[n++] = (struct topology_name){s->hosts[i].name, false, i};
    }
    qsort(topology->names, n, sizeof(topology->names[0]), compare_names);
    topology->n_names = n;
    for (uint32_t i = 0; i < s->n_switches; i++) {
        struct topology_name key = {s->switches[i].name, true, i};
        if (bsearch(&key, topology->names, n, sizeof(key), compare_names) != NULL) {
            complain(topology->loader, s->switch_marks[i],
                     "switch '%s' has the name of a node", key.name);
        }
        topology->names[topology->n_names++] = key;
    }
    qsort(topology->names, topology->n_names, sizeof(topology->names[0]), compare_names);
}

/* Maximum number of names that a hint is chosen from. */
#define HINT_NAMES_MAX 256u

static bool complain_no_node(const struct topology *topology, struct scenario_mark mark,
                             const char *name, const char *text, bool has_switches)
{
    const char *names[HINT_NAMES_MAX];
    char quoted[DIAGNOSE_QUOTE_BYTES], hint[128];
    uint32_t n = 0;
    for (uint32_t i = 0; i < topology->n_names && n < HINT_NAMES_MAX; i++) {
        if (has_switches || !topology->names[i].is_switch) {
            names[n++] = topology->names[i].name;
        }
    }
    return complain(topology->loader, mark, "%s: there is no node '%s'%s", name,
                    diagnose_quote(text, quoted),
                    diagnose_hint(text, names, n, hint, sizeof(hint)));
}

static bool complain_no_port(const struct topology *topology, struct scenario_mark mark,
                             const char *name, uint32_t host, const char *text)
{
    const struct world_host *h = &topology->loader->scenario->hosts[host];
    const struct topology_host *extra = &topology->hosts[host];
    const char *names[TOPOLOGY_PORTS_MAX + TOPOLOGY_CAGES_MAX];
    char quoted[DIAGNOSE_QUOTE_BYTES], hint[128];
    uint32_t n = 0;
    if (extra->has_bad_ports) {
        return false;
    }
    for (uint32_t i = 0; i < h->n_ports; i++) {
        names[n++] = h->ports[i].name;
    }
    for (uint32_t i = 0; i < extra->n_cages; i++) {
        names[n++] = extra->cages[i];
    }
    return complain(topology->loader, mark, "%s: node '%s' has no port '%s'%s", name,
                    h->name, diagnose_quote(text, quoted),
                    diagnose_hint(text, names, n, hint, sizeof(hint)));
}

static bool find_port(const struct topology *topology, uint32_t host, const char *text,
                      uint32_t *out)
{
    const struct world_host *h = &topology->loader->scenario->hosts[host];
    *out = world_port_index(h, text);
    return *out < h->n_ports;
}

/* Finds a port or a cage of the host out->node. */
static bool find_host_port(const struct topology *topology, const char *text,
                           struct topology_place *out)
{
    const struct topology_host *extra = &topology->hosts[out->node];
    if (find_port(topology, out->node, text, &out->ports[0])) {
        out->n_ports = 1;
        return true;
    }
    for (uint32_t i = 0; i < extra->n_cages; i++) {
        if (strcmp(extra->cages[i], text) == 0) {
            out->is_cage = true;
            out->n_ports = 2;
            out->ports[0] = extra->n_plain + i;
            out->ports[1] = extra->n_plain + extra->n_cages + i;
            return true;
        }
    }
    return false;
}

static const struct topology_name *find_name(const struct topology *topology,
                                             const char *name)
{
    const struct topology_name key = {.name = name};
    return bsearch(&key, topology->names, topology->n_names, sizeof(key), compare_names);
}

static bool find_switch_port(const struct topology *topology, struct scenario_mark mark,
                             const char *name, const char *text,
                             struct topology_place *out)
{
    const struct world_switch *s = &topology->loader->scenario->switches[out->node];
    unsigned long port = strspn(text, "0123456789") == strlen(text) && strlen(text) < 6
                             ? strtoul(text, NULL, 10)
                             : s->n_ports;
    if (text[0] == '\0' || port >= s->n_ports) {
        char quoted[DIAGNOSE_QUOTE_BYTES];
        return complain(topology->loader, mark,
                        "%s: switch '%s' has ports 0..%u, not '%s'", name, s->name,
                        s->n_ports - 1, diagnose_quote(text, quoted));
    }
    out->n_ports = 1;
    out->ports[0] = (uint32_t)port;
    return true;
}

bool topology_find(const struct topology *topology, struct scenario_mark mark,
                   const char *name, const char *text, struct topology_place *out)
{
    size_t n = strcspn(text, ":");
    const char *node_name = arena_copy(topology->loader->arena, text, n);
    const struct topology_name *found = find_name(topology, node_name);
    if (found == NULL) {
        return complain_no_node(topology, mark, name, node_name, true);
    }
    *out = (struct topology_place){.is_switch = found->is_switch, .node = found->index};
    if (text[n] == '\0') {
        return true;
    }
    if (out->is_switch) {
        return find_switch_port(topology, mark, name, text + n + 1, out);
    }
    return find_host_port(topology, text + n + 1, out) ||
           complain_no_port(topology, mark, name, out->node, text + n + 1);
}

bool topology_is_management(const struct topology *topology, const char *text)
{
    size_t n = strcspn(text, ":");
    const struct topology_name *found =
        find_name(topology, arena_copy(topology->loader->arena, text, n));
    struct topology_place place;
    if (strcmp(text + n, ":management") != 0 || found == NULL || found->is_switch) {
        return false;
    }
    place = (struct topology_place){.node = found->index};
    return !find_host_port(topology, "management", &place);
}

bool topology_find_host(const struct topology *topology, const struct tree_node *node,
                        const char *name, uint32_t *out)
{
    const char *text;
    if (!read_scalar(topology->loader, node, name, &text)) {
        return false;
    }
    const struct topology_name *found = find_name(topology, text);
    if (found == NULL || found->is_switch) {
        return complain_no_node(topology, node->mark, name, text, false);
    }
    *out = found->index;
    return true;
}

bool topology_find_port(const struct topology *topology, const struct tree_node *node,
                        const char *name, uint32_t host, uint32_t *out)
{
    const char *text;
    if (!read_text(topology->loader, node, name, &text)) {
        return false;
    }
    return find_port(topology, host, text, out) ||
           complain_no_port(topology, node->mark, name, host, text);
}

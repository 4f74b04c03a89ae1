#include "scenario/arena.h"
#include "scenario/sections.h"

#define RANKS_MAX 65536u

/* Adds the next `n` ranks of `host`. */
static void add_ranks(struct scenario *s, uint32_t host, uint32_t *n_placed, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        s->ranks[s->n_ranks++] = (struct scenario_rank){host, n_placed[host]++};
    }
}

static bool count_ranks(struct loader *loader, uint32_t *out)
{
    const struct scenario *s = loader->scenario;
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_hosts; i++) {
        n += s->hosts[i].n_processes;
        if (n > RANKS_MAX) {
            return complain(loader, s->nodes[i].mark, "more than %u ranks in all",
                            RANKS_MAX);
        }
    }
    *out = (uint32_t)n;
    return true;
}

/* Reads the order of ranks. A host is named once for all its ranks, or once for each of them. */
static void read_order(const struct topology *topology, const struct tree_node *list)
{
    struct loader *loader = topology->loader;
    struct scenario *s = loader->scenario;
    uint32_t *hosts = arena_calloc(loader->arena, list->n, sizeof(hosts[0]));
    uint32_t *n_named = arena_calloc(loader->arena, s->n_hosts, sizeof(n_named[0]));
    uint32_t *n_placed = arena_calloc(loader->arena, s->n_hosts, sizeof(n_placed[0]));
    bool is_fine = true;
    for (uint32_t i = 0; i < list->n; i++) {
        if (!topology_find_host(topology, list->items[i], "ranks", &hosts[i])) {
            is_fine = false;
            continue;
        }
        const struct world_host *host = &s->hosts[hosts[i]];
        uint32_t most = host->n_processes > 1 ? host->n_processes : 1;
        if (++n_named[hosts[i]] > most || host->n_processes == 0) {
            is_fine = complain(loader, list->items[i]->mark,
                               "ranks: '%s' has %u rank%s, this is number %u", host->name,
                               host->n_processes, host->n_processes == 1 ? "" : "s",
                               n_named[hosts[i]]);
        }
    }
    for (uint32_t i = 0; is_fine && i < s->n_hosts; i++) {
        const struct world_host *host = &s->hosts[i];
        if (host->n_processes > 0 && n_named[i] == 0) {
            complain(
                loader, list->mark,
                "ranks: node '%s' is missing; 'ranks: 0' in it makes it a relay only",
                host->name);
        } else if (n_named[i] > 1 && n_named[i] < host->n_processes) {
            complain(loader, list->mark, "ranks: '%s' has %u ranks and is named %u times",
                     host->name, host->n_processes, n_named[i]);
        }
    }
    for (uint32_t i = 0; is_fine && i < list->n; i++) {
        uint32_t host = hosts[i];
        add_ranks(s, host, n_placed, n_named[host] == 1 ? s->hosts[host].n_processes : 1);
    }
}

void ranks_read(const struct topology *topology, const struct tree_node *node)
{
    struct loader *loader = topology->loader;
    struct scenario *s = loader->scenario;
    uint32_t n = 0;
    if (!count_ranks(loader, &n)) {
        return;
    }
    s->ranks = arena_calloc(loader->arena, n, sizeof(s->ranks[0]));
    if (node != NULL) {
        if (read_list(loader, node, "ranks", 1, RANKS_MAX)) {
            read_order(topology, node);
        }
        return;
    }
    uint32_t *n_placed = arena_calloc(loader->arena, s->n_hosts, sizeof(n_placed[0]));
    for (uint32_t i = 0; i < s->n_hosts; i++) {
        add_ranks(s, i, n_placed, s->hosts[i].n_processes);
    }
}

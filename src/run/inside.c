#include "run/inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* net_ib uses ports that are active: with a cable that is up. */
static void find_connected(const struct world_spec *spec, uint32_t host, bool *out)
{
    for (uint32_t c = 0; c < spec->n_cables; c++) {
        for (unsigned e = 0; e < 2; e++) {
            const struct world_end *end = &spec->cables[c].ends[e];

            if (!end->is_switch && end->node == host && spec->cables[c].up) {
                out[end->port] = true;
            }
        }
    }
}

void run_inside_make(const struct scenario_world *world, uint32_t host, bool merges_nics,
                     struct run_inside *out)
{
    const struct world_host *spec = &world->spec.hosts[host];
    bool *is_connected = weft_calloc(spec->n_ports + 1, sizeof(*is_connected));
    uint32_t n = 0;

    find_connected(&world->spec, host, is_connected);
    *out = (struct run_inside){.ranks = weft_calloc(world->n_ranks + 1, sizeof(int))};
    io_machine_of_world(spec, is_connected, &out->machine);
    free(is_connected);
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        if (world->ranks[i].host == host) {
            out->ranks[world->ranks[i].local_rank] = (int)i;
            n++;
        }
    }
    out->inside = (struct topo_inside){.machine = &out->machine,
                                       .host_hash = host + 1,
                                       .ranks = out->ranks,
                                       .n_ranks = n,
                                       .merges_nics = merges_nics};
}

void run_inside_fini(struct run_inside *inside)
{
    io_machine_fini(&inside->machine);
    free(inside->ranks);
    inside->ranks = NULL;
}

static bool check_host(const struct scenario *scenario,
                       const struct scenario_world *world, uint32_t host,
                       struct weft_text *out)
{
    const struct topo_rules *rules = topo_rules_find("2.25");
    const struct scenario_host *from = &scenario->hosts[host];
    struct run_inside inside;
    struct topo_system *system = NULL;
    struct weft_error why;
    char where[300];
    bool is_good;

    weft_error_clear(&why);
    run_inside_make(world, host, false, &inside);
    if (inside.inside.n_ranks > 0) {
        is_good = topo_of_host(&inside.inside, rules, &system, &why) == WEFT_OK;
    } else { /* it only relays: nobody asks, but it must be a topology */
        is_good = topo_load(from->gpu_document, from->n_gpu_document, rules, &system,
                            &why) == WEFT_OK;
    }
    if (!is_good) {
        weft_text_add(out, "%stopology: %s:%s\n",
                      scenario_where(scenario, from->gpu_mark, where, sizeof(where)),
                      from->gpu_path, why.message);
    }
    topo_free(system);
    run_inside_fini(&inside);
    return is_good;
}

bool run_check_documents(const struct scenario *scenario, struct weft_text *out)
{
    struct scenario_world *world = NULL;
    bool has_any = false, is_good = true;

    for (uint32_t i = 0; i < scenario->n_hosts; i++) {
        has_any = has_any || scenario->hosts[i].gpu_document != NULL;
    }
    if (!has_any || scenario_to_world(scenario, &world) != WEFT_OK) {
        return true;
    }
    for (uint32_t i = 0; i < scenario->n_hosts && is_good; i++) {
        is_good = scenario->hosts[i].gpu_document == NULL ||
                  check_host(scenario, world, i, out);
    }
    scenario_world_free(world);
    return is_good;
}

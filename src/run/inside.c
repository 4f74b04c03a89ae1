#include "run/inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "nccl/describe.h"

void run_inside_make(const struct scenario_world *world, uint32_t host, bool merges_nics,
                     struct run_inside *out)
{
    uint32_t n = 0;

    *out = (struct run_inside){.ranks = weft_calloc(world->n_ranks + 1, sizeof(int))};
    io_machine_of_spec(&world->spec, host, &out->machine);
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
    const struct world_host *from = &scenario->hosts[host];
    struct run_inside inside;
    struct topo_system *system = NULL;
    struct weft_error why;
    char where[300];
    bool is_good;

    weft_error_clear(&why);
    run_inside_make(world, host, false, &inside);
    if (inside.inside.n_ranks > 0) {
        is_good = topo_of_host(&inside.inside, rules, &system, &why) == WEFT_OK;
    } else { /* A host that only relays needs no GPUs, but the document must be valid. */
        is_good = topo_load(from->gpu_document, from->n_gpu_document, rules, &system,
                            &why) == WEFT_OK;
    }
    if (!is_good) {
        weft_text_add(out, "%stopology: %s:%s\n",
                      scenario_where(scenario, scenario->nodes[host].gpu_mark, where,
                                     sizeof(where)),
                      from->gpu_document_name, why.message);
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

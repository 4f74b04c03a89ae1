#include "scenario/arena.h"
#include "scenario/scenario.h"

weft_status scenario_to_world(const struct scenario *scenario,
                              struct scenario_world **out)
{
    struct scenario_arena *arena = arena_create();
    struct scenario_world *world = arena_calloc(arena, 1, sizeof(*world));
    struct world_fault *faults =
        arena_calloc(arena, scenario->n_faults, sizeof(faults[0]));
    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        faults[i] = scenario->faults[i].spec;
    }
    world->arena = arena;
    world->spec = (struct world_spec){
        .seed = scenario->seed,
        .hosts = scenario->hosts,
        .n_hosts = scenario->n_hosts,
        .switches = scenario->switches,
        .n_switches = scenario->n_switches,
        .cables = scenario->cables,
        .n_cables = scenario->n_links,
        .management = {.exists = scenario->management.exists,
                       .prefix_len = scenario->management.subnet.prefix_len,
                       .rate_bps = scenario->management.rate_bps,
                       .delay_ps = scenario->management.delay_ns * 1000},
        .faults = faults,
        .n_faults = scenario->n_faults};
    world->ranks = scenario->ranks;
    world->n_ranks = scenario->n_ranks;
    *out = world;
    return WEFT_OK;
}

void scenario_world_hosts(struct scenario_world *world, const struct world_host *hosts)
{
    world->spec.hosts =
        arena_dup(world->arena, hosts, world->spec.n_hosts, sizeof(hosts[0]));
}

void scenario_world_free(struct scenario_world *world)
{
    if (world != NULL) {
        arena_destroy(world->arena);
    }
}

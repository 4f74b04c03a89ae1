#include <string.h>

#include "base/check.h"
#include "scenario/arena.h"
#include "scenario/scenario.h"
#include "scenario/topology.h"

static const struct world_setting *copy_settings(struct scenario_arena *arena,
                                                 const struct scenario_setting *from,
                                                 uint32_t n)
{
    struct world_setting *out = arena_calloc(arena, n, sizeof(out[0]));
    for (uint32_t i = 0; i < n; i++) {
        out[i] = (struct world_setting){arena_strdup(arena, from[i].name),
                                        arena_strdup(arena, from[i].value)};
    }
    return out;
}

static const struct world_port *copy_ports(struct scenario_arena *arena,
                                           const struct scenario_host *host)
{
    struct world_port *out = arena_calloc(arena, host->n_ports, sizeof(out[0]));
    for (uint32_t i = 0; i < host->n_ports; i++) {
        const struct scenario_port *from = &host->ports[i];
        out[i] = (struct world_port){
            .name = arena_strdup(arena, from->name),
            .device = from->device,
            .port = from->port,
            .pcie_root = from->pcie_root,
            .is_cage = from->is_cage,
            .rate_bps = from->rate_bps,
            .mtu_bytes = from->mtu_bytes,
            .addresses = arena_dup(arena, from->addresses, from->n_addresses,
                                   sizeof(from->addresses[0])),
            .n_addresses = from->n_addresses,
            .peers =
                arena_dup(arena, from->peers, from->n_addresses, sizeof(from->peers[0])),
            .n_vlan_addresses = from->n_vlan_addresses,
            .vlan_id = from->vlan_id};
    }
    return out;
}

static const struct world_bond *copy_bonds(struct scenario_arena *arena,
                                           const struct scenario_host *host)
{
    struct world_bond *out = arena_calloc(arena, host->n_bonds, sizeof(out[0]));
    for (uint32_t i = 0; i < host->n_bonds; i++) {
        const struct scenario_bond *from = &host->bonds[i];
        out[i] = (struct world_bond){
            .name = arena_strdup(arena, from->name),
            .ports = arena_dup(arena, from->ports, from->n_ports, sizeof(from->ports[0])),
            .n_ports = from->n_ports,
            .addresses = arena_dup(arena, from->addresses, from->n_addresses,
                                   sizeof(from->addresses[0])),
            .n_addresses = from->n_addresses};
    }
    return out;
}

static struct world_host copy_host(struct scenario_arena *arena,
                                   const struct scenario *scenario, uint32_t index)
{
    const struct scenario_host *host = &scenario->hosts[index];
    const char **drop = arena_calloc(arena, host->n_input_drop, sizeof(drop[0]));
    for (uint32_t i = 0; i < host->n_input_drop; i++) {
        drop[i] = arena_strdup(arena, host->input_drop[i]);
    }
    struct world_host out = {
        .name = arena_strdup(arena, host->name),
        .profile = host->profile,
        .overrides = copy_settings(arena, host->overrides, host->n_overrides),
        .n_overrides = host->n_overrides,
        .ports = copy_ports(arena, host),
        .n_ports = host->n_ports,
        .bonds = copy_bonds(arena, host),
        .n_bonds = host->n_bonds,
        .pcie_root_bps = arena_dup(arena, host->pcie_root_bps, host->n_pcie_roots,
                                   sizeof(host->pcie_root_bps[0])),
        .n_pcie_roots = host->n_pcie_roots,
        .n_gpus = host->n_gpus,
        .has_no_peer_access = host->has_no_peer_access,
        .gpu_document_name =
            host->gpu_path != NULL ? arena_strdup(arena, host->gpu_path) : NULL,
        .sysctl = host->sysctl,
        .routes = arena_dup(arena, host->routes, host->n_routes, sizeof(host->routes[0])),
        .n_routes = host->n_routes,
        .forward_accept = host->forward_accept,
        .input_drop = drop,
        .n_input_drop = host->n_input_drop,
        .memlock_bytes = host->memlock_bytes,
        .has_private_shm = host->has_private_shm,
        .settings = copy_settings(arena, host->env, host->n_env),
        .n_settings = host->n_env,
        .start_ns = host->start_ns,
        .known_ip = host->known_ip,
        .n_processes = host->n_ranks};
    if (scenario->management.exists) {
        struct io_prefix address;
        bool has_room = subnet_host(&scenario->management.subnet, index + 1, &address);
        weft_check(has_room);
        out.management_ip = address.ip;
    }
    return out;
}

/* Copies topology documents. Hosts with the same document share the copy. */
static void copy_documents(struct scenario_arena *arena, const struct scenario *scenario,
                           struct world_host *hosts)
{
    for (uint32_t i = 0; i < scenario->n_hosts; i++) {
        const struct scenario_host *from = &scenario->hosts[i];

        if (from->gpu_document == NULL) {
            continue;
        }
        for (uint32_t k = 0; k < i && hosts[i].gpu_document == NULL; k++) {
            bool is_same = scenario->hosts[k].gpu_document == from->gpu_document;

            hosts[i].gpu_document = is_same ? hosts[k].gpu_document : NULL;
        }
        if (hosts[i].gpu_document == NULL) {
            hosts[i].gpu_document =
                arena_copy(arena, from->gpu_document, from->n_gpu_document);
        }
        hosts[i].n_gpu_document = from->n_gpu_document;
    }
}

static struct world_cable copy_link(const struct scenario_link *link)
{
    struct world_cable out = {.rate_bps = link->rate_bps,
                              .is_rate_assumed = link->is_rate_assumed,
                              .delay_ps = link->delay_ns * 1000,
                              .path_limit_bytes = link->path_limit_bytes,
                              .queue_bytes = link->queue_bytes,
                              .pause = link->pause,
                              .up = link->up,
                              .impairment = link->impairment};
    for (unsigned i = 0; i < 2; i++) {
        out.ends[i] = (struct world_end){link->ends[i].is_switch, link->ends[i].node,
                                         link->ends[i].port};
    }
    return out;
}

weft_status scenario_to_world(const struct scenario *scenario,
                              struct scenario_world **out)
{
    struct scenario_arena *arena = arena_create();
    struct scenario_world *world = arena_calloc(arena, 1, sizeof(*world));
    struct world_host *hosts = arena_calloc(arena, scenario->n_hosts, sizeof(hosts[0]));
    struct world_switch *switches =
        arena_calloc(arena, scenario->n_switches, sizeof(switches[0]));
    struct world_cable *cables =
        arena_calloc(arena, scenario->n_links, sizeof(cables[0]));
    struct world_fault *faults =
        arena_calloc(arena, scenario->n_faults, sizeof(faults[0]));
    for (uint32_t i = 0; i < scenario->n_hosts; i++) {
        hosts[i] = copy_host(arena, scenario, i);
    }
    copy_documents(arena, scenario, hosts);
    for (uint32_t i = 0; i < scenario->n_switches; i++) {
        switches[i] =
            (struct world_switch){arena_strdup(arena, scenario->switches[i].name),
                                  scenario->switches[i].n_ports};
    }
    for (uint32_t i = 0; i < scenario->n_links; i++) {
        cables[i] = copy_link(&scenario->links[i]);
    }
    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        faults[i] = scenario->faults[i].spec;
        if (faults[i].send != NULL) {
            faults[i].send = arena_strdup(arena, faults[i].send);
        }
    }
    world->arena = arena;
    world->spec = (struct world_spec){.seed = scenario->seed,
                                      .hosts = hosts,
                                      .n_hosts = scenario->n_hosts,
                                      .switches = switches,
                                      .n_switches = scenario->n_switches,
                                      .cables = cables,
                                      .n_cables = scenario->n_links,
                                      .faults = faults,
                                      .n_faults = scenario->n_faults};
    world->spec.management =
        (struct world_management){.exists = scenario->management.exists,
                                  .prefix_len = scenario->management.subnet.prefix_len,
                                  .rate_bps = scenario->management.rate_bps,
                                  .delay_ps = scenario->management.delay_ns * 1000};
    world->ranks =
        arena_dup(arena, scenario->ranks, scenario->n_ranks, sizeof(scenario->ranks[0]));
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

#include "run/seeing.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "nccl/policies.h"
#include "run/asks.h"

const char *run_host_setting(const struct world_host *host, const char *name)
{
    for (uint32_t i = 0; host != NULL && i < host->n_settings; i++) {
        if (strcmp(host->settings[i].name, name) == 0) {
            return host->settings[i].value;
        }
    }
    return NULL;
}

static const char *setting_of(void *context, const char *name)
{
    return run_host_setting(context, name);
}

bool run_host_merges(const struct world_host *host)
{
    union {
        const struct world_host *host;
        void *context;
    } of = {host};

    return nccl_merges(setting_of(of.context, "NCCL_IB_MERGE_NICS"),
                       setting_of(of.context, "NCCL_NET_MERGE_LEVEL"));
}

/* Returns the name of the port's device, which in a scenario is that of its first port. */
static const char *device_of(const struct io_machine *machine, uint32_t net)
{
    for (uint32_t i = 0; i < machine->n_nets; i++) {
        if (machine->nets[i].device == machine->nets[net].device &&
            machine->nets[i].port == 1) {
            return machine->nets[i].name;
        }
    }
    return machine->nets[net].name;
}

/* Marks the ports that net_ib does not open as inactive, as NCCL treats them. */
static void leave_out(const char *ib_hca, struct io_machine *machine)
{
    for (uint32_t i = 0; i < machine->n_nets; i++) {
        machine->nets[i].is_active =
            machine->nets[i].is_active &&
            nccl_opens(ib_hca, device_of(machine, i), machine->nets[i].port);
    }
}

/* Returns the /dev/shm of a rank. Each container has its own. */
static uint64_t shm_dev_of(const struct scenario_world *world, uint32_t rank)
{
    const struct world_host *host = &world->spec.hosts[world->ranks[rank].host];

    return host->has_private_shm ? 1 + world->ranks[rank].local_rank : 1;
}

static void know_peers(struct run_seeing *seeing, const struct scenario_world *world,
                       uint32_t rank)
{
    seeing->peers = weft_calloc(world->n_ranks + 1, sizeof(*seeing->peers));
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        seeing->peers[i] =
            (struct topo_peer){.host_hash = world->ranks[i].host + 1,
                               .shm_dev = shm_dev_of(world, i),
                               .nvml_dev = (int)world->ranks[i].local_rank};
    }
    seeing->comm = (struct topo_comm){
        .rank = rank, .n_ranks = world->n_ranks, .peers = seeing->peers};
}

static weft_status find_paths(struct run_seeing *seeing, struct weft_error *error)
{
    weft_status status = topo_compute_paths(&seeing->view, error);

    if (status == WEFT_OK) {
        status = topo_trim(&seeing->view, error);
    }
    if (status == WEFT_OK) {
        status = topo_compute_paths(&seeing->view, error);
    }
    if (status == WEFT_OK) {
        status = topo_graph_ring(&seeing->view, seeing->ring, error);
    }
    return status;
}

weft_status run_see(const struct scenario_world *world, uint32_t rank, bool as_net_ib,
                    struct run_seeing *out, struct weft_error *error)
{
    const struct topo_rules *rules = topo_rules_find("2.25");
    uint32_t index = world->ranks[rank].host;
    union {
        const struct world_host *host;
        void *context;
    } of = {&world->spec.hosts[index]};
    weft_status status;

    *out = (struct run_seeing){.ring = weft_calloc(1, sizeof(*out->ring))};
    run_inside_make(world, index, as_net_ib && run_host_merges(of.host), &out->inside);
    if (as_net_ib) {
        leave_out(setting_of(of.context, "NCCL_IB_HCA"), &out->inside.machine);
    }
    out->nets = weft_calloc(of.host->n_ports + 1, sizeof(*out->nets));
    out->n_nets = topo_net_ports_of(&out->inside.inside, out->nets, of.host->n_ports);
    know_peers(out, world, rank);
    topo_settings_read(rules, setting_of, of.context, &out->settings);
    status = topo_of_host(&out->inside.inside, rules, &out->system, error);
    out->view = (struct topo_view){
        .system = out->system, .settings = &out->settings, .comm = &out->comm};
    return status == WEFT_OK ? find_paths(out, error) : status;
}

void run_unsee(struct run_seeing *seeing)
{
    topo_free(seeing->system);
    run_inside_fini(&seeing->inside);
    free(seeing->nets);
    free(seeing->peers);
    free(seeing->ring);
}

/* The environment of a process of a simulated host: clock, randomness, settings, host facts. */
#include <stdlib.h>
#include <string.h>

#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/text.h"

#define SHM_DEV 0x18 /* device number of a tmpfs; any number except 0 would do */

static weft_ns env_now(struct io_env *env)
{
    return sim_now_ns(sim_process_of(env)->host->world->engine);
}

static void env_random(struct io_env *env, void *out, size_t n_bytes)
{
    weft_rng_bytes(&sim_process_of(env)->rng, out, n_bytes);
}

const char *sim_env_setting(const struct world_host *spec, const char *name)
{
    for (uint32_t i = 0; i < spec->n_settings; i++) {
        if (strcmp(spec->settings[i].name, name) == 0) {
            return spec->settings[i].value;
        }
    }
    return NULL;
}

static const char *env_setting(struct io_env *env, const char *name)
{
    return sim_env_setting(sim_process_of(env)->host->spec, name);
}

static void fill_netdev(const struct world_sysctl *sysctl,
                        const struct sim_netdev_info *from, struct io_netdev *out)
{
    *out = (struct io_netdev){.ifindex = from->ifindex,
                              .mtu_bytes = from->mtu_bytes,
                              .speed_bps = from->speed_bps,
                              .is_up = from->is_up,
                              .is_management = from->is_management,
                              .vlan_id = from->vlan_id,
                              .master = from->master,
                              .n_addresses = from->n_addresses,
                              .rp_filter = sysctl->rp_filter,
                              .arp_ignore = sysctl->arp_ignore,
                              .arp_announce = sysctl->arp_announce,
                              .accept_local = sysctl->accept_local};
    weft_format(out->name, sizeof out->name, "%s", from->name);
    for (int i = 0; i < 6; i++) {
        out->mac[i] = (uint8_t)(from->mac >> (40 - 8 * i));
    }
    out->addresses = weft_calloc(from->n_addresses + 1, sizeof *out->addresses);
    for (uint32_t i = 0; i < from->n_addresses; i++) {
        out->addresses[i].ip = sim_ip_to_io(&from->addresses[i].ip);
        out->addresses[i].prefix_len = from->addresses[i].prefix_len;
    }
}

const struct io_machine *sim_host_machine(struct sim_host *host)
{
    if (!host->has_machine) {
        io_machine_of_world(host->spec, NULL, &host->machine);
        host->has_machine = true;
    }
    for (uint32_t i = 0; i < host->spec->n_ports; i++) {
        host->machine.nets[i].is_active = sim_port_is_up(host->ports[i]);
    }
    return &host->machine;
}

static const struct io_hostinfo *env_hostinfo(struct io_env *env)
{
    struct sim_process *process = sim_process_of(env);
    struct sim_host *host = process->host;
    struct io_hostinfo *info = &process->info;
    io_hostinfo_fini(info);
    info->machine = sim_host_machine(host);
    info->n_netdevs = sim_stack_n_netdevs(host->stack);
    info->netdevs = weft_calloc(info->n_netdevs + 1, sizeof *info->netdevs);
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        struct sim_netdev_info netdev = sim_stack_netdev(host->stack, i);
        fill_netdev(&host->spec->sysctl, &netdev, &info->netdevs[i]);
    }
    return info;
}

static const uint8_t *env_host_id(struct io_env *env)
{
    return sim_process_of(env)->info.host_id;
}

static bool env_next_ended(struct io_env *env, uint32_t *out_member)
{
    struct sim_process *process = sim_process_of(env);
    const struct sim_world *world = process->host->world;
    if (process->n_ended_taken == world->n_ended) {
        return false;
    }
    *out_member = world->ended[process->n_ended_taken++];
    return true;
}

static void env_reached(struct io_env *env, enum io_stage stage, uint64_t n)
{
    sim_faults_reached(sim_process_of(env), stage, n);
}

const struct io_env_ops sim_env_ops = {
    .now = env_now,
    .random = env_random,
    .setting = env_setting,
    .hostinfo = env_hostinfo,
    .host_id = env_host_id,
    .next_ended = env_next_ended,
    .reached = env_reached,
};

/* Returns one number for all processes of the host, or one for each with a private /dev/shm. */
static uint64_t shm_dev_of(const struct world_host *spec, uint32_t process)
{
    return SHM_DEV + (spec->has_private_shm ? process : 0);
}

void sim_env_init(struct sim_process *process)
{
    struct sim_host *host = process->host;
    const struct world_spec *spec = host->world->spec;
    struct io_env *env = &process->env;
    char stream[96];
    struct weft_rng id_rng;

    env->ops = &sim_env_ops;
    env->oob = &sim_oob_ops;
    env->shm = &sim_shm_ops;
    env->loop = &host->world->loop;
    env->host = host->first_task + process->index;
    env->world_host = host->index;
    env->process = process->index;
    env->trace = spec->trace;
    env->log = spec->log;
    weft_format(env->name, sizeof env->name, "%s", host->spec->name);
    weft_format(stream, sizeof stream, process->index == 0 ? "env:%s" : "env:%s/%u",
                host->spec->name, process->index);
    weft_rng_init(&process->rng, spec->seed, stream);

    weft_format(process->info.name, sizeof process->info.name, "%s", host->spec->name);
    weft_format(stream, sizeof stream, "boot:%s", host->spec->name);
    weft_rng_init(&id_rng, spec->seed, stream);
    weft_rng_bytes(&id_rng, process->info.host_id, sizeof process->info.host_id);
    process->info.memlock_bytes = host->spec->memlock_bytes;
    process->info.ip_forward = host->spec->sysctl.ip_forward;
    process->info.shm_dev = shm_dev_of(host->spec, process->index);
}

void sim_env_fini(struct sim_process *process)
{
    io_hostinfo_fini(&process->info);
}

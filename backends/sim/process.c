/* The processes of a host: their devices on the host's NICs, and their GPUs. */
#include <stdlib.h>

#include "backends/sim/sim_world.h"
#include "base/text.h"

static void build_links(struct sim_host *host)
{
    const struct world_ways *ways = host->spec->ways;
    if (ways == NULL) {
        return;
    }
    host->gpu_links = weft_calloc((size_t)ways->n_links + 1, sizeof *host->gpu_links);
    for (uint32_t i = 0; i < ways->n_links; i++) {
        host->gpu_links[i].bytes_per_us = ways->bytes_per_us[i];
    }
}

void sim_processes_build(struct sim_host *host)
{
    build_links(host);
    host->n_processes = world_host_processes(host->spec);
    host->processes = weft_calloc(host->n_processes, sizeof *host->processes);
    for (uint32_t i = 0; i < host->n_processes; i++) {
        struct sim_process *process = &host->processes[i];
        process->host = host;
        process->index = i;
        process->pinned_limit = host->spec->memlock_bytes;
        sim_env_init(process);
        sim_gpu_device_init(process);
    }
}

int64_t *sim_process_memlock(struct sim_process *process)
{
    int64_t limit = process->host->spec->memlock_bytes;
    return limit != INT64_MAX && limit >= 0 ? &process->pinned_limit : NULL;
}

/* Returns the EUI-64 of a MAC, from which mlx5 derives node GUIDs. */
static uint64_t guid_of(uint64_t mac)
{
    return (mac >> 24 ^ 0x020000) << 40 | (uint64_t)0xfffe << 24 | (mac & 0xffffff);
}

static void name_device(struct sim_device *device, uint32_t first_port)
{
    const struct world_host *spec = device->process->host->spec;
    char bus_id[16];
    io_machine_function(spec, first_port, bus_id, sizeof bus_id);
    weft_format(device->io.name, sizeof device->io.name, "%s",
                spec->ports[first_port].name);
    weft_format(device->io.pci_path, sizeof device->io.pci_path,
                "/sys/devices/pci%.4s:00/%.4s:00:00.0/%s", bus_id, bus_id, bus_id);
    device->io.guid = guid_of(sim_port_mac(device->ports[0]));
}

static void on_async_event(void *context)
{
    const struct sim_device *device = context;
    io_task_wake(device->io.async_task);
}

static void open_device(struct sim_process *process, uint32_t index)
{
    struct sim_host *host = process->host;
    struct sim_device *device = &process->devices[index];
    uint32_t first_port = UINT32_MAX;
    device->process = process;
    device->nic = host->nics[index];
    device->io.ops = &sim_device_ops;
    for (uint32_t i = 0; i < host->spec->n_ports; i++) {
        if (host->spec->ports[i].device == index) {
            first_port = i < first_port ? i : first_port;
            device->ports[device->io.n_ports] = host->ports[i];
            device->ifindexes[device->io.n_ports] =
                sim_stack_ifindex(host->stack, host->ports[i], 0);
            device->io.n_ports++;
        }
    }
    name_device(device, first_port);
    if (process->index > 0) {
        uint32_t user = sim_nic_open(device->nic, sim_process_memlock(process));
        weft_check(user == process->index);
    }
    sim_nic_async_waker(device->nic, process->index,
                        (struct sim_waker){on_async_event, device});
    process->env.devices[index] = &device->io;
    if (sim_nic_profile(device->nic)->gpu_visibility_ps > 0) {
        process->gpu.io.is_host_memory = false; /* received data needs a fence */
    }
}

void sim_processes_open(struct sim_host *host)
{
    for (uint32_t i = 0; i < host->n_processes; i++) {
        struct sim_process *process = &host->processes[i];
        process->devices = weft_calloc(host->n_nics + 1, sizeof *process->devices);
        process->env.devices =
            weft_calloc(host->n_nics + 1, sizeof(*process->env.devices));
        process->env.n_devices = host->n_nics;
        for (uint32_t j = 0; j < host->n_nics; j++) {
            open_device(process, j);
        }
    }
}

void sim_processes_fini(struct sim_host *host)
{
    for (uint32_t i = 0; i < host->n_processes; i++) {
        sim_gpu_device_close_peers(&host->processes[i].gpu);
    }
    for (uint32_t i = 0; i < host->n_processes; i++) {
        struct sim_process *process = &host->processes[i];
        for (uint32_t j = 0; j < process->env.n_devices; j++) {
            sim_device_stop(&process->devices[j]);
        }
        sim_gpu_device_fini(&process->gpu);
        sim_shm_fini(process);
        sim_env_fini(process);
        free(process->devices);
        free(process->env.devices);
    }
    io_machine_fini(&host->machine);
    free(host->gpu_links);
}

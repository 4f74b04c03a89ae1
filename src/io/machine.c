#include "io/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void io_machine_fini(struct io_machine *machine)
{
    free(machine->cpus);
    free(machine->pcis);
    free(machine->gpus);
    free(machine->nets);
    *machine = (struct io_machine){0};
}

/* Appends a zeroed element and returns the array, which grows by doubling. */
static void *grow(void *items, uint32_t *n, size_t each_bytes)
{
    if ((*n & (*n + 1)) == 0) {
        items = weft_realloc(items, (2 * (size_t)*n + 1) * each_bytes);
    }
    memset((char *)items + *n * each_bytes, 0, each_bytes);
    (*n)++;
    return items;
}

struct io_cpu *io_machine_add_cpu(struct io_machine *machine)
{
    machine->cpus = grow(machine->cpus, &machine->n_cpus, sizeof(*machine->cpus));
    return &machine->cpus[machine->n_cpus - 1];
}

struct io_pci *io_machine_add_pci(struct io_machine *machine)
{
    struct io_pci *pci;

    machine->pcis = grow(machine->pcis, &machine->n_pcis, sizeof(*machine->pcis));
    pci = &machine->pcis[machine->n_pcis - 1];
    pci->parent = IO_MACHINE_NONE;
    pci->numa = -1;
    return pci;
}

uint32_t io_machine_find_pci(const struct io_machine *machine, const char *bus_id)
{
    for (uint32_t i = 0; i < machine->n_pcis; i++) {
        if (strcmp(machine->pcis[i].bus_id, bus_id) == 0) {
            return i;
        }
    }
    return IO_MACHINE_NONE;
}

struct io_gpu_facts *io_machine_add_gpu(struct io_machine *machine)
{
    struct io_gpu_facts *gpu;

    machine->gpus = grow(machine->gpus, &machine->n_gpus, sizeof(*machine->gpus));
    gpu = &machine->gpus[machine->n_gpus - 1];
    gpu->pci = IO_MACHINE_NONE;
    return gpu;
}

struct io_net_facts *io_machine_add_net(struct io_machine *machine)
{
    struct io_net_facts *net;

    machine->nets = grow(machine->nets, &machine->n_nets, sizeof(*machine->nets));
    net = &machine->nets[machine->n_nets - 1];
    net->pci = IO_MACHINE_NONE;
    return net;
}

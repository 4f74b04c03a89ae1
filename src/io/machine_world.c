/* The inside of a scenario's host. The default is a plain machine: one CPU, each GPU on its own
 * root port, all ports functions of the card behind their root. */
#include "io/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/world.h"

enum {
    FUNCTIONS_PER_DEVICE = 8, /* a PCI function number has three bits */
    GPUS_PER_DOMAIN = 16,
    GPU_DOMAIN = 0x10,
    SPARK_GPU_DOMAIN = 0xf,
    CONNS_MAX = 131072 /* max_qp of mlx5 */
};

void io_machine_function(const struct world_host *host, uint32_t port, char *out,
                         size_t out_bytes)
{
    const struct world_port *self = &host->ports[port];
    /* The second of a Spark's two PCI domains is number 2. */
    uint32_t domain = self->is_cage ? 2 * self->pcie_root : self->pcie_root;
    uint32_t function = 0;

    for (uint32_t i = 0; i < port; i++) {
        function += host->ports[i].pcie_root == self->pcie_root &&
                    host->ports[i].device != self->device && host->ports[i].port <= 1;
    }
    weft_format(out, out_bytes, "%04x:01:%02x.%x", domain,
                function / FUNCTIONS_PER_DEVICE, function % FUNCTIONS_PER_DEVICE);
}

static struct io_pci *add_pci(struct io_machine *machine, uint32_t parent,
                              const char *class, const char *speed, uint32_t width)
{
    struct io_pci *pci = io_machine_add_pci(machine);

    pci->parent = parent;
    pci->numa = 0;
    pci->max_link_width = width;
    pci->link_width = width;
    weft_format(pci->class, sizeof(pci->class), "%s", class);
    weft_format(pci->max_link_speed, sizeof(pci->max_link_speed), "%s", speed);
    weft_format(pci->link_speed, sizeof(pci->link_speed), "%s", speed);
    return pci;
}

/* Adds a PCI function, and the root port above it if it does not exist. Returns the index of the
 * function. */
static uint32_t add_behind_root(struct io_machine *machine, const char *root_id,
                                const char *bus_id, const char *class, const char *speed,
                                uint32_t width)
{
    uint32_t root = io_machine_find_pci(machine, root_id);
    struct io_pci *pci;

    if (root == IO_MACHINE_NONE) {
        pci = add_pci(machine, IO_MACHINE_NONE, "0x060400", speed, width);
        weft_format(pci->bus_id, sizeof(pci->bus_id), "%s", root_id);
        root = machine->n_pcis - 1;
    }
    pci = add_pci(machine, root, class, speed, width);
    weft_format(pci->bus_id, sizeof(pci->bus_id), "%s", bus_id);
    return machine->n_pcis - 1;
}

static void add_gpu(struct io_machine *machine, uint32_t index, bool is_spark)
{
    uint32_t domain = is_spark ? SPARK_GPU_DOMAIN : GPU_DOMAIN + index / GPUS_PER_DOMAIN;
    uint32_t slot = index % GPUS_PER_DOMAIN + 1;
    char root_id[16], bus_id[16];
    struct io_gpu_facts *gpu;
    uint32_t pci;

    weft_format(root_id, sizeof(root_id), "%04x:00:%02x.0", domain, slot % 32);
    weft_format(bus_id, sizeof(bus_id), "%04x:%02x:00.0", domain, slot);
    pci = add_behind_root(machine, root_id, bus_id, "0x030200",
                          is_spark ? "2.5 GT/s PCIe" : "16.0 GT/s PCIe", 16);
    gpu = io_machine_add_gpu(machine);
    gpu->pci = pci;
    gpu->dev = (int)index;
    gpu->sm = is_spark ? 121 : 80;
    gpu->gdr = !is_spark;
    gpu->c2c_bw = is_spark ? 43125 : 0;
    gpu->c2c_count = is_spark ? 8 : 0;
    weft_format(gpu->uuid, sizeof(gpu->uuid), "GPU-%08x", index);
}

/* Returns the width of the narrowest PCIe 5.0 link with at least this rate, at most x16. */
static uint32_t width_for(uint64_t rate_bps)
{
    uint64_t lane_bps = UINT64_C(31507692308); /* 32 GT/s, 128 of 130 bits */
    uint32_t width = 1;

    while (width < 16 && width * lane_bps < rate_bps) {
        width *= 2;
    }
    return width;
}

static void add_net(struct io_machine *machine, const struct world_host *host,
                    uint32_t port, bool is_connected)
{
    const struct world_port *self = &host->ports[port];
    uint64_t root_bps =
        self->pcie_root < host->n_pcie_roots ? host->pcie_root_bps[self->pcie_root] : 0;
    uint32_t width =
        self->is_cage ? 4 : width_for(root_bps != 0 ? root_bps : 400000000000);
    char root_id[16], bus_id[16];
    struct io_net_facts *net;
    uint32_t pci;

    io_machine_function(host, port, bus_id, sizeof(bus_id));
    if (self->is_cage) {
        /* A topology dump of a Spark shows both ports at function 0. */
        bus_id[strlen(bus_id) - 1] = '0';
    }
    weft_format(root_id, sizeof(root_id), "%.4s:00:00.0", bus_id);
    pci = io_machine_find_pci(machine, bus_id);
    if (pci == IO_MACHINE_NONE) {
        pci = add_behind_root(machine, root_id, bus_id, "0x020000", "32.0 GT/s PCIe",
                              width);
        weft_format(machine->pcis[pci].vendor, sizeof(machine->pcis[pci].vendor),
                    "0x15b3");
        weft_format(machine->pcis[pci].device, sizeof(machine->pcis[pci].device),
                    "0x1021");
        /* A Spark's root port has four lanes; at a lower rate the link has trained with fewer. */
        if (self->is_cage && root_bps != 0 && width_for(root_bps) < width) {
            machine->pcis[pci].link_width = width_for(root_bps);
        }
    }
    net = io_machine_add_net(machine);
    net->pci = pci;
    net->device = self->device;
    net->port = self->port;
    net->is_active = is_connected;
    net->speed_mbps = (uint32_t)(self->rate_bps / 1000000);
    net->guid = UINT64_C(0x4cbb470300c00000) + pci * UINT64_C(0x10);
    net->max_conns = CONNS_MAX;
    net->gdr = !self->is_cage;
    weft_format(net->name, sizeof(net->name), "%s", self->name);
}

void io_machine_of_world(const struct world_host *host, const bool *is_connected,
                         struct io_machine *out)
{
    uint32_t n_processes = world_host_processes(host);
    uint32_t n_gpus = host->n_gpus > n_processes ? host->n_gpus : n_processes;
    struct io_cpu *cpu;
    bool is_spark = false;

    *out = (struct io_machine){.document = host->gpu_document,
                               .n_document = host->n_gpu_document,
                               .document_name = host->gpu_document_name};
    for (uint32_t i = 0; i < host->n_ports; i++) {
        is_spark = is_spark || host->ports[i].is_cage;
    }
    weft_format(out->arch, sizeof(out->arch), is_spark ? "aarch64" : "x86_64");
    weft_format(out->vendor, sizeof(out->vendor), is_spark ? "" : "GenuineIntel");
    out->family = is_spark ? 0 : 6;
    out->model = is_spark ? 0 : 0x8f; /* Sapphire Rapids */
    cpu = io_machine_add_cpu(out);
    weft_format(cpu->affinity, sizeof(cpu->affinity), is_spark ? "fffff" : "ffffffff");
    for (uint32_t i = 0; i < n_gpus; i++) {
        add_gpu(out, i, is_spark);
    }
    for (uint32_t i = 0; i < host->n_ports; i++) {
        add_net(out, host, i, is_connected == NULL || is_connected[i]);
    }
}

/* A port is connected if it has a cable that is up. */
void io_machine_of_spec(const struct world_spec *spec, uint32_t host,
                        struct io_machine *out)
{
    bool *is_connected =
        weft_calloc(spec->hosts[host].n_ports + 1, sizeof(*is_connected));

    for (uint32_t c = 0; c < spec->n_cables; c++) {
        for (unsigned e = 0; e < 2; e++) {
            const struct world_end *end = &spec->cables[c].ends[e];

            if (!end->is_switch && end->node == host && spec->cables[c].up) {
                is_connected[end->port] = true;
            }
        }
    }
    io_machine_of_world(&spec->hosts[host], is_connected, out);
    free(is_connected);
}

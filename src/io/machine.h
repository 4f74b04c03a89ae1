/* The inside of one host as reported by its kernel and drivers: CPUs, PCI devices and bridges,
 * GPUs, RDMA ports. nccl/describe.h makes of it the topology that NCCL would detect. Text is as in
 * sysfs and NVML; "" if unknown. */
#ifndef WEFT_IO_MACHINE_H
#define WEFT_IO_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define IO_MACHINE_NONE UINT32_MAX

/* A NUMA node. */
struct io_cpu {
    int numa;
    char affinity[224]; /* cpumap: "00ff" */
};

/* A PCI function: a device, or a bridge or port above one. */
struct io_pci {
    char bus_id[16]; /* "0000:01:00.0", in lower case */
    uint32_t parent; /* index of the port above; IO_MACHINE_NONE for the host bridge */
    int numa;        /* -1 if unknown */
    char class[16];  /* "0x020000" */
    char vendor[12], device[12], subsystem_vendor[12],
        subsystem_device[12]; /* "0x15b3" */
    char max_link_speed[24];  /* "32.0 GT/s PCIe" */
    uint32_t max_link_width;  /* 0 if unknown */
    char link_speed[24];      /* present speed */
    uint32_t link_width;
};

/* NVLinks between a GPU and one target. */
struct io_nvlink {
    char target[20]; /* bus id, in lower case */
    char tclass[16]; /* PCI class of the target; "" if it is not visible here */
    uint32_t count;
};

#define IO_NVLINKS_MAX 18
struct io_gpu_facts {
    uint32_t pci; /* index into pcis */
    int dev;      /* NVML index */
    int sm;       /* compute capability: 90 is 9.0 */
    bool gdr;     /* the NIC can access its memory */
    char uuid[48];
    struct io_nvlink nvlinks[IO_NVLINKS_MAX]; /* [n_nvlinks] */
    uint32_t n_nvlinks;
    /* Coherent links to the CPU: MB/s of one, and their number; 0 if none. */
    uint32_t c2c_bw, c2c_count;
};

/* A port of an RDMA device. */
struct io_net_facts {
    char name[64];   /* name of the device; in a scenario, of the port */
    uint32_t pci;    /* index into pcis; IO_MACHINE_NONE if not on PCI (soft-RoCE) */
    uint32_t device; /* index into io_env.devices */
    uint8_t port;    /* number on the device, from 1 */
    bool is_active;
    uint32_t speed_mbps; /* link speed; 0 if unknown */
    /* GUID of the NIC (sys_image_guid), in the byte order that NCCL prints */
    uint64_t guid;
    uint32_t max_conns;
    bool gdr; /* the NIC can write into GPU memory */
};

struct io_machine {
    /* An NCCL topology document that describes the inside instead, as read from a file, and the
     * file's name for messages; NULL if none. The ports below are valid in either case. */
    const char *document; /* [n_document] Not owned */
    size_t n_document;
    const char *document_name; /* Not owned */

    char arch[16];     /* "x86_64", "aarch64", "ppc64le", as of uname(2) */
    char vendor[16];   /* x86 only: "GenuineIntel" */
    int family, model; /* x86 only, as in /proc/cpuinfo */

    struct io_cpu *cpus;       /* Owned [n_cpus], by node */
    struct io_pci *pcis;       /* Owned [n_pcis]; a port precedes the devices behind it */
    struct io_gpu_facts *gpus; /* Owned [n_gpus], by dev */
    struct io_net_facts *nets; /* Owned [n_nets], in device order */
    uint32_t n_cpus, n_pcis, n_gpus, n_nets;
};

/* Frees the arrays of `machine`, not the structure itself. An all-zero machine is empty. */
void io_machine_fini(struct io_machine *machine);

/* Append one element and return it; it is valid until the next one of its kind is added. Fields are
 * zero, but parent and pci are IO_MACHINE_NONE, and numa of a PCI function is -1. */
struct io_cpu *io_machine_add_cpu(struct io_machine *machine);
struct io_pci *io_machine_add_pci(struct io_machine *machine);
struct io_gpu_facts *io_machine_add_gpu(struct io_machine *machine);
struct io_net_facts *io_machine_add_net(struct io_machine *machine);
/* Returns the index of the PCI function with that bus ID, or IO_MACHINE_NONE. */
uint32_t io_machine_find_pci(const struct io_machine *machine, const char *bus_id);

struct world_host;
struct world_spec;

/* Writes the bus ID of the PCI function of a scenario's port. Ports behind one root are functions
 * of one card. */
void io_machine_function(const struct world_host *host, uint32_t port, char *out,
                         size_t out_bytes);

/* Fills `out` with the inside of a scenario's host (docs/scenario.md, "Inside a host"): its
 * document, or that of a plain PCIe machine, or of a DGX Spark if it has cages. `is_connected`
 * [n_ports] is true for ports that have a cable with carrier; NULL if all have. Free with
 * io_machine_fini(). */
void io_machine_of_world(const struct world_host *host, const bool *is_connected,
                         struct io_machine *out);
/* Like io_machine_of_world, for host `host` of `spec`, whose cables determine which ports are
 * connected. */
void io_machine_of_spec(const struct world_spec *spec, uint32_t host,
                        struct io_machine *out);

#endif

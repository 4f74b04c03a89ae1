/* What is inside one host, as its kernel and drivers tell it: CPUs, PCI devices and bridges,
 * GPUs, RDMA ports. Facts, from which topo/describe.h makes the topology that NCCL would have
 * seen. Text is as sysfs and NVML give it; "" where they say nothing. */
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
    char affinity[224]; /* its cpumap: "00ff" */
};

/* A PCI function: a device, or a bridge or port on the way to one. */
struct io_pci {
    char bus_id[16]; /* "0000:01:00.0", in lower case */
    uint32_t
        parent; /* index of the port above; IO_MACHINE_NONE: the CPU's own host bridge */
    int numa;   /* -1: it tells none */
    char class[16]; /* "0x020000" */
    char vendor[12], device[12], subsystem_vendor[12],
        subsystem_device[12]; /* "0x15b3" */
    char max_link_speed[24];  /* "32.0 GT/s PCIe" */
    uint32_t max_link_width;  /* 0: unknown */
    char link_speed[24];      /* as it runs now */
    uint32_t link_width;
};

/* NVLinks of a GPU to one other end. */
struct io_nvlink {
    char target[20]; /* bus id, in lower case */
    char tclass[16]; /* PCI class of the target; "": it is not visible here */
    uint32_t count;
};

#define IO_NVLINKS_MAX 18
struct io_gpu_facts {
    uint32_t pci; /* index into pcis */
    int dev;      /* NVML's number */
    int sm;       /* 90: compute capability 9.0 */
    bool gdr;     /* the NIC may reach its memory */
    char uuid[48];
    struct io_nvlink nvlinks[IO_NVLINKS_MAX]; /* [n_nvlinks] */
    uint32_t n_nvlinks;
    uint32_t c2c_bw,
        c2c_count; /* MB/s of one coherent link to the CPU; how many; 0: none */
};

/* A port of an RDMA device. */
struct io_net_facts {
    char name[64];   /* of the device; of a scenario's host: of the port */
    uint32_t pci;    /* index into pcis; IO_MACHINE_NONE: not on PCI (soft-RoCE) */
    uint32_t device; /* index into io_env.devices */
    uint8_t port;    /* of the device, from 1 */
    bool is_active;
    uint32_t speed_mbps; /* of the link; 0: unknown */
    uint64_t guid; /* of the NIC (sys_image_guid), in the byte order that NCCL prints */
    uint32_t max_conns;
    bool gdr; /* it can write into GPU memory */
};

struct io_machine {
    /* An NCCL topology document that says what is inside instead, as a file gives it, and the
     * file's name for messages; NULL: none. The ports below are this host's all the same. */
    const char *document; /* [n_document] Not owned */
    size_t n_document;
    const char *document_name; /* Not owned */

    char arch[16];     /* "x86_64", "aarch64", "ppc64le", as of uname(2) */
    char vendor[16];   /* of x86 CPUs: "GenuineIntel" */
    int family, model; /* of x86 CPUs, as /proc/cpuinfo has them */

    struct io_cpu *cpus; /* Owned [n_cpus], by node */
    struct io_pci *pcis; /* Owned [n_pcis]; a port stands before what is behind it */
    struct io_gpu_facts *gpus; /* Owned [n_gpus], by dev */
    struct io_net_facts *nets; /* Owned [n_nets], in device order */
    uint32_t n_cpus, n_pcis, n_gpus, n_nets;
};

/* Frees what it owns, not itself; an all-zero machine is empty. */
void io_machine_fini(struct io_machine *machine);

/* Each appends one, all zero but for what is stated above as "none", and returns it until the
 * next is added. */
struct io_cpu *io_machine_add_cpu(struct io_machine *machine);
struct io_pci *io_machine_add_pci(struct io_machine *machine);
struct io_gpu_facts *io_machine_add_gpu(struct io_machine *machine);
struct io_net_facts *io_machine_add_net(struct io_machine *machine);
/* The index of the PCI device with that bus id, or IO_MACHINE_NONE. */
uint32_t io_machine_find_pci(const struct io_machine *machine, const char *bus_id);

struct world_host;
struct world_spec;

/* The bus id of the PCI function of a scenario's port: ports behind one root are functions of one
 * card. */
void io_machine_function(const struct world_host *host, uint32_t port, char *out,
                         size_t out_bytes);

/* What the host of a scenario has inside (docs/scenario.md, "Inside a host"): its document, or
 * what a plain PCIe machine, or with cages a DGX Spark, would have. `is_connected` [n_ports]
 * says which ports have a cable with carrier; NULL: all. */
void io_machine_of_world(const struct world_host *host, const bool *is_connected,
                         struct io_machine *out);
/* The same of a host of a whole world, whose cables say which ports are connected. */
void io_machine_of_spec(const struct world_spec *spec, uint32_t host,
                        struct io_machine *out);

#endif

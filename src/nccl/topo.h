/* The inside of one host, as NCCL sees it: GPUs, PCI switches, NVSwitches, CPUs (NUMA nodes),
 * NICs and their network ports, and the links between them.
 *
 * The rules are NCCL's own, release by release, because predictions must match what happens on
 * the machine; oddities in them are deliberate. Sources: NCCL's src/graph/topo.cc and paths.cc
 * of the releases that topo_rules name; docs/paths.md. Bandwidths are floats, computed in
 * NCCL's order of operations, because equality decides ties. */
#ifndef WEFT_NCCL_TOPO_H
#define WEFT_NCCL_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Nodes are listed and types are searched in this order. */
enum topo_type {
    TOPO_GPU,
    TOPO_PCI,
    TOPO_NVS,
    TOPO_CPU,
    TOPO_NIC,
    TOPO_NET,
    TOPO_N_TYPES
};

enum topo_link_type {
    TOPO_LINK_LOC,
    TOPO_LINK_NVL,
    TOPO_LINK_C2C,
    TOPO_LINK_PCI,
    TOPO_LINK_SYS,
    TOPO_LINK_NET
};

/* Type of a path, the nearest first. 2.25 knows neither C2C nor P2C. */
enum topo_path_type {
    TOPO_LOC, /* the node itself */
    TOPO_NVL, /* NVLink */
    TOPO_NVB, /* NVLink through one other GPU */
    TOPO_C2C, /* a GPU's coherent link to its CPU */
    TOPO_PIX, /* one PCI switch */
    TOPO_PXB, /* several PCI switches */
    TOPO_P2C, /* C2C, then the CPU's PCI */
    TOPO_PXN, /* through another GPU that is near the NIC */
    TOPO_PHB, /* through a CPU */
    TOPO_SYS, /* between CPUs */
    TOPO_NETWORK,
    TOPO_DIS, /* not connected */
    TOPO_N_PATH_TYPES
};

/* NCCL's limits (its topo.h and xml.h). */
enum {
    TOPO_NODES_MAX = 256,
    TOPO_LINKS_MAX = 576,
    TOPO_CHANNELS_MAX = 64,
    TOPO_FILE_BYTES_MAX = 16 << 20, /* Weft's own limit */
    TOPO_RANKS_MAX = 65536,         /* the same */
    TOPO_UNDEFINED = -1
};

enum { TOPO_ARCH_X86 = 1, TOPO_ARCH_POWER = 2, TOPO_ARCH_ARM = 3 };
enum { TOPO_VENDOR_INTEL = 1, TOPO_VENDOR_AMD = 2, TOPO_VENDOR_ZHAOXIN = 3 };

/* Differences between releases of NCCL. */
struct topo_rules {
    const char *name;   /* "2.25" */
    bool has_c2c;       /* link and path types C2C and P2C; otherwise C2C links are NVL */
    float nvlink_sm100; /* GB/s of one link of sm >= 100 */
    float intel_bw[5];  /* GB/s between CPUs, by CPU model from 1 */
    int intel_models[5]; /* lowest modelid (family 6) by model, from 2; 0 if none */
    /* the search for a GPU's CPU may go back; it may never end */
    bool turns_back_on_climb;
    /* after a merge, the scan for Broadcom switches restarts at the second node */
    bool flatten_from_1;
    /* if all ranks are on one machine, NETs are removed, not only unused */
    bool trims_nets;
    /* PXN if the GPU's own path to the NET is farther than this */
    enum topo_path_type pxn_above;
    bool has_gdr_pci_flush; /* flush if data uses PCI and flags use C2C */
    /* Channels. */
    bool has_sm100_steps; /* own bandwidth tables for sm >= 100 */
    /* with NVLink in two halves, a ring has at least two channels */
    bool doubles_split_rings;
    bool refuses_apart; /* never uses a path between unconnected nodes */
    /* from a NET, starts at its local GPUs, not those with the widest path */
    bool starts_at_locals;
    /* lists a channel's GPUs by bus id and says if it is the simple order; otherwise by rank */
    bool dumps_gpu_names;
};

/* Returns the rules of "2.25" or "2.28", or NULL for any other name. */
const struct topo_rules *topo_rules_find(const char *name);

struct topo_node;

struct topo_link {
    enum topo_link_type type;
    float bw;   /* GB/s */
    float free; /* part of bw that is free during the channel search */
    struct topo_node *to;
};

struct topo_path {
    enum topo_path_type type;
    float bw; /* GB/s of the narrowest link; 0 if there is no path */
    uint32_t n_hops;
    struct topo_link *const *hops; /* [n_hops]; in memory of the system */
};

struct topo_gpu {
    int dev, rank, sm, gdr;
};

struct topo_cpu {
    int arch, vendor, model; /* TOPO_ARCH_*, TOPO_VENDOR_*, or TOPO_UNDEFINED */
};

struct topo_net {
    int dev, port, gdr, coll, max_channels;
    uint64_t asic;     /* GUID */
    float bw, latency; /* GB/s, us */
    float free;        /* part of bw that is free during the channel search */
};

struct topo_node {
    enum topo_type type;
    uint64_t id;    /* system << 56 | local id: bus id, NUMA node or device number */
    uint32_t index; /* index among nodes of its type */
    struct topo_link *links; /* Owned [n_links], in search order */
    uint32_t n_links, cap_links;
    /* Owned: paths to every node of a type, [count of that type]; NULL if not computed. */
    struct topo_path *paths[TOPO_N_TYPES];
    union {
        struct topo_gpu gpu;
        struct topo_cpu cpu;
        struct topo_net net;
        uint64_t
            pci_device; /* vendor, device, subsystem vendor and device, 16 bits each */
    } u;
};

struct topo_system {
    const struct topo_rules *rules;
    struct topo_node **nodes[TOPO_N_TYPES]; /* Owned [n[type]], including the nodes */
    uint32_t n[TOPO_N_TYPES];
    uint64_t *host_hashes; /* Owned [n_hosts], by system id */
    uint32_t n_hosts;
    uint32_t system_id;     /* id of this host */
    bool is_inter;          /* ranks of other machines participate; see topo_is_inter */
    struct topo_hops *hops; /* Owned: memory of paths */
};

/* Reads NCCL's topology XML. Fails with WEFT_ERR_INPUT, "line:column: what". The caller frees
 * `out` with topo_free. */
weft_status topo_load(const char *text, size_t n_bytes, const struct topo_rules *rules,
                      struct topo_system **out, struct weft_error *error);
void topo_free(struct topo_system *system);

static inline uint32_t topo_system_of(uint64_t id)
{
    return (uint32_t)(id >> 56);
}

static inline uint64_t topo_local_of(uint64_t id)
{
    return id & 0x00ffffffffffffffu;
}

const char *topo_type_name(enum topo_type type);      /* "GPU" */
const char *topo_link_name(enum topo_link_type type); /* "PCI" */
const char *topo_path_name(enum topo_path_type type); /* "PHB" */
/* Returns the number that this release prints for the type. */
int topo_path_number(const struct topo_rules *rules, enum topo_path_type type);
/* Finds the type called `name` in these rules. Returns false if there is none. */
bool topo_path_parse(const struct topo_rules *rules, const char *name,
                     enum topo_path_type *out);

/* Writes "GPU/0-99000". Returns `out`. */
#define TOPO_NAME_BYTES 40
char *topo_node_name(const struct topo_node *node, char *out);

/* Returns the GB/s of one NVLink of a GPU. */
float topo_nvlink_bw(const struct topo_rules *rules, int sm);

#endif

/* Makes nodes and links of the document in NCCL's order: a device is connected to its parent
 * only after everything below it is added. */
#include "nccl/load.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* The current host and NUMA node in the document. */
struct place {
    uint32_t system;
    int numa;
};

/* 100 Mbit/s per lane. The kernel's wording before and since 5.7; 64 GT/s only in the new one. */
static const struct load_choice pci_speeds[] = {
    {"2.5 GT/s", 15},        {"5 GT/s", 30},          {"8 GT/s", 60},
    {"16 GT/s", 120},        {"32 GT/s", 240},        {"2.5 GT/s PCIe", 15},
    {"5.0 GT/s PCIe", 30},   {"8.0 GT/s PCIe", 60},   {"16.0 GT/s PCIe", 120},
    {"32.0 GT/s PCIe", 240}, {"64.0 GT/s PCIe", 480}, {NULL, 60}};

static const struct load_choice architectures[] = {{"x86_64", TOPO_ARCH_X86},
                                                   {"arm64", TOPO_ARCH_ARM},
                                                   {"ppc64", TOPO_ARCH_POWER},
                                                   {NULL, 0}};

static const struct load_choice vendors[] = {{"GenuineIntel", TOPO_VENDOR_INTEL},
                                             {"AuthenticAMD", TOPO_VENDOR_AMD},
                                             {"CentaurHauls", TOPO_VENDOR_ZHAOXIN},
                                             {"  Shanghai  ", TOPO_VENDOR_ZHAOXIN},
                                             {NULL, 0}};

/* ---- nodes ---- */

static bool add_net(struct loading *loading, const struct xml_node *node,
                    struct topo_node *nic, const struct place *place)
{
    const char *guid = xml_get(node, "guid");
    const char *latency = xml_get(node, "latency");
    int speed = load_get_int(node, "speed", 0);
    int dev = load_get_int(node, "dev", 0);
    struct topo_node *net =
        load_add(loading, node, TOPO_NET, topo_id(place->system, (uint64_t)(int64_t)dev));

    if (net == NULL) {
        return false;
    }
    net->u.net = (struct topo_net){
        .dev = dev,
        .port = load_get_int(node, "port", 0),
        .gdr = load_get_int(node, "gdr", 0),
        .coll = load_get_int(node, "coll", 0),
        .max_channels = load_get_int(node, "maxconn", TOPO_CHANNELS_MAX),
        .asic =
            guid != NULL ? (uint64_t)strtoull(guid, NULL, 16) : (uint64_t)(int64_t)dev,
        .bw = (float)((speed > 0 ? speed : 10000) / 8000.0),
        .latency = latency != NULL ? strtof(latency, NULL) : 0};
    return load_connect(loading, node, nic, net, TOPO_LINK_NET, net->u.net.bw);
}

/* Ports without a number, which no plugin uses, are skipped. */
static bool add_nets(struct loading *loading, const struct xml_node *node,
                     struct topo_node *nic, const struct place *place)
{
    for (uint32_t i = 0; i < node->n_subs; i++) {
        const struct xml_node *net = node->subs[i];

        if (strcmp(net->name, "net") == 0 && xml_get(net, "dev") != NULL &&
            !add_net(loading, net, nic, place)) {
            return false;
        }
    }
    return true;
}

static bool add_gpu(struct loading *loading, const struct xml_node *node,
                    struct topo_node *gpu)
{
    struct topo_gpu *out = &gpu->u.gpu;

    if (!load_need_int(loading, node, "sm", &out->sm) ||
        !load_need_int(loading, node, "rank", &out->rank) ||
        !load_need_int(loading, node, "dev", &out->dev) ||
        !load_need_int(loading, node, "gdr", &out->gdr)) {
        return false;
    }
    if (out->rank < 0 || out->rank >= TOPO_RANKS_MAX) {
        xml_complain(node, loading->error, "gpu: expected a rank from 0 to %d, got %d",
                     TOPO_RANKS_MAX - 1, out->rank);
        return false;
    }
    return true;
}

static bool add_pci(struct loading *loading, const struct xml_node *node,
                    struct topo_node *parent, const struct place *place);

static bool add_switch(struct loading *loading, const struct xml_node *node,
                       struct topo_node *pci, const struct place *place)
{
    static const char *const keys[] = {"vendor", "device", "subsystem_vendor",
                                       "subsystem_device"};

    for (size_t i = 0; i < WEFT_LENGTH(keys); i++) {
        const char *text = xml_get(node, keys[i]);
        uint64_t value = text != NULL ? (uint64_t)strtol(text, NULL, 0) : 0;

        pci->u.pci_device += value << (48 - 16 * i);
    }
    for (uint32_t i = 0; i < node->n_subs; i++) {
        if (strcmp(node->subs[i]->name, "pci") == 0 &&
            !add_pci(loading, node->subs[i], pci, place)) {
            return false;
        }
    }
    return true;
}

/* Adds the ports of a NIC. Functions with the same bus id are one NIC; `*out` is NULL if it
 * existed. */
static bool add_nic(struct loading *loading, const struct xml_node *node,
                    const struct xml_node *below, uint64_t bus_id,
                    const struct place *place, struct topo_node **out)
{
    uint64_t local = ((uint64_t)(int64_t)place->numa << 56) + bus_id;
    uint64_t id = topo_id(place->system, local);
    struct topo_node *nic = topo_find(loading->system, TOPO_NIC, id);

    *out = NULL;
    if (nic == NULL) {
        nic = *out = load_add(loading, node, TOPO_NIC, id);
    }
    return nic != NULL && add_nets(loading, below, nic, place);
}

static bool connect_pci(struct loading *loading, const struct xml_node *node,
                        struct topo_node *device, struct topo_node *parent)
{
    const char *speed = xml_get(node, "link_speed");
    int width;

    if (!load_need_int(loading, node, "link_width", &width)) {
        return false;
    }
    if (speed == NULL) {
        return load_missing(loading, node, "link_speed");
    }
    if (width == 0) {
        width = 16; /* the kernel reports no width */
    }
    return load_connect(loading, node, device, parent, TOPO_LINK_PCI,
                        (float)((double)width * load_choose(pci_speeds, speed) / 80.0));
}

static bool add_pci(struct loading *loading, const struct xml_node *node,
                    struct topo_node *parent, const struct place *place)
{
    const char *class = xml_get(node, "class");
    const char *bus = xml_get(node, "busid");
    const struct xml_node *gpu = xml_sub(node, "gpu");
    const struct xml_node *nic = xml_sub(node, "nic");
    struct topo_node *device = NULL;

    if (class == NULL || bus == NULL) {
        return load_missing(loading, node, class == NULL ? "class" : "busid");
    }
    uint64_t id = topo_id(place->system, load_bus_id(bus));
    if (gpu != NULL) {
        if (xml_get(gpu, "rank") == NULL) {
            return true; /* no rank uses it */
        }
        device = load_add(loading, node, TOPO_GPU, id);
        if (device == NULL || !add_gpu(loading, gpu, device)) {
            return false;
        }
    }
    if (nic != NULL) {
        if (!add_nic(loading, node, nic, load_bus_id(bus), place, &device)) {
            return false;
        }
    } else if (gpu == NULL && load_choose(load_pci_classes, class) == TOPO_PCI) {
        device = load_add(loading, node, TOPO_PCI, id);
        if (device == NULL || !add_switch(loading, node, device, place)) {
            return false;
        }
    }
    return device == NULL || connect_pci(loading, node, device, parent);
}

static int model_of(const struct topo_rules *rules, int vendor, int family, int model)
{
    int found = TOPO_UNDEFINED;

    if (vendor == TOPO_VENDOR_INTEL) {
        found = 1;
        for (int i = 2; i < (int)WEFT_LENGTH(rules->intel_models); i++) {
            bool is_there = rules->intel_models[i] != 0;

            found =
                is_there && family == 6 && model >= rules->intel_models[i] ? i : found;
        }
    } else if (vendor == TOPO_VENDOR_ZHAOXIN && family == 7 && model == 0x5b) {
        found = 1; /* Yongfeng */
    }
    return found;
}

static bool identify_cpu(struct loading *loading, const struct xml_node *node,
                         struct topo_cpu *cpu)
{
    const char *arch = xml_get(node, "arch");
    const char *vendor = xml_get(node, "vendor");
    int family = 0, model = 0;

    if (arch == NULL) {
        return load_missing(loading, node, "arch");
    }
    cpu->arch = load_choose(architectures, arch);
    if (cpu->arch != TOPO_ARCH_X86) {
        return true;
    }
    if (vendor == NULL) {
        return load_missing(loading, node, "vendor");
    }
    cpu->vendor = load_choose(vendors, vendor);
    if ((cpu->vendor == TOPO_VENDOR_INTEL || cpu->vendor == TOPO_VENDOR_ZHAOXIN) &&
        (!load_need_int(loading, node, "familyid", &family) ||
         !load_need_int(loading, node, "modelid", &model))) {
        return false;
    }
    cpu->model = model_of(loading->system->rules, cpu->vendor, family, model);
    return true;
}

/* Connects a NIC without a place in the PCI tree to the CPU, with no limit on bandwidth. */
static bool add_virtual_nic(struct loading *loading, const struct xml_node *node,
                            struct topo_node *cpu, const struct place *place)
{
    struct topo_node *made = NULL;

    return add_nic(loading, node, node, 0, place, &made) &&
           (made == NULL ||
            load_connect(loading, node, cpu, made, TOPO_LINK_PCI, TOPO_LOC_BW));
}

static bool add_cpu(struct loading *loading, const struct xml_node *node)
{
    struct place place;
    struct topo_node *cpu;

    if (!load_need_int(loading, node, "numaid", &place.numa)) {
        return false;
    }
    place.system = load_system_of(loading, node);
    if (place.system > 255) {
        xml_complain(node, loading->error, "more than 256 hosts");
        return false;
    }
    cpu = load_add(loading, node, TOPO_CPU,
                   topo_id(place.system, (uint64_t)(int64_t)place.numa));
    if (cpu == NULL || !identify_cpu(loading, node, &cpu->u.cpu)) {
        return false;
    }
    for (uint32_t i = 0; i < node->n_subs; i++) {
        const struct xml_node *sub = node->subs[i];

        if ((strcmp(sub->name, "pci") == 0 && !add_pci(loading, sub, cpu, &place)) ||
            (strcmp(sub->name, "nic") == 0 &&
             !add_virtual_nic(loading, sub, cpu, &place))) {
            return false;
        }
    }
    return true;
}

/* Returns true if the node or one below it is an element that only RCCL writes. */
static bool add_all(struct loading *loading, const struct xml_node *root)
{
    const char *wrong = load_foreign(root);

    if (wrong != NULL) {
        xml_complain(root, loading->error, "%s", wrong);
        return false;
    }
    for (uint32_t i = 0; i < root->n_subs; i++) {
        if (strcmp(root->subs[i]->name, "cpu") == 0 && !add_cpu(loading, root->subs[i])) {
            return false;
        }
    }
    if (loading->system->n[TOPO_CPU] == 0) {
        xml_complain(root, loading->error, "a system without a cpu");
        return false;
    }
    if (!load_links(loading, root)) {
        return false;
    }
    wrong = topo_finish_links(loading->system);
    if (wrong != NULL) {
        xml_complain(root, loading->error, "%s", wrong);
        return false;
    }
    return true;
}

weft_status load_tree(const struct xml_node *root, const struct topo_rules *rules,
                      struct topo_system **out, struct weft_error *error)
{
    struct loading loading = {.error = error};

    *out = NULL;
    loading.system = weft_calloc(1, sizeof(*loading.system));
    loading.system->rules = rules;
    loading.system->is_inter = true;
    if (!add_all(&loading, root)) {
        topo_free(loading.system);
        return WEFT_ERR_INPUT;
    }
    *out = loading.system;
    return WEFT_OK;
}

weft_status topo_load(const char *text, size_t n_bytes, const struct topo_rules *rules,
                      struct topo_system **out, struct weft_error *error)
{
    struct xml_node *root = xml_parse(text, n_bytes, error);
    weft_status status = WEFT_ERR_INPUT;

    *out = NULL;
    if (root != NULL) {
        status = stub_complete(root);
    }
    if (status == WEFT_OK) {
        status = load_tree(root, rules, out, error);
    }
    xml_free(root);
    return status;
}

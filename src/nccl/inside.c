/* Makes elements of facts, from a device up the PCI tree to its CPU. */
#include "nccl/inside.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ---- finding ---- */

static struct xml_node *sub_with(const struct xml_node *node, const char *name,
                                 const char *key, const char *value)
{
    for (uint32_t i = 0; i < node->n_subs; i++) {
        const char *got = xml_get(node->subs[i], key);

        if (strcmp(node->subs[i]->name, name) == 0 && got != NULL &&
            strcmp(got, value) == 0) {
            return node->subs[i];
        }
    }
    return NULL;
}

static struct xml_node *add_sub(struct xml_node *parent, const char *name)
{
    struct xml_node *node = xml_new(name);

    xml_insert(parent, node, UINT32_MAX);
    return node;
}

/* ---- CPUs ---- */

/* NCCL adds the extended family regardless of the manual's condition for it, so that AMD's 23
 * becomes 143. */
static int family_id(const struct io_machine *machine)
{
    return machine->family < 15 ? machine->family : 15 + ((machine->family - 15) << 4);
}

static const char *nccl_arch(const char *arch)
{
    return strcmp(arch, "aarch64") == 0     ? "arm64"
           : strncmp(arch, "ppc64", 5) == 0 ? "ppc64"
           : strcmp(arch, "x86_64") == 0    ? "x86_64"
                                            : arch;
}

static void fill_cpu(const struct describing *describing, struct xml_node *cpu, int numa)
{
    const struct io_machine *machine = describing->machine;

    for (uint32_t i = 0; i < machine->n_cpus; i++) {
        if (machine->cpus[i].numa == numa && machine->cpus[i].affinity[0] != '\0') {
            xml_set(cpu, "affinity", machine->cpus[i].affinity);
        }
    }
    xml_set(cpu, "arch", nccl_arch(machine->arch));
    if (strcmp(machine->arch, "x86_64") == 0) {
        xml_set(cpu, "vendor", machine->vendor);
        xml_set_format(cpu, "familyid", "%d", family_id(machine));
        xml_set_format(cpu, "modelid", "%d", machine->model);
    }
}

static struct xml_node *cpu_of(struct describing *describing, int numa)
{
    char id[16];
    struct xml_node *cpu;

    weft_format(id, sizeof(id), "%d", numa);
    cpu = sub_with(describing->root, "cpu", "numaid", id);
    if (cpu == NULL) {
        cpu = add_sub(describing->root, "cpu");
        xml_set_format(cpu, "host_hash", "%#llx",
                       (unsigned long long)describing->inside->host_hash);
        xml_set(cpu, "numaid", id);
        fill_cpu(describing, cpu, numa);
    }
    return cpu;
}

void inside_cpus(struct describing *describing)
{
    for (uint32_t i = 0; i < describing->machine->n_cpus; i++) {
        cpu_of(describing, describing->machine->cpus[i].numa);
    }
    if (xml_sub(describing->root, "cpu") == NULL) {
        cpu_of(describing, -1); /* a kernel without NUMA */
    }
}

/* ---- PCI ---- */

/* Returns the number of "32.0 GT/s PCIe"; text without a number does not limit the speed. */
static float speed_of(const char *text)
{
    char *end = NULL;
    float speed = strtof(text, &end);

    return end == text ? FLT_MAX : speed;
}

/* Sets speed and width of a link to the lesser of the device and the port that it is plugged
 * into. */
static void fill_link(const struct io_machine *machine, const struct io_pci *pci,
                      struct xml_node *node)
{
    static const struct io_pci host_bridge = {.parent = IO_MACHINE_NONE};
    const struct io_pci *port =
        pci->parent != IO_MACHINE_NONE ? &machine->pcis[pci->parent] : &host_bridge;
    uint32_t width = pci->max_link_width < port->max_link_width ? pci->max_link_width
                                                                : port->max_link_width;
    bool is_port_slower = speed_of(port->max_link_speed) < speed_of(pci->max_link_speed);

    xml_set(node, "link_speed",
            is_port_slower ? port->max_link_speed : pci->max_link_speed);
    xml_set_format(node, "link_width", "%u", width);
}

static void fill_pci(const struct io_machine *machine, const struct io_pci *pci,
                     const char *class, struct xml_node *node)
{
    const char *const ids[][2] = {{"vendor", pci->vendor},
                                  {"device", pci->device},
                                  {"subsystem_vendor", pci->subsystem_vendor},
                                  {"subsystem_device", pci->subsystem_device}};

    xml_set(node, "busid", pci->bus_id);
    if (pci->class[0] != '\0' || class != NULL) {
        xml_set(node, "class", pci->class[0] != '\0' ? pci->class : class);
    }
    for (size_t i = 0; i < WEFT_LENGTH(ids); i++) {
        if (ids[i][1][0] != '\0') {
            xml_set(node, ids[i][0], ids[i][1]);
        }
    }
    fill_link(machine, pci, node);
}

/* Inserts among siblings by bus id. */
static void insert_pci(struct xml_node *parent, struct xml_node *node)
{
    const char *own = xml_get(node, "busid");
    uint32_t at = 0;

    for (; at < parent->n_subs; at++) {
        const char *other = xml_get(parent->subs[at], "busid");

        if (other != NULL && strcmp(own, other) < 0) {
            break;
        }
    }
    xml_insert(parent, node, at);
}

/* Makes the elements of a function and of everything above it. A switch is represented by its
 * upstream port; downstream ports are omitted. */
static void add_pci(struct describing *describing, uint32_t index, const char *class)
{
    const struct io_machine *machine = describing->machine;
    struct xml_node *made = NULL; /* has no parent yet */

    while (describing->pcis[index] == NULL) {
        const struct io_pci *pci = &machine->pcis[index];
        uint32_t port = pci->parent;
        uint32_t above = port != IO_MACHINE_NONE ? machine->pcis[port].parent : port;
        struct xml_node *node = xml_new("pci");

        describing->pcis[index] = node;
        fill_pci(machine, pci, made == NULL ? class : NULL, node);
        if (made != NULL) {
            insert_pci(node, made);
        }
        made = node;
        if (above == IO_MACHINE_NONE) {
            insert_pci(cpu_of(describing, pci->numa), made);
            return;
        }
        index = above;
    }
    if (made != NULL) {
        insert_pci(describing->pcis[index], made);
    }
}

static struct xml_node *element_of(struct describing *describing, uint32_t pci,
                                   const char *class)
{
    add_pci(describing, pci, class);
    return describing->pcis[pci];
}

/* ---- GPUs ---- */

static struct xml_node *make_gpu(struct describing *describing,
                                 const struct io_gpu_facts *facts)
{
    struct xml_node *pci = element_of(describing, facts->pci, "0x03");
    struct xml_node *gpu = add_sub(pci, "gpu");

    xml_set_format(gpu, "dev", "%d", facts->dev);
    xml_set_format(gpu, "sm", "%d", facts->sm);
    for (uint32_t i = 0; i < facts->n_nvlinks; i++) {
        const struct io_nvlink *link = &facts->nvlinks[i];
        struct xml_node *node = add_sub(gpu, "nvlink");

        xml_set(node, "target", link->target);
        xml_set_format(node, "count", "%u", link->count);
        /* In this virtual machine the other end is not visible; assume a switch. */
        xml_set(node, "tclass", link->tclass[0] != '\0' ? link->tclass : "0x068000");
    }
    if (facts->c2c_count > 0) {
        struct xml_node *node = add_sub(gpu, "c2c");

        xml_set_format(node, "bw", "%u", facts->c2c_bw);
        xml_set_format(node, "count", "%u", facts->c2c_count);
    }
    return gpu;
}

struct xml_node *inside_gpu(struct describing *describing, uint32_t local)
{
    const struct io_machine *machine = describing->machine;
    struct xml_node *gpu;

    if (machine->document != NULL) {
        return inside_adopted_gpu(describing, local);
    }
    if (local >= machine->n_gpus || machine->gpus[local].pci == IO_MACHINE_NONE) {
        return NULL;
    }
    gpu = make_gpu(describing, &machine->gpus[local]);
    /* `gdr` must follow `rank`, as in NCCL's documents. */
    xml_set(gpu, "rank", "");
    xml_set(gpu, "gdr", machine->gpus[local].gdr ? "1" : "0");
    return gpu;
}

/* ---- NETs ---- */

static struct xml_node *first_cpu(struct describing *describing)
{
    struct xml_node *cpu = xml_sub(describing->root, "cpu");

    return cpu != NULL ? cpu : cpu_of(describing, -1);
}

static struct xml_node *nic_below(struct xml_node *parent)
{
    struct xml_node *nic = xml_sub(parent, "nic");

    return nic != NULL ? nic : add_sub(parent, "nic");
}

/* Returns the port's number: net_ib counts the ports of one function across its devices. */
static uint32_t port_number(const struct io_machine *machine, uint32_t index)
{
    const struct io_net_facts *net = &machine->nets[index];
    uint32_t n_before = 0;

    for (uint32_t i = 0; i < index; i++) {
        n_before += net->pci != IO_MACHINE_NONE && machine->nets[i].pci == net->pci &&
                    machine->nets[i].is_active &&
                    machine->nets[i].device != net->device && machine->nets[i].port == 1;
    }
    return net->port + n_before;
}

static void set_if_unset(struct xml_node *node, const char *key, uint64_t value)
{
    if (xml_get(node, key) == NULL) {
        xml_set_format(node, key, "%llu", (unsigned long long)value);
    }
}

static void fill_net(const struct describing *describing, struct xml_node *node,
                     const struct topo_net_ports *of)
{
    const struct io_machine *machine = describing->machine;
    const struct io_net_facts *first = &machine->nets[of->nets[0]];
    uint64_t speed = 0;

    for (uint32_t i = 0; i < of->n_nets; i++) {
        speed += machine->nets[of->nets[i]].speed_mbps;
    }
    xml_set(node, "keep", "1");
    xml_set_format(node, "dev", "%d", of->dev);
    set_if_unset(node, "latency", 0);
    set_if_unset(node, "speed", speed);
    set_if_unset(node, "port", port_number(machine, of->nets[0]));
    if (xml_get(node, "guid") == NULL) {
        xml_set_format(node, "guid", "%#llx", (unsigned long long)first->guid);
    }
    set_if_unset(node, "maxconn", first->max_conns);
    set_if_unset(node, "gdr", first->gdr);
}

static void add_port(struct describing *describing, const struct topo_net_ports *of)
{
    uint32_t index = of->nets[0];
    const struct io_net_facts *facts = &describing->machine->nets[index];
    struct xml_node *node = describing->nets[index];

    if (node == NULL) {
        bool is_on_pci =
            facts->pci != IO_MACHINE_NONE && describing->machine->document == NULL;
        struct xml_node *parent = is_on_pci ? element_of(describing, facts->pci, "0x02")
                                            : first_cpu(describing);

        node = add_sub(nic_below(parent), "net");
        xml_set(node, "name", facts->name);
        describing->nets[index] = node;
    }
    fill_net(describing, node, of);
}

static bool is_above(const struct xml_node *node, const struct xml_node *below)
{
    while (below != NULL && below != node) {
        below = below->parent;
    }
    return below == node;
}

/* Returns the nearest element that contains all ports of a card. */
static struct xml_node *common_parent(const struct describing *describing,
                                      const struct topo_net_ports *of)
{
    struct xml_node *common = describing->nets[of->nets[0]]->parent;

    for (uint32_t i = 1; i < of->n_nets; i++) {
        while (!is_above(common, describing->nets[of->nets[i]])) {
            common = common->parent;
        }
    }
    return common;
}

/* Makes a virtual function below a switch, with the attributes of the first port's. A document
 * can lack its bus id, which is reported when the system is made. */
static struct xml_node *made_up_pci(const struct describing *describing,
                                    struct xml_node *parent,
                                    const struct topo_net_ports *of)
{
    const struct xml_node *like = describing->nets[of->nets[0]]->parent;
    struct xml_node *pci = xml_new("pci");
    const char *bus;

    while (strcmp(like->name, "pci") != 0) {
        like = like->parent; /* `parent`, if no other is nearer */
    }
    bus = xml_get(like, "busid");
    for (uint32_t i = 0; i < like->n_attributes; i++) {
        xml_set(pci, like->attributes[i].key, like->attributes[i].value);
    }
    if (bus != NULL) {
        xml_set_format(pci, "busid", "%.11sf", bus);
    }
    xml_insert(parent, pci, UINT32_MAX);
    return pci;
}

/* Adds several ports as one NET, below their nearest common element. */
static void add_card(struct describing *describing, const struct topo_net_ports *of)
{
    struct weft_text name = {NULL, 0, 0};
    struct xml_node *parent = common_parent(describing, of);
    struct xml_node *node;

    for (uint32_t i = 0; i < of->n_nets; i++) {
        weft_text_add(&name, "%s%s", i > 0 ? "+" : "",
                      describing->machine->nets[of->nets[i]].name);
        xml_set(describing->nets[of->nets[i]], "keep", "0");
        xml_unset(describing->nets[of->nets[i]], "dev");
    }
    if (strcmp(parent->name, "pci") == 0) {
        parent = made_up_pci(describing, parent, of);
    }
    node = add_sub(strcmp(parent->name, "nic") == 0 ? parent : nic_below(parent), "net");
    xml_set_format(node, "name", "%s", name.bytes);
    fill_net(describing, node, of);
    weft_text_fini(&name);
}

void inside_nets(struct describing *describing)
{
    const struct io_machine *machine = describing->machine;
    struct topo_net_ports single = {.n_nets = 1};

    for (uint32_t i = 0; i < machine->n_nets; i++) {
        single.nets[0] = i;
        if (machine->nets[i].is_active) {
            add_port(describing, &single);
            single.dev++;
        }
    }
    for (uint32_t i = 0; i < describing->n_cards && describing->inside->merges_nics;
         i++) {
        const struct topo_net_ports *card = &describing->cards[i];

        if (card->n_nets == 1) {
            add_port(describing, card);
        } else {
            add_card(describing, card);
        }
    }
}

/* Processes links once the document is read, as NCCL does. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "nccl/search.h"

/* ---- Broadcom switches ---- */

/* Returns the generation of a Broadcom PEX switch at `level` (0 above, 1 below), or 0 for any
 * other device. These appear as two levels although all of their ports are equal. */
static int broadcom_generation(uint64_t device, uint64_t level)
{
    uint64_t kind = device & ~(uint64_t)0xfff;

    return kind == 0x1000c0101000a000                      ? 4
           : kind == (0x1000c03010000000 | level * 0x1000) ? 5
                                                           : 0;
}

static void drop_link(struct topo_node *node, uint32_t index)
{
    memmove(&node->links[index], &node->links[index + 1],
            (node->n_links - index - 1) * sizeof(*node->links));
    node->n_links--;
}

/* Moves the links of `sub` to `top`, behind its own. */
static bool absorb(struct topo_node *top, const struct topo_node *sub)
{
    for (uint32_t i = 0; i < sub->n_links; i++) {
        struct topo_node *device = sub->links[i].to;
        struct topo_link link = sub->links[i];

        if (device == top) {
            continue;
        }
        if (top->n_links == TOPO_LINKS_MAX) {
            return false;
        }
        if (top->n_links == top->cap_links) {
            top->cap_links = 2 * top->cap_links + 8;
            top->links = weft_realloc(top->links, top->cap_links * sizeof(*top->links));
        }
        top->links[top->n_links++] = link;
        for (uint32_t k = 0; k < device->n_links; k++) {
            if (device->links[k].to == sub) {
                device->links[k].to = top;
                break;
            }
        }
    }
    return true;
}

static bool flatten(struct topo_system *system, struct topo_node *top, int generation)
{
    struct topo_node *subs[TOPO_NODES_MAX];
    uint32_t n_subs = 0;

    for (uint32_t i = 0; i < top->n_links;) {
        struct topo_node *to = top->links[i].to;

        if (to->type == TOPO_PCI &&
            broadcom_generation(to->u.pci_device, 1) == generation &&
            n_subs < TOPO_NODES_MAX) {
            subs[n_subs++] = to;
            drop_link(top, i);
        } else {
            i++;
        }
    }
    for (uint32_t i = 0; i < n_subs; i++) {
        if (!absorb(top, subs[i])) {
            return false;
        }
        topo_remove(system, subs[i]);
    }
    top->u.pci_device |= 0xffff; /* merged */
    return true;
}

static bool flatten_switches(struct topo_system *system)
{
    uint32_t first = system->rules->flatten_from_1 ? 1 : 0;

    for (uint32_t i = 0; i < system->n[TOPO_PCI];) {
        struct topo_node *top = system->nodes[TOPO_PCI][i];
        int generation = broadcom_generation(top->u.pci_device, 0);

        if (generation == 0) {
            i++;
        } else if (flatten(system, top, generation)) {
            i = first; /* the list has changed */
        } else {
            return false;
        }
    }
    return true;
}

/* ---- CPUs ---- */

static float between_cpus(const struct topo_rules *rules, const struct topo_cpu *cpu)
{
    if (cpu->arch == TOPO_ARCH_POWER) {
        return 32.0f;
    }
    if (cpu->arch == TOPO_ARCH_ARM) {
        return 6.0f;
    }
    if (cpu->arch != TOPO_ARCH_X86) {
        return TOPO_LOC_BW;
    }
    switch (cpu->vendor) {
    case TOPO_VENDOR_INTEL:
        return rules->intel_bw[cpu->model];
    case TOPO_VENDOR_AMD:
        return 16.0f;
    case TOPO_VENDOR_ZHAOXIN:
        return cpu->model == 1 ? 9.0f : 6.0f;
    default:
        return TOPO_LOC_BW;
    }
}

static bool connect_cpus(struct topo_system *system)
{
    for (uint32_t i = 0; i < system->n[TOPO_CPU]; i++) {
        struct topo_node *from = system->nodes[TOPO_CPU][i];

        for (uint32_t k = 0; k < system->n[TOPO_CPU]; k++) {
            struct topo_node *to = system->nodes[TOPO_CPU][k];

            if (i != k && topo_system_of(from->id) == topo_system_of(to->id) &&
                !topo_connect(from, to, TOPO_LINK_SYS,
                              between_cpus(system->rules, &from->u.cpu))) {
                return false;
            }
        }
    }
    return true;
}

/* ---- order ---- */

enum { DEPTH_MAX = 2 * TOPO_NODES_MAX };

/* Moves links upwards to the end of the search order. Returns false if the PCI links contain a
 * cycle. */
static bool sort_below(struct topo_node *node, const struct topo_node *up, int depth)
{
    if (depth > DEPTH_MAX) {
        return false;
    }
    for (uint32_t i = 0; up != NULL && i < node->n_links; i++) {
        if (node->links[i].to == up) {
            struct topo_link link = node->links[i];

            drop_link(node, i);
            node->links[node->n_links++] = link;
            break;
        }
    }
    for (uint32_t i = 0; i < node->n_links; i++) {
        if (node->links[i].type == TOPO_LINK_PCI && node->links[i].to != up &&
            !sort_below(node->links[i].to, node, depth + 1)) {
            return false;
        }
    }
    return true;
}

const char *topo_finish_links(struct topo_system *system)
{
    if (!flatten_switches(system) || !connect_cpus(system)) {
        return "more than 576 links of one node";
    }
    for (uint32_t i = 0; i < system->n[TOPO_CPU]; i++) {
        if (!sort_below(system->nodes[TOPO_CPU][i], NULL, 0)) {
            return "PCI devices hang on each other in a circle: NCCL would not end";
        }
    }
    return NULL;
}

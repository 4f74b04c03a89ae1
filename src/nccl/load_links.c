/* Links that are not in the document's tree. NCCL adds each kind in a separate pass over the
 * document. */
#include <string.h>

#include "base/check.h"
#include "nccl/load.h"

/* The current host and PCI device in the document. */
struct bus {
    uint32_t system;
    const char *id; /* bus id of the nearest PCI device above, or NULL */
};

/* Climbs the PCI tree along the first path. With 2.25 rules it can go back, and then never
 * ends. */
static struct topo_node *climb(const struct topo_rules *rules, struct topo_node *node,
                               const struct topo_node *from, int depth, bool *is_endless)
{
    struct topo_node *cpu = node->type == TOPO_CPU ? node : NULL;

    if (depth > XML_DEPTH_MAX) {
        *is_endless = true;
        return NULL;
    }
    for (uint32_t i = 0; i < node->n_links && cpu == NULL && !*is_endless; i++) {
        struct topo_node *to = node->links[i].to;

        if (node->links[i].type == TOPO_LINK_PCI &&
            (to != from || rules->turns_back_on_climb) &&
            (to->type == TOPO_PCI || to->type == TOPO_CPU)) {
            cpu = climb(rules, to, node, depth + 1, is_endless);
        }
    }
    return cpu;
}

/* Finds the GPU's CPU; `*out` is NULL if there is none. Returns false after a complaint. */
static bool local_cpu(struct loading *loading, const struct xml_node *node,
                      struct topo_node *gpu, struct topo_node **out)
{
    const struct topo_rules *rules = loading->system->rules;
    bool is_endless = false;

    *out = climb(rules, gpu, NULL, 0, &is_endless);
    if (is_endless) {
        xml_complain(
            node, loading->error,
            "NCCL %s looks for the CPU of this GPU without end, for want of a direct "
            "way past PCI switches",
            rules->name);
    }
    return !is_endless;
}

/* Finds the node at the other end of a link; `*out` is NULL if it is not used. Returns false
 * after a complaint. */
static bool nvlink_target(struct loading *loading, const struct xml_node *node,
                          struct topo_node *gpu, int class, struct topo_node **out)
{
    struct topo_system *system = loading->system;
    const char *target = xml_get(node, "target");

    if (class == TOPO_CPU) {
        return local_cpu(loading, node, gpu, out);
    }
    if (class != TOPO_GPU) {
        /* all NVSwitches are one node */
        *out = system->n[TOPO_NVS] > 0 ? system->nodes[TOPO_NVS][0]
                                       : load_add(loading, node, TOPO_NVS, 0);
        return *out != NULL;
    }
    if (target == NULL) {
        return load_missing(loading, node, "target");
    }
    *out = topo_find(system, TOPO_GPU,
                     topo_id(topo_system_of(gpu->id), load_bus_id(target)));
    return true;
}

static bool add_nvlink(struct loading *loading, const struct xml_node *node,
                       struct topo_node *gpu)
{
    const char *tclass = xml_get(node, "tclass");
    struct topo_node *to = NULL;
    int count;

    if (!load_need_int(loading, node, "count", &count)) {
        return false;
    }
    if (tclass == NULL) {
        return load_missing(loading, node, "tclass");
    }
    if (!nvlink_target(loading, node, gpu, load_choose(load_pci_classes, tclass), &to)) {
        return false;
    }
    float bw = (float)count * topo_nvlink_bw(loading->system->rules, gpu->u.gpu.sm);
    if (to == NULL ||
        (to->type == TOPO_GPU && topo_connect(gpu, to, TOPO_LINK_NVL, bw))) {
        return true; /* each of two GPUs names the other and so adds its own direction */
    }
    return load_connect(loading, node, gpu, to, TOPO_LINK_NVL, bw);
}

static bool add_c2c(struct loading *loading, const struct xml_node *node,
                    struct topo_node *gpu)
{
    bool has_c2c = loading->system->rules->has_c2c;
    struct topo_node *cpu = NULL;
    int count, bw;

    if (!load_need_int(loading, node, "count", &count) ||
        !load_need_int(loading, node, "bw", &bw) ||
        !local_cpu(loading, node, gpu, &cpu)) {
        return false;
    }
    return cpu == NULL ||
           load_connect(loading, node, gpu, cpu, has_c2c ? TOPO_LINK_C2C : TOPO_LINK_NVL,
                        (float)((double)((int64_t)bw * count) / 1000.0));
}

static bool add_pci_link(struct loading *loading, const struct xml_node *node,
                         struct topo_node *pci)
{
    const char *target = xml_get(node, "target");
    struct topo_node *to;

    if (target == NULL) {
        return load_missing(loading, node, "target");
    }
    to = topo_find(loading->system, TOPO_PCI,
                   topo_id(topo_system_of(pci->id), load_bus_id(target)));
    if (to != NULL && !topo_connect(pci, to, TOPO_LINK_LOC, TOPO_LOC_BW)) {
        xml_complain(node, loading->error, "more than %d links of one node",
                     TOPO_LINKS_MAX);
        return false;
    }
    return true;
}

struct link_kind {
    const char *element;
    enum topo_type of;
    bool (*add)(struct loading *loading, const struct xml_node *node,
                struct topo_node *owner);
};

/* Adds all links of one kind, at any depth. */
static bool add_links(struct loading *loading, const struct xml_node *node,
                      const struct link_kind *kind, struct bus place)
{
    const char *bus = xml_get(node, "busid");

    if (strcmp(node->name, kind->element) == 0) {
        uint64_t bus_id = load_bus_id(place.id != NULL ? place.id : "");
        struct topo_node *owner =
            topo_find(loading->system, kind->of, topo_id(place.system, bus_id));

        if (owner == NULL) {
            xml_complain(node, loading->error, "%s: there is no %s at %s", node->name,
                         topo_type_name(kind->of), place.id != NULL ? place.id : "?");
            return false;
        }
        return kind->add(loading, node, owner);
    }
    if (strcmp(node->name, "cpu") == 0) {
        place.system = load_system_of(loading, node);
    }
    place.id = bus != NULL ? bus : place.id;
    for (uint32_t i = 0; i < node->n_subs; i++) {
        if (!add_links(loading, node->subs[i], kind, place)) {
            return false;
        }
    }
    return true;
}

bool load_links(struct loading *loading, const struct xml_node *root)
{
    static const struct link_kind kinds[] = {{"nvlink", TOPO_GPU, add_nvlink},
                                             {"c2c", TOPO_GPU, add_c2c},
                                             {"pcilink", TOPO_PCI, add_pci_link}};

    for (size_t i = 0; i < WEFT_LENGTH(kinds); i++) {
        if (!add_links(loading, root, &kinds[i], (struct bus){.id = NULL})) {
            return false;
        }
    }
    return true;
}

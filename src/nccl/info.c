/* The lines that NCCL logs in ncclTopoPrint, ncclTopoPrintPaths and ncclTopoCheckGdr. */
#include "base/check.h"
#include "nccl/dump.h"
#include "nccl/paths.h"
#include "nccl/search.h"

enum { LINE_MAX_BYTES = 1023 }; /* longer lines are truncated */

#define PREFIX "NCCL INFO "

static float max_bw(const struct topo_system *system, const struct topo_node *gpu,
                    enum topo_type type)
{
    float best = 0;

    for (uint32_t i = 0; gpu->paths[type] != NULL && i < system->n[type]; i++) {
        const struct topo_path *path = &gpu->paths[type][i];

        best = path->n_hops > 0 && path->bw > best ? path->bw : best;
    }
    return best;
}

static float total_bw(const struct topo_node *gpu)
{
    float nvlink = 0, pci = 0;

    for (uint32_t i = 0; i < gpu->n_links; i++) {
        nvlink += gpu->links[i].type == TOPO_LINK_NVL ? gpu->links[i].bw : 0;
        pci = gpu->links[i].type == TOPO_LINK_PCI ? gpu->links[i].bw : pci;
    }
    return pci > nvlink ? pci : nvlink;
}

void topo_bandwidths(const struct topo_system *system, float *out_max, float *out_total)
{
    bool is_inter = topo_is_inter(system);
    bool is_alone = !is_inter && system->n[TOPO_GPU] == 1;

    *out_max = *out_total = is_alone ? TOPO_LOC_BW : 0;
    for (uint32_t i = 0; !is_alone && i < system->n[TOPO_GPU]; i++) {
        const struct topo_node *gpu = system->nodes[TOPO_GPU][i];
        float widest = max_bw(system, gpu, is_inter ? TOPO_NET : TOPO_GPU);

        *out_max = widest > *out_max ? widest : *out_max;
        *out_total = total_bw(gpu) > *out_total ? total_bw(gpu) : *out_total;
    }
}

static void dump_head(const struct topo_system *system, struct weft_text *out)
{
    float max, total;

    topo_bandwidths(system, &max, &total);
    weft_text_add(out, PREFIX "=== System : maxBw %2.1f totalBw %2.1f ===\n", (double)max,
                  (double)total);
}

/* ---- the tree ---- */

static void add_blanks(struct weft_text *text, size_t n)
{
    while (text->n < n) {
        weft_text_add(text, " ");
    }
}

static void print_line(struct weft_text *line, struct weft_text *out)
{
    weft_text_add(out, PREFIX "%.*s\n", LINE_MAX_BYTES, line->bytes);
}

static void add_node(const struct topo_node *node, struct weft_text *line)
{
    const struct topo_cpu *cpu = &node->u.cpu;
    const struct topo_net *net = &node->u.net;
    char name[TOPO_NAME_BYTES];

    weft_text_add(line, "%s", topo_node_name(node, name));
    switch (node->type) {
    case TOPO_GPU:
        weft_text_add(line, " (%d)", node->u.gpu.rank);
        break;
    case TOPO_CPU:
        weft_text_add(line, " (%d/%d/%d)", cpu->arch, cpu->vendor, cpu->model);
        break;
    case TOPO_PCI:
        weft_text_add(line, " (%llx)", (unsigned long long)node->u.pci_device);
        break;
    case TOPO_NET:
        weft_text_add(line, " (%d/%llx/%d/%f)", net->coll, (unsigned long long)net->asic,
                      net->port, (double)net->bw);
        break;
    case TOPO_NVS:
    case TOPO_NIC:
    case TOPO_N_TYPES:
        break;
    }
}

/* Appends the lines of a node and everything below. `line` contains the text before the node;
 * afterwards it contains blanks. */
static void dump_tree(const struct topo_node *node, const struct topo_node *from,
                      struct weft_text *line, struct weft_text *out)
{
    size_t offset = line->n;
    char name[TOPO_NAME_BYTES];

    add_node(node, line);
    print_line(line, out);
    line->n = 0;
    add_blanks(line, offset);
    for (uint32_t i = 0; i < node->n_links; i++) {
        const struct topo_link *link = &node->links[i];

        if (link->type == TOPO_LINK_PCI && link->to == from) {
            continue;
        }
        line->n = offset;
        weft_text_add(line, "+ %s[%2.1f] - ", topo_link_name(link->type),
                      (double)link->bw);
        if (link->type == TOPO_LINK_PCI) {
            dump_tree(link->to, node, line, out);
        } else if (link->type != TOPO_LINK_LOC && link->to->type == TOPO_NET) {
            add_node(link->to, line);
            print_line(line, out);
        } else {
            weft_text_add(line, "%s", topo_node_name(link->to, name));
            print_line(line, out);
        }
        line->n = 0;
        add_blanks(line, offset);
    }
}

/* ---- paths ---- */

static void dump_paths_of(const struct topo_system *system, const struct topo_node *from,
                          struct weft_text *out)
{
    struct weft_text line = {NULL, 0, 0};
    char name[TOPO_NAME_BYTES];

    weft_text_add(&line, "%s :", topo_node_name(from, name));
    for (int type = 0; type < TOPO_N_TYPES; type++) {
        for (uint32_t i = 0; from->paths[type] != NULL && i < system->n[type]; i++) {
            const struct topo_path *path = &from->paths[type][i];

            weft_text_add(&line, "%s (%u/%.1f/%s) ",
                          topo_node_name(system->nodes[type][i], name), path->n_hops,
                          (double)path->bw, topo_path_name(path->type));
        }
    }
    print_line(&line, out);
    weft_text_fini(&line);
}

void topo_dump_info(const struct topo_system *system, struct weft_text *out)
{
    static const enum topo_type shown[] = {TOPO_GPU, TOPO_NET};
    struct weft_text line = {NULL, 0, 0};

    dump_head(system, out);
    for (uint32_t i = 0; i < system->n[TOPO_CPU]; i++) {
        line.n = 0;
        dump_tree(system->nodes[TOPO_CPU][i], NULL, &line, out);
    }
    weft_text_fini(&line);
    weft_text_add(out, PREFIX "==========================================\n");
    for (size_t t = 0; t < WEFT_LENGTH(shown); t++) {
        for (uint32_t i = 0; i < system->n[shown[t]]; i++) {
            dump_paths_of(system, system->nodes[shown[t]][i], out);
        }
    }
}

void topo_dump_gdr(const struct topo_rules *rules, const struct topo_event *event,
                   struct weft_text *out)
{
    int distance = topo_path_number(rules, event->distance);
    int level = topo_path_number(rules, event->level);

    weft_text_add(
        out, PREFIX "GPU Direct RDMA %s for GPU %d / HCA %llx (distance %d %s %d)",
        event->is_on ? "Enabled" : "Disabled", event->from->u.gpu.rank,
        (unsigned long long)event->to->id, distance, event->is_on ? "<=" : ">", level);
    if (event->is_on) {
        weft_text_add(out, ", read %d", event->reads);
    }
    weft_text_add(out, "\n");
}

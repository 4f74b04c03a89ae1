/* Describes a host as NCCL does (xml.cc, topo.cc): every rank describes its own GPU and all
 * NICs, following the PCI tree upwards from each, and omits what it does not use. The
 * descriptions of a host are merged in the order of ranks. */
#include "nccl/describe.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "nccl/inside.h"
#include "nccl/load.h"

/* Complains with the document's place, if there is a document. */
static weft_status complain(const struct xml_node *root, struct weft_error *error,
                            const char *what)
{
    return root->line > 0
               ? xml_complain(root, error, "%s", what)
               : weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_TOPOLOGY, "%s", what);
}

/* ---- one rank's description ---- */

static bool begin(struct describing *describing, struct weft_error *error)
{
    const struct io_machine *machine = describing->machine;

    if (machine->document != NULL) {
        describing->root = xml_copy(describing->document);
    } else {
        describing->root = xml_new("system");
        xml_set(describing->root, "version", "1");
    }
    memset(describing->pcis, 0, (machine->n_pcis + 1) * sizeof(*describing->pcis));
    memset(describing->nets, 0, (machine->n_nets + 1) * sizeof(*describing->nets));
    return machine->document == NULL || inside_adopt(describing, error);
}

/* Describes a machine without ranks. NCCL cannot run there, but the rest can be described. */
static weft_status add_nobody(struct describing *describing, struct weft_error *error)
{
    if (!begin(describing, error)) {
        return WEFT_ERR_INPUT;
    }
    inside_cpus(describing);
    inside_nets(describing);
    return WEFT_OK;
}

static weft_status add_rank(struct describing *describing, uint32_t local, int rank,
                            struct weft_error *error)
{
    struct xml_node *gpu;

    if (!begin(describing, error)) {
        return WEFT_ERR_INPUT;
    }
    gpu = inside_gpu(describing, local);
    if (gpu == NULL) {
        return complain(describing->root, error, "there are fewer GPUs than processes");
    }
    xml_set(gpu, "keep", "1");
    xml_set_format(gpu, "rank", "%d", rank);
    if (xml_get(gpu, "gdr") == NULL) {
        xml_set(gpu, "gdr", "1");
    }
    inside_nets(describing);
    return WEFT_OK;
}

/* ---- all ranks of a host ---- */

/* Removes the PCI devices and CPUs below which nothing is kept. Returns true if anything is. */
static bool trim(struct xml_node *node)
{
    const char *keep = xml_get(node, "keep");
    bool is_kept = false;

    if (keep != NULL && strcmp(keep, "1") == 0) {
        xml_unset(node, "keep");
        return true;
    }
    for (uint32_t i = node->n_subs; i > 0; i--) {
        struct xml_node *sub = node->subs[i - 1];
        bool is_sub_kept = trim(sub);

        is_kept = is_kept || is_sub_kept;
        if (!is_sub_kept &&
            (strcmp(sub->name, "pci") == 0 || strcmp(sub->name, "cpu") == 0)) {
            xml_remove(node, i - 1);
        }
    }
    return is_kept;
}

static void keep_no_marks(struct xml_node *node)
{
    xml_unset(node, "keep");
    for (uint32_t i = 0; i < node->n_subs; i++) {
        keep_no_marks(node->subs[i]);
    }
}

static bool is_same(const struct xml_node *a, const struct xml_node *b)
{
    if (strcmp(a->name, b->name) != 0 || a->n_attributes != b->n_attributes) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_attributes; i++) {
        const char *value = xml_get(b, a->attributes[i].key);

        if (value == NULL || strcmp(value, a->attributes[i].value) != 0) {
            return false;
        }
    }
    return true;
}

/* Merges elements that are equal in all attributes; appends the others. */
static void fuse(struct xml_node *to, const struct xml_node *from)
{
    for (uint32_t i = 0; i < from->n_subs; i++) {
        struct xml_node *same = NULL;

        for (uint32_t k = 0; k < to->n_subs && same == NULL; k++) {
            same = is_same(to->subs[k], from->subs[i]) ? to->subs[k] : NULL;
        }
        if (same != NULL) {
            fuse(same, from->subs[i]);
        } else {
            xml_insert(to, xml_copy(from->subs[i]), UINT32_MAX);
        }
    }
}

static bool has_room(const struct xml_node *node)
{
    bool has = node->n_subs <= XML_SUBS_MAX && node->n_attributes <= XML_ATTRIBUTES_MAX;

    for (uint32_t i = 0; has && i < node->n_subs; i++) {
        has = has_room(node->subs[i]);
    }
    return has;
}

static weft_status check_size(const struct xml_node *root, struct weft_error *error)
{
    if (xml_count(root) > DOCUMENT_NODES_MAX || !has_room(root)) {
        return complain(root, error,
                        "NCCL gives up: more than 256 elements, or 128 in one");
    }
    return WEFT_OK;
}

static weft_status describe_all(struct describing *describing,
                                const struct topo_inside *inside, struct xml_node **out,
                                struct weft_error *error)
{
    weft_status status = WEFT_OK;

    *out = NULL;
    for (uint32_t i = 0; i < inside->n_ranks && status == WEFT_OK; i++) {
        status = add_rank(describing, i, inside->ranks[i], error);
        if (status == WEFT_OK) {
            trim(describing->root);
            status = check_size(describing->root, error);
        }
        if (status == WEFT_OK && *out == NULL) {
            *out = describing->root;
            describing->root = NULL;
        } else if (status == WEFT_OK) {
            fuse(*out, describing->root);
            status = check_size(*out, error);
        }
        xml_free(describing->root);
        describing->root = NULL;
    }
    if (inside->n_ranks == 0) {
        status = add_nobody(describing, error);
        *out = describing->root;
        describing->root = NULL;
        keep_no_marks(*out);
    }
    return status;
}

static weft_status describe(const struct topo_inside *inside, struct xml_node **out,
                            struct weft_error *error)
{
    const struct io_machine *machine = inside->machine;
    struct describing describing = {.machine = machine, .inside = inside};
    weft_status status = WEFT_OK;

    *out = NULL;
    if (machine->document != NULL) {
        describing.document = xml_parse(machine->document, machine->n_document, error);
        status = describing.document != NULL ? stub_complete(describing.document)
                                             : WEFT_ERR_INPUT;
    }
    if (status == WEFT_OK) {
        describing.pcis = weft_calloc(machine->n_pcis + 1, sizeof(*describing.pcis));
        describing.nets = weft_calloc(machine->n_nets + 1, sizeof(*describing.nets));
        describing.cards = weft_calloc(machine->n_nets + 1, sizeof(*describing.cards));
        describing.n_cards = topo_net_ports_of(inside, describing.cards, machine->n_nets);
        status = describe_all(&describing, inside, out, error);
    }
    if (status != WEFT_OK) {
        xml_free(*out);
        *out = NULL;
    }
    xml_free(describing.document);
    free(describing.pcis);
    free(describing.nets);
    free(describing.cards);
    return status;
}

weft_status topo_describe(const struct topo_inside *inside, struct weft_text *out,
                          struct weft_error *error)
{
    struct xml_node *root;
    weft_status status = describe(inside, &root, error);

    if (status == WEFT_OK) {
        xml_print(root, out);
    }
    xml_free(root);
    return status;
}

weft_status topo_of_host(const struct topo_inside *inside, const struct topo_rules *rules,
                         struct topo_system **out, struct weft_error *error)
{
    struct xml_node *root;
    weft_status status = describe(inside, &root, error);

    *out = NULL;
    if (status == WEFT_OK) {
        status = load_tree(root, rules, out, error);
    }
    xml_free(root);
    return status;
}

/* ---- the ports of a NET ---- */

/* Returns true if two ports belong to one card: bus ids differ only in the function, as in
 * NCCL's comparison. */
static bool is_one_card(const struct io_machine *machine, uint32_t a, uint32_t b)
{
    uint32_t pcis[2] = {machine->nets[a].pci, machine->nets[b].pci};
    size_t n;

    if (machine->nets[a].device == machine->nets[b].device) {
        return true;
    }
    if (pcis[0] == IO_MACHINE_NONE || pcis[1] == IO_MACHINE_NONE) {
        return false;
    }
    n = strlen(machine->pcis[pcis[0]].bus_id);
    return n > 0 && strlen(machine->pcis[pcis[1]].bus_id) == n &&
           strncmp(machine->pcis[pcis[0]].bus_id, machine->pcis[pcis[1]].bus_id, n - 1) ==
               0;
}

uint32_t topo_net_ports_of(const struct topo_inside *inside, struct topo_net_ports *out,
                           uint32_t cap)
{
    const struct io_machine *machine = inside->machine;
    uint32_t n = 0, n_active = 0;

    for (uint32_t i = 0; i < machine->n_nets; i++) {
        struct topo_net_ports *card = NULL;

        n_active += machine->nets[i].is_active;
        for (uint32_t k = 0;
             k < n && machine->nets[i].is_active && inside->merges_nics && card == NULL;
             k++) {
            bool fits = out[k].n_nets < TOPO_NET_PORTS_MAX &&
                        is_one_card(machine, out[k].nets[0], i);

            card = fits ? &out[k] : NULL;
        }
        if (!machine->nets[i].is_active || (card == NULL && n == cap)) {
            continue;
        }
        if (card == NULL) {
            card = &out[n++];
            card->n_nets = 0;
        }
        card->nets[card->n_nets++] = i;
    }
    /* Merged NETs are numbered after the devices. */
    for (uint32_t k = 0; k < n; k++) {
        out[k].dev = (int)(inside->merges_nics ? n_active + k : k);
    }
    return n;
}

/* Completes documents like ncclTopoFillGpu and ncclTopoFillNet (xml.cc): finds a function of
 * the document by its bus id and adds what is missing. */
#include "topo/stub.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "topo/load.h"

/* The document's functions of one class without a GPU or NIC, by bus id. */
struct functions {
    struct xml_node **nodes; /* Owned; [n] */
    uint32_t n;
};

static bool has_element(const struct xml_node *node, const char *name)
{
    bool has = strcmp(node->name, name) == 0;

    for (uint32_t i = 0; i < node->n_subs && !has; i++) {
        has = has_element(node->subs[i], name);
    }
    return has;
}

static bool is_bare(const struct xml_node *node, enum topo_type type)
{
    const char *class = xml_get(node, "class");

    return strcmp(node->name, "pci") == 0 && class != NULL &&
           xml_get(node, "busid") != NULL &&
           load_choose(load_pci_classes, class) == (int)type &&
           xml_sub(node, type == TOPO_GPU ? "gpu" : "nic") == NULL;
}

static void find_bare(struct xml_node *node, enum topo_type type, struct functions *out)
{
    if (is_bare(node, type)) {
        out->nodes = weft_realloc(out->nodes, (out->n + 1) * sizeof(*out->nodes));
        out->nodes[out->n++] = node;
    }
    for (uint32_t i = 0; i < node->n_subs; i++) {
        find_bare(node->subs[i], type, out);
    }
}

static uint64_t bus_of(const struct xml_node *node)
{
    return load_bus_id(xml_get(node, "busid"));
}

static int compare_buses(const void *a, const void *b)
{
    uint64_t x = bus_of(*(struct xml_node *const *)a);
    uint64_t y = bus_of(*(struct xml_node *const *)b);

    return x < y ? -1 : x > y;
}

static void find_functions(struct xml_node *root, enum topo_type type,
                           struct functions *out)
{
    find_bare(root, type, out);
    if (out->n > 0) {
        qsort(out->nodes, out->n, sizeof(*out->nodes), compare_buses);
    }
}

/* ---- without facts ---- */

/* Returns the GT/s of a link as a whole number, or 0 if unknown. */
static int speed_of(const struct xml_node *node)
{
    const char *text = xml_get(node, "link_speed");

    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

static struct xml_node *add_sub(struct xml_node *parent, const char *name)
{
    struct xml_node *node = xml_new(name);

    xml_insert(parent, node, UINT32_MAX);
    return node;
}

static void add_gpus(const struct functions *gpus, struct topo_stub *out)
{
    int speed = gpus->n > 0 ? speed_of(gpus->nodes[0]) : 0;

    out->sm = speed > 32 ? 100 : speed == 32 ? 90 : 80;
    for (uint32_t i = 0; i < gpus->n; i++) {
        struct xml_node *gpu = add_sub(gpus->nodes[i], "gpu");

        xml_set_format(gpu, "dev", "%u", i);
        xml_set_format(gpu, "sm", "%d", out->sm);
        xml_set_format(gpu, "rank", "%u", i);
        xml_set(gpu, "gdr", "1");
        out->n_gpus++;
    }
}

static void add_nets(const struct functions *nics, struct topo_stub *out)
{
    for (uint32_t i = 0; i < nics->n; i++) {
        struct xml_node *net = add_sub(add_sub(nics->nodes[i], "nic"), "net");
        int speed = speed_of(nics->nodes[i]);

        xml_set_format(net, "name", "net%u", i);
        xml_set_format(net, "dev", "%u", i);
        xml_set_format(net, "speed", "%d",
                       speed > 32    ? 800000
                       : speed == 32 ? 400000
                       : speed == 16 ? 200000
                                     : 100000);
        xml_set(net, "port", "1");
        xml_set_format(net, "guid", "%#x", i + 1);
        xml_set(net, "latency", "0");
        xml_set(net, "maxconn", "131072");
        xml_set(net, "gdr", "1");
        out->n_nets++;
    }
}

static void identify_cpus(struct xml_node *root, const struct xml_node *like,
                          struct topo_stub *out)
{
    static const char *const keys[][2] = {{"arch", "x86_64"},
                                          {"vendor", "GenuineIntel"},
                                          {"familyid", "6"},
                                          {"modelid", "85"}};

    for (uint32_t i = 0; i < root->n_subs; i++) {
        struct xml_node *cpu = root->subs[i];

        if (strcmp(cpu->name, "cpu") != 0 || xml_get(cpu, "arch") != NULL) {
            continue;
        }
        out->has_cpu = true;
        for (size_t k = 0; k < WEFT_LENGTH(keys); k++) {
            const char *value = like != NULL ? xml_get(like, keys[k][0]) : keys[k][1];

            if (value != NULL) {
                xml_set(cpu, keys[k][0], value);
            }
        }
    }
}

/* ---- with facts ---- */

static const struct xml_node *find_bus(const struct xml_node *node, uint64_t bus)
{
    const struct xml_node *found = NULL;

    if (strcmp(node->name, "pci") == 0 && xml_get(node, "busid") != NULL &&
        bus_of(node) == bus) {
        return node;
    }
    for (uint32_t i = 0; i < node->n_subs && found == NULL; i++) {
        found = find_bus(node->subs[i], bus);
    }
    return found;
}

/* Copies the machine's attributes and GPU or ports to each function. Returns how many
 * functions got one. */
static uint32_t copy_all(const struct functions *functions, const char *name,
                         const struct xml_node *facts)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < functions->n; i++) {
        struct xml_node *to = functions->nodes[i];
        const struct xml_node *from = find_bus(facts, bus_of(to));
        const struct xml_node *sub = from != NULL ? xml_sub(from, name) : NULL;

        for (uint32_t k = 0; from != NULL && k < from->n_attributes; k++) {
            if (xml_get(to, from->attributes[k].key) == NULL) {
                xml_set(to, from->attributes[k].key, from->attributes[k].value);
            }
        }
        if (sub != NULL) {
            xml_insert(to, xml_copy(sub), UINT32_MAX);
            n++;
        }
    }
    return n;
}

static uint32_t count_elements(const struct xml_node *node, const char *name)
{
    uint32_t n = strcmp(node->name, name) == 0;

    for (uint32_t i = 0; i < node->n_subs; i++) {
        n += count_elements(node->subs[i], name);
    }
    return n;
}

static weft_status complete(struct xml_node *root, const struct xml_node *facts,
                            struct topo_stub *out, struct weft_error *error)
{
    struct functions gpus = {NULL, 0};
    struct functions nics = {NULL, 0};
    weft_status status = WEFT_OK;

    find_functions(root, TOPO_GPU, &gpus);
    find_functions(root, TOPO_NIC, &nics);
    out->is_stub = gpus.n > 0 && !has_element(root, "gpu");
    if (out->is_stub && facts == NULL) {
        add_gpus(&gpus, out);
        add_nets(&nics, out);
        identify_cpus(root, NULL, out);
    } else if (out->is_stub) {
        out->n_gpus = copy_all(&gpus, "gpu", facts);
        out->n_nets = copy_all(&nics, "nic", facts);
        out->n_absent = count_elements(facts, "gpu") - out->n_gpus;
        identify_cpus(root, xml_sub(facts, "cpu"), out);
        if (out->n_gpus == 0) {
            status = xml_complain(root, error,
                                  "the machine has no GPU at a bus id of this document");
        }
    }
    free(gpus.nodes);
    free(nics.nodes);
    return status;
}

weft_status stub_complete(struct xml_node *root)
{
    struct topo_stub stub = {.is_stub = false};

    return complete(root, NULL, &stub, NULL);
}

weft_status topo_complete(struct weft_text *text, const struct weft_text *facts,
                          struct topo_stub *out, struct weft_error *error)
{
    struct xml_node *root = xml_parse(text->n > 0 ? text->bytes : "", text->n, error);
    struct xml_node *machine = NULL;
    weft_status status = root != NULL ? WEFT_OK : WEFT_ERR_INPUT;

    *out = (struct topo_stub){.is_stub = false};
    if (status == WEFT_OK && facts != NULL) {
        machine = xml_parse(facts->n > 0 ? facts->bytes : "", facts->n, error);
        status = machine != NULL ? WEFT_OK : WEFT_ERR_INPUT;
    }
    if (status == WEFT_OK) {
        status = complete(root, machine, out, error);
    }
    if (status == WEFT_OK && out->is_stub) {
        text->n = 0;
        xml_print(root, text);
    }
    xml_free(root);
    xml_free(machine);
    return status;
}

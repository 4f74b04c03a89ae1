/* Completes documents like ncclTopoFillGpu, ncclTopoFillNet and ncclTopoTrimXml (xml.cc): finds the
 * function of each GPU and port by its bus id, adds it where there is none, adds what is missing,
 * and removes what the machine does not have. */
#include "nccl/stub.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "nccl/load.h"

/* Functions of a document, by bus id. */
struct functions {
    struct xml_node **nodes; /* Owned; [n] */
    uint32_t n;
};

/* Returns true if the node or one below it is such an element, with this attribute unless that is
 * NULL. */
static bool has_element(const struct xml_node *node, const char *name, const char *key)
{
    bool has =
        strcmp(node->name, name) == 0 && (key == NULL || xml_get(node, key) != NULL);

    for (uint32_t i = 0; i < node->n_subs && !has; i++) {
        has = has_element(node->subs[i], name, key);
    }
    return has;
}

static bool is_of_class(const struct xml_node *node, enum topo_type type)
{
    const char *class = xml_get(node, "class");

    return class != NULL && load_choose(load_pci_classes, class) == (int)type;
}

/* Returns true for functions with a GPU, and for those of a GPU's class. */
static bool is_gpu(const struct xml_node *node)
{
    return xml_sub(node, "gpu") != NULL || is_of_class(node, TOPO_GPU);
}

static bool is_bare_nic(const struct xml_node *node)
{
    return xml_sub(node, "nic") == NULL && is_of_class(node, TOPO_NIC);
}

/* Returns true for functions of which the document has the bus id only. */
static bool is_unknown(const struct xml_node *node)
{
    return xml_get(node, "class") == NULL && xml_sub(node, "pci") == NULL &&
           xml_sub(node, "nic") == NULL;
}

typedef bool is_wanted(const struct xml_node *node);

static void find(struct xml_node *node, is_wanted *is, struct functions *out)
{
    if (strcmp(node->name, "pci") == 0 && xml_get(node, "busid") != NULL && is(node)) {
        out->nodes = weft_realloc(out->nodes, (out->n + 1) * sizeof(*out->nodes));
        out->nodes[out->n++] = node;
    }
    for (uint32_t i = 0; i < node->n_subs; i++) {
        find(node->subs[i], is, out);
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

static struct functions find_all(struct xml_node *root, is_wanted *is)
{
    struct functions found = {NULL, 0};

    find(root, is, &found);
    if (found.n > 0) {
        qsort(found.nodes, found.n, sizeof(*found.nodes), compare_buses);
    }
    return found;
}

static void set_if_unset(struct xml_node *node, const char *key, const char *value)
{
    if (xml_get(node, key) == NULL) {
        xml_set(node, key, value);
    }
}

static struct xml_node *add_sub(struct xml_node *parent, const char *name)
{
    struct xml_node *node = xml_new(name);

    xml_insert(parent, node, UINT32_MAX);
    return node;
}

static struct xml_node *sub_or_new(struct xml_node *parent, const char *name)
{
    for (uint32_t i = 0; i < parent->n_subs; i++) {
        if (strcmp(parent->subs[i]->name, name) == 0) {
            return parent->subs[i];
        }
    }
    return add_sub(parent, name);
}

/* ---- without facts ---- */

/* Returns the GT/s of a link as a whole number, or 0 if unknown. */
static int speed_of(const struct xml_node *node)
{
    const char *text = xml_get(node, "link_speed");

    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

static void add_gpus(const struct functions *gpus, struct topo_stub *out)
{
    int speed = speed_of(gpus->nodes[0]);
    char number[16];

    out->sm = speed > 32 ? 100 : speed == 32 ? 90 : 80;
    out->n_gpus = gpus->n;
    for (uint32_t i = 0; i < gpus->n; i++) {
        struct xml_node *gpu = sub_or_new(gpus->nodes[i], "gpu");

        weft_format(number, sizeof(number), "%u", i);
        set_if_unset(gpu, "dev", number);
        weft_format(number, sizeof(number), "%d", out->sm);
        set_if_unset(gpu, "sm", number);
        xml_set_format(gpu, "rank", "%u", i);
        set_if_unset(gpu, "gdr", "1");
    }
}

/* Returns the lowest number above those of all ports of the document. */
static int next_dev(const struct xml_node *node)
{
    int next = strcmp(node->name, "net") == 0 ? load_get_int(node, "dev", -1) + 1 : 0;

    for (uint32_t i = 0; i < node->n_subs; i++) {
        int below = next_dev(node->subs[i]);

        next = below > next ? below : next;
    }
    return next;
}

static void add_nets(const struct functions *nics, int dev, struct topo_stub *out)
{
    for (uint32_t i = 0; i < nics->n; i++, dev++) {
        struct xml_node *net = add_sub(add_sub(nics->nodes[i], "nic"), "net");
        int speed = speed_of(nics->nodes[i]);

        xml_set_format(net, "name", "net%d", dev);
        xml_set_format(net, "dev", "%d", dev);
        xml_set_format(net, "speed", "%d",
                       speed > 32    ? 800000
                       : speed == 32 ? 400000
                       : speed == 16 ? 200000
                                     : 100000);
        xml_set(net, "port", "1");
        xml_set_format(net, "guid", "%#x", (unsigned)dev + 1);
        xml_set(net, "latency", "0");
        xml_set(net, "maxconn", "131072");
        xml_set(net, "gdr", "1");
    }
    out->n_nets = nics->n;
}

/* Adds what NCCL needs of every function: a class, and a link, whose speed NCCL leaves empty if
 * the machine does not report it. */
static void fill_functions(struct xml_node *node, struct topo_stub *out)
{
    if (strcmp(node->name, "pci") == 0) {
        out->has_link = out->has_link || xml_get(node, "link_speed") == NULL ||
                        xml_get(node, "link_width") == NULL;
        set_if_unset(node, "class",
                     xml_sub(node, "gpu") != NULL   ? "0x03"
                     : xml_sub(node, "nic") != NULL ? "0x02"
                                                    : "0x060400");
        set_if_unset(node, "link_speed", "");
        set_if_unset(node, "link_width", "");
    }
    for (uint32_t i = 0; i < node->n_subs; i++) {
        fill_functions(node->subs[i], out);
    }
}

static bool is_x86(const struct xml_node *cpu)
{
    return strcmp(xml_get(cpu, "arch"), "x86_64") == 0;
}

/* Adds what identifies each CPU: as `like` has it, or as Intel's Skylake if that is NULL. */
static void identify_cpus(struct xml_node *root, const struct xml_node *like,
                          struct topo_stub *out)
{
    static const char *const keys[][2] = {
        {"vendor", "GenuineIntel"}, {"familyid", "6"}, {"modelid", "85"}};
    const char *arch = like != NULL ? xml_get(like, "arch") : "x86_64";

    for (uint32_t i = 0; i < root->n_subs; i++) {
        struct xml_node *cpu = root->subs[i];

        if (strcmp(cpu->name, "cpu") != 0) {
            continue;
        }
        out->has_cpu = out->has_cpu || xml_get(cpu, "arch") == NULL;
        set_if_unset(cpu, "arch", arch != NULL ? arch : "x86_64");
        for (size_t k = 0; k < WEFT_LENGTH(keys) && is_x86(cpu); k++) {
            const char *value = like != NULL ? xml_get(like, keys[k][0]) : keys[k][1];

            if (value != NULL && xml_get(cpu, keys[k][0]) == NULL) {
                xml_set(cpu, keys[k][0], value);
                out->has_cpu = true;
            }
        }
    }
}

/* ---- with facts ---- */

static struct xml_node *find_bus(const struct xml_node *node, uint64_t bus)
{
    struct xml_node *found = NULL;

    for (uint32_t i = 0; i < node->n_subs && found == NULL; i++) {
        struct xml_node *sub = node->subs[i];
        bool is_it = strcmp(sub->name, "pci") == 0 && xml_get(sub, "busid") != NULL &&
                     bus_of(sub) == bus;

        found = is_it ? sub : find_bus(sub, bus);
    }
    return found;
}

/* Returns the element of `node` that describes the same as `like`: one of the same name and the
 * same value of the attribute that distinguishes such elements. NULL if there is none. */
static struct xml_node *same_in(const struct xml_node *node, const struct xml_node *like)
{
    const char *key = strcmp(like->name, "net") == 0   ? "name"
                      : strcmp(like->name, "cpu") == 0 ? "numaid"
                                                       : "target";
    const char *wanted = xml_get(like, key);

    for (uint32_t i = 0; i < node->n_subs; i++) {
        const char *got = xml_get(node->subs[i], key);

        if (strcmp(node->subs[i]->name, like->name) == 0 &&
            (wanted == NULL || (got != NULL && strcmp(got, wanted) == 0))) {
            return node->subs[i];
        }
    }
    return NULL;
}

/* Adds the attributes and elements of `from` that `to` lacks, but no functions. The hash of a host
 * is the document's. */
static void absorb(struct xml_node *to, const struct xml_node *from)
{
    for (uint32_t i = 0; i < from->n_attributes; i++) {
        if (strcmp(from->attributes[i].key, "host_hash") != 0) {
            set_if_unset(to, from->attributes[i].key, from->attributes[i].value);
        }
    }
    for (uint32_t i = 0; i < from->n_subs; i++) {
        const struct xml_node *sub = from->subs[i];
        struct xml_node *same = same_in(to, sub);

        if (strcmp(sub->name, "pci") == 0) {
            continue;
        }
        if (same != NULL) {
            absorb(same, sub);
        } else {
            xml_insert(to, xml_copy(sub), UINT32_MAX);
        }
    }
}

/* Adds to every function what the machine has at its bus id. Returns the number of those with a
 * GPU. */
static uint32_t absorb_all(struct xml_node *node, const struct xml_node *facts)
{
    const struct xml_node *from =
        strcmp(node->name, "pci") == 0 && xml_get(node, "busid") != NULL
            ? find_bus(facts, bus_of(node))
            : NULL;
    uint32_t n = from != NULL && xml_sub(from, "gpu") != NULL;

    if (from != NULL) {
        absorb(node, from);
    }
    for (uint32_t i = 0; i < node->n_subs; i++) {
        n += absorb_all(node->subs[i], facts);
    }
    return n;
}

/* Returns true if the document lacks a function of the machine with a GPU or ports, which is `from`
 * or below it. */
static bool lacks(const struct xml_node *root, const struct xml_node *from)
{
    bool is_lacking = strcmp(from->name, "pci") == 0 &&
                      (xml_sub(from, "gpu") != NULL || xml_sub(from, "nic") != NULL) &&
                      find_bus(root, bus_of(from)) == NULL;

    for (uint32_t i = 0; i < from->n_subs && !is_lacking; i++) {
        is_lacking =
            strcmp(from->subs[i]->name, "pci") == 0 && lacks(root, from->subs[i]);
    }
    return is_lacking;
}

/* Inserts a function before the first with a greater bus id, as NCCL does. */
static struct xml_node *insert_function(struct xml_node *parent,
                                        const struct xml_node *from)
{
    struct xml_node *node = xml_new("pci");
    const char *own = xml_get(from, "busid");
    uint32_t at = 0;

    absorb(node, from);
    for (; at < parent->n_subs; at++) {
        const char *other = xml_get(parent->subs[at], "busid");

        if (other != NULL && strcmp(own, other) < 0) {
            break;
        }
    }
    xml_insert(parent, node, at);
    return node;
}

/* Adds the functions below `from` that the document lacks: below the nearest function above them
 * that it has, or below their CPU. */
static void add_lacking(struct xml_node *root, struct xml_node *parent,
                        const struct xml_node *from, struct topo_stub *out)
{
    for (uint32_t i = 0; i < from->n_subs; i++) {
        const struct xml_node *sub = from->subs[i];
        struct xml_node *to;

        if (strcmp(sub->name, "pci") != 0 || !lacks(root, sub)) {
            continue;
        }
        to = find_bus(root, bus_of(sub));
        if (to == NULL) {
            to = insert_function(parent, sub);
            out->n_added += xml_sub(sub, "gpu") != NULL || xml_sub(sub, "nic") != NULL;
        }
        add_lacking(root, to, sub, out);
    }
}

static struct xml_node *add_cpu(struct xml_node *root)
{
    const struct xml_node *first = xml_sub(root, "cpu");
    const char *hash = first != NULL ? xml_get(first, "host_hash") : NULL;
    struct xml_node *cpu = add_sub(root, "cpu");

    if (hash != NULL) {
        xml_set(cpu, "host_hash", hash);
    }
    return cpu;
}

/* Adds the machine's GPUs and ports that the document has no function for. */
static void add_rest(struct xml_node *root, const struct xml_node *facts,
                     struct topo_stub *out)
{
    for (uint32_t i = 0; i < facts->n_subs; i++) {
        const struct xml_node *cpu = facts->subs[i];
        struct xml_node *to = same_in(root, cpu);
        bool has_ports = xml_sub(cpu, "nic") != NULL;

        if (to == NULL && (has_ports || lacks(root, cpu))) {
            to = add_cpu(root);
        }
        if (to != NULL) {
            add_lacking(root, to, cpu, out);
            absorb(to, cpu);
        }
    }
}

/* Removes the functions and CPUs below which there are neither a GPU of a rank nor ports. Returns
 * true if anything is left of the node. */
static bool trim(struct xml_node *node)
{
    const struct xml_node *gpu = xml_sub(node, "gpu");
    bool is_used =
        xml_sub(node, "nic") != NULL || (gpu != NULL && xml_get(gpu, "rank") != NULL);

    for (uint32_t i = node->n_subs; i > 0; i--) {
        const char *name = node->subs[i - 1]->name;

        if (strcmp(name, "pci") != 0 && strcmp(name, "cpu") != 0) {
            continue;
        }
        if (trim(node->subs[i - 1])) {
            is_used = true;
        } else {
            xml_remove(node, i - 1);
        }
    }
    return is_used;
}

static uint32_t count_elements(const struct xml_node *node, const char *name)
{
    uint32_t n = strcmp(node->name, name) == 0;

    for (uint32_t i = 0; i < node->n_subs; i++) {
        n += count_elements(node->subs[i], name);
    }
    return n;
}

static weft_status complete_from(struct xml_node *root, const struct xml_node *facts,
                                 struct topo_stub *out, struct weft_error *error)
{
    if (absorb_all(root, facts) == 0) {
        return xml_complain(root, error,
                            "the machine has no GPU at a bus id of this document");
    }
    identify_cpus(root, xml_sub(facts, "cpu"), out);
    add_rest(root, facts, out);
    trim(root);
    out->n_gpus = count_elements(root, "gpu");
    out->n_nets = count_elements(root, "nic");
    return WEFT_OK;
}

static weft_status complete(struct xml_node *root, const struct xml_node *facts,
                            struct topo_stub *out, struct weft_error *error)
{
    struct functions gpus = find_all(root, is_gpu);
    struct functions nics = find_all(root, is_bare_nic);
    weft_status status = WEFT_OK;

    if (gpus.n == 0) {
        free(gpus.nodes);
        gpus = find_all(root, is_unknown);
        out->is_guessed = gpus.n > 0;
    }
    out->is_stub =
        gpus.n > 0 && load_foreign(root) == NULL && !has_element(root, "gpu", "rank");
    out->has_gpus = has_element(root, "gpu", NULL);
    if (out->is_stub && facts == NULL) {
        add_gpus(&gpus, out);
        add_nets(&nics, next_dev(root), out);
        fill_functions(root, out);
        identify_cpus(root, NULL, out);
    } else if (out->is_stub) {
        status = complete_from(root, facts, out, error);
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

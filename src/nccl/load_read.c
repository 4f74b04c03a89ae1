/* Shared by the readers of a topology document: its attributes, and room for nodes and links. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "nccl/load.h"

/* ---- attributes ---- */

bool load_missing(struct loading *loading, const struct xml_node *node, const char *key)
{
    xml_complain(node, loading->error, "%s: '%s' is missing", node->name, key);
    return false;
}

/* Reads a number like strtol with base 0; text that is no number is 0, as in NCCL. */
static int to_int(const char *text)
{
    return (int)strtol(text, NULL, 0);
}

bool load_need_int(struct loading *loading, const struct xml_node *node, const char *key,
                   int *out)
{
    const char *text = xml_get(node, key);

    if (text == NULL) {
        return load_missing(loading, node, key);
    }
    *out = to_int(text);
    return true;
}

int load_get_int(const struct xml_node *node, const char *key, int otherwise)
{
    const char *text = xml_get(node, key);

    return text != NULL ? to_int(text) : otherwise;
}

uint64_t load_bus_id(const char *text)
{
    char digits[17];
    size_t n = 0;

    for (; *text != '\0' && n < sizeof(digits) - 1; text++) {
        if (*text == ':' || *text == '.') {
            continue;
        }
        if (strchr("0123456789abcdefABCDEF", *text) == NULL) {
            break;
        }
        digits[n++] = *text;
    }
    digits[n] = '\0';
    return strtoull(digits, NULL, 16);
}

int load_choose(const struct load_choice *choices, const char *text)
{
    while (choices->text != NULL &&
           strncmp(text, choices->text, strlen(choices->text)) != 0) {
        choices++;
    }
    return choices->value;
}

const struct load_choice load_pci_classes[] = {
    {"0x060400", TOPO_PCI}, {"0x068000", TOPO_NVS}, {"0x068001", TOPO_CPU},
    {"0x03", TOPO_GPU},     {"0x02", TOPO_NIC},     {NULL, TOPO_PCI}};

/* ---- nodes ---- */

struct topo_node *load_add(struct loading *loading, const struct xml_node *node,
                           enum topo_type type, uint64_t id)
{
    struct topo_node *added = topo_add(loading->system, type, id);

    if (added == NULL) {
        xml_complain(node, loading->error, "more than %d nodes of type %s",
                     TOPO_NODES_MAX, topo_type_name(type));
    }
    return added;
}

bool load_connect(struct loading *loading, const struct xml_node *node,
                  struct topo_node *a, struct topo_node *b, enum topo_link_type type,
                  float bw)
{
    if (!topo_connect_both(a, b, type, bw)) {
        xml_complain(node, loading->error, "more than %d links of one node",
                     TOPO_LINKS_MAX);
        return false;
    }
    return true;
}

uint32_t load_system_of(struct loading *loading, const struct xml_node *cpu)
{
    struct topo_system *system = loading->system;
    const char *text = xml_get(cpu, "host_hash");
    uint64_t hash = text != NULL ? strtoull(text, NULL, 16) : 0;
    uint32_t i = 0;

    while (i < system->n_hosts && system->host_hashes[i] != hash) {
        i++;
    }
    if (i == system->n_hosts) {
        system->host_hashes =
            weft_realloc(system->host_hashes, (i + 1) * sizeof(*system->host_hashes));
        system->host_hashes[system->n_hosts++] = hash;
    }
    return i;
}

/* ---- the document ---- */

static bool is_of_rccl(const struct xml_node *node)
{
    bool is = strcmp(node->name, "xgmi") == 0 ||
              (strcmp(node->name, "gpu") == 0 && xml_get(node, "gcn") != NULL);

    for (uint32_t i = 0; i < node->n_subs && !is; i++) {
        is = is_of_rccl(node->subs[i]);
    }
    return is;
}

const char *load_foreign(const struct xml_node *root)
{
    int version = load_get_int(root, "version", 0);

    if (strcmp(root->name, "graphs") == 0) {
        return "channels of NCCL (NCCL_GRAPH_FILE), not a topology (NCCL_TOPO_FILE)";
    }
    if (strcmp(root->name, "system") == 0 && version == 2) {
        return "RCCL's topology (a system of version 2), not NCCL's, which is version 1; "
               "Weft has NCCL's rules";
    }
    if (strcmp(root->name, "system") != 0 || version != 1) {
        return "expected a system of version 1";
    }
    return is_of_rccl(root) ? "RCCL's topology (GPUs with gcn or xgmi), not NCCL's; Weft "
                              "has NCCL's rules"
                            : NULL;
}

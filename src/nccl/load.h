/* Reading a topology document. Private to nccl/. */
#ifndef WEFT_NCCL_LOAD_H
#define WEFT_NCCL_LOAD_H

#include "nccl/search.h"
#include "nccl/xml.h"

struct loading {
    struct topo_system *system;
    struct weft_error *error;
};

/* Does what topo_load does for a parsed document; errors have the places of its nodes. */
weft_status load_tree(const struct xml_node *root, const struct topo_rules *rules,
                      struct topo_system **out, struct weft_error *error);

/* Returns a description of the document if it is no topology of NCCL, or NULL if it is one. */
const char *load_foreign(const struct xml_node *root);

/* stub.c: adds GPUs and ports by default values to a document that has none; leaves others
 * unchanged. */
weft_status stub_complete(struct xml_node *root);

/* The value for texts that start with `text`; the first matching entry counts. */
struct load_choice {
    const char *text; /* NULL in the last entry, which matches everything */
    int value;
};
int load_choose(const struct load_choice *choices, const char *text);
extern const struct load_choice load_pci_classes[]; /* values are of enum topo_type */

/* Attributes, read as NCCL reads them: text that is no number is 0. The first two complain
 * about a missing attribute and return false. */
bool load_missing(struct loading *loading, const struct xml_node *node, const char *key);
bool load_need_int(struct loading *loading, const struct xml_node *node, const char *key,
                   int *out);
int load_get_int(const struct xml_node *node, const char *key, int otherwise);
/* Returns the hexadecimal digits of a bus id without separators: 0x99000 for "0000:99:00.0". */
uint64_t load_bus_id(const char *text);

/* Do the same as topo_add and topo_connect_both, and complain at `node` if there is no room. */
struct topo_node *load_add(struct loading *loading, const struct xml_node *node,
                           enum topo_type type, uint64_t id);
bool load_connect(struct loading *loading, const struct xml_node *node,
                  struct topo_node *a, struct topo_node *b, enum topo_link_type type,
                  float bw);
/* Returns the number of the host of `cpu`. Hosts are numbered as they first appear. */
uint32_t load_system_of(struct loading *loading, const struct xml_node *cpu);

/* Adds all links that are not in the tree: NVLink, C2C, and between PCI switches. */
bool load_links(struct loading *loading, const struct xml_node *root);

#endif

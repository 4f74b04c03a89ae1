/* Inside topo/: what reads a document. */
#ifndef WEFT_TOPO_LOAD_H
#define WEFT_TOPO_LOAD_H

#include "topo/private.h"
#include "topo/xml.h"

struct loading {
    struct topo_system *system;
    struct weft_error *error;
};

/* topo_load of a document that is a tree already; errors have the places of its nodes. */
weft_status load_tree(const struct xml_node *root, const struct topo_rules *rules,
                      struct topo_system **out, struct weft_error *error);

/* Names what the document is if it is no topology of NCCL's; NULL: it is one. */
const char *load_foreign(const struct xml_node *root);

/* stub.c: adds GPUs and ports to a document that has none, by default; others stay as they are. */
weft_status stub_complete(struct xml_node *root);

/* The value of the first entry whose text the text starts with. */
struct load_choice {
    const char *text; /* NULL: the last, for everything else */
    int value;
};
int load_choose(const struct load_choice *choices, const char *text);
extern const struct load_choice load_pci_classes[]; /* values are of enum topo_type */

/* Attributes, read as NCCL reads them: what is no number is 0. The first two complain of what is
 * missing, and return false. */
bool load_missing(struct loading *loading, const struct xml_node *node, const char *key);
bool load_need_int(struct loading *loading, const struct xml_node *node, const char *key,
                   int *out);
int load_get_int(const struct xml_node *node, const char *key, int otherwise);
/* "0000:99:00.0" is 0x99000: the hexadecimal digits, without what is between them. */
uint64_t load_bus_id(const char *text);

/* topo_add and topo_connect_both, complaining at `node` if there is no room. */
struct topo_node *load_add(struct loading *loading, const struct xml_node *node,
                           enum topo_type type, uint64_t id);
bool load_connect(struct loading *loading, const struct xml_node *node,
                  struct topo_node *a, struct topo_node *b, enum topo_link_type type,
                  float bw);
/* Hosts are numbered as they first appear. */
uint32_t load_system_of(struct loading *loading, const struct xml_node *cpu);

/* All links that are no tree: NVLink, C2C, between PCI switches. */
bool load_links(struct loading *loading, const struct xml_node *root);

#endif

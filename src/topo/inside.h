/* Inside topo/: what describe.c and inside.c share. */
#ifndef WEFT_TOPO_INSIDE_H
#define WEFT_TOPO_INSIDE_H

#include "topo/describe.h"
#include "topo/xml.h"

/* NCCL_TOPO_XML_MAX_NODES */
enum { DOCUMENT_NODES_MAX = 256 };

/* One rank's description while it is made. */
struct describing {
    const struct io_machine *machine;
    const struct topo_inside *inside;
    struct xml_node *document; /* Owned; of the machine, or NULL */
    struct xml_node *root;     /* Owned */
    struct xml_node **pcis;    /* Owned [n_pcis]: their elements, NULL: not there yet */
    struct xml_node **nets;    /* Owned [n_nets]: likewise */
    struct topo_net_ports *cards; /* Owned [n_cards]: what a NET is made of */
    uint32_t n_cards;
};

/* Finds what the document has of the machine's GPUs and ports. */
bool inside_adopt(struct describing *describing, struct weft_error *error);
/* The document's `local`th GPU by number, or NULL. */
struct xml_node *inside_adopted_gpu(struct describing *describing, uint32_t local);
/* The element of the `local`th GPU, made if need be; NULL: there are fewer. */
struct xml_node *inside_gpu(struct describing *describing, uint32_t local);
/* Every CPU that is not there yet. */
void inside_cpus(struct describing *describing);
/* Adds the ports, and those that NCCL makes of them. */
void inside_nets(struct describing *describing);

#endif

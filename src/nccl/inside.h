/* Shared by describe.c and inside.c. Private to nccl/. */
#ifndef WEFT_NCCL_INSIDE_H
#define WEFT_NCCL_INSIDE_H

#include "nccl/describe.h"
#include "nccl/xml.h"

/* NCCL_TOPO_XML_MAX_NODES */
enum { DOCUMENT_NODES_MAX = 256 };

/* State of one rank's description. */
struct describing {
    const struct io_machine *machine;
    const struct topo_inside *inside;
    struct xml_node *document; /* Owned; the machine's own document, or NULL */
    struct xml_node *root;     /* Owned */
    struct xml_node **pcis;    /* Owned [n_pcis]: element of each, NULL if not made yet */
    struct xml_node **nets;    /* Owned [n_nets]: element of each, NULL if not made yet */
    struct topo_net_ports *cards; /* Owned [n_cards]: ports of each NET */
    uint32_t n_cards;
};

/* Finds the machine's ports in the document. Returns false after a complaint. */
bool inside_adopt(struct describing *describing, struct weft_error *error);
/* Returns the document's `local`th GPU by number, or NULL. */
struct xml_node *inside_adopted_gpu(struct describing *describing, uint32_t local);
/* Returns the element of the `local`th GPU, made if needed; NULL if there are fewer. */
struct xml_node *inside_gpu(struct describing *describing, uint32_t local);
/* Creates the elements of all CPUs that have none yet. */
void inside_cpus(struct describing *describing);
/* Adds the ports, and the NETs that NCCL merges from them. */
void inside_nets(struct describing *describing);

#endif

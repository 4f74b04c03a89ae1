/* What the files of topo/ share. */
#ifndef WEFT_TOPO_PRIVATE_H
#define WEFT_TOPO_PRIVATE_H

#include "topo/topo.h"

#define TOPO_LOC_BW 5000.0f

static inline uint64_t topo_id(uint32_t system, uint64_t local)
{
    return ((uint64_t)system << 56) + topo_local_of(local);
}

/* The node, or NULL. */
struct topo_node *topo_find(const struct topo_system *system, enum topo_type type,
                            uint64_t id);
/* NULL if there are TOPO_NODES_MAX already. */
struct topo_node *topo_add(struct topo_system *system, enum topo_type type, uint64_t id);
/* Takes it out, with all links to it; paths are not kept true. */
void topo_remove(struct topo_system *system, struct topo_node *node);

/* One way. What is there already gets wider; links stay sorted, the widest first, of equals the
 * oldest. False if there are TOPO_LINKS_MAX already. */
bool topo_connect(struct topo_node *from, struct topo_node *to, enum topo_link_type type,
                  float bw);
/* Both ways. */
bool topo_connect_both(struct topo_node *a, struct topo_node *b, enum topo_link_type type,
                       float bw);

/* The first link back over the same kind, or NULL. */
struct topo_link *topo_reverse(const struct topo_node *from,
                               const struct topo_link *link);

/* After all nodes and links of the document: Broadcom's two-level switches become one, CPUs of
 * a host are connected, and links to where one came from in the PCI tree go last. Returns NULL,
 * or what is wrong. */
const char *topo_finish_links(struct topo_system *system);

/* Frees every path. */
void topo_forget_paths(struct topo_system *system);
/* Room for `n` hops, which lives until topo_forget_paths. */
struct topo_link **topo_hops(struct topo_system *system, uint32_t n);

#endif

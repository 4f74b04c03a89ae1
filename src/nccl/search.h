/* Changes a system's nodes, links and paths, and searches its paths. Private to nccl/. */
#ifndef WEFT_NCCL_SEARCH_H
#define WEFT_NCCL_SEARCH_H

#include "nccl/topo.h"

#define TOPO_LOC_BW 5000.0f

static inline uint64_t topo_id(uint32_t system, uint64_t local)
{
    return ((uint64_t)system << 56) + topo_local_of(local);
}

/* Returns the node, or NULL. */
struct topo_node *topo_find(const struct topo_system *system, enum topo_type type,
                            uint64_t id);
/* Returns NULL if there are TOPO_NODES_MAX already. */
struct topo_node *topo_add(struct topo_system *system, enum topo_type type, uint64_t id);
/* Removes a node and all links to it. Paths become invalid. */
void topo_remove(struct topo_system *system, struct topo_node *node);

/* Adds a link in one direction, or widens it if it exists. Links stay sorted, the widest first
 * and the oldest first among equals. Returns false if there are TOPO_LINKS_MAX already. */
bool topo_connect(struct topo_node *from, struct topo_node *to, enum topo_link_type type,
                  float bw);
/* Adds a link in both directions. */
bool topo_connect_both(struct topo_node *a, struct topo_node *b, enum topo_link_type type,
                       float bw);

/* Returns the first link of the same type in the opposite direction, or NULL. */
struct topo_link *topo_reverse(const struct topo_node *from,
                               const struct topo_link *link);

/* Call after all nodes and links of the document are added: merges Broadcom's two-level
 * switches, connects the CPUs of a host, and moves links upwards in the PCI tree to the end.
 * Returns NULL, or what is wrong. */
const char *topo_finish_links(struct topo_system *system);

/* Frees every path. */
void topo_forget_paths(struct topo_system *system);
/* Returns room for `n` hops, valid until topo_forget_paths. */
struct topo_link **topo_hops(struct topo_system *system, uint32_t n);

/* Sets the path of every node to `base`: among the shortest paths the widest, among these the
 * one found first. A longer path never replaces a shorter one, however wide. Fails with
 * WEFT_ERR_INPUT if a link has no reverse. */
weft_status topo_search_from(struct topo_system *system, struct topo_node *base,
                             bool nvb_disable, struct weft_error *error);

/* Returns the path, and makes the node's table first if needed (with all TOPO_DIS). */
struct topo_path *topo_own_path(struct topo_system *system, struct topo_node *from,
                                const struct topo_node *to);

#endif

/* The path search, and access to paths for changing them. Private to nccl/. */
#ifndef WEFT_NCCL_SEARCH_H
#define WEFT_NCCL_SEARCH_H

#include "nccl/private.h"

/* Sets the path of every node to `base`: among the shortest paths the widest, among these the
 * one found first. A longer path never replaces a shorter one, however wide. Fails with
 * WEFT_ERR_INPUT if a link has no reverse. */
weft_status topo_search_from(struct topo_system *system, struct topo_node *base,
                             bool nvb_disable, struct weft_error *error);

/* Returns the path, and makes the node's table first if needed (with all TOPO_DIS). */
struct topo_path *topo_own_path(struct topo_system *system, struct topo_node *from,
                                const struct topo_node *to);

#endif

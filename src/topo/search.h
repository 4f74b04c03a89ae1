/* Inside topo/: the search, and paths that may be changed. */
#ifndef WEFT_TOPO_SEARCH_H
#define WEFT_TOPO_SEARCH_H

#include "topo/private.h"

/* Sets the path of every node to `base`. Among the shortest ways the widest wins, among these
 * the one found first; a longer way never replaces a shorter, however wide. */
weft_status topo_search_from(struct topo_system *system, struct topo_node *base,
                             bool nvb_disable, struct weft_error *error);

/* The path, in a table that is made if need be (all TOPO_DIS). */
struct topo_path *topo_own_path(struct topo_system *system, struct topo_node *from,
                                const struct topo_node *to);

#endif

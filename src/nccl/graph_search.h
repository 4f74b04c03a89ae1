/* One search for channels of given bandwidths and types. Private to nccl/. */
#ifndef WEFT_NCCL_GRAPH_SEARCH_H
#define WEFT_NCCL_GRAPH_SEARCH_H

#include "nccl/graphs.h"

/* State of one search. Its step count is passed separately: steps left, or -1 after an optimal
 * solution. */
struct topo_graph_search {
    const struct topo_view *view;
    struct topo_system *system;
    struct topo_graph *now;        /* the graph being tried */
    struct topo_graph *best;       /* the best so far */
    uint64_t used[TOPO_NODES_MAX]; /* by GPU: bit set of the channels that use it */
    weft_status status;
    struct weft_error *error;
};

/* Adds channels to `now` and counts `*steps` down. */
void topo_graph_search_run(struct topo_graph_search *search, int *steps);

/* Returns true if the path from `from` to `to` (from NULL: no path needed) has the types and
 * bandwidth that the graph requires, and takes the bandwidth; `sign` -1 gives it back. */
bool topo_graph_go(struct topo_graph_search *search, struct topo_node *from,
                   struct topo_node *to, float sign);
/* Writes the GPUs that can follow `gpu`, in the order of trial. Returns how many. `sort_net`:
 * 1 puts those near the NET first, -1 if the NET follows later, 0 if there is none. */
int topo_graph_sort(const struct topo_graph_search *search, const struct topo_node *gpu,
                    int sort_net, int *next);

#endif

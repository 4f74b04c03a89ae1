/* Inside topo/: one search for channels of given bandwidths and types. */
#ifndef WEFT_TOPO_GRAPH_SEARCH_H
#define WEFT_TOPO_GRAPH_SEARCH_H

#include "topo/graphs.h"

/* Steps that are left; -1: a solution was found that cannot be bettered. */
struct topo_graph_search {
    const struct topo_view *view;
    struct topo_system *system;
    struct topo_graph *now;        /* what is being tried */
    struct topo_graph *best;       /* the best so far */
    uint64_t used[TOPO_NODES_MAX]; /* by GPU: channels that have it */
    weft_status status;
    struct weft_error *error;
};

/* Adds channels to `now`; `*steps` goes down. */
void topo_graph_search_run(struct topo_graph_search *search, int *steps);

/* True if one can go from `from` (NULL: from nowhere) to `to` at what the graph asks for;
 * `sign` -1 gives back what that took. */
bool topo_graph_go(struct topo_graph_search *search, struct topo_node *from,
                   struct topo_node *to, float sign);
/* The GPUs that may come after `gpu`, in the order of trial; returns how many. `sort_net`: 1:
 * those near the NET first; -1: the NET comes later; 0: there is none. */
int topo_graph_sort(const struct topo_graph_search *search, const struct topo_node *gpu,
                    int sort_net, int *next);

#endif

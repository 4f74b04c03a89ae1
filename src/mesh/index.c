#include "mesh/index.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"

void mesh_index_init(struct mesh_index *index, const struct mesh_graph *graph)
{
    uint32_t n = mesh_n_nodes(graph);
    *index = (struct mesh_index){
        .graph = graph,
        .n_nodes = n,
        .first = weft_calloc((size_t)n + 2, sizeof(size_t)),
        .out = weft_calloc(graph->n_edges + 1, sizeof(size_t)),
        .queue = weft_calloc((size_t)n + 1, sizeof(uint32_t)),
    };
    for (size_t e = 0; e < graph->n_edges; e++) {
        weft_check(graph->edges[e].from < n && graph->edges[e].to < n);
        index->first[graph->edges[e].from + 2]++;
    }
    for (uint32_t v = 0; v < n; v++) {
        index->first[v + 2] += index->first[v + 1];
    }
    /* first[v + 1] is the position of v's next edge; after the last it is where those of v + 1
     * begin. */
    for (size_t e = 0; e < graph->n_edges; e++) {
        index->out[index->first[graph->edges[e].from + 1]++] = e;
    }
}

void mesh_index_fini(struct mesh_index *index)
{
    free(index->first);
    free(index->out);
    free(index->queue);
}

/* Marks `node` and every switch that can be reached from it through switches alone as `hops`
 * away. Returns the new length of the queue. */
static uint32_t enqueue(const struct mesh_index *index, uint32_t node, uint32_t hops,
                        uint32_t n_queued, uint32_t *out)
{
    const struct mesh_graph *graph = index->graph;
    uint32_t at = n_queued;
    out[node] = hops;
    index->queue[n_queued++] = node;
    for (; at < n_queued; at++) {
        uint32_t v = index->queue[at];
        for (size_t i = index->first[v]; i < index->first[v + 1]; i++) {
            uint32_t to = graph->edges[index->out[i]].to;
            if (to >= graph->n_hosts && out[to] == UINT32_MAX) {
                out[to] = hops;
                index->queue[n_queued++] = to;
            }
        }
    }
    return n_queued;
}

void mesh_index_distances(const struct mesh_index *index, uint32_t from, uint32_t *out)
{
    weft_check(from < index->n_nodes);
    for (uint32_t v = 0; v < index->n_nodes; v++) {
        out[v] = UINT32_MAX;
    }
    uint32_t n_queued = enqueue(index, from, 0, 0, out);
    for (uint32_t at = 0; at < n_queued; at++) {
        uint32_t v = index->queue[at];
        for (size_t i = index->first[v]; i < index->first[v + 1]; i++) {
            uint32_t to = index->graph->edges[index->out[i]].to;
            if (out[to] == UINT32_MAX) {
                n_queued = enqueue(index, to, out[v] + 1, n_queued, out);
            }
        }
    }
}

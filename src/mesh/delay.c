#include "mesh/delay.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/heap.h"
#include "base/text.h"

#define SWEEPS 8

struct place {
    struct weft_heap_node node;
    weft_ps delay; /* INT64_MAX if not reached */
};

/* Runs Dijkstra's algorithm from `from`. Returns the index of the farthest rank that it
 * reaches, the first among equals. */
static uint32_t farthest(const struct mesh_index *index, struct place *places,
                         uint32_t from, const uint32_t *ranks, uint32_t n)
{
    struct weft_heap heap;
    weft_heap_init(&heap);
    for (uint32_t v = 0; v < index->n_nodes; v++) {
        places[v].node = (struct weft_heap_node)WEFT_HEAP_NODE_INIT;
        places[v].delay = INT64_MAX;
    }
    places[from].delay = 0;
    weft_heap_set(&heap, &places[from].node, 0);
    for (struct weft_heap_node *node; (node = weft_heap_peek(&heap)) != NULL;) {
        struct place *place = weft_container_of(node, struct place, node);
        uint32_t v = (uint32_t)(place - places);
        weft_heap_remove(&heap, node);
        for (size_t i = index->first[v]; i < index->first[v + 1]; i++) {
            const struct mesh_edge *edge = &index->graph->edges[index->out[i]];
            struct place *to = &places[edge->to];
            weft_ps delay = mesh_add_delays(place->delay, edge->delay_ps);
            if (delay < to->delay) {
                to->delay = delay;
                weft_heap_set(&heap, &to->node, to->delay);
            }
        }
    }
    weft_heap_fini(&heap);
    uint32_t best = 0;
    for (uint32_t i = 0; i < n; i++) {
        weft_ps delay = places[ranks[i]].delay;
        weft_ps most = places[ranks[best]].delay;
        best = delay != INT64_MAX && (most == INT64_MAX || delay > most) ? i : best;
    }
    return best;
}

weft_ps mesh_longest_delay(const struct mesh_index *index, const uint32_t *ranks,
                           uint32_t n)
{
    struct place *places = weft_calloc((size_t)index->n_nodes + 1, sizeof(*places));
    bool is_exact = n <= MESH_DELAY_EXACT_RANKS;
    weft_ps longest = 0;
    uint32_t from = 0;
    for (uint32_t i = 0; i < (is_exact ? n : SWEEPS); i++) {
        from = is_exact ? i : from;
        uint32_t far = farthest(index, places, ranks[from], ranks, n);
        weft_ps delay = places[ranks[far]].delay;
        longest = delay != INT64_MAX && delay > longest ? delay : longest;
        from = far;
    }
    free(places);
    return longest;
}

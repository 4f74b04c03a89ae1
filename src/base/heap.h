/* An intrusive 4-ary min-heap ordered by (key, sequence). Nodes with equal keys leave in the order
 * of insertion, so that iteration never depends on addresses. */
#ifndef WEFT_BASE_HEAP_H
#define WEFT_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_HEAP_OUT SIZE_MAX

/* Embedded in the queued object. Initialise it with WEFT_HEAP_NODE_INIT before first use. */
struct weft_heap_node {
    int64_t key;
    uint64_t sequence;
    size_t index; /* WEFT_HEAP_OUT while not in a heap */
};
#define WEFT_HEAP_NODE_INIT                                                              \
    {                                                                                    \
        .key = 0, .sequence = 0, .index = WEFT_HEAP_OUT                                  \
    }

struct weft_heap {
    /* Owned array [cap], n in use; the nodes are not owned */
    struct weft_heap_node **nodes;
    size_t n;
    size_t cap;
    uint64_t next_sequence;
};

void weft_heap_init(struct weft_heap *heap);
/* Frees the array and marks the nodes still in it as WEFT_HEAP_OUT. */
void weft_heap_fini(struct weft_heap *heap);
/* Inserts `node`, or moves it if it is in the heap, with a new sequence number. Aborts when out of
 * memory, which is acceptable because the array grows only with the number of live objects. */
void weft_heap_set(struct weft_heap *heap, struct weft_heap_node *node, int64_t key);
/* Inserts or moves `node` like weft_heap_set, but with `rank` as its sequence number: it precedes
 * all nodes with an equal key that have no rank, and those with a higher rank. */
void weft_heap_set_ranked(struct weft_heap *heap, struct weft_heap_node *node,
                          int64_t key, uint32_t rank);
/* Removes `node` if it is in the heap. */
void weft_heap_remove(struct weft_heap *heap, struct weft_heap_node *node);
/* Returns the least node without removing it, or NULL if the heap is empty. */
struct weft_heap_node *weft_heap_peek(const struct weft_heap *heap);

#endif

/* An intrusive 4-ary min-heap ordered by (key, sequence): equal keys leave in the
 * order in which they came, so that iteration never depends on addresses. */
#ifndef WEFT_BASE_HEAP_H
#define WEFT_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_HEAP_OUT SIZE_MAX

/* Embedded in what is queued. Zero it with WEFT_HEAP_NODE_INIT before first use. */
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
    struct weft_heap_node **nodes; /* Owned array of [n]; the nodes are not owned. */
    size_t n;
    size_t cap;
    uint64_t next_sequence;
};

void weft_heap_init(struct weft_heap *heap);
/* Frees the array; nodes still inside are forgotten. */
void weft_heap_fini(struct weft_heap *heap);
/* Inserts `node`, or moves it if it is inside, with a fresh sequence number. Aborts
 * when out of memory: the array grows with the number of live objects only. */
void weft_heap_set(struct weft_heap *heap, struct weft_heap_node *node, int64_t key);
/* The same, but among equal keys by `rank` and before all that have none, whenever it was
 * inserted. */
void weft_heap_set_ranked(struct weft_heap *heap, struct weft_heap_node *node,
                          int64_t key, uint32_t rank);
/* Takes `node` out if it is inside. */
void weft_heap_remove(struct weft_heap *heap, struct weft_heap_node *node);
/* The least node, still inside, or NULL. */
struct weft_heap_node *weft_heap_peek(const struct weft_heap *heap);

#endif

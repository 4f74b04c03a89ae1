#include "base/heap.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"

#define ARITY 4

/* First sequence number; ranks are smaller. */
#define FIRST_SEQUENCE (UINT64_C(1) << 32)

/* Free of branches, because simulated frames often have equal keys and a branch would be
 * mispredicted. */
static bool is_before(const struct weft_heap_node *a, const struct weft_heap_node *b)
{
    return (a->key < b->key) | ((a->key == b->key) & (a->sequence < b->sequence));
}

static void put(struct weft_heap *heap, struct weft_heap_node *node, size_t index)
{
    heap->nodes[index] = node;
    node->index = index;
}

static void sift_up(struct weft_heap *heap, struct weft_heap_node *node)
{
    size_t index = node->index;

    while (index > 0) {
        size_t parent = (index - 1) / ARITY;

        if (!is_before(node, heap->nodes[parent])) {
            break;
        }
        put(heap, heap->nodes[parent], index);
        index = parent;
    }
    put(heap, node, index);
}

static void sift_down(struct weft_heap *heap, struct weft_heap_node *node)
{
    size_t index = node->index;

    for (;;) {
        size_t first = index * ARITY + 1;
        size_t end = first + ARITY < heap->n ? first + ARITY : heap->n;
        size_t least = first;

        if (first >= heap->n) {
            break;
        }
        for (size_t child = first + 1; child < end; child++) {
            if (is_before(heap->nodes[child], heap->nodes[least])) {
                least = child;
            }
        }
        if (!is_before(heap->nodes[least], node)) {
            break;
        }
        put(heap, heap->nodes[least], index);
        index = least;
    }
    put(heap, node, index);
}

void weft_heap_init(struct weft_heap *heap)
{
    *heap = (struct weft_heap){.next_sequence = FIRST_SEQUENCE};
}

void weft_heap_fini(struct weft_heap *heap)
{
    for (size_t i = 0; i < heap->n; i++) {
        heap->nodes[i]->index = WEFT_HEAP_OUT;
    }
    free(heap->nodes);
    weft_heap_init(heap);
}

static void set(struct weft_heap *heap, struct weft_heap_node *node, int64_t key,
                uint64_t sequence)
{
    node->key = key;
    node->sequence = sequence;
    if (node->index == WEFT_HEAP_OUT) {
        if (heap->n == heap->cap) {
            heap->cap = heap->cap == 0 ? 16 : heap->cap * 2;
            heap->nodes = weft_realloc(heap->nodes, heap->cap * sizeof(heap->nodes[0]));
        }
        put(heap, node, heap->n++);
        sift_up(heap, node);
        return;
    }
    weft_check(node->index < heap->n && heap->nodes[node->index] == node);
    sift_up(heap, node);
    sift_down(heap, node);
}

void weft_heap_set(struct weft_heap *heap, struct weft_heap_node *node, int64_t key)
{
    set(heap, node, key, heap->next_sequence++);
}

void weft_heap_set_ranked(struct weft_heap *heap, struct weft_heap_node *node,
                          int64_t key, uint32_t rank)
{
    set(heap, node, key, rank);
}

void weft_heap_remove(struct weft_heap *heap, struct weft_heap_node *node)
{
    size_t index = node->index;
    struct weft_heap_node *last;

    if (index == WEFT_HEAP_OUT) {
        return;
    }
    weft_check(index < heap->n && heap->nodes[index] == node);
    last = heap->nodes[--heap->n];
    node->index = WEFT_HEAP_OUT;
    if (last != node) {
        put(heap, last, index);
        sift_up(heap, last);
        sift_down(heap, last);
    }
}

struct weft_heap_node *weft_heap_peek(const struct weft_heap *heap)
{
    return heap->n > 0 ? heap->nodes[0] : NULL;
}

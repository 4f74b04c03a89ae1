#include "backends/lab/frame_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

struct held_frame {
    struct weft_heap_node node;
    struct world_frame frame;
    uint8_t bytes[];
};

static struct held_frame *oldest(const struct frame_order *order)
{
    struct weft_heap_node *node = weft_heap_peek(&order->held);

    return node == NULL ? NULL : weft_container_of(node, struct held_frame, node);
}

void frame_order_init(struct frame_order *order)
{
    *order = (struct frame_order){0};
    weft_heap_init(&order->held);
}

void frame_order_fini(struct frame_order *order)
{
    while (oldest(order) != NULL) {
        frame_order_drop(order);
    }
    weft_heap_fini(&order->held);
}

void frame_order_put(struct frame_order *order, const struct world_frame *frame)
{
    struct held_frame *held = weft_alloc(sizeof(*held) + frame->n_bytes);

    *held = (struct held_frame){.node = WEFT_HEAP_NODE_INIT, .frame = *frame};
    memcpy(held->bytes, frame->bytes, frame->n_bytes);
    held->frame.bytes = held->bytes;
    if (frame->is_outgoing) {
        weft_heap_set_ranked(&order->held, &held->node, frame->at_ns, order->n_left++);
    } else {
        weft_heap_set(&order->held, &held->node, frame->at_ns);
    }
}

const struct world_frame *frame_order_oldest(const struct frame_order *order,
                                             weft_ns until)
{
    const struct held_frame *held = oldest(order);

    return held == NULL || held->frame.at_ns > until ? NULL : &held->frame;
}

void frame_order_drop(struct frame_order *order)
{
    struct held_frame *held = oldest(order);

    weft_heap_remove(&order->held, &held->node);
    free(held);
}

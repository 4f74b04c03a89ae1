/* Frames of several interfaces in the order of their stamps. A packet(7) socket does not keep
 * it: what arrives is stamped by the processor that sent it, and may be queued only after the
 * answer of somebody on another processor who heard of it first. */
#ifndef WEFT_BACKENDS_LAB_FRAME_ORDER_H
#define WEFT_BACKENDS_LAB_FRAME_ORDER_H

#include "base/heap.h"
#include "io/world.h"

struct frame_order {
    struct weft_heap held;
    uint32_t n_left; /* that were put so far and leave their port */
};

void frame_order_init(struct frame_order *order);
/* Forgets what is still held. */
void frame_order_fini(struct frame_order *order);
/* Keeps a copy of the frame and of its bytes; the comment must be static. */
void frame_order_put(struct frame_order *order, const struct world_frame *frame);
/* The oldest frame, if it is stamped `until` or before; NULL: none. Of two of the same
 * nanosecond the one that leaves its port is first, then the one that was put first. Lives
 * until frame_order_drop. */
const struct world_frame *frame_order_oldest(const struct frame_order *order,
                                             weft_ns until);
/* The oldest goes. */
void frame_order_drop(struct frame_order *order);

#endif

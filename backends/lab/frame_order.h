/* Sorts frames captured on several interfaces by timestamp. A packet(7) socket does not, because
 * the CPU that sends a frame stamps it and can queue it after the reply that another CPU has
 * already sent. */
#ifndef WEFT_BACKENDS_LAB_FRAME_ORDER_H
#define WEFT_BACKENDS_LAB_FRAME_ORDER_H

#include "base/heap.h"
#include "io/world.h"

struct frame_order {
    struct weft_heap held;
    uint32_t n_left; /* outgoing frames put so far */
};

void frame_order_init(struct frame_order *order);
/* Drops the frames that are still held. */
void frame_order_fini(struct frame_order *order);
/* Adds a copy of the frame and its bytes. The comment is not copied and must be static. */
void frame_order_put(struct frame_order *order, const struct world_frame *frame);
/* Returns the oldest frame if its stamp is at most `until`, else NULL. Among frames of the same
 * nanosecond, outgoing ones come first, then the order of frame_order_put() applies. The frame is
 * valid until frame_order_drop(). */
const struct world_frame *frame_order_oldest(const struct frame_order *order,
                                             weft_ns until);
/* Removes the oldest frame. There must be one. */
void frame_order_drop(struct frame_order *order);

#endif

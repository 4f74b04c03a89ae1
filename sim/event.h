/* What happens at some time; the engine (sim/engine.h) lets it. */
#ifndef WEFT_SIM_EVENT_H
#define WEFT_SIM_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/status.h"

/* Where an event waits: in the line or, by its time, in a slot of the wheel; or in the heap.
 * sim/pending.h. */
enum sim_event_place { SIM_EVENT_IDLE, SIM_EVENT_SOON, SIM_EVENT_FAR };

/* Among events of one time those without a rank come last, in the order of scheduling. */
#define SIM_NO_RANK UINT32_MAX

/* Embedded in what happens. `fire` runs once, at its time, with the event out of the
 * queue; it may schedule itself again. */
struct sim_event {
    struct weft_heap_node
        node; /* where it is far only: those around keep it out of the way */
    weft_ps at;
    enum sim_event_place place;
    uint32_t rank; /* SIM_NO_RANK: none */
    void (*fire)(struct sim_event *event);
};

static inline void sim_event_init(struct sim_event *event,
                                  void (*fire)(struct sim_event *event))
{
    *event = (struct sim_event){
        .node = WEFT_HEAP_NODE_INIT, .rank = SIM_NO_RANK, .fire = fire};
}

static inline bool sim_is_scheduled(const struct sim_event *event)
{
    return event->place != SIM_EVENT_IDLE;
}

#endif

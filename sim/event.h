/* An event that the engine (sim/engine.h) runs at its time. */
#ifndef WEFT_SIM_EVENT_H
#define WEFT_SIM_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/status.h"

/* The queue that holds an event (sim/pending.h). */
enum sim_event_place { SIM_EVENT_IDLE, SIM_EVENT_SOON, SIM_EVENT_FAR };

/* Rank of events without one. Of the events of one time they come last, in the order of
 * scheduling. */
#define SIM_NO_RANK UINT32_MAX

/* Embedded in the struct that the event is about. `fire` runs once, at the event's time,
 * after the event has left the queue; it may schedule the event again. */
struct sim_event {
    struct weft_heap_node node; /* used only while far */
    weft_ps at;
    enum sim_event_place place;
    uint32_t rank; /* SIM_NO_RANK if none */
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

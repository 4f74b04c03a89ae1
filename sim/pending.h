/* The set of pending events, in total order (time, rank or order of scheduling): a heap while few
 * are pending, a timing wheel when many are. Ties make heaps slow and thousands of busy
 * cables tie often; two or three cables are faster in a heap. Both give the same order.
 */
#ifndef WEFT_SIM_PENDING_H
#define WEFT_SIM_PENDING_H

#include "sim/engine.h"

struct sim_slot {
    struct sim_event *first, *last; /* Not owned; in the order of scheduling */
};

/* Events of the current slot (and all of them while there is no wheel) are in `near`;
 * events of the next slots in lists; later ones in `far`. */
struct sim_pending {
    struct weft_heap near;
    struct weft_heap far;
    struct sim_slot *slots; /* Owned [SIM_WHEEL_SLOTS]; NULL: no wheel yet */
    uint64_t *has_events;   /* Owned bitmap of slots */
    weft_ps current;        /* number of the current slot: time >> SIM_WHEEL_SHIFT */
    weft_ps taken_at;       /* time of the last event taken */
    size_t n_slotted;
};

/* 2 ns a slot, 67 us in all: beyond the delay of any cable, below most timers. */
#define SIM_WHEEL_SHIFT 11
#define SIM_WHEEL_SLOTS (1 << 15)
/* The wheel is made when more events than this are pending. */
#define SIM_WHEEL_FROM 64

void sim_pending_init(struct sim_pending *pending);
/* Forgets what is pending. */
void sim_pending_fini(struct sim_pending *pending);
/* Queues `event` at `at`, or moves it: by its rank or, without one, behind what is already
 * queued for that time. `at` is not before the last event taken. Aborts when out of memory. */
void sim_pending_set(struct sim_pending *pending, struct sim_event *event, weft_ps at);
void sim_pending_remove(struct sim_pending *pending, struct sim_event *event);
/* The next event, still inside, or NULL. */
struct sim_event *sim_pending_peek(struct sim_pending *pending);
/* Takes the next event, which sim_pending_peek just gave, out. */
void sim_pending_take(struct sim_pending *pending, struct sim_event *event);

#endif

/* The set of pending events, in total order (time, rank or order of scheduling). A sorted
 * line holds them while few are pending; when many are, the line holds the current slot
 * of a timing wheel. Many busy cables have many events at one time, which costs a heap
 * most and a line nothing. Both give the same order. */
#ifndef WEFT_SIM_PENDING_H
#define WEFT_SIM_PENDING_H

#include "sim/event.h"
#include "sim/line.h"

/* `near` holds the events of the current slot (without a wheel, all but timers). Blocks
 * hold the events of the following slots in the order of scheduling; the next block
 * becomes the line when its slot becomes current. `far` holds later events. */
struct sim_pending {
    struct sim_line near;
    struct weft_heap far;
    weft_ps far_at; /* time of the first event in `far`; INT64_MAX if none */
    /* Owned [SIM_WHEEL_SLOTS], with the blocks; an entry is NULL if the slot has no
     * events. NULL while there is no wheel. */
    struct sim_line_block **slots;
    struct sim_line_block *unused; /* Owned list, the last used first */
    uint64_t *has_events;          /* Owned bitmap of slots that have events */
    weft_ps current;  /* number of the current slot: time >> SIM_WHEEL_SHIFT */
    weft_ps taken_at; /* time of the last event taken */
    size_t n_slotted;
};

/* 4 ns per slot, 67 us in total: longer than the delay of any cable, shorter than most
 * timers. */
#define SIM_WHEEL_SHIFT 12
#define SIM_WHEEL_SLOTS (1 << 14)
#define SIM_SLOT_INDEX(at) ((size_t)((at) >> SIM_WHEEL_SHIFT) & (SIM_WHEEL_SLOTS - 1))
#define SIM_HORIZON_PS ((weft_ps)SIM_WHEEL_SLOTS << SIM_WHEEL_SHIFT)
/* The wheel is created when more events than this are pending. */
#define SIM_WHEEL_FROM 64

void sim_pending_init(struct sim_pending *pending);
/* Drops all pending events. */
void sim_pending_fini(struct sim_pending *pending);
/* Does the work of sim_pending_set() in all cases. */
void sim_pending_set_any(struct sim_pending *pending, struct sim_event *event,
                         weft_ps at);

/* Queues an idle event in the cheap cases. Returns false otherwise, without effect. */
static inline bool sim_pending_set_idle(struct sim_pending *pending,
                                        struct sim_event *event, weft_ps at)
{
    struct sim_line *near = &pending->near;

    if (pending->slots != NULL && at >> SIM_WHEEL_SHIFT > pending->current) {
        struct sim_line_block *block = pending->slots[SIM_SLOT_INDEX(at)];

        if ((at >> SIM_WHEEL_SHIFT) - pending->current >= SIM_WHEEL_SLOTS ||
            block == NULL || block->n == block->cap) {
            return false;
        }
        sim_line_append(block, event, at);
        pending->n_slotted++;
    } else if (sim_line_takes_first(near, at, event->rank)) {
        sim_line_add_first(near, event, at);
    } else if (pending->slots != NULL) {
        if (!sim_line_takes_last(near, at, event->rank)) {
            return false;
        }
        sim_line_add_last(near, event, at);
    } else {
        if (at - pending->taken_at >= SIM_HORIZON_PS || !sim_line_is_short(near)) {
            return false;
        }
        sim_line_add_short(near, event, at);
    }
    return true;
}

/* Queues `event` at `at`, or moves it there: by its rank, or without a rank behind all
 * events queued for that time. `at` must not be before the last event taken. Aborts when
 * out of memory. */
static inline void sim_pending_set(struct sim_pending *pending, struct sim_event *event,
                                   weft_ps at)
{
    if (event->place != SIM_EVENT_IDLE || !sim_pending_set_idle(pending, event, at)) {
        sim_pending_set_any(pending, event, at);
        return;
    }
    event->at = at;
    event->place = SIM_EVENT_SOON;
}

void sim_pending_remove(struct sim_pending *pending, struct sim_event *event);
/* Does the work of sim_pending_peek() if the first event of the line might not be the
 * next. */
struct sim_event *sim_pending_look(struct sim_pending *pending);
void sim_pending_take_far(struct sim_pending *pending, struct sim_event *event);

/* Returns the next event without removing it, or NULL. */
static inline struct sim_event *sim_pending_peek(struct sim_pending *pending)
{
    const struct sim_line_entry *first = sim_line_first(&pending->near);

    return first != NULL && first->at < pending->far_at ? first->event
                                                        : sim_pending_look(pending);
}

/* Removes the next event, which sim_pending_peek() has just returned. */
static inline void sim_pending_take(struct sim_pending *pending, struct sim_event *event)
{
    pending->taken_at = event->at;
    if (event->place == SIM_EVENT_SOON) {
        sim_line_drop_first(&pending->near);
        event->place = SIM_EVENT_IDLE;
    } else {
        sim_pending_take_far(pending, event);
    }
}

/* Returns true if (at, order) comes before all pending events. `at` must be the time of
 * the last event taken; events pending for that time are in the line, or far. */
static inline bool sim_pending_is_before_all(const struct sim_pending *pending,
                                             weft_ps at, uint32_t order)
{
    const struct sim_line_entry *first = sim_line_first(&pending->near);

    return at < pending->far_at &&
           (first == NULL || sim_line_is_before(at, order, first));
}

/* Removes the next event if it is the first of the line and at or before `until`. Returns
 * false otherwise; the next event may then be elsewhere. */
static inline bool sim_pending_take_near(struct sim_pending *pending, weft_ps until,
                                         struct sim_line_entry *out)
{
    const struct sim_line_entry *first = sim_line_first(&pending->near);

    if (first == NULL || first->at >= pending->far_at || first->at > until) {
        return false;
    }
    *out = *first;
    pending->taken_at = first->at;
    sim_line_drop_first(&pending->near);
    out->event->place = SIM_EVENT_IDLE;
    return true;
}

#endif

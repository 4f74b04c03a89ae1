#include "sim/pending.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"

#define SLOT_MASK (SIM_WHEEL_SLOTS - 1)

void sim_pending_init(struct sim_pending *pending)
{
    *pending = (struct sim_pending){.slots = NULL};
    weft_heap_init(&pending->near);
    weft_heap_init(&pending->far);
}

void sim_pending_fini(struct sim_pending *pending)
{
    weft_heap_fini(&pending->near);
    weft_heap_fini(&pending->far);
    free(pending->slots);
    free(pending->has_events);
    pending->slots = NULL;
    pending->has_events = NULL;
}

static struct sim_event *event_of(struct weft_heap_node *node)
{
    return weft_container_of(node, struct sim_event, node);
}

static weft_ps slot_of(weft_ps at)
{
    return at >> SIM_WHEEL_SHIFT;
}

static void append(struct sim_pending *pending, struct sim_event *event)
{
    size_t index = (size_t)slot_of(event->node.key) & SLOT_MASK;
    struct sim_slot *slot = &pending->slots[index];

    event->next = NULL;
    event->previous = slot->last;
    event->place = SIM_EVENT_IN_SLOT;
    if (slot->last == NULL) {
        slot->first = event;
        pending->has_events[index / 64] |= UINT64_C(1) << index % 64;
    } else {
        slot->last->next = event;
    }
    slot->last = event;
    pending->n_slotted++;
}

static void unlink_from_slot(struct sim_pending *pending, struct sim_event *event)
{
    size_t index = (size_t)slot_of(event->node.key) & SLOT_MASK;
    struct sim_slot *slot = &pending->slots[index];

    if (event->previous == NULL) {
        slot->first = event->next;
    } else {
        event->previous->next = event->next;
    }
    if (event->next == NULL) {
        slot->last = event->previous;
    } else {
        event->next->previous = event->previous;
    }
    if (slot->first == NULL) {
        pending->has_events[index / 64] &= ~(UINT64_C(1) << index % 64);
    }
    pending->n_slotted--;
}

static void put_in_heap(struct weft_heap *heap, struct sim_event *event, weft_ps at)
{
    if (event->rank != 0) {
        weft_heap_set_ranked(heap, &event->node, at, event->rank);
    } else {
        weft_heap_set(heap, &event->node, at);
    }
}

static void put_near(struct sim_pending *pending, struct sim_event *event, weft_ps at)
{
    put_in_heap(&pending->near, event, at);
    event->place = SIM_EVENT_NEAR;
}

/* Where an event that is in no place belongs. */
static void put(struct sim_pending *pending, struct sim_event *event, weft_ps at)
{
    weft_ps ahead = slot_of(at) - pending->current;

    if (pending->slots == NULL || ahead <= 0) {
        put_near(pending, event, at);
    } else if (ahead < SIM_WHEEL_SLOTS) {
        event->node.key = at;
        append(pending, event);
    } else {
        put_in_heap(&pending->far, event, at);
        event->place = SIM_EVENT_FAR;
    }
}

/* Far events that the horizon has reached move to their slots at once, before anything
 * newer can be scheduled there: that keeps the order of scheduling among equals. */
static void take_from_far(struct sim_pending *pending)
{
    struct weft_heap_node *node;

    while ((node = weft_heap_peek(&pending->far)) != NULL &&
           slot_of(node->key) - pending->current < SIM_WHEEL_SLOTS) {
        weft_heap_remove(&pending->far, node);
        put(pending, event_of(node), node->key);
    }
}

/* Slots from the current one to the next that has events; there is one. */
static weft_ps distance_to_next(const struct sim_pending *pending)
{
    size_t from = (size_t)(pending->current + 1) & SLOT_MASK;
    size_t word = from / 64;
    uint64_t bits = pending->has_events[word] & (UINT64_MAX << from % 64);
    size_t found;

    while (bits == 0) {
        word = (word + 1) % (SIM_WHEEL_SLOTS / 64);
        bits = pending->has_events[word];
    }
    found = word * 64 + (size_t)__builtin_ctzll(bits);
    return 1 + (weft_ps)((found - from) & SLOT_MASK);
}

/* Makes the next slot current when the near events are used up. Far events alone do not
 * move the current slot before they are taken: what is scheduled meanwhile is nearer. */
static void advance(struct sim_pending *pending)
{
    struct sim_event *event;

    if (pending->near.n > 0 || pending->n_slotted == 0) {
        return;
    }
    pending->current += distance_to_next(pending);
    event = pending->slots[(size_t)pending->current & SLOT_MASK].first;
    while (event != NULL) {
        struct sim_event *next = event->next;

        unlink_from_slot(pending, event);
        put_near(pending, event, event->node.key);
        event = next;
    }
    take_from_far(pending);
}

static void make_wheel(struct sim_pending *pending)
{
    struct weft_heap all = pending->near;
    struct weft_heap_node *node = weft_heap_peek(&all);

    pending->slots = weft_calloc(SIM_WHEEL_SLOTS, sizeof(struct sim_slot));
    pending->has_events = weft_calloc(SIM_WHEEL_SLOTS / 64, sizeof(uint64_t));
    pending->current = slot_of(pending->taken_at);
    weft_heap_init(&pending->near);
    for (; node != NULL; node = weft_heap_peek(&all)) {
        weft_heap_remove(&all, node);
        put(pending, event_of(node), node->key);
    }
    weft_heap_fini(&all);
}

static void take_out(struct sim_pending *pending, struct sim_event *event)
{
    switch (event->place) {
    case SIM_EVENT_NEAR:
        weft_heap_remove(&pending->near, &event->node);
        break;
    case SIM_EVENT_FAR:
        weft_heap_remove(&pending->far, &event->node);
        break;
    case SIM_EVENT_IN_SLOT:
        unlink_from_slot(pending, event);
        break;
    case SIM_EVENT_IDLE:
        break;
    }
    event->place = SIM_EVENT_IDLE;
}

void sim_pending_set(struct sim_pending *pending, struct sim_event *event, weft_ps at)
{
    if (pending->slots == NULL) {
        put_near(pending, event, at);
        if (pending->near.n > SIM_WHEEL_FROM) {
            make_wheel(pending);
        }
        return;
    }
    take_out(pending, event);
    put(pending, event, at);
}

void sim_pending_remove(struct sim_pending *pending, struct sim_event *event)
{
    take_out(pending, event);
}

struct sim_event *sim_pending_peek(struct sim_pending *pending)
{
    struct weft_heap_node *node;

    advance(pending);
    node = weft_heap_peek(pending->near.n > 0 ? &pending->near : &pending->far);
    return node == NULL ? NULL : event_of(node);
}

void sim_pending_take(struct sim_pending *pending, struct sim_event *event)
{
    pending->taken_at = event->node.key;
    if (event->place == SIM_EVENT_FAR) {
        pending->current = slot_of(event->node.key);
        take_out(pending, event);
        take_from_far(pending);
    } else {
        take_out(pending, event);
    }
}

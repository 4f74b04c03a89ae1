#include "sim/pending.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum { SLOT_CAP_MIN = 64 };

#define SLOT_MASK (SIM_WHEEL_SLOTS - 1)

void sim_pending_init(struct sim_pending *pending)
{
    *pending = (struct sim_pending){.far_at = INT64_MAX};
    weft_heap_init(&pending->far);
}

static void forget_slot(struct sim_pending *pending, size_t index)
{
    pending->slots[index] = NULL;
    pending->has_events[index / 64] &= ~(UINT64_C(1) << index % 64);
}

static void leave_block(struct sim_pending *pending, struct sim_line_block *block)
{
    block->next = pending->unused;
    pending->unused = block;
}

void sim_pending_fini(struct sim_pending *pending)
{
    for (size_t i = 0; pending->n_slotted > 0; i++) {
        struct sim_line_block *block = pending->slots[i];

        if (block != NULL) {
            pending->n_slotted -= block->n;
            forget_slot(pending, i);
            leave_block(pending, block);
        }
    }
    while (pending->unused != NULL) {
        struct sim_line_block *block = pending->unused;

        pending->unused = block->next;
        free(block);
    }
    sim_line_fini(&pending->near);
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

static struct sim_line_block *take_block(struct sim_pending *pending)
{
    struct sim_line_block *block = pending->unused;

    if (block == NULL) {
        return sim_line_block_grow(NULL, SLOT_CAP_MIN);
    }
    pending->unused = block->next;
    return block;
}

static void append(struct sim_pending *pending, struct sim_event *event)
{
    size_t index = SIM_SLOT_INDEX(event->at);
    struct sim_line_block *block = pending->slots[index];

    if (block == NULL) {
        block = take_block(pending);
        sim_line_begin(block, event, event->at);
        pending->has_events[index / 64] |= UINT64_C(1) << index % 64;
    } else {
        if (block->n == block->cap) {
            block = sim_line_block_grow(block, 2 * block->cap);
        }
        sim_line_append(block, event, event->at);
    }
    pending->slots[index] = block;
    event->place = SIM_EVENT_SOON;
    pending->n_slotted++;
}

static void remove_from_slot(struct sim_pending *pending, const struct sim_event *event)
{
    size_t index = SIM_SLOT_INDEX(event->at);
    struct sim_line_block *block = pending->slots[index];
    uint32_t i = 0;

    while (block->entries[i].event != event) {
        i++;
        weft_check(i < block->n);
    }
    block->n--;
    block->n_sorted -= i < block->n_sorted;
    memmove(&block->entries[i], &block->entries[i + 1],
            (block->n - i) * sizeof(block->entries[0]));
    if (block->n == 0) {
        forget_slot(pending, index);
        leave_block(pending, block);
    }
    pending->n_slotted--;
}

static void put_near(struct sim_pending *pending, struct sim_event *event)
{
    sim_line_add(&pending->near, event, event->at);
    event->place = SIM_EVENT_SOON;
}

static void note_first_far(struct sim_pending *pending)
{
    const struct weft_heap_node *first = weft_heap_peek(&pending->far);

    pending->far_at = first == NULL ? INT64_MAX : first->key;
}

static void put_far(struct sim_pending *pending, struct sim_event *event)
{
    if (event->rank != SIM_NO_RANK) {
        weft_heap_set_ranked(&pending->far, &event->node, event->at, event->rank);
    } else {
        weft_heap_set(&pending->far, &event->node, event->at);
    }
    event->place = SIM_EVENT_FAR;
    note_first_far(pending);
}

/* Queues an event that is in no queue. */
static void put(struct sim_pending *pending, struct sim_event *event, weft_ps at)
{
    weft_ps ahead = slot_of(at) - pending->current;

    event->at = at;
    if (ahead <= 0) {
        put_near(pending, event);
    } else if (ahead < SIM_WHEEL_SLOTS) {
        append(pending, event);
    } else {
        put_far(pending, event);
    }
}

/* Moves far events within the horizon to their slots at once, before newer events can be
 * scheduled there, so that equal events keep the order of scheduling. */
static void take_from_far(struct sim_pending *pending)
{
    while (pending->far.n > 0 &&
           slot_of(pending->far_at) - pending->current < SIM_WHEEL_SLOTS) {
        struct weft_heap_node *node = weft_heap_peek(&pending->far);

        weft_heap_remove(&pending->far, node);
        note_first_far(pending);
        put(pending, event_of(node), node->key);
    }
}

/* Returns the number of slots from the current one to the next that has events. There
 * must be one. */
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

/* Makes the next slot with events current. There must be one. A far event does not change
 * the current slot before it is taken, because events that are scheduled meanwhile are
 * nearer. */
static void advance(struct sim_pending *pending)
{
    pending->current += distance_to_next(pending);
    size_t index = (size_t)pending->current & SLOT_MASK;
    struct sim_line_block *block = pending->slots[index];

    forget_slot(pending, index);
    pending->n_slotted -= block->n;
    block = sim_line_take_block(&pending->near, block);
    if (block != NULL) {
        leave_block(pending, block);
    }
    take_from_far(pending);
}

static void make_wheel(struct sim_pending *pending)
{
    struct sim_line all = pending->near;

    pending->slots = weft_calloc(SIM_WHEEL_SLOTS, sizeof(struct sim_line_block *));
    pending->has_events = weft_calloc(SIM_WHEEL_SLOTS / 64, sizeof(uint64_t));
    pending->current = slot_of(pending->taken_at);
    pending->near = (struct sim_line){.block = NULL};
    take_from_far(pending); /* they were scheduled before equal events that are nearer */
    for (; sim_line_size(&all) > 0; sim_line_drop_first(&all)) {
        const struct sim_line_entry *first = sim_line_first(&all);

        put(pending, first->event, first->at);
    }
    sim_line_fini(&all);
}

static void take_out(struct sim_pending *pending, struct sim_event *event)
{
    switch (event->place) {
    case SIM_EVENT_SOON:
        if (pending->slots != NULL && slot_of(event->at) > pending->current) {
            remove_from_slot(pending, event);
        } else {
            sim_line_remove(&pending->near, event);
        }
        break;
    case SIM_EVENT_FAR:
        weft_heap_remove(&pending->far, &event->node);
        note_first_far(pending);
        break;
    case SIM_EVENT_IDLE:
        break;
    }
    event->place = SIM_EVENT_IDLE;
}

void sim_pending_set_any(struct sim_pending *pending, struct sim_event *event, weft_ps at)
{
    if (event->place != SIM_EVENT_IDLE) {
        take_out(pending, event);
    }
    if (pending->slots != NULL) {
        put(pending, event, at);
        return;
    }
    event->at = at;
    if (at - pending->taken_at >= SIM_HORIZON_PS) {
        put_far(pending, event); /* keeps timers out of the line */
        return;
    }
    put_near(pending, event);
    if (sim_line_size(&pending->near) > SIM_WHEEL_FROM) {
        make_wheel(pending);
    }
}

void sim_pending_remove(struct sim_pending *pending, struct sim_event *event)
{
    take_out(pending, event);
}

/* Returns true if the first far event comes before `near`. Of two events without a rank
 * the far one was scheduled first. */
static bool is_far_first(const struct sim_pending *pending,
                         const struct sim_line_entry *near)
{
    if (pending->far_at != near->at) {
        return pending->far_at < near->at;
    }
    const struct sim_event *far = event_of(weft_heap_peek(&pending->far));
    struct sim_line_entry first = {.at = pending->far_at, .order = far->rank};
    return !sim_line_is_before(near->at, near->order, &first);
}

struct sim_event *sim_pending_look(struct sim_pending *pending)
{
    const struct sim_line_entry *near = sim_line_first(&pending->near);

    if (near == NULL && pending->n_slotted > 0) {
        advance(pending);
        near = sim_line_first(&pending->near);
    }
    if (near != NULL && !is_far_first(pending, near)) {
        return near->event;
    }
    return pending->far.n == 0 ? NULL : event_of(weft_heap_peek(&pending->far));
}

void sim_pending_take_far(struct sim_pending *pending, struct sim_event *event)
{
    take_out(pending, event);
    if (pending->slots != NULL) {
        pending->current = slot_of(pending->taken_at);
        take_from_far(pending);
    }
}

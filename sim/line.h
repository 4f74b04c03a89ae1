/* Events in order, used from both ends: a sorted array whose first is taken again and again,
 * and where what is new belongs near one of the ends. */
#ifndef WEFT_SIM_LINE_H
#define WEFT_SIM_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/event.h"

/* So many entries are looked at one by one. */
#define SIM_LINE_SHORT 16

struct sim_line_entry {
    weft_ps at;
    uint32_t order; /* the event's rank */
    struct sim_event *event;
};

/* Room for entries, and those of a slot of the wheel (sim/pending.h) until it becomes the line. */
struct sim_line_block {
    struct sim_line_block *next; /* of those that nobody uses */
    uint32_t n, cap;
    uint32_t n_sorted; /* so many from the first on are in order */
    struct sim_line_entry entries[];
};

struct sim_line {
    struct sim_line_entry *head, *end; /* those in use, in `block` */
    struct sim_line_entry *limit;      /* the end of its room */
    struct sim_line_block *block;      /* Owned; or NULL */
    struct sim_line_block *merged;     /* Owned; or NULL: for sorting */
};

/* `block` with room for `cap` entries, or a new one if it is NULL. Aborts when out of memory. */
struct sim_line_block *sim_line_block_grow(struct sim_line_block *block, uint32_t cap);

static inline bool sim_line_is_before(weft_ps at, uint32_t order,
                                      const struct sim_line_entry *entry)
{
    return at < entry->at || (at == entry->at && order < entry->order);
}

/* The first entry, or NULL. */
static inline const struct sim_line_entry *sim_line_first(const struct sim_line *line)
{
    return line->head == line->end ? NULL : line->head;
}

/* Of a line that has one. */
static inline void sim_line_drop_first(struct sim_line *line)
{
    line->head++;
}

static inline size_t sim_line_size(const struct sim_line *line)
{
    return (size_t)(line->end - line->head);
}

static inline struct sim_line_entry sim_line_entry_of(struct sim_event *event, weft_ps at)
{
    return (struct sim_line_entry){
        .at = at,
        .order = event->rank,
        .event = event,
    };
}

/* Few enough entries that a new one finds its place by looking at them, and room for it. */
static inline bool sim_line_is_short(const struct sim_line *line)
{
    return line->end - line->head <= SIM_LINE_SHORT && line->end < line->limit;
}

/* True if there is room before the first entry, which comes after (at, order). */
static inline bool sim_line_takes_first(const struct sim_line *line, weft_ps at,
                                        uint32_t order)
{
    return line->head != line->end && line->head != line->block->entries &&
           sim_line_is_before(at, order, line->head);
}

/* Adds `event` before all others: sim_line_takes_first was true. */
static inline void sim_line_add_first(struct sim_line *line, struct sim_event *event,
                                      weft_ps at)
{
    line->head--;
    *line->head = sim_line_entry_of(event, at);
}

/* Adds `event` behind all that are not after it. Aborts when out of memory. */
void sim_line_add(struct sim_line *line, struct sim_event *event, weft_ps at);
/* The same to a short line, where `event` is not the first. */
static inline void sim_line_add_short(struct sim_line *line, struct sim_event *event,
                                      weft_ps at)
{
    struct sim_line_entry entry = sim_line_entry_of(event, at);
    struct sim_line_entry *hole = line->end;

    for (; hole > line->head && sim_line_is_before(at, entry.order, hole - 1); hole--) {
        *hole = hole[-1];
    }
    *hole = entry;
    line->end++;
}

/* True if there is room behind the last entry, which does not come after (at, order). */
static inline bool sim_line_takes_last(const struct sim_line *line, weft_ps at,
                                       uint32_t order)
{
    return line->end != line->limit && line->head != line->end &&
           !sim_line_is_before(at, order, line->end - 1);
}

/* Adds `event` behind all others: sim_line_takes_last was true. */
static inline void sim_line_add_last(struct sim_line *line, struct sim_event *event,
                                     weft_ps at)
{
    *line->end++ = sim_line_entry_of(event, at);
}

/* `event` is the only one in `block`. */
static inline void sim_line_begin(struct sim_line_block *block, struct sim_event *event,
                                  weft_ps at)
{
    block->entries[0] = sim_line_entry_of(event, at);
    block->n = 1;
    block->n_sorted = 1;
}

/* Adds `event`, wherever it belongs, to a block that has entries, and room. */
static inline void sim_line_append(struct sim_line_block *block, struct sim_event *event,
                                   weft_ps at)
{
    struct sim_line_entry *last = &block->entries[block->n - 1];

    if (block->n_sorted == block->n && !sim_line_is_before(at, event->rank, last)) {
        block->n_sorted++;
    }
    last[1] = sim_line_entry_of(event, at);
    block->n++;
}

/* The entries of `block`, put in order, become those of a line that has none; equals stay in
 * the order of appending. Returns the block that the line had, or NULL. */
struct sim_line_block *sim_line_take_block(struct sim_line *line,
                                           struct sim_line_block *block);
/* Takes `event`, which is inside, out. */
void sim_line_remove(struct sim_line *line, const struct sim_event *event);
void sim_line_fini(struct sim_line *line);

#endif

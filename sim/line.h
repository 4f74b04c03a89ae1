/* A sorted queue of events that is used from both ends: an array whose first entry is
 * removed often, and whose new entries belong near one of the ends. */
#ifndef WEFT_SIM_LINE_H
#define WEFT_SIM_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/event.h"

/* Maximum number of entries scanned linearly for an insertion point. */
#define SIM_LINE_SHORT 16

struct sim_line_entry {
    weft_ps at;
    uint32_t order; /* the event's rank */
    struct sim_event *event;
};

/* Room for entries: those of the line, or those of a slot of the wheel (sim/pending.h)
 * until it becomes the line. */
struct sim_line_block {
    struct sim_line_block *next; /* in the list of unused blocks */
    uint32_t n, cap;
    uint32_t n_sorted; /* number of leading entries that are in order */
    struct sim_line_entry entries[];
};

struct sim_line {
    struct sim_line_entry *head, *end; /* the entries in use, within `block` */
    struct sim_line_entry *limit;      /* end of the room in `block` */
    struct sim_line_block *block;      /* Owned; NULL if none */
    struct sim_line_block *merged;     /* Owned; scratch for sorting, or NULL */
};

/* Returns `block` with room for `cap` entries, or a new block if it is NULL. Aborts when
 * out of memory. */
struct sim_line_block *sim_line_block_grow(struct sim_line_block *block, uint32_t cap);

static inline bool sim_line_is_before(weft_ps at, uint32_t order,
                                      const struct sim_line_entry *entry)
{
    return at < entry->at || (at == entry->at && order < entry->order);
}

/* Returns the first entry, or NULL. */
static inline const struct sim_line_entry *sim_line_first(const struct sim_line *line)
{
    return line->head == line->end ? NULL : line->head;
}

/* Removes the first entry. The line must not be empty. */
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

/* Returns true if the line has room, and so few entries that a linear scan finds the
 * place of a new one. */
static inline bool sim_line_is_short(const struct sim_line *line)
{
    return line->end - line->head <= SIM_LINE_SHORT && line->end < line->limit;
}

/* Returns true if there is room before the first entry, and that entry comes after (at,
 * order). */
static inline bool sim_line_takes_first(const struct sim_line *line, weft_ps at,
                                        uint32_t order)
{
    return line->head != line->end && line->head != line->block->entries &&
           sim_line_is_before(at, order, line->head);
}

/* Adds `event` as the first entry. sim_line_takes_first() must be true. */
static inline void sim_line_add_first(struct sim_line *line, struct sim_event *event,
                                      weft_ps at)
{
    line->head--;
    *line->head = sim_line_entry_of(event, at);
}

/* Adds `event` behind all entries that do not come after it. Aborts when out of
 * memory. */
void sim_line_add(struct sim_line *line, struct sim_event *event, weft_ps at);
/* Adds `event` in the same order to a line for which sim_line_is_short() is true. */
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

/* Returns true if there is room behind the last entry, and that entry does not come after
 * (at, order). */
static inline bool sim_line_takes_last(const struct sim_line *line, weft_ps at,
                                       uint32_t order)
{
    return line->end != line->limit && line->head != line->end &&
           !sim_line_is_before(at, order, line->end - 1);
}

/* Adds `event` as the last entry. sim_line_takes_last() must be true. */
static inline void sim_line_add_last(struct sim_line *line, struct sim_event *event,
                                     weft_ps at)
{
    *line->end++ = sim_line_entry_of(event, at);
}

/* Makes `event` the only entry of `block`. */
static inline void sim_line_begin(struct sim_line_block *block, struct sim_event *event,
                                  weft_ps at)
{
    block->entries[0] = sim_line_entry_of(event, at);
    block->n = 1;
    block->n_sorted = 1;
}

/* Appends `event` to a block that has entries and room, without sorting. */
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

/* Sorts `block` and makes it the block of an empty line; equal entries keep the order of
 * appending. Returns the block that the line had, or NULL. */
struct sim_line_block *sim_line_take_block(struct sim_line *line,
                                           struct sim_line_block *block);
/* Removes `event`, which must be in the line. */
void sim_line_remove(struct sim_line *line, const struct sim_event *event);
void sim_line_fini(struct sim_line *line);

#endif

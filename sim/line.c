#include "sim/line.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum { CAP_MIN = 64, FEW_STRAY = 4 };

struct sim_line_block *sim_line_block_grow(struct sim_line_block *block, uint32_t cap)
{
    struct sim_line_block *grown =
        weft_realloc(block, sizeof(*grown) + cap * sizeof(grown->entries[0]));

    grown->next = NULL;
    grown->cap = cap;
    return grown;
}

/* Makes room for at least one entry behind the last. */
static void make_room(struct sim_line *line)
{
    size_t n = sim_line_size(line);
    size_t from = line->block == NULL ? 0 : (size_t)(line->head - line->block->entries);

    if (line->block == NULL) {
        line->block = sim_line_block_grow(NULL, CAP_MIN);
    } else if (from < line->block->cap / 2) {
        line->block = sim_line_block_grow(line->block, 2 * line->block->cap);
    }
    struct sim_line_entry *entries = line->block->entries;

    if (n > 0) {
        memmove(entries, entries + from, n * sizeof(*entries));
    }
    line->head = entries;
    line->end = entries + n;
    line->limit = entries + line->block->cap;
}

/* Returns the place of a new entry in [low, high]: behind all entries that do not come
 * after it. */
static struct sim_line_entry *search(struct sim_line_entry *low,
                                     struct sim_line_entry *high,
                                     const struct sim_line_entry *entry)
{
    while (low < high) {
        struct sim_line_entry *middle = low + (high - low) / 2;

        if (sim_line_is_before(entry->at, entry->order, middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Moves the entries that come before the new one towards the front, into the room that
 * removed ones have left. */
static void add_from_front(struct sim_line *line, const struct sim_line_entry *entry)
{
    struct sim_line_entry *hole = --line->head;
    struct sim_line_entry *last = line->end - 1;
    struct sim_line_entry *few =
        last - hole < SIM_LINE_SHORT ? last : hole + SIM_LINE_SHORT;

    for (; hole < few; hole++) {
        if (sim_line_is_before(entry->at, entry->order, hole + 1)) {
            *hole = *entry;
            return;
        }
        *hole = hole[1];
    }
    struct sim_line_entry *place = search(hole + 1, line->end, entry) - 1;

    memmove(hole, hole + 1, (size_t)(place - hole) * sizeof(*hole));
    *place = *entry;
}

static void add_from_back(struct sim_line *line, const struct sim_line_entry *entry)
{
    if (line->end == line->limit) {
        make_room(line);
    }
    struct sim_line_entry *hole = line->end++;
    struct sim_line_entry *few =
        hole - line->head < SIM_LINE_SHORT ? line->head : hole - SIM_LINE_SHORT;

    for (; hole > few; hole--) {
        if (!sim_line_is_before(entry->at, entry->order, hole - 1)) {
            *hole = *entry;
            return;
        }
        *hole = hole[-1];
    }
    struct sim_line_entry *place = search(line->head, hole, entry);

    memmove(place + 1, place, (size_t)(hole - place) * sizeof(*hole));
    *place = *entry;
}

void sim_line_add(struct sim_line *line, struct sim_event *event, weft_ps at)
{
    if (sim_line_takes_first(line, at, event->rank)) {
        sim_line_add_first(line, event, at);
        return;
    }
    if (sim_line_is_short(line)) {
        sim_line_add_short(line, event, at);
        return;
    }
    struct sim_line_entry entry = sim_line_entry_of(event, at);
    size_t n = sim_line_size(line);

    if (n > 0 && line->head > line->block->entries &&
        sim_line_is_before(at, entry.order, line->head + n / 2)) {
        add_from_front(line, &entry);
    } else {
        add_from_back(line, &entry);
    }
}

/* Returns the index behind the run of ordered entries that starts at `from`. */
static size_t end_of_run(const struct sim_line_entry *entries, size_t from, size_t n)
{
    size_t end = from + 1;

    while (end < n &&
           !sim_line_is_before(entries[end].at, entries[end].order, &entries[end - 1])) {
        end++;
    }
    return end < n ? end : n;
}

/* Merges two runs, [from, middle) and [middle, end), into `out`. */
static void merge(const struct sim_line_entry *entries, size_t from, size_t middle,
                  size_t end, struct sim_line_entry *out)
{
    size_t left = from;
    size_t right = middle;

    for (size_t i = from; i < end; i++) {
        const struct sim_line_entry *second = &entries[right];
        bool takes_right = left == middle ||
                           (right < end && sim_line_is_before(second->at, second->order,
                                                              &entries[left]));

        out[i] = entries[takes_right ? right++ : left++];
    }
}

/* Merge sort. Appended entries form a few ordered runs, one for each kind of event. */
static void sort(struct sim_line *line)
{
    size_t n = line->block->n;

    if (line->merged == NULL || line->merged->cap < n) {
        line->merged = sim_line_block_grow(line->merged, line->block->cap);
    }
    while (end_of_run(line->block->entries, 0, n) < n) {
        struct sim_line_block *from = line->block;
        size_t end;

        for (size_t i = 0; i < n; i = end) {
            size_t middle = end_of_run(from->entries, i, n);

            end = middle == n ? n : end_of_run(from->entries, middle, n);
            merge(from->entries, i, middle, end, line->merged->entries);
        }
        line->merged->n = from->n;
        line->block = line->merged;
        line->merged = from;
    }
}

/* Moves the first entry that is out of order to its place among the entries before it. */
static void sort_in(struct sim_line_block *block)
{
    struct sim_line_entry *stray = &block->entries[block->n_sorted];
    struct sim_line_entry entry = *stray;
    struct sim_line_entry *place = search(block->entries, stray, &entry);

    memmove(place + 1, place, (size_t)(stray - place) * sizeof(*stray));
    *place = entry;
    block->n_sorted++;
}

struct sim_line_block *sim_line_take_block(struct sim_line *line,
                                           struct sim_line_block *block)
{
    struct sim_line_block *old = line->block;

    line->block = block;
    if (block->n - block->n_sorted > FEW_STRAY) {
        sort(line);
    } else {
        while (block->n_sorted < block->n) {
            sort_in(block);
        }
    }
    line->head = line->block->entries;
    line->end = line->head + line->block->n;
    line->limit = line->head + line->block->cap;
    return old;
}

void sim_line_remove(struct sim_line *line, const struct sim_event *event)
{
    struct sim_line_entry *entry = line->head;

    while (entry->event != event) {
        entry++;
        weft_check(entry < line->end);
    }
    line->end--;
    memmove(entry, entry + 1, (size_t)(line->end - entry) * sizeof(*entry));
}

void sim_line_fini(struct sim_line *line)
{
    free(line->block);
    free(line->merged);
    *line = (struct sim_line){.block = NULL};
}

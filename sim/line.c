#include "sim/line.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum { CAP_MIN = 64 };

/* At least one free entry behind the last. */
static void make_room(struct sim_line *line)
{
    size_t n = sim_line_size(line);
    size_t from = (size_t)(line->head - line->entries);

    if (from < line->cap / 2 || line->cap == 0) {
        line->cap = line->cap == 0 ? CAP_MIN : 2 * line->cap;
        line->entries = weft_realloc(line->entries, line->cap * sizeof(*line->entries));
        line->merged = weft_realloc(line->merged, line->cap * sizeof(*line->merged));
        line->limit = line->entries + line->cap;
    }
    if (n > 0) {
        memmove(line->entries, line->entries + from, n * sizeof(*line->entries));
    }
    line->head = line->entries;
    line->end = line->entries + n;
}

/* The place of the new one, which is in [low, high]: after those that are not after it. */
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

/* Those before the new one move up, into the room that taken ones have left. */
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
    if (sim_line_takes_first(line, at, sim_event_order(event))) {
        sim_line_add_first(line, event, at);
        return;
    }
    if (sim_line_is_short(line)) {
        sim_line_add_short(line, event, at);
        return;
    }
    struct sim_line_entry entry = sim_line_entry_of(event, at);
    struct sim_line_entry *middle = line->head + (line->end - line->head) / 2;

    if (line->head > line->entries && middle < line->end &&
        sim_line_is_before(at, entry.order, middle)) {
        add_from_front(line, &entry);
    } else {
        add_from_back(line, &entry);
    }
}

void sim_line_append(struct sim_line *line, struct sim_event *event, weft_ps at)
{
    if (line->end == line->limit) {
        make_room(line);
    }
    *line->end++ = sim_line_entry_of(event, at);
}

/* One past the last of those from `from` on that are in order. */
static size_t end_of_run(const struct sim_line_entry *entries, size_t from, size_t n)
{
    size_t end = from + 1;

    while (end < n &&
           !sim_line_is_before(entries[end].at, entries[end].order, &entries[end - 1])) {
        end++;
    }
    return end < n ? end : n;
}

/* Two runs, [from, middle) and [middle, end), become one in `out`. */
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

/* What is appended comes in a few runs, each in order: one a kind of event. */
void sim_line_sort(struct sim_line *line)
{
    size_t head = (size_t)(line->head - line->entries);
    size_t n = (size_t)(line->end - line->entries);

    while (end_of_run(line->entries, head, n) < n) {
        struct sim_line_entry *from = line->entries;
        size_t end;

        for (size_t i = head; i < n; i = end) {
            size_t middle = end_of_run(from, i, n);

            end = middle == n ? n : end_of_run(from, middle, n);
            merge(from, i, middle, end, line->merged);
        }
        line->entries = line->merged;
        line->merged = from;
    }
    line->head = line->entries + head;
    line->end = line->entries + n;
    line->limit = line->entries + line->cap;
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
    free(line->entries);
    free(line->merged);
    *line = (struct sim_line){.entries = NULL};
}

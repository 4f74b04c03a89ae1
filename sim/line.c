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

    if (line->head < line->cap / 2 || line->cap == 0) {
        line->cap = line->cap == 0 ? CAP_MIN : 2 * line->cap;
        line->entries = weft_realloc(line->entries, line->cap * sizeof(*line->entries));
        line->merged = weft_realloc(line->merged, line->cap * sizeof(*line->merged));
    }
    if (n > 0) {
        memmove(line->entries, line->entries + line->head, n * sizeof(*line->entries));
    }
    line->head = 0;
    line->end = n;
}

/* The place of the new one, which is in [low, high]: after those that are not after it. */
static size_t search(const struct sim_line *line, size_t low, size_t high,
                     const struct sim_line_entry *entry)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (sim_line_is_before(entry->at, entry->order, &line->entries[middle])) {
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
    struct sim_line_entry *entries = line->entries;
    size_t hole = --line->head;
    size_t n = line->end - 1 - hole;
    size_t few = hole + (n < SIM_LINE_SHORT ? n : SIM_LINE_SHORT);

    for (; hole < few; hole++) {
        if (sim_line_is_before(entry->at, entry->order, &entries[hole + 1])) {
            entries[hole] = *entry;
            return;
        }
        entries[hole] = entries[hole + 1];
    }
    size_t place = search(line, hole + 1, line->end, entry) - 1;

    memmove(entries + hole, entries + hole + 1, (place - hole) * sizeof(*entries));
    entries[place] = *entry;
}

static void add_from_back(struct sim_line *line, const struct sim_line_entry *entry)
{
    if (line->end == line->cap) {
        make_room(line);
    }
    struct sim_line_entry *entries = line->entries;
    size_t hole = line->end++;
    size_t n = hole - line->head;
    size_t few = hole - (n < SIM_LINE_SHORT ? n : SIM_LINE_SHORT);

    for (; hole > few; hole--) {
        if (!sim_line_is_before(entry->at, entry->order, &entries[hole - 1])) {
            entries[hole] = *entry;
            return;
        }
        entries[hole] = entries[hole - 1];
    }
    size_t place = search(line, line->head, hole, entry);

    memmove(entries + place + 1, entries + place, (hole - place) * sizeof(*entries));
    entries[place] = *entry;
}

void sim_line_add(struct sim_line *line, struct sim_event *event, weft_ps at)
{
    if (sim_line_is_short(line)) {
        sim_line_add_short(line, event, at);
        return;
    }
    struct sim_line_entry entry = sim_line_entry_of(event, at);
    size_t middle = line->head + sim_line_size(line) / 2;

    if (line->head > 0 && middle < line->end &&
        sim_line_is_before(at, entry.order, &line->entries[middle])) {
        add_from_front(line, &entry);
    } else {
        add_from_back(line, &entry);
    }
}

void sim_line_append(struct sim_line *line, struct sim_event *event, weft_ps at)
{
    if (line->end == line->cap) {
        make_room(line);
    }
    line->entries[line->end++] = sim_line_entry_of(event, at);
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
    size_t n = line->end;

    while (end_of_run(line->entries, line->head, n) < n) {
        struct sim_line_entry *from = line->entries;
        size_t end;

        for (size_t i = line->head; i < n; i = end) {
            size_t middle = end_of_run(from, i, n);

            end = middle == n ? n : end_of_run(from, middle, n);
            merge(from, i, middle, end, line->merged);
        }
        line->entries = line->merged;
        line->merged = from;
    }
}

void sim_line_remove(struct sim_line *line, const struct sim_event *event)
{
    size_t i = line->head;

    while (line->entries[i].event != event) {
        i++;
        weft_check(i < line->end);
    }
    line->end--;
    memmove(line->entries + i, line->entries + i + 1,
            (line->end - i) * sizeof(*line->entries));
}

void sim_line_fini(struct sim_line *line)
{
    free(line->entries);
    free(line->merged);
    *line = (struct sim_line){.entries = NULL};
}

#include "coll/check_strip_testing.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

void check_sets_open(struct check_sets *sets, uint32_t n_ranks)
{
    *sets = (struct check_sets){.n_words = (n_ranks + 63) / 64, .n = 1, .cap = 64};
    sets->words = weft_calloc((size_t)sets->cap * sets->n_words, sizeof(*sets->words));
}

void check_sets_close(struct check_sets *sets)
{
    free(sets->words);
}

static uint64_t *words_of(const struct check_sets *sets, uint32_t set)
{
    return &sets->words[(size_t)set * sets->n_words];
}

static uint32_t add_set(struct check_sets *sets)
{
    if (sets->n == sets->cap) {
        sets->cap *= 2;
        sets->words = weft_realloc(sets->words, (size_t)sets->cap * sets->n_words *
                                                    sizeof(*sets->words));
    }
    memset(words_of(sets, sets->n), 0, sets->n_words * sizeof(*sets->words));
    return sets->n++;
}

uint32_t check_set_one(struct check_sets *sets, uint32_t rank)
{
    uint32_t set = add_set(sets);

    words_of(sets, set)[rank / 64] = UINT64_C(1) << rank % 64;
    return set;
}

bool check_set_join(struct check_sets *sets, uint32_t a, uint32_t b, uint32_t *out)
{
    for (uint32_t i = 0; i < sets->n_words; i++) {
        if ((words_of(sets, a)[i] & words_of(sets, b)[i]) != 0) {
            return false;
        }
    }
    *out = check_set_union(sets, a, b);
    return true;
}

uint32_t check_set_union(struct check_sets *sets, uint32_t a, uint32_t b)
{
    uint32_t set = add_set(sets);

    for (uint32_t i = 0; i < sets->n_words; i++) {
        words_of(sets, set)[i] = words_of(sets, a)[i] | words_of(sets, b)[i];
    }
    return set;
}

bool check_set_equal(const struct check_sets *sets, uint32_t a, uint32_t b)
{
    return memcmp(words_of(sets, a), words_of(sets, b),
                  sets->n_words * sizeof(*sets->words)) == 0;
}

/* ---- strips ---- */

static void reserve(struct check_strip *strip, size_t n)
{
    if (n > strip->cap) {
        strip->cap = 2 * n;
        strip->pieces = weft_realloc(strip->pieces, strip->cap * sizeof(*strip->pieces));
    }
}

void check_strip_open(struct check_strip *strip, uint64_t count, uint32_t set)
{
    *strip = (struct check_strip){0};
    reserve(strip, 2);
    strip->pieces[0] = (struct check_piece){.count = count, .set = set};
    strip->n = count > 0;
}

void check_strip_close(struct check_strip *strip)
{
    free(strip->pieces);
}

/* Returns the index of the piece that holds `at`, or n if `at` is the end. */
static size_t find(const struct check_strip *strip, uint64_t at)
{
    size_t low = 0, high = strip->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct check_piece *piece = &strip->pieces[middle];

        if (piece->begin + piece->count <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

size_t check_strip_cut(struct check_strip *strip, uint64_t at)
{
    size_t i = find(strip, at);
    struct check_piece *piece;

    if (i == strip->n || strip->pieces[i].begin == at) {
        return i;
    }
    reserve(strip, strip->n + 1);
    piece = &strip->pieces[i];
    memmove(piece + 1, piece, (strip->n - i) * sizeof(*piece));
    strip->n++;
    piece[0].count = at - piece->begin;
    piece[1].begin = at;
    piece[1].count -= piece[0].count;
    piece[1].source += piece[0].count;
    return i + 1;
}

void check_strip_copy(struct check_strip *to, uint64_t to_at, struct check_strip *from,
                      uint64_t from_at, uint64_t count)
{
    size_t source = check_strip_cut(from, from_at);
    size_t source_end = check_strip_cut(from, from_at + count);
    size_t first = check_strip_cut(to, to_at);
    size_t last = check_strip_cut(to, to_at + count);
    size_t n_new = source_end - source;

    weft_check(to != from);
    reserve(to, to->n - (last - first) + n_new);
    memmove(&to->pieces[first + n_new], &to->pieces[last],
            (to->n - last) * sizeof(*to->pieces));
    to->n = to->n - (last - first) + n_new;
    for (size_t i = 0; i < n_new; i++) {
        to->pieces[first + i] = from->pieces[source + i];
        to->pieces[first + i].begin = from->pieces[source + i].begin - from_at + to_at;
    }
}

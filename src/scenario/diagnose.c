#include "scenario/diagnose.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void scenario_diagnostics_fini(struct scenario_diagnostics *diag)
{
    for (size_t i = 0; i < diag->n; i++) {
        free(diag->items[i].text);
    }
    free(diag->items);
    *diag = (struct scenario_diagnostics){0};
}

void diagnose_place(const char *file, const struct scenario_set *sets, size_t n_sets,
                    struct scenario_mark mark, char *out, size_t out_bytes)
{
    if (mark.set > 0 && mark.set <= n_sets) {
        const char *text = sets[mark.set - 1].text;
        int n = (int)strcspn(text, "=");
        weft_format(out, out_bytes, "--set %.*s: ", n < 200 ? n : 200, text);
    } else if (mark.line == 0) {
        weft_format(out, out_bytes, "%s: ", file);
    } else {
        weft_format(out, out_bytes, "%s:%u:%u: ", file, mark.line, mark.column);
    }
}

static bool is_known(const struct scenario_diagnostics *diag, const char *text)
{
    for (size_t i = 0; i < diag->n; i++) {
        if (strcmp(diag->items[i].text, text) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the length of the prefix of `message` that repeats the key at the end of a --set
 * place; 0 if it does not. */
static size_t said_by_place(const char *place, const char *message)
{
    size_t n = strcspn(message, ": ");
    size_t n_place = strlen(place);

    return n > 0 && strncmp(message + n, ": ", 2) == 0 && n_place > n + 3 &&
                   strcmp(place + n_place - 2, ": ") == 0 &&
                   strncmp(place + n_place - 2 - n, message, n) == 0 &&
                   (place[n_place - 3 - n] == '.' || place[n_place - 3 - n] == ' ')
               ? n + 2
               : 0;
}

bool complain(struct loader *loader, struct scenario_mark mark, const char *format, ...)
{
    char place[600], message[800];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    diagnose_place(loader->file, loader->sets, loader->n_sets, mark, place,
                   sizeof(place));

    struct weft_text text = {0};
    weft_text_add(&text, "%s%s", place,
                  message + (mark.set > 0 ? said_by_place(place, message) : 0));
    struct scenario_diagnostics *diag = loader->diag;
    if (is_known(diag, text.bytes)) {
        weft_text_fini(&text);
    } else if (diag->n == SCENARIO_DIAGNOSTICS_MAX) {
        diag->n_left_out++;
        weft_text_fini(&text);
    } else {
        diag->items = weft_realloc(diag->items, (diag->n + 1) * sizeof(diag->items[0]));
        diag->items[diag->n].mark = mark;
        diag->items[diag->n].text = text.bytes;
        diag->n++;
    }
    return false;
}

static int compare_places(const struct scenario_diagnostic *a,
                          const struct scenario_diagnostic *b)
{
    if (a->mark.set != b->mark.set) {
        return a->mark.set < b->mark.set ? -1 : 1;
    }
    if (a->mark.set == 0 && a->mark.line != b->mark.line) {
        return a->mark.line < b->mark.line ? -1 : 1;
    }
    if (a->mark.set == 0 && a->mark.column != b->mark.column) {
        return a->mark.column < b->mark.column ? -1 : 1;
    }
    return 0;
}

/* Insertion sort, because it is stable and there are at most SCENARIO_DIAGNOSTICS_MAX. */
void diagnose_sort(struct scenario_diagnostics *diag)
{
    for (size_t i = 1; i < diag->n; i++) {
        struct scenario_diagnostic item = diag->items[i];
        size_t at = i;
        while (at > 0 && compare_places(&item, &diag->items[at - 1]) < 0) {
            diag->items[at] = diag->items[at - 1];
            at--;
        }
        diag->items[at] = item;
    }
}

#define WORD_MAX 40

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Returns the number of insertions, deletions, substitutions and swaps of neighbours from a to
 * b (the restricted Damerau-Levenshtein distance). */
static unsigned distance(const char *a, const char *b)
{
    size_t n_a = strlen(a), n_b = strlen(b);
    if (n_a > WORD_MAX || n_b > WORD_MAX) {
        return WORD_MAX;
    }
    unsigned rows[3][WORD_MAX + 1];
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];
    for (unsigned j = 0; j <= n_b; j++) {
        last[j] = j;
        before[j] = j;
    }
    for (unsigned i = 1; i <= n_a; i++) {
        row[0] = i;
        for (unsigned j = 1; j <= n_b; j++) {
            unsigned differs = a[i - 1] != b[j - 1];
            row[j] = least(least(last[j] + 1, row[j - 1] + 1), last[j - 1] + differs);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], before[j - 2] + 1);
            }
        }
        unsigned *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[n_b];
}

const char *diagnose_nearest(const char *wrong, const char *const *names, size_t n)
{
    size_t length = strlen(wrong);
    unsigned best = length < 4 ? 2 : length < 8 ? 3 : (unsigned)(length / 3 + 2);
    const char *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        unsigned d = distance(wrong, names[i]);
        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}

char *diagnose_hint(const char *wrong, const char *const *names, size_t n, char *out,
                    size_t out_bytes)
{
    const char *nearest = diagnose_nearest(wrong, names, n);
    weft_format(out, out_bytes, "%s%s%s", nearest != NULL ? "; did you mean '" : "",
                nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
    return out;
}

char *diagnose_quote(const char *text, char *out)
{
    size_t n = 0;
    while (n < 40 && text[n] != '\0') {
        unsigned char c = (unsigned char)text[n];
        out[n] = c < 0x20 || c == 0x7f ? '?' : (char)c;
        n++;
    }
    if (text[n] != '\0') {
        /* Do not cut within a UTF-8 character. */
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) {
            n--;
        }
        memcpy(out + n, "...", 3);
        n += 3;
    }
    out[n] = '\0';
    return out;
}

/* Collects what is wrong with a file: each complaint with its place, said once, in order.
 */
#ifndef WEFT_SCENARIO_DIAGNOSE_H
#define WEFT_SCENARIO_DIAGNOSE_H

#include "base/status.h"
#include "scenario/scenario.h"

/* What the parts of the loader share. */
struct loader {
    const char *file;                /* Not owned. */
    const struct scenario_set *sets; /* Not owned; [n_sets] */
    size_t n_sets;
    struct scenario *scenario;         /* being filled */
    struct scenario_arena *arena;      /* the scenario's */
    struct scenario_diagnostics *diag; /* Not owned. */
};

/* "file:12:5: " or "--set PATH: ". */
void diagnose_place(const char *file, const struct scenario_set *sets, size_t n_sets,
                    struct scenario_mark mark, char *out, size_t out_bytes);

/* Adds a complaint; the same text at the same place is kept once. Always returns false,
 * so that readers write `return complain(...)`. */
bool complain(struct loader *loader, struct scenario_mark mark, const char *format, ...)
    WEFT_PRINTF(3, 4);

/* In order of place: the file's first, then each --set. */
void diagnose_sort(struct scenario_diagnostics *diag);

/* The entry of `names` [n] that `wrong` was most likely meant to be, or NULL. */
const char *diagnose_nearest(const char *wrong, const char *const *names, size_t n);

/* "; did you mean 'x'?" for the nearest of `names`, or "". Returns `out`. */
char *diagnose_hint(const char *wrong, const char *const *names, size_t n, char *out,
                    size_t out_bytes);

/* `text` in a form fit for a message: cut after 40 bytes, nothing unprintable. Returns
 * `out`, which has at least 48 bytes. */
#define DIAGNOSE_QUOTE_BYTES 48
char *diagnose_quote(const char *text, char *out);

#endif

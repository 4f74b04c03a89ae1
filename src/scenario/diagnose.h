/* Collects the complaints about a file: each with its place, once, in order of place. */
#ifndef WEFT_SCENARIO_DIAGNOSE_H
#define WEFT_SCENARIO_DIAGNOSE_H

#include "base/status.h"
#include "scenario/scenario.h"

/* Shared by the parts of the loader. */
struct loader {
    const char *file;                /* Not owned. */
    const struct scenario_set *sets; /* Not owned; [n_sets] */
    size_t n_sets;
    struct scenario *scenario;         /* the scenario being filled */
    struct scenario_arena *arena;      /* owned by the scenario */
    struct scenario_diagnostics *diag; /* Not owned. */
};

/* Writes "file:12:5: " or "--set PATH: ". */
void diagnose_place(const char *file, const struct scenario_set *sets, size_t n_sets,
                    struct scenario_mark mark, char *out, size_t out_bytes);

/* Adds a complaint; drops it if the same text at the same place exists. Always returns false,
 * so that readers can write `return complain(...)`. */
bool complain(struct loader *loader, struct scenario_mark mark, const char *format, ...)
    WEFT_PRINTF(3, 4);

/* Sorts complaints by place: those of the file first, then those of each --set. */
void diagnose_sort(struct scenario_diagnostics *diag);

/* Returns the entry of `names` [n] that `wrong` was most likely meant to be, or NULL. */
const char *diagnose_nearest(const char *wrong, const char *const *names, size_t n);

/* Writes "; did you mean 'x'?" for the nearest of `names`, or "". Returns `out`. */
char *diagnose_hint(const char *wrong, const char *const *names, size_t n, char *out,
                    size_t out_bytes);

/* Writes `text` in a form suitable for a message: at most 40 bytes, without control
 * characters. Returns `out`, which must have at least DIAGNOSE_QUOTE_BYTES. */
#define DIAGNOSE_QUOTE_BYTES 48
char *diagnose_quote(const char *text, char *out);

#endif

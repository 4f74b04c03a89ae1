/* weft swarm: one scenario under many seeds. */
#ifndef WEFT_CLI_SWARM_H
#define WEFT_CLI_SWARM_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "cli/cli.h"
#include "swarm/space.h"

/* A scenario and the text it was made of, which is read once: reductions start from it. */
struct swarm_file {
    const char *path; /* Not owned. */
    /* Each seed has a file of its own, drawn from this; NULL: all have this file. */
    const struct swarm_space *space;
    struct weft_text text;
    struct scenario *scenario; /* Owned. */
};

/* Returns the file that `seed` runs: `file` itself, or one drawn from its space, which has valid
 * files only. The caller gives it to swarm_file_put. */
const struct swarm_file *swarm_file_get(const struct cli_options *options,
                                        const struct swarm_file *file, uint64_t seed);
void swarm_file_put(const struct swarm_file *file);
/* One run of a swarm, on backend sim in this process, or on another in a guest of its own. */
struct swarm_run {
    const struct cli_options *options; /* Not owned, nor are the others. */
    const char *path;
    const struct scenario *scenario;
    const struct weft_text
        *text;     /* what a guest runs instead of the file at `path`; or NULL */
    bool has_sets; /* `text` already has the settings of `options` */
    bool no_story; /* faster, and without a trace hash */
    uint64_t seed;
    int patience_ms; /* of a guest, which is then killed */
};

/* Runs it; the row of `path` (docs/cli.md), the caller's reference. */
json_t *swarm_row(const struct swarm_run *run);
/* The same in a guest. Returns the document of `weft run`, the caller's reference; NULL: how it
 * ended is appended to `*how`, and *result is "crash", "timeout" or "error". */
json_t *swarm_guest_document(const struct swarm_run *run, const char **result,
                             struct weft_text *how);
/* The row of a run that told nothing: `how` it ended. */
json_t *swarm_row_of_crash(const struct cli_options *options, const char *path,
                           const struct scenario *scenario, uint64_t seed,
                           const char *result, const char *how);
/* What failed, in a form that two runs have in common if they failed the same way; "" if
 * the run passed. */
void swarm_signature(const json_t *row, struct weft_text *out);
/* The verb's exit status for a row. */
int swarm_code(const json_t *row);

/* Appends to `*out` the smallest scenario found that still fails as `row` did, within
 * `n_runs_max` runs; returns how many there were. Each is a process of its own, ended after
 * `patience_ms`. */
unsigned swarm_shrink(const struct cli_options *options, const struct swarm_file *file,
                      const json_t *row, uint64_t seed, unsigned n_runs_max,
                      int patience_ms, struct weft_text *out);

#endif

/* Runs one scenario, or scenarios drawn from a space, with many seeds (weft swarm). */
#ifndef WEFT_CLI_SWARM_H
#define WEFT_CLI_SWARM_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "cli/cli.h"
#include "swarm/space.h"

/* A scenario with its text, which is read only once and from which reductions start. */
struct swarm_file {
    const char *path; /* Not owned */
    /* If not NULL, each seed has a file of its own, drawn from this space. */
    const struct swarm_space *space;
    struct weft_text text;
    struct scenario *scenario; /* Owned; NULL if drawn per seed */
};

/* Returns the file that `seed` runs: `file` itself, or one drawn from its space. The caller
 * releases it with swarm_file_put(). Aborts if the space draws an invalid file. */
const struct swarm_file *swarm_file_get(const struct cli_options *options,
                                        const struct swarm_file *file, uint64_t seed);
void swarm_file_put(const struct swarm_file *file);
/* One run of a swarm: in this process with backend sim, otherwise in a guest of its own. */
struct swarm_run {
    const struct cli_options *options; /* Not owned, like all pointers here */
    const char *path;
    const struct scenario *scenario;
    const struct weft_text
        *text;     /* what a guest runs instead of the file at `path`, or NULL */
    bool has_sets; /* the settings of `options` are already applied to `text` */
    bool no_story; /* no event log and no trace hash, which is faster */
    uint64_t seed;
    int patience_ms; /* after which the guest is killed */
};

/* Executes the run. Returns its row (docs/cli.md) as a new reference. */
json_t *swarm_row(const struct swarm_run *run);
/* Executes the run in a guest. Returns the document of `weft run` as a new reference, or NULL, in
 * which case it appends the reason to `*how` and sets *result to "timeout", "crash" or "error". */
json_t *swarm_guest_document(const struct swarm_run *run, const char **result,
                             struct weft_text *how);
/* Returns the time after which a process that executes a run is killed. A guest is killed by that
 * process before, which then removes its files and returns the row. */
int swarm_patience_ms(const struct cli_options *options, int patience_ms);
/* Returns the row of a run without a document; `how` describes its end. */
json_t *swarm_row_of_crash(const struct cli_options *options, const char *path,
                           const struct scenario *scenario, uint64_t seed,
                           const char *result, const char *how);
/* Appends the failure in a form that is equal for two runs that failed in the same way; "" if the
 * run passed. */
void swarm_signature(const json_t *row, struct weft_text *out);
/* Returns the exit status for a row. */
int swarm_code(const json_t *row);

/* Appends to `*out` the smallest scenario found that still fails as `row` did. Executes up to
 * `n_runs_max` runs and returns their number. Each is a process of its own, killed after
 * `patience_ms`. */
unsigned swarm_shrink(const struct cli_options *options, const struct swarm_file *file,
                      const json_t *row, uint64_t seed, unsigned n_runs_max,
                      int patience_ms, struct weft_text *out);

#endif

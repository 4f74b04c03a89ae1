#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/isolate.h"
#include "cli/swarm.h"
#include "scenario/reduce.h"

/* A smaller scenario to try. */
struct trial {
    const struct cli_options *options;
    const char *path;
    const struct weft_text *text;
    uint64_t seed;
    int patience_ms;
};

/* Prints the row of the trial, or nothing if its scenario is invalid. Called in a child process. */
static void try_it(void *context)
{
    const struct trial *trial = context;
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;
    json_t *row;
    char *line;

    if (scenario_load_text(trial->path, trial->text->bytes, trial->text->n, NULL, 0,
                           &scenario, &diagnostics) != WEFT_OK ||
        scenario_read_topologies(scenario, &diagnostics) != WEFT_OK) {
        return;
    }
    row = swarm_row(&(struct swarm_run){.options = trial->options,
                                        .path = trial->path,
                                        .scenario = scenario,
                                        .text = trial->text,
                                        .has_sets = true,
                                        .seed = trial->seed,
                                        .patience_ms = trial->patience_ms});
    line = json_dumps(row, JSON_COMPACT);
    puts(line);
    free(line);
    json_decref(row);
    scenario_free(scenario);
}

/* Returns true if `trial` fails as `wanted` describes. */
static bool fails_alike(struct trial *trial, const char *wanted,
                        const struct swarm_file *file, int patience_ms)
{
    struct weft_text line = {NULL, 0, 0};
    struct weft_text how = {NULL, 0, 0};
    struct weft_text got = {NULL, 0, 0};
    struct isolate isolate;
    enum isolate_read read;
    json_t *row = NULL;
    bool is_alike;

    if (!isolate_start(&isolate, try_it, trial)) {
        return false;
    }
    read = isolate_line(&isolate, swarm_patience_ms(trial->options, patience_ms), &line);
    isolate_stop(&isolate, &how);
    if (read == ISOLATE_LINE) {
        row = json_loadb(line.bytes, line.n, 0, NULL);
    } else if (read == ISOLATE_LATE) {
        row = swarm_row_of_crash(trial->options, trial->path, file->scenario, trial->seed,
                                 "timeout", "out of time");
    } else if (how.n > 0) {
        row = swarm_row_of_crash(trial->options, trial->path, file->scenario, trial->seed,
                                 "crash", how.bytes);
    }
    swarm_signature(row, &got);
    is_alike = row != NULL && strcmp(got.bytes, wanted) == 0;
    json_decref(row);
    weft_text_fini(&line);
    weft_text_fini(&how);
    weft_text_fini(&got);
    return is_alike;
}

unsigned swarm_shrink(const struct cli_options *options, const struct swarm_file *file,
                      const json_t *row, uint64_t seed, unsigned n_runs_max,
                      int patience_ms, struct weft_text *out)
{
    struct weft_text wanted = {NULL, 0, 0};
    struct weft_text best = {NULL, 0, 0};
    struct weft_text less = {NULL, 0, 0};
    unsigned n_runs = 0;
    uint32_t index = 0;

    swarm_signature(row, &wanted);
    /* Cannot fail, because the settings were applied once before. */
    if (!scenario_flatten(file->text.bytes, file->text.n, options->sets, options->n_sets,
                          seed, &best)) {
        weft_text_add_bytes(&best, file->text.bytes, file->text.n);
    }
    while (n_runs < n_runs_max && scenario_reduce(best.bytes, best.n, index, &less)) {
        struct trial trial = {options, file->path, &less, seed, patience_ms};

        n_runs++;
        if (fails_alike(&trial, wanted.bytes, file, patience_ms)) {
            struct weft_text spare = best;

            best = less;
            less = spare;
        } else {
            index++;
        }
        less.n = 0;
    }
    weft_text_add_bytes(out, best.bytes, best.n);
    weft_text_fini(&wanted);
    weft_text_fini(&best);
    weft_text_fini(&less);
    return n_runs;
}

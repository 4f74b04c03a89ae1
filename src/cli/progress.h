/* Prints a progress line on stderr if that is a terminal: share, rate and remaining time. */
#ifndef WEFT_CLI_PROGRESS_H
#define WEFT_CLI_PROGRESS_H

#include <stdbool.h>

#include "run/run.h"

struct progress_line {
    bool is_on;
    bool is_drawn;
    weft_ns started_ns, drawn_ns; /* wall-clock time */
};

struct progress_line progress_line_start(bool wanted);
/* Draws the line at most ten times per second. Can be used as run_options.progress with the line as
 * context. */
void progress_line_update(void *context, const struct run_progress *progress);
/* Draws `n_done` of `n_all` things, such as "runs", at most ten times per second. n_done must not
 * be 0. */
void progress_line_count(struct progress_line *line, uint64_t n_done, uint64_t n_all,
                         const char *things);
/* Erases the line. */
void progress_line_end(struct progress_line *line);

#endif

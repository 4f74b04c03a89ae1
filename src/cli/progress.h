/* The progress line: how far, how fast, how long still; on stderr, and only on a
 * terminal. */
#ifndef WEFT_CLI_PROGRESS_H
#define WEFT_CLI_PROGRESS_H

#include <stdbool.h>

#include "run/run.h"

struct progress_line {
    bool is_on;
    bool is_drawn;
    weft_ns started_ns, drawn_ns; /* of the wall clock */
};

struct progress_line progress_line_start(bool wanted);
/* Suits run_options.progress with the line as context; draws at most ten times a second.
 */
void progress_line_update(void *context, const struct run_progress *progress);
/* The same for `n_done` of `n_all` things, "runs". */
void progress_line_count(struct progress_line *line, uint64_t n_done, uint64_t n_all,
                         const char *things);
/* Takes the line off the screen. */
void progress_line_end(struct progress_line *line);

#endif

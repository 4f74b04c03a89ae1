/* Writes the results of `weft run` that are known so far when a signal or a lack of memory ends the
 * process. The files are rendered before each run, so that the end only has to write bytes, which
 * a signal handler may do (signal-safety(7)). */
#ifndef WEFT_CLI_KEPT_H
#define WEFT_CLI_KEPT_H

#include "base/text.h"

enum kept_output { KEPT_JSON, KEPT_JUNIT, KEPT_NDJSON, N_KEPT_OUTPUTS };

/* From here on SIGINT and SIGTERM write what is kept and end the process with
 * CLI_INTERRUPTED. */
void kept_begin(void);
/* The bytes to write to `path` ("-": stdout) are all that was added to `done` and then `rest`.
 * Neither `path` nor the texts are copied: they must stay as they are until the next
 * kept_release(). */
void kept_set(enum kept_output output, const char *path, const struct weft_text *done,
              const struct weft_text *rest);
/* Holds signals back while texts change, and lets them through again. */
void kept_hold(void);
void kept_release(void);
/* Nothing is kept any more: everything has been written in the usual way. */
void kept_end(void);
/* Writes what is kept. Safe in a signal handler. */
void kept_write(void);

#endif

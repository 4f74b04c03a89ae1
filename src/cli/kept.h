/* Writes the results of `weft run` so far when a signal or lack of memory ends the process. The
 * files are rendered before each run, so that only bytes remain to be written, which a signal
 * handler may do (signal-safety(7)). */
#ifndef WEFT_CLI_KEPT_H
#define WEFT_CLI_KEPT_H

#include "base/text.h"

enum kept_output { KEPT_JSON, KEPT_JUNIT, KEPT_NDJSON, N_KEPT_OUTPUTS };

/* Installs handlers of SIGINT and SIGTERM that write what is kept and exit with CLI_INTERRUPTED. */
void kept_begin(void);
/* Sets what is written to `path` ("-": stdout): the contents of `done`, then of `rest`. Neither
 * `path` nor the texts are copied; they may change only between kept_hold() and kept_release(). */
void kept_set(enum kept_output output, const char *path, const struct weft_text *done,
              const struct weft_text *rest);
/* Block the signals while texts change, and unblock them after as many calls. */
void kept_hold(void);
void kept_release(void);
/* Discards what is kept, after all outputs were written normally. */
void kept_end(void);
/* Writes what is kept. Safe in a signal handler. */
void kept_write(void);

#endif

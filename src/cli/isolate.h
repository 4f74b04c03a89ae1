/* Runs work in child processes, so that a crash or a hang costs only its result. */
#ifndef WEFT_CLI_ISOLATE_H
#define WEFT_CLI_ISOLATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/text.h"

struct isolate {
    pid_t pid; /* 0 if there is no child */
    int fd;
    bool has_ended;          /* ended by itself */
    struct weft_text unread; /* bytes after the last complete line */
};

/* Runs `body` in a child, which exits when it returns. isolate_line() returns its stdout line by
 * line. Returns false, with errno, if no child can be created. */
bool isolate_start(struct isolate *isolate, void (*body)(void *context), void *context);

/* Runs the program `argv[0]` in a child, with an empty stdin and stderr redirected to `err_fd`. The
 * child exits with status 127 if the program cannot be run. */
bool isolate_exec(struct isolate *isolate, char *const *argv, int err_fd);

enum isolate_read { ISOLATE_LINE, ISOLATE_ENDED, ISOLATE_LATE };

/* Waits up to `patience_ms` for the next line and replaces the contents of `*line` by it, without
 * its newline. */
enum isolate_read isolate_line(struct isolate *isolate, int patience_ms,
                               struct weft_text *line);

/* Kills the child unless it has ended, and waits for it. If it ended by itself but not with status
 * 0, appends how to `*out`, such as "signal 6 (Aborted)". `out` may be NULL. */
void isolate_stop(struct isolate *isolate, struct weft_text *out);

#endif

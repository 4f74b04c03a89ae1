/* Work in processes of its own, so that what crashes or never ends costs only its result. */
#ifndef WEFT_CLI_ISOLATE_H
#define WEFT_CLI_ISOLATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/text.h"

struct isolate {
    pid_t pid; /* 0: none */
    int fd;
    bool has_ended;          /* by itself */
    struct weft_text unread; /* what came after the last whole line */
};

/* Runs `body` in a child, which ends when it returns; its stdout, a line at a time, is what
 * isolate_line gives. False, with errno, if there can be no child. */
bool isolate_start(struct isolate *isolate, void (*body)(void *context), void *context);

/* The same with the program `argv[0]`, which finds nothing on stdin and writes its stderr to
 * `err_fd`. It exits with 127 if it cannot be run. */
bool isolate_exec(struct isolate *isolate, char *const *argv, int err_fd);

enum isolate_read { ISOLATE_LINE, ISOLATE_ENDED, ISOLATE_LATE };

/* Waits up to `patience_ms` for the next line, which replaces what is in `*line`, without
 * its end. */
enum isolate_read isolate_line(struct isolate *isolate, int patience_ms,
                               struct weft_text *line);

/* Ends the child if it has not ended, and appends how it ended to `*out`, if that was not
 * by returning: "signal 6 (Aborted)". `out` may be NULL. */
void isolate_stop(struct isolate *isolate, struct weft_text *out);

#endif

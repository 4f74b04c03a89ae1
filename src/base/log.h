/* Log lines for people, with a level, written to the embedding program (stderr, NCCL's logger).
 * They are no part of the event log or of results, and never contain keys or secrets. */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include "base/status.h"

enum weft_log_level { WEFT_LOG_ERROR, WEFT_LOG_WARN, WEFT_LOG_INFO, WEFT_LOG_DEBUG };

struct weft_log {
    enum weft_log_level level; /* higher levels are dropped */
    void (*write)(void *context, enum weft_log_level level, const char *line);
    void *context; /* Not owned. */
};

/* Writes one line; `format` has no newline. Lines of 1024 bytes and more are truncated. `log` may
 * be NULL. */
void weft_log(const struct weft_log *log, enum weft_log_level level, const char *format,
              ...) WEFT_PRINTF(3, 4);

#endif

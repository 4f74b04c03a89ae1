/* Diagnostics for people: leveled lines to whoever embeds us (stderr, NCCL's logger).
 * Never results, never part of the story, and never keys or secrets. */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include "base/status.h"

enum weft_log_level { WEFT_LOG_ERROR, WEFT_LOG_WARN, WEFT_LOG_INFO, WEFT_LOG_DEBUG };

struct weft_log {
    enum weft_log_level level; /* lines above it are dropped */
    void (*write)(void *context, enum weft_log_level level, const char *line);
    void *context; /* Not owned. */
};

/* One line, without the newline. `log` may be NULL. */
void weft_log(const struct weft_log *log, enum weft_log_level level, const char *format,
              ...) WEFT_PRINTF(3, 4);

#endif

#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#define LINE_BYTES 1024

void weft_log(const struct weft_log *log, enum weft_log_level level, const char *format,
              ...)
{
    char line[LINE_BYTES];
    va_list args;

    if (log == NULL || log->write == NULL || level > log->level) {
        return;
    }
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    log->write(log->context, level, line);
}

/* The event log: one line per event, `t_ns host object event key=value ...`, with integer values
 * and keys in a fixed order. Its bytes are a contract: the same seed and commit give the same
 * log. */
#ifndef WEFT_BASE_TRACE_H
#define WEFT_BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum weft_trace_level { WEFT_TRACE_OFF, WEFT_TRACE_STORY, WEFT_TRACE_PACKET };

/* Receives whole lines, each with its newline, in order. */
typedef void (*weft_trace_sink)(void *context, const char *line, size_t n_bytes);

struct weft_trace {
    enum weft_trace_level level;
    weft_trace_sink sink; /* NULL if nothing is to be written */
    void *context;        /* Not owned. */
    size_t n;             /* bytes of the line being built */
    bool open;            /* between begin and end */
    char line[512];       /* longer lines are truncated */
};

void weft_trace_init(struct weft_trace *trace, enum weft_trace_level level,
                     weft_trace_sink sink, void *context);

/* Returns true if an event of `level` would be written; `trace` may be NULL. Callers on hot paths
 * check it first. */
static inline bool weft_trace_on(const struct weft_trace *trace,
                                 enum weft_trace_level level)
{
    return trace != NULL && trace->sink != NULL && trace->level >= level;
}

/* Build one line of level WEFT_TRACE_STORY: begin, any number of values, end. They do nothing if
 * that level is off. `host`, `object`, `event` and keys must not contain blanks; weft_trace_text
 * replaces blanks in `text` by '_'. */
void weft_trace_begin(struct weft_trace *trace, weft_ns now, const char *host,
                      const char *object, const char *event);
void weft_trace_int(struct weft_trace *trace, const char *key, int64_t number);
void weft_trace_text(struct weft_trace *trace, const char *key, const char *text);
void weft_trace_end(struct weft_trace *trace);

/* Writes a whole line; `format` (or NULL) makes the entire "key=value ..." tail. For rare
 * events. */
void weft_trace_event(struct weft_trace *trace, weft_ns now, const char *host,
                      const char *object, const char *event, const char *format, ...)
    WEFT_PRINTF(6, 7);

#endif

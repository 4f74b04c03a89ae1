/* The event story: one line per event, `t_ns host object event key=value ...`, integers,
 * fixed key order. The bytes are the contract: same seed, same commit, same story. */
#ifndef WEFT_BASE_TRACE_H
#define WEFT_BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum weft_trace_level { WEFT_TRACE_OFF, WEFT_TRACE_STORY, WEFT_TRACE_PACKET };

/* Receives whole lines, newline included, in order. */
typedef void (*weft_trace_sink)(void *context, const char *line, size_t n_bytes);

struct weft_trace {
    enum weft_trace_level level;
    weft_trace_sink sink; /* NULL: nothing is written */
    void *context;        /* Not owned. */
    size_t n;             /* bytes of the line being built */
    bool open;            /* between begin and end */
    char line[512];       /* longer lines are cut, never split */
};

void weft_trace_init(struct weft_trace *trace, enum weft_trace_level level,
                     weft_trace_sink sink, void *context);

/* True if an event of `level` would be written; NULL traces nothing. Callers on hot paths
 * ask first. */
static inline bool weft_trace_on(const struct weft_trace *trace,
                                 enum weft_trace_level level)
{
    return trace != NULL && trace->sink != NULL && trace->level >= level;
}

/* Builds one story-level line: begin, any number of values, end. No-ops when off.
 * `host`, `object`, `event` and keys hold no blanks; blanks in text become '_'. */
void weft_trace_begin(struct weft_trace *trace, weft_ns now, const char *host,
                      const char *object, const char *event);
void weft_trace_int(struct weft_trace *trace, const char *key, int64_t number);
void weft_trace_text(struct weft_trace *trace, const char *key, const char *text);
void weft_trace_end(struct weft_trace *trace);

/* begin + `format` as the whole "key=value ..." tail (or NULL) + end. For rare events. */
void weft_trace_event(struct weft_trace *trace, weft_ns now, const char *host,
                      const char *object, const char *event, const char *format, ...)
    WEFT_PRINTF(6, 7);

#endif

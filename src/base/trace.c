#include "base/trace.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/observe.h"

/* The part of the line that values can fill; the last byte is kept for the newline. */
#define LIMIT (sizeof(((struct weft_trace *)NULL)->line) - 1)

static void put_byte(struct weft_trace *trace, char byte)
{
    if (trace->n < LIMIT) {
        trace->line[trace->n++] = byte;
    }
}

/* Appends a word. Words are short, so a loop is faster than strlen and memcpy. */
static void put_word(struct weft_trace *trace, const char *word)
{
    size_t n = trace->n;

    while (*word != '\0' && n < LIMIT) {
        trace->line[n++] = *word++;
    }
    trace->n = n;
}

static size_t count_digits(uint64_t number)
{
    size_t n = 1;

    for (; number >= 10000; number /= 10000) {
        n += 4;
    }
    return n + (number >= 10) + (number >= 100) + (number >= 1000);
}

/* Appends a number, two digits per division. A log can have tens of millions of numbers, so it
 * avoids printf and a scratch buffer. */
static void put_int(struct weft_trace *trace, int64_t number)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    size_t n_bytes = count_digits(left) + (number < 0);
    char *at;

    if (n_bytes > LIMIT - trace->n) {
        /* Fill the rest of the line, because part of a number would be a wrong number. */
        while (trace->n < LIMIT) {
            trace->line[trace->n++] = '~';
        }
        return;
    }
    trace->n += n_bytes;
    at = trace->line + trace->n;
    while (left >= 100) {
        const char *pair = pairs + left % 100 * 2;

        left /= 100;
        *--at = pair[1];
        *--at = pair[0];
    }
    if (left >= 10) {
        *--at = pairs[left * 2 + 1];
        *--at = pairs[left * 2];
    } else {
        *--at = (char)('0' + left);
    }
    if (number < 0) {
        *--at = '-';
    }
}

static void put_key(struct weft_trace *trace, const char *key)
{
    put_byte(trace, ' ');
    put_word(trace, key);
    put_byte(trace, '=');
}

void weft_trace_init(struct weft_trace *trace, enum weft_trace_level level,
                     weft_trace_sink sink, void *context)
{
    *trace = (struct weft_trace){.level = level, .sink = sink, .context = context};
}

void weft_trace_begin(struct weft_trace *trace, weft_ns now, const char *host,
                      const char *object, const char *event)
{
    if (!weft_trace_on(trace, WEFT_TRACE_STORY)) {
        return;
    }
    weft_check(!trace->open);
    trace->open = true;
    trace->n = 0;
    put_int(trace, now);
    put_byte(trace, ' ');
    put_word(trace, host);
    put_byte(trace, ' ');
    put_word(trace, object);
    put_byte(trace, ' ');
    put_word(trace, event);
}

void weft_trace_int(struct weft_trace *trace, const char *key, int64_t number)
{
    if (trace == NULL || !trace->open) {
        return;
    }
    put_key(trace, key);
    put_int(trace, number);
}

void weft_trace_text(struct weft_trace *trace, const char *key, const char *text)
{
    if (trace == NULL || !trace->open) {
        return;
    }
    put_key(trace, key);
    for (; *text != '\0'; text++) {
        bool is_blank = (unsigned char)*text <= ' ' || *text == 0x7f;

        put_byte(trace, is_blank ? '_' : *text);
    }
}

void weft_trace_end(struct weft_trace *trace)
{
    if (trace == NULL || !trace->open) {
        return;
    }
    trace->line[trace->n++] = '\n';
    trace->open = false;
    weft_observe_begin();
    trace->sink(trace->context, trace->line, trace->n);
    weft_observe_end();
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Appends `tail`, of at least one byte more than the line has room for. Overwrites the digits of a
 * number that is cut, as put_int does. */
static void put_cut(struct weft_trace *trace, const char *tail)
{
    size_t begin = trace->n;

    put_word(trace, tail);
    if (is_digit(tail[trace->n - begin])) {
        for (size_t at = trace->n; at > begin && is_digit(trace->line[at - 1]); at--) {
            trace->line[at - 1] = '~';
        }
    }
}

void weft_trace_event(struct weft_trace *trace, weft_ns now, const char *host,
                      const char *object, const char *event, const char *format, ...)
{
    char tail[sizeof(trace->line)]; /* longer than the room of any line */
    va_list args;
    int n_bytes;

    if (!weft_trace_on(trace, WEFT_TRACE_STORY)) {
        return;
    }
    weft_trace_begin(trace, now, host, object, event);
    if (format != NULL) {
        va_start(args, format);
        n_bytes = vsnprintf(tail, sizeof(tail), format, args);
        va_end(args);
        put_byte(trace, ' ');
        if (n_bytes > 0 && (size_t)n_bytes > LIMIT - trace->n) {
            put_cut(trace, tail);
        } else {
            put_word(trace, tail);
        }
    }
    weft_trace_end(trace);
}

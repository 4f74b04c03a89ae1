#include "base/trace.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

/* Values may fill the line up to here; the last byte is kept for the newline. */
#define LIMIT (sizeof(((struct weft_trace *)NULL)->line) - 1)

static void put_byte(struct weft_trace *trace, char byte)
{
    if (trace->n < LIMIT) {
        trace->line[trace->n++] = byte;
    }
}

static void put_word(struct weft_trace *trace, const char *word)
{
    size_t n_bytes = strlen(word);

    if (n_bytes > LIMIT - trace->n) {
        n_bytes = LIMIT - trace->n;
    }
    memcpy(trace->line + trace->n, word, n_bytes);
    trace->n += n_bytes;
}

static void put_int(struct weft_trace *trace, int64_t number)
{
    /* Two digits per division: a story can have tens of millions of numbers. */
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[20];
    size_t at = sizeof(digits);
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    while (left >= 100) {
        size_t pair = (size_t)(left % 100) * 2;

        left /= 100;
        digits[--at] = pairs[pair + 1];
        digits[--at] = pairs[pair];
    }
    if (left >= 10) {
        digits[--at] = pairs[left * 2 + 1];
        digits[--at] = pairs[left * 2];
    } else {
        digits[--at] = (char)('0' + left);
    }
    if (number < 0) {
        digits[--at] = '-';
    }
    if (sizeof(digits) - at <= LIMIT - trace->n) {
        memcpy(trace->line + trace->n, digits + at, sizeof(digits) - at);
        trace->n += sizeof(digits) - at;
    } else {
        trace->n = LIMIT; /* half a number would be a wrong number: the line ends here */
        memset(trace->line + LIMIT - 1, '~', 1);
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
    trace->sink(trace->context, trace->line, trace->n);
}

void weft_trace_event(struct weft_trace *trace, weft_ns now, const char *host,
                      const char *object, const char *event, const char *format, ...)
{
    char tail[sizeof(trace->line)];
    va_list args;

    if (!weft_trace_on(trace, WEFT_TRACE_STORY)) {
        return;
    }
    weft_trace_begin(trace, now, host, object, event);
    if (format != NULL) {
        va_start(args, format);
        vsnprintf(tail, sizeof(tail), format, args);
        va_end(args);
        put_byte(trace, ' ');
        put_word(trace, tail);
    }
    weft_trace_end(trace);
}

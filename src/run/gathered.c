/* Merges the event logs of several processes after all have ended, ordered by time. The order of
 * events less than a nanosecond apart is accidental, so the log differs from run to run and has no
 * hash. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "run/private.h"

struct line {
    weft_ns at_ns;
    uint32_t process;
    size_t begin; /* offset in `text` of what follows the time */
    size_t n_bytes;
};

struct story_parts {
    struct weft_text text;
    struct line *lines; /* Owned [n_max] */
    size_t n, n_max;
};

void run_story_gather(struct run_story *story)
{
    if (story->sink != NULL) {
        story->parts = weft_calloc(1, sizeof(*story->parts));
    }
}

/* Parses the time at the start of a line. Returns false if there is none. */
static bool parse_time(const char *line, size_t n_bytes, weft_ns *out_at, size_t *out_n)
{
    size_t n = 0;
    weft_ns at = 0;

    for (; n < n_bytes && n < 18 && line[n] >= '0' && line[n] <= '9'; n++) {
        at = at * 10 + (line[n] - '0');
    }
    *out_at = at;
    *out_n = n;
    return n > 0 && n < n_bytes && line[n] == ' ';
}

static void add_line(struct story_parts *parts, uint32_t process, weft_ns ahead_ns,
                     const char *line, size_t n_bytes)
{
    struct line *out;
    weft_ns at;
    size_t n_time;

    if (!parse_time(line, n_bytes, &at, &n_time)) {
        return;
    }
    if (parts->n == parts->n_max) {
        parts->n_max = parts->n_max == 0 ? 1024 : 2 * parts->n_max;
        parts->lines = weft_realloc(parts->lines, parts->n_max * sizeof(*parts->lines));
    }
    out = &parts->lines[parts->n++];
    *out = (struct line){.at_ns = at - ahead_ns,
                         .process = process,
                         .begin = parts->text.n,
                         .n_bytes = n_bytes - n_time};
    weft_text_add_bytes(&parts->text, line + n_time, n_bytes - n_time);
}

void run_story_add(struct run_story *story, uint32_t process, weft_ns ahead_ns,
                   const char *lines, size_t n_bytes)
{
    /* `lines` may be NULL if there are none, and NULL + 0 is undefined. */
    const char *end = n_bytes > 0 ? lines + n_bytes : lines;

    while (story->parts != NULL && lines < end) {
        const char *newline = memchr(lines, '\n', (size_t)(end - lines));

        if (newline == NULL) {
            return;
        }
        add_line(story->parts, process, ahead_ns, lines, (size_t)(newline + 1 - lines));
        lines = newline + 1;
    }
}

static int by_time(const void *a, const void *b)
{
    const struct line *left = a;
    const struct line *right = b;

    if (left->at_ns != right->at_ns) {
        return left->at_ns < right->at_ns ? -1 : 1;
    }
    if (left->process != right->process) {
        return left->process < right->process ? -1 : 1;
    }
    return left->begin < right->begin ? -1 : left->begin > right->begin;
}

void run_story_end_gather(struct run_story *story, weft_ns origin_ns)
{
    struct story_parts *parts = story->parts;

    if (parts == NULL) {
        return;
    }
    if (parts->n > 0) {
        qsort(parts->lines, parts->n, sizeof(*parts->lines), by_time);
    }
    for (size_t i = 0; i < parts->n; i++) {
        const struct line *line = &parts->lines[i];
        struct weft_text text = {NULL, 0, 0};

        weft_text_add(&text, "%lld", (long long)(line->at_ns - origin_ns));
        weft_text_add_bytes(&text, parts->text.bytes + line->begin, line->n_bytes);
        story->sink(story->context, text.bytes, text.n);
        weft_text_fini(&text);
    }
    story->parts = NULL;
    weft_text_fini(&parts->text);
    free(parts->lines);
    free(parts);
}

#include "report/perfetto.h"

#include <stdlib.h>
#include <string.h>

#include "report/json_read.h"

#define NAMES_MAX 4096

/* Hosts or objects in order of appearance. Their indices are their numbers in the trace. */
struct names {
    char *texts[NAMES_MAX]; /* Owned */
    size_t n;
};

static size_t number_of(struct names *names, const char *text, size_t n)
{
    for (size_t i = 0; i < names->n; i++) {
        if (strncmp(names->texts[i], text, n) == 0 && names->texts[i][n] == '\0') {
            return i;
        }
    }
    if (names->n == NAMES_MAX) {
        return NAMES_MAX - 1;
    }
    names->texts[names->n] = weft_alloc(n + 1);
    memcpy(names->texts[names->n], text, n);
    names->texts[names->n][n] = '\0';
    return names->n++;
}

static void add_quoted(struct weft_text *out, const char *text, size_t n)
{
    weft_text_add(out, "\"");
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"' || text[i] == '\\') {
            weft_text_add(out, "\\%c", text[i]);
        } else {
            weft_text_add(out, "%c", (unsigned char)text[i] < 0x20 ? ' ' : text[i]);
        }
    }
    weft_text_add(out, "\"");
}

/* Adds a line "t_ns host object event key=value ..." as an instant on its object's thread. */
static void add_event(struct names *hosts, struct names *objects, const char *line,
                      size_t n, struct weft_text *out)
{
    const char *field[4] = {line, NULL, NULL, NULL};
    size_t length[4] = {0, 0, 0, 0};
    const char *end = line + n;
    const char *at = line;
    long long time_ns;

    for (int i = 0; i < 4; i++) {
        field[i] = at;
        while (at < end && *at != ' ') {
            at++;
        }
        length[i] = (size_t)(at - field[i]);
        at += at < end ? 1 : 0;
    }
    if (length[3] == 0) {
        return;
    }
    time_ns = strtoll(line, NULL, 10);
    weft_text_add(out, "%s\n{\"ph\":\"i\",\"s\":\"t\",\"ts\":%lld.%03lld,\"pid\":%zu,",
                  out->bytes[out->n - 1] == '[' ? "" : ",", time_ns / 1000,
                  time_ns % 1000, number_of(hosts, field[1], length[1]));
    weft_text_add(out, "\"tid\":%zu,\"name\":", number_of(objects, field[2], length[2]));
    add_quoted(out, field[3], length[3]);
    weft_text_add(out, ",\"args\":{\"text\":");
    add_quoted(out, at, (size_t)(end - at));
    weft_text_add(out, "}}");
}

static void add_names(const struct names *hosts, const struct names *objects,
                      struct weft_text *out)
{
    for (size_t h = 0; h < hosts->n; h++) {
        weft_text_add(out,
                      ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%zu,"
                      "\"args\":{\"name\":\"%s\"}}",
                      h, hosts->texts[h]);
        for (size_t o = 0; o < objects->n; o++) {
            weft_text_add(out,
                          ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%zu,"
                          "\"tid\":%zu,\"args\":{\"name\":\"%s\"}}",
                          h, o, objects->texts[o]);
        }
    }
}

void report_perfetto(const json_t *runs, const struct weft_text *story,
                     struct weft_text *out)
{
    struct names *hosts = weft_calloc(1, sizeof(*hosts));
    struct names *objects = weft_calloc(1, sizeof(*objects));
    const char *at = story->bytes;
    const char *end = story->n > 0 ? story->bytes + story->n : at;

    weft_text_add(out,
                  "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"scenario\":\"%s\"},"
                  "\"traceEvents\":[",
                  json_read_text(json_array_get(runs, 0), "scenario", "?"));
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline == NULL ? end : newline;

        add_event(hosts, objects, at, (size_t)(stop - at), out);
        at = stop + 1;
    }
    if (hosts->n > 0) {
        add_names(hosts, objects, out);
    }
    weft_text_add(out, "\n]}\n");
    for (size_t i = 0; i < hosts->n; i++) {
        free(hosts->texts[i]);
    }
    for (size_t i = 0; i < objects->n; i++) {
        free(objects->texts[i]);
    }
    free(hosts);
    free(objects);
}

#include "report/html.h"

#include <string.h>

#include "report/escape.h"
#include "report/json_read.h"
#include "report/tables.h"

/* Maximum size of the event log on the page; --events has all of it. */
#define STORY_BYTES_MAX 65536

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<title>weft</title>\n<style>\n"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;"
    "padding:0 1rem;color:#222}\n"
    "pre{font:12px/1.4 ui-monospace,monospace;background:#f6f6f4;padding:1rem;"
    "overflow:auto}\n"
    ".pass{color:#0a7d32}.fail{color:#b3261e}\n"
    "svg text{font:11px ui-monospace,monospace;fill:#555}\n"
    "</style></head><body>\n";

/* Appends a bar for each row of the result table: bus bandwidth as a share of the bound. */
static void add_bars(const json_t *jobs, struct weft_text *out)
{
    size_t n = json_array_size(jobs);
    const json_t *job;
    size_t i;

    if (n == 0 || json_object_get(json_array_get(jobs, 0), "programs") != NULL) {
        return;
    }
    weft_text_add(out,
                  "<svg width=\"640\" height=\"%zu\" role=\"img\" "
                  "aria-label=\"bus bandwidth as a share of the limit\">\n",
                  n * 16 + 8);
    json_array_foreach(jobs, i, job)
    {
        double limit = json_read_real(job, "limit_gBps", 0);
        double share = limit > 0 ? json_read_real(job, "bus_bw_gBps", 0) / limit : 0;
        bool wrong = json_read_int(job, "nwrong", 0) != 0;

        weft_text_add(
            out,
            "<text x=\"150\" y=\"%zu\" text-anchor=\"end\">%s %lld B</text>"
            "<rect x=\"160\" y=\"%zu\" width=\"%.1f\" height=\"11\" fill=\"%s\"/>"
            "<text x=\"%.1f\" y=\"%zu\">%.1f%%</text>\n",
            i * 16 + 12, json_read_text(job, "job", "?"),
            (long long)json_read_int(job, "size_bytes", 0), i * 16 + 3, share * 400,
            wrong ? "#b3261e" : "#3d6fb4", 166 + share * 400, i * 16 + 12, share * 100);
    }
    weft_text_add(out, "</svg>\n");
}

static void add_run(const json_t *run, struct weft_text *out)
{
    struct report_style plain = report_style(false);
    struct weft_text text = {NULL, 0, 0};
    const char *result = json_read_text(run, "result", "?");

    weft_text_add(out, "<h1>%s <span class=\"%s\">%s</span></h1>\n",
                  json_read_text(run, "scenario", "?"),
                  strcmp(result, "pass") == 0 ? "pass" : "fail", result);
    add_bars(json_object_get(run, "jobs"), out);
    report_run(run, true, &plain, &text);
    weft_text_add(out, "<pre>");
    if (text.n > 0) {
        report_escape(text.bytes, text.n, false, out);
    }
    weft_text_add(out, "</pre>\n");
    weft_text_fini(&text);
}

void report_html(const json_t *runs, const struct weft_text *story, struct weft_text *out)
{
    size_t n_story = weft_text_cut(story->bytes, story->n, STORY_BYTES_MAX);
    const json_t *run;
    size_t i;

    weft_text_add(out, "%s", page_head);
    json_array_foreach(runs, i, run)
    {
        add_run(run, out);
    }
    weft_text_add(out, "<h2>Events</h2>\n<pre>");
    if (n_story > 0) {
        report_escape(story->bytes, n_story, false, out);
    }
    weft_text_add(out, "%s</pre>\n</body></html>\n",
                  story->n > n_story ? "... (the rest: --events FILE)\n" : "");
}

#include "report/junit.h"

#include <stdbool.h>
#include <string.h>

#include "report/escape.h"
#include "report/json_read.h"
#include "report/tables.h"

/* Data shared by the cases of one suite. */
struct suite {
    const char *name;
    /* Findings and replay line for cases that failed; "" if there are none. */
    const char *why;
    /* Seconds of the whole run until the first case has used them, then NULL. */
    const json_t *clock;
};

static void add_escaped(struct weft_text *out, const char *text, bool is_attribute)
{
    report_escape(text, strlen(text), is_attribute, out);
}

static void add_time(struct weft_text *out, const json_t *seconds)
{
    if (json_is_number(seconds)) {
        weft_text_add(out, " time=\"%.3f\"", json_number_value(seconds));
    }
}

/* Adds a case. `problem` is the message of an element `kind`, or NULL. The first case gets the
 * run's time, because viewers sum the times of cases. */
static void add_case(struct weft_text *out, struct suite *suite, const char *name,
                     const char *kind, const char *problem)
{
    weft_text_add(out, "    <testcase classname=\"");
    add_escaped(out, suite->name, true);
    weft_text_add(out, "\" name=\"");
    add_escaped(out, name, true);
    weft_text_add(out, "\"");
    add_time(out, suite->clock);
    suite->clock = NULL;
    if (problem == NULL) {
        weft_text_add(out, "/>\n");
        return;
    }
    weft_text_add(out, "><%s message=\"", kind);
    add_escaped(out, problem, true);
    if (suite->why[0] == '\0') {
        weft_text_add(out, "\"/></testcase>\n");
        return;
    }
    weft_text_add(out, "\">");
    add_escaped(out, suite->why, false);
    weft_text_add(out, "</%s></testcase>\n", kind);
}

static void add_why(const json_t *run, struct weft_text *out)
{
    const char *replay = json_read_text(run, "replay", NULL);
    const struct report_style plain = report_style(false);
    const json_t *job;
    size_t i;

    report_findings(run, &plain, out);
    json_array_foreach(json_object_get(run, "jobs"), i, job)
    {
        if (json_object_get(job, "programs") != NULL) {
            report_programs(job, false, &plain, out);
        }
    }
    if (replay != NULL) {
        weft_text_add(out, "\nreplay: %s\n", replay);
    }
}

void report_junit_head(struct weft_text *out)
{
    weft_text_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
}

void report_junit_tail(struct weft_text *out)
{
    weft_text_add(out, "</testsuites>\n");
}

void report_junit_suite(const json_t *run, struct weft_text *out)
{
    const json_t *expectations = json_object_get(run, "expectations");
    const char *error = json_read_text(run, "error", NULL);
    const json_t *seconds = json_object_get(run, "seconds");
    struct weft_text why = {NULL, 0, 0};
    struct suite suite = {.clock = seconds};
    const json_t *expectation;
    size_t n_failed = 0;
    size_t i;

    suite.name = json_read_text(run, "scenario", json_read_text(run, "file", "?"));
    json_array_foreach(expectations, i, expectation)
    {
        n_failed += json_is_true(json_object_get(expectation, "ok")) ? 0 : 1;
    }
    weft_text_add_bytes(&why, "", 0);
    if (n_failed > 0 || error != NULL) {
        add_why(run, &why);
    }
    suite.why = why.bytes;
    weft_text_add(out, "  <testsuite name=\"");
    add_escaped(out, suite.name, true);
    weft_text_add(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%d\"",
                  json_array_size(expectations) + (error != NULL), n_failed,
                  error != NULL);
    add_time(out, seconds);
    weft_text_add(out, ">\n");
    if (error != NULL) {
        add_case(out, &suite, "run", "error", error);
    }
    json_array_foreach(expectations, i, expectation)
    {
        bool ok = json_is_true(json_object_get(expectation, "ok"));

        add_case(out, &suite, json_read_text(expectation, "expect", "?"), "failure",
                 ok ? NULL : json_read_text(expectation, "got", "?"));
    }
    weft_text_add(out, "  </testsuite>\n");
    weft_text_fini(&why);
}

void report_junit(const json_t *runs, struct weft_text *out)
{
    const json_t *run;
    size_t i;

    report_junit_head(out);
    json_array_foreach(runs, i, run)
    {
        report_junit_suite(run, out);
    }
    report_junit_tail(out);
}

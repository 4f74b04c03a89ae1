#include "report/junit.h"

#include <stdbool.h>
#include <string.h>

#include "report/escape.h"
#include "report/json_read.h"

static void add_escaped(struct weft_text *out, const char *text)
{
    report_escape(text, strlen(text), true, out);
}

static void add_case(struct weft_text *out, const char *suite, const json_t *expectation)
{
    bool ok = json_is_true(json_object_get(expectation, "ok"));

    weft_text_add(out, "    <testcase classname=\"");
    add_escaped(out, suite);
    weft_text_add(out, "\" name=\"");
    add_escaped(out, json_read_text(expectation, "expect", "?"));
    if (ok) {
        weft_text_add(out, "\"/>\n");
        return;
    }
    weft_text_add(out, "\"><failure message=\"");
    add_escaped(out, json_read_text(expectation, "got", "?"));
    weft_text_add(out, "\"/></testcase>\n");
}

void report_junit(const json_t *runs, struct weft_text *out)
{
    const json_t *run;
    size_t i;

    weft_text_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    json_array_foreach(runs, i, run)
    {
        const json_t *expectations = json_object_get(run, "expectations");
        const char *name = json_read_text(run, "scenario", "?");
        const json_t *expectation;
        size_t n_failed = 0;
        size_t k;

        json_array_foreach(expectations, k, expectation)
        {
            n_failed += json_is_true(json_object_get(expectation, "ok")) ? 0 : 1;
        }
        weft_text_add(out, "  <testsuite name=\"");
        add_escaped(out, name);
        weft_text_add(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"0\">\n",
                      json_array_size(expectations), n_failed);
        json_array_foreach(expectations, k, expectation)
        {
            add_case(out, name, expectation);
        }
        weft_text_add(out, "  </testsuite>\n");
    }
    weft_text_add(out, "</testsuites>\n");
}

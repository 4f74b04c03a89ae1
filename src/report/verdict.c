#include <stdio.h>
#include <string.h>

#include "report/json_read.h"
#include "report/tables.h"

/* Adds the line of an expectation, with expected and actual result if they differ. If it was met,
 * `got` usually begins with the expected value ("none", "exact, 1 of 1 rows verified") and replaces
 * it. An invariant has no expected value; `got` describes how it was broken. */
static void add_expectation(const json_t *expectation, const struct report_style *style,
                            struct weft_text *out)
{
    bool ok = json_is_true(json_object_get(expectation, "ok"));
    const char *expect = json_read_text(expectation, "expect", "?");
    const char *got = json_read_text(expectation, "got", "?");
    const char *want = strstr(expect, ": ");

    weft_text_add(out, "  %s%s%s ", ok ? style->good : style->bad,
                  ok ? "ok    " : "not ok", style->off);
    if (ok && want != NULL && strncmp(got, want + 2, strlen(want + 2)) == 0) {
        weft_text_add(out, "%.*s: %s\n", (int)(want - expect), expect, got);
    } else if (!ok && want != NULL && strncmp(expect, "invariant", 9) != 0) {
        weft_text_add(out, "%.*s: expected %s, got %s\n", (int)(want - expect), expect,
                      want + 2, got);
    } else {
        weft_text_add(out, "%s: %s\n", expect, got);
    }
}

/* Adds the unmet expectations or, with `all`, all of them, and the verdict. */
static void add_verdict(const json_t *document, bool all,
                        const struct report_style *style, struct weft_text *out)
{
    const char *result = json_read_text(document, "result", "?");
    bool passed = strcmp(result, "pass") == 0;
    const json_t *expectations = json_object_get(document, "expectations");
    const json_t *expectation;
    const json_t *warning;
    size_t n_ok = 0;
    size_t i;

    json_array_foreach(json_object_get(document, "warnings"), i, warning)
    {
        weft_text_add(out, "%swarning%s %s\n", style->warn, style->off,
                      json_is_string(warning) ? json_string_value(warning) : "?");
    }
    weft_text_add(out, "\n");
    json_array_foreach(expectations, i, expectation)
    {
        bool ok = json_is_true(json_object_get(expectation, "ok"));

        n_ok += ok ? 1 : 0;
        if (all || !ok) {
            add_expectation(expectation, style, out);
        }
    }
    weft_text_add(
        out, "%s%s%s %s on %s, policy %s, seed %s: %zu of %zu expectations met\n",
        passed ? style->good : style->bad, passed ? "PASS" : "FAIL", style->off,
        json_read_text(document, "scenario", "?"),
        json_read_text(document, "backend", "?"), json_read_text(document, "policy", "?"),
        json_read_text(document, "seed", "?"), n_ok, json_array_size(expectations));
}

void report_verdict(const json_t *document, const struct report_style *style,
                    struct weft_text *out)
{
    add_verdict(document, true, style, out);
}

void report_failures(const json_t *document, const struct report_style *style,
                     struct weft_text *out)
{
    report_findings(document, style, out);
    add_verdict(document, false, style, out);
}

/* The part of a report that says what went wrong and whether the run was as expected. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/json_read.h"
#include "report/tables.h"

/* "titanic:p0 → iceberg" from {host, port, peer}; what is null is left out. */
static void add_where(const json_t *where, struct weft_text *out)
{
    const char *host = json_read_text(where, "host", NULL);
    const char *port = json_read_text(where, "port", NULL);
    const char *peer = json_read_text(where, "peer", NULL);

    if (host != NULL) {
        weft_text_add(out, " at %s%s%s", host, port != NULL ? ":" : "",
                      port != NULL ? port : "");
    }
    if (peer != NULL) {
        weft_text_add(out, " → %s", peer);
    }
}

static void add_evidence(const json_t *evidence, const struct report_style *style,
                         struct weft_text *out)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)evidence, key, value)
    {
        weft_text_add(out, "      %s%-22s%s ", style->dim, key, style->off);
        if (json_is_integer(value)) {
            weft_text_add(out, "%lld\n", (long long)json_integer_value(value));
        } else {
            weft_text_add(out, "%s\n",
                          json_is_string(value) ? json_string_value(value) : "unknown");
        }
    }
}

void report_findings(const json_t *document, const struct report_style *style,
                     struct weft_text *out)
{
    const json_t *symptom = json_object_get(document, "symptom");
    const char *text = json_read_text(symptom, "text", NULL);
    const json_t *finding;
    size_t i;

    if (text != NULL) {
        weft_text_add(out, "\n%ssymptom%s  %s\n", style->bold, style->off, text);
    }
    json_array_foreach(json_object_get(document, "findings"), i, finding)
    {
        const char *severity = json_read_text(finding, "severity", "error");
        const char *code = json_read_text(finding, "code", "?");

        weft_text_add(out, "\n%s%s%s %s%s%s",
                      strcmp(severity, "error") == 0 ? style->bad : style->warn, severity,
                      style->off, style->bold, code, style->off);
        add_where(json_object_get(finding, "where"), out);
        weft_text_add(out, "\n  what   %s\n", json_read_text(finding, "cause", "?"));
        weft_text_add(out, "  seen\n");
        add_evidence(json_object_get(finding, "evidence"), style, out);
        weft_text_add(out, "  do     %s\n", json_read_text(finding, "remedy", "?"));
        weft_text_add(out, "  more   weft explain %s\n", code);
    }
}

void report_verdict(const json_t *document, const struct report_style *style,
                    struct weft_text *out)
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
        weft_text_add(out, "  %s%s%s %s: %s\n", ok ? style->good : style->bad,
                      ok ? "ok    " : "not ok", style->off,
                      json_read_text(expectation, "expect", "?"),
                      json_read_text(expectation, "got", "?"));
    }
    weft_text_add(
        out, "%s%s%s %s on %s, policy %s, seed %s: %zu of %zu expectations met\n",
        passed ? style->good : style->bad, passed ? "PASS" : "FAIL", style->off,
        json_read_text(document, "scenario", "?"),
        json_read_text(document, "backend", "?"), json_read_text(document, "policy", "?"),
        json_read_text(document, "seed", "?"), n_ok, json_array_size(expectations));
}

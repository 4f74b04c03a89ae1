/* The part of a report that says what went wrong and whether the run was as expected. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "diag/catalogue.h"
#include "report/json_read.h"
#include "report/tables.h"

static enum diag_place place_of(const json_t *finding)
{
    const struct diag_entry *entry =
        diag_entry_by_code(json_read_text(finding, "code", ""));

    return entry == NULL ? DIAG_AT_CABLE : entry->place;
}

/* "titanic:p0 → iceberg"; what is not known, or has nothing to do with it, is left out. */
static void add_where(const json_t *finding, struct weft_text *out)
{
    const json_t *where = json_object_get(finding, "where");
    bool is_alone = place_of(finding) == DIAG_AT_HOST;
    const char *host = json_read_text(where, "host", NULL);
    const char *port = json_read_text(where, "port", NULL);
    const char *peer = is_alone ? NULL : json_read_text(where, "peer", NULL);

    if (host != NULL) {
        weft_text_add(out, " at %s%s%s", host, port != NULL ? ":" : "",
                      port != NULL ? port : "");
    }
    if (peer != NULL) {
        weft_text_add(out, " → %s", peer);
    }
}

#define WHERE_BYTES 160

/* "unknown" for what is neither a number nor a text. */
static const char *value_text(const json_t *value, char *out, size_t out_bytes)
{
    if (json_is_integer(value)) {
        weft_format(out, out_bytes, "%lld", (long long)json_integer_value(value));
        return out;
    }
    return json_is_string(value) ? json_string_value(value) : "unknown";
}

/* What the other end says of the same: "remote_mtu" of "local_mtu"; NULL: nothing. */
static const json_t *counterpart(const json_t *evidence, const char *key)
{
    char other[64];

    if (strncmp(key, "local_", 6) != 0) {
        return NULL;
    }
    weft_format(other, sizeof(other), "remote_%s", key + 6);
    return json_object_get(evidence, other);
}

static bool is_counterpart(const json_t *evidence, const char *key)
{
    char other[64];

    if (strncmp(key, "remote_", 7) != 0) {
        return false;
    }
    weft_format(other, sizeof(other), "local_%s", key + 7);
    return json_object_get(evidence, other) != NULL;
}

/* Of `undetermined`: what it may be, and what would decide it. */
static bool add_candidate(const json_t *evidence, const char *key,
                          const struct report_style *style, struct weft_text *out)
{
    char decide[64];

    if (strncmp(key, "to_decide_", 10) == 0) {
        return true;
    }
    if (strncmp(key, "candidate_", 10) != 0) {
        return false;
    }
    weft_format(decide, sizeof(decide), "to_decide_%s", key + 10);
    weft_text_add(out, "      %smaybe%s %-24s to decide: %s\n", style->dim, style->off,
                  json_read_text(evidence, key, "?"),
                  json_read_text(evidence, decide, "?"));
    return true;
}

/* Neither end said it; or it is in the drawing. */
static bool is_idle(const json_t *value, const json_t *other, const char *key)
{
    char here[32], there[32];

    return strcmp(key, "local_facing_port") == 0 ||
           (other != NULL &&
            strcmp(value_text(value, here, sizeof(here)), "unknown") == 0 &&
            strcmp(value_text(other, there, sizeof(there)), "unknown") == 0);
}

/* What both ends say stands side by side. What is unknown counts only where that is the trouble. */
static void add_evidence(const json_t *finding, const struct report_style *style,
                         struct weft_text *out)
{
    const json_t *evidence = json_object_get(finding, "evidence");
    bool is_open = strcmp(json_read_text(finding, "code", ""), "undetermined") == 0;
    char here[32], there[32];
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)evidence, key, value)
    {
        const json_t *other = counterpart(evidence, key);

        if (is_counterpart(evidence, key) || add_candidate(evidence, key, style, out) ||
            (!is_open && is_idle(value, other, key))) {
            continue;
        }
        weft_text_add(out, "      %s%-22s%s ", style->dim, other != NULL ? key + 6 : key,
                      style->off);
        if (other != NULL) {
            weft_text_add(out, "%-26s %s\n", value_text(value, here, sizeof(here)),
                          value_text(other, there, sizeof(there)));
        } else {
            weft_text_add(out, "%s\n", value_text(value, here, sizeof(here)));
        }
    }
}

/* "titanic:p1", or "titanic" if the port is not known. */
static void name_end(const char *host, const json_t *evidence, const char *key, char *out,
                     size_t out_bytes)
{
    const char *port = json_read_text(evidence, key, "unknown");
    bool is_known = strcmp(port, "unknown") != 0;

    weft_format(out, out_bytes, "%s%s%s", host, is_known ? ":" : "",
                is_known ? port : "");
}

/* Two ports that do face each other, where others were used. */
static void add_facing(const char *host, const char *peer, const json_t *evidence,
                       struct weft_text *out)
{
    char near[WHERE_BYTES], far[WHERE_BYTES];

    if (json_object_get(evidence, "local_facing_port") != NULL) {
        name_end(host, evidence, "local_facing_port", near, sizeof(near));
        name_end(peer, evidence, "remote_facing_port", far, sizeof(far));
        weft_text_add(out, "         %s ───── %s  (these face each other)\n", near, far);
    }
}

/* "titanic:p1 ──✗── iceberg:p1": the cross is where it failed. */
static void add_drawing(const json_t *finding, const struct report_style *style,
                        struct weft_text *out)
{
    static const char *const lines[][2] = {[DIAG_AT_CABLE] = {" ──", "── "},
                                           [DIAG_AT_PORTS] = {" ──", "── "},
                                           [DIAG_AT_HOST] = {" ", NULL},
                                           [DIAG_AT_PEER] = {" ──── ", " "}};
    const json_t *where = json_object_get(finding, "where");
    const json_t *evidence = json_object_get(finding, "evidence");
    const char *host = json_read_text(where, "host", NULL);
    const char *peer = json_read_text(where, "peer", NULL);
    enum diag_place place = place_of(finding);
    const char *const *line = lines[place];
    char near[WHERE_BYTES], far[WHERE_BYTES];

    if (host == NULL || (peer == NULL && place != DIAG_AT_HOST)) {
        return;
    }
    name_end(host, evidence, "local_port", near, sizeof(near));
    weft_text_add(out, "  where  %s%s%s✗%s", near, line[0], style->bad, style->off);
    if (place != DIAG_AT_HOST) {
        name_end(peer, evidence, "remote_port", far, sizeof(far));
        weft_text_add(out, "%s%s%s", line[1], far,
                      place == DIAG_AT_PORTS ? "  (not the two ends of a cable)" : "");
    }
    weft_text_add(out, "\n");
    if (place == DIAG_AT_PORTS) {
        add_facing(host, peer, evidence, out);
    }
}

/* The same cause was found before, elsewhere: one line for each such place. */
static bool is_again(const json_t *findings, size_t i, struct weft_text *out)
{
    const json_t *finding = json_array_get(findings, i);
    const char *code = json_read_text(finding, "code", "?");

    for (size_t k = 0; k < i; k++) {
        if (strcmp(json_read_text(json_array_get(findings, k), "code", ""), code) == 0) {
            weft_text_add(out, "\nalso %s", code);
            add_where(finding, out);
            weft_text_add(out, "\n");
            return true;
        }
    }
    return false;
}

/* Nothing failed of it: one line. */
static void add_survived(const json_t *finding, const struct report_style *style,
                         struct weft_text *out)
{
    const json_t *evidence = json_object_get(finding, "evidence");
    const char *before = "";
    const char *key;
    json_t *value;

    weft_text_add(out, "\n%swarning%s %s%s%s", style->warn, style->off, style->bold,
                  json_read_text(finding, "code", "?"), style->off);
    add_where(finding, out);
    weft_text_add(out, ": %s (", json_read_text(finding, "cause", "?"));
    json_object_foreach((json_t *)(uintptr_t)evidence, key, value)
    {
        if (json_is_integer(value) && strcmp(key, "survived") != 0) {
            weft_text_add(out, "%s%s %lld", before, key,
                          (long long)json_integer_value(value));
            before = ", ";
        }
    }
    weft_text_add(out, "); the job went on\n");
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

        if (json_object_get(json_object_get(finding, "evidence"), "survived") != NULL) {
            add_survived(finding, style, out);
            continue;
        }
        if (is_again(json_object_get(document, "findings"), i, out)) {
            continue;
        }
        weft_text_add(out, "\n%s%s%s %s%s%s",
                      strcmp(severity, "error") == 0 ? style->bad : style->warn, severity,
                      style->off, style->bold, code, style->off);
        add_where(finding, out);
        weft_text_add(out, "\n  what   %s\n", json_read_text(finding, "cause", "?"));
        add_drawing(finding, style, out);
        weft_text_add(out, "  seen\n");
        add_evidence(finding, style, out);
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

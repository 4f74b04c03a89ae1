/* The part of a report that says what went wrong: what happened, where, why, what to type next. */
#include <string.h>

#include "base/units.h"
#include "diag/catalogue.h"
#include "report/evidence.h"
#include "report/json_read.h"
#include "report/paragraph.h"
#include "report/tables.h"

#define WHERE_BYTES 160
/* Places of one cause that are named; of more, how many. */
#define PLACES_MAX 6

static enum diag_place place_of(const json_t *finding)
{
    const struct diag_entry *entry =
        diag_entry_by_code(json_read_text(finding, "code", ""));

    return entry == NULL ? DIAG_AT_CABLE : entry->place;
}

/* Stores "titanic:p0 → iceberg", without what is unknown or not involved. */
static void place_text(const json_t *finding, char *out, size_t out_bytes)
{
    const json_t *where = json_object_get(finding, "where");
    bool is_alone = place_of(finding) == DIAG_AT_HOST;
    const char *host = json_read_text(where, "host", "");
    const char *port = json_read_text(where, "port", NULL);
    const char *peer = is_alone ? NULL : json_read_text(where, "peer", NULL);

    weft_format(out, out_bytes, "%s%s%s%s%s", host, port != NULL ? ":" : "",
                port != NULL ? port : "", peer != NULL ? " → " : "",
                peer != NULL ? peer : "");
}

static void add_place(const json_t *finding, struct weft_text *out)
{
    char place[WHERE_BYTES];

    place_text(finding, place, sizeof(place));
    weft_text_add(out, "%s%s", place[0] != '\0' ? " at " : "", place);
}

/* Stores "titanic:p1", or "titanic" if the port is unknown. */
static void name_end(const char *host, const json_t *evidence, const char *key, char *out,
                     size_t out_bytes)
{
    const char *port = json_read_text(evidence, key, "unknown");
    bool is_known = strcmp(port, "unknown") != 0;

    weft_format(out, out_bytes, "%s%s%s", host, is_known ? ":" : "",
                is_known ? port : "");
}

/* Adds the two ports that face each other, if others were used. */
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

/* Adds "titanic:p1 ──✗── iceberg:p1". The cross shows where it failed: at an end if the cable
 * works. A warning has no cross. */
static void add_drawing(const json_t *finding, const struct report_style *style,
                        struct weft_text *out)
{
    static const char *const lines[][2] = {[DIAG_AT_CABLE] = {" ──", "── "},
                                           [DIAG_AT_END] = {" ", "──── "},
                                           [DIAG_AT_PORTS] = {" ──", "── "},
                                           [DIAG_AT_HOST] = {" ", NULL},
                                           [DIAG_AT_PEER] = {" ──── ", " "}};
    const json_t *where = json_object_get(finding, "where");
    const json_t *evidence = json_object_get(finding, "evidence");
    const char *host = json_read_text(where, "host", NULL);
    const char *peer = json_read_text(where, "peer", NULL);
    enum diag_place place = place_of(finding);
    bool works = strcmp(json_read_text(finding, "severity", "error"), "error") != 0;
    const char *const *line = lines[place];
    char near[WHERE_BYTES], far[WHERE_BYTES];

    if (host == NULL || (peer == NULL && place != DIAG_AT_HOST)) {
        return;
    }
    name_end(host, evidence, "local_port", near, sizeof(near));
    if (works) {
        weft_text_add(out, "  where  %s%s", near, place == DIAG_AT_HOST ? "" : " ─────");
    } else {
        weft_text_add(out, "  where  %s%s%s✗%s", near, line[0], style->bad, style->off);
    }
    if (place != DIAG_AT_HOST) {
        name_end(peer, evidence, "remote_port", far, sizeof(far));
        weft_text_add(out, "%s%s%s", works ? " " : line[1], far,
                      place == DIAG_AT_PORTS ? "  (not the two ends of a cable)" : "");
    }
    weft_text_add(out, "\n");
    if (place == DIAG_AT_PORTS) {
        add_facing(host, peer, evidence, out);
    }
}

/* Returns true if an earlier finding of `findings` has the code of the i-th and ended the run,
 * too. */
static bool is_again(const json_t *findings, size_t i)
{
    const char *code = json_read_text(json_array_get(findings, i), "code", "?");

    for (size_t k = 0; k < i; k++) {
        const json_t *other = json_array_get(findings, k);

        if (!report_is_survived(other) &&
            strcmp(json_read_text(other, "code", ""), code) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds the other places where the cause of the i-th finding was found. */
static void add_again(const json_t *findings, size_t i, struct weft_text *out)
{
    const char *code = json_read_text(json_array_get(findings, i), "code", "?");
    struct paragraph paragraph = {0};
    char place[WHERE_BYTES];
    size_t n_places = 0;

    for (size_t k = i + 1; k < json_array_size(findings); k++) {
        const json_t *other = json_array_get(findings, k);

        if (report_is_survived(other) ||
            strcmp(json_read_text(other, "code", ""), code) != 0) {
            continue;
        }
        if (n_places++ == 0) {
            paragraph_begin(&paragraph, "  also   ", out);
        }
        if (n_places <= PLACES_MAX) {
            place_text(other, place, sizeof(place));
            paragraph_item(&paragraph, place);
        }
    }
    if (n_places > PLACES_MAX) {
        weft_format(place, sizeof(place), "%zu more", n_places - PLACES_MAX);
        paragraph_item(&paragraph, place);
    }
    if (n_places > 0) {
        paragraph_end(&paragraph);
    }
}

/* Adds one line for a finding that failed nothing: what was seen, or the finding that is its
 * cause. */
static void add_survived(const json_t *finding, const struct report_style *style,
                         struct weft_text *out)
{
    const json_t *evidence = json_object_get(finding, "evidence");
    const char *before = " (";
    const char *key;
    json_t *value;
    const char *because = json_read_text(evidence, "because", NULL);

    weft_text_add(out, "\n%swarning%s %s%s%s", style->warn, style->off, style->bold,
                  json_read_text(finding, "code", "?"), style->off);
    add_place(finding, out);
    weft_text_add(out, ": %s", json_read_text(finding, "cause", "?"));
    json_object_foreach((json_t *)(uintptr_t)evidence, key, value)
    {
        char number[24];

        /* The ports are in the place. */
        if (because != NULL || strcmp(key, "survived") == 0 ||
            strstr(key, "_port") != NULL || json_is_null(value)) {
            continue;
        }
        weft_format(number, sizeof(number), "%lld", (long long)json_integer_value(value));
        weft_text_add(out, "%s%s %s", before, key,
                      json_is_string(value) ? json_string_value(value) : number);
        before = ", ";
    }
    if (because != NULL) {
        weft_text_add(out, " (because %s: weft explain %s", because, because);
        before = ", ";
        value = json_object_get(evidence, "stood_in_relays");
        if (value != NULL) {
            weft_text_add(out, "; its data takes the cables of %lld other host%s",
                          (long long)json_integer_value(value),
                          json_integer_value(value) == 1 ? "" : "s");
        }
    }
    weft_text_add(out, "%s; the job went on\n", before[0] == ',' ? ")" : "");
    report_candidates(finding, out);
}

/* Adds the hosts that met only a consequence of it, and for whom each of them waited. */
static void add_behind(const json_t *finding, struct weft_text *out)
{
    const json_t *behind = json_object_get(finding, "behind");
    json_int_t n = json_integer_value(json_object_get(finding, "n_behind"));
    struct paragraph paragraph;
    char item[WHERE_BYTES];
    const json_t *host;
    size_t i;

    if (json_array_size(behind) == 0) {
        return;
    }
    paragraph_begin(&paragraph, "  held   ", out);
    json_array_foreach(behind, i, host)
    {
        if (i < PLACES_MAX) {
            weft_format(item, sizeof(item), i == 0 ? "%s waited for %s" : "%s for %s",
                        json_read_text(host, "host", "?"),
                        json_read_text(host, "peer", "?"));
            paragraph_item(&paragraph, item);
        }
    }
    if (n > PLACES_MAX) {
        weft_format(item, sizeof(item), "%lld more", (long long)n - PLACES_MAX);
        paragraph_item(&paragraph, item);
    }
    paragraph_end(&paragraph);
}

static void add_sentence(const char *label, const char *sentence, struct weft_text *out)
{
    struct paragraph paragraph;

    paragraph_begin(&paragraph, label, out);
    paragraph_words(&paragraph, sentence);
    paragraph_end(&paragraph);
}

static void add_finding(const json_t *findings, size_t i,
                        const struct report_style *style, struct weft_text *out)
{
    const json_t *finding = json_array_get(findings, i);
    const char *severity = json_read_text(finding, "severity", "error");
    const char *code = json_read_text(finding, "code", "?");

    weft_text_add(out, "\n%s%s%s %s%s%s",
                  strcmp(severity, "error") == 0 ? style->bad : style->warn, severity,
                  style->off, style->bold, code, style->off);
    add_place(finding, out);
    weft_text_add(out, "\n");
    add_sentence("  what   ", json_read_text(finding, "cause", "?"), out);
    add_drawing(finding, style, out);
    add_again(findings, i, out);
    add_behind(finding, out);
    report_evidence(finding, out);
    add_sentence("  do     ", json_read_text(finding, "remedy", "?"), out);
    weft_text_add(out, "  more   weft explain %s\n", code);
}

void report_findings(const json_t *document, const struct report_style *style,
                     struct weft_text *out)
{
    const json_t *findings = json_object_get(document, "findings");
    const json_t *symptom = json_object_get(document, "symptom");
    const char *text = json_read_text(symptom, "text", NULL);
    const json_t *finding;
    size_t i;

    if (text != NULL) {
        weft_text_add(out, "\n%ssymptom%s  %s\n", style->bold, style->off, text);
    }
    if (json_read_text(symptom, "as_met", NULL) != NULL) {
        add_sentence("as met   ", json_read_text(symptom, "as_met", NULL), out);
    }
    json_array_foreach(findings, i, finding)
    {
        if (report_is_survived(finding)) {
            add_survived(finding, style, out);
        } else if (!is_again(findings, i)) {
            add_finding(findings, i, style, out);
        }
    }
}

void report_first_finding(const json_t *document, const struct report_style *style,
                          struct weft_text *out)
{
    const json_t *findings = json_object_get(document, "findings");
    const json_t *finding;
    size_t i;

    json_array_foreach(findings, i, finding)
    {
        if (i == 0) {
            add_finding(findings, i, style, out);
        } else if (!is_again(findings, i)) {
            const char *code = json_read_text(finding, "code", "?");

            weft_text_add(out, "%s%s%s %s%s%s", style->bad,
                          json_read_text(finding, "severity", "error"), style->off,
                          style->bold, code, style->off);
            add_place(finding, out);
            weft_text_add(out, ": weft explain %s\n", code);
        }
    }
}

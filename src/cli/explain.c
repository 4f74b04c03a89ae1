/* weft explain CODE or SYMPTOM explains findings and symptoms; weft diagnose OBS.json prints the
 * findings of recorded observations. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cli/cli.h"
#include "diag/observations.h"
#include "diag/symptoms.h"
#include "report/paragraph.h"
#include "report/tables.h"
#include "scenario/diagnose.h"

static int list_codes(void)
{
    for (int i = 0; i < DIAG_N_CODES; i++) {
        const struct diag_entry *entry = diag_entry((enum diag_code)i);

        printf("%-26s %-8s %s\n", entry->code, diag_severity_name(entry->severity),
               entry->cause);
    }
    return CLI_OK;
}

static int no_such_code(const char *code)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];
    char hint[64];

    fprintf(
        stderr,
        "weft explain: no such code: %s%s (weft explain lists the findings; an errno, "
        "a completion status or a line of NCCL's log can be explained, too: weft "
        "explain ETIMEDOUT, 'status 12')\n",
        diagnose_quote(code, quoted),
        strchr(code, ' ') == NULL ? cli_code_hint(code, hint, sizeof(hint)) : "");
    return CLI_USAGE;
}

static void explain_code(const struct diag_entry *entry, const struct report_style *style)
{
    printf("%s%s%s (%s)\n\n%s\n\n%s\n\nWhat to do: %s\nReference:  %s\n", style->bold,
           entry->code, style->off, diag_severity_name(entry->severity), entry->cause,
           entry->explanation, entry->remedy, entry->reference);
    printf("To decide:  %s\n", entry->decide);
    if (entry->example != NULL) {
        printf("Example:    weft run %s\n", entry->example);
    }
}

static void add_lines(struct weft_text *out, const char *label, const char *text)
{
    struct paragraph paragraph;

    paragraph_begin(&paragraph, label, out);
    paragraph_words(&paragraph, text);
    paragraph_end(&paragraph);
}

/* Appends the causes in order of frequency, each with the question that distinguishes it from the
 * next. */
static void explain_symptom(const struct diag_symptom *symptom,
                            const struct report_style *style, struct weft_text *out)
{
    static const char *const kinds[] = {"errno", "completion status"};

    weft_text_add(out, "%s%s", style->bold, symptom->name);
    if (symptom->kind != DIAG_SYMPTOM_MESSAGE) {
        weft_text_add(out, " (%s %d)", kinds[symptom->kind], symptom->number);
    }
    weft_text_add(out, "%s\n\n", style->off);
    add_lines(out, "", symptom->meaning);
    weft_text_add(out, "\nCauses, the most frequent first:\n");
    for (size_t i = 0; i < diag_symptom_causes(symptom); i++) {
        const struct diag_cause *cause = &symptom->causes[i];
        const bool has_code = cause->code < DIAG_N_CODES;

        weft_text_add(out, "\n%2zu. %s%s%s\n", i + 1, style->bold,
                      has_code ? diag_entry(cause->code)->code : "no finding of Weft",
                      style->off);
        add_lines(out, "    ", has_code ? diag_entry(cause->code)->cause : cause->what);
        if (cause->ask != NULL) {
            add_lines(out, "    Ask: ", cause->ask);
        }
    }
}

/* Returns false if `words` name no symptom. */
static bool explain_symptoms(const char *words, const struct report_style *style)
{
    const struct diag_symptom *found[2];
    size_t n = diag_symptoms_find(words, found, WEFT_LENGTH(found));
    struct weft_text text = {NULL, 0, 0};

    for (size_t i = 0; i < n; i++) {
        weft_text_add(&text, "%s", i > 0 ? "\n" : "");
        explain_symptom(found[i], style, &text);
    }
    if (n > 1) {
        weft_text_add(
            &text,
            "\nA call ends with an errno, a completion has a status: `weft "
            "explain 'errno %d'` or `weft explain 'status %d'` has one of them.\n",
            found[0]->number, found[1]->number);
    }
    if (n > 0) {
        weft_text_add(&text, "\nweft explain CODE has more of each, and what to do.\n");
        cli_print(text.bytes, text.n);
    }
    weft_text_fini(&text);
    return n > 0;
}

int cli_explain(struct cli_options *options)
{
    struct weft_text words = {NULL, 0, 0};
    const struct diag_entry *entry;
    int code = CLI_OK;

    if (options->times && options->n_operands > 0) {
        fprintf(stderr, "usage: weft explain --times\n");
        return CLI_USAGE;
    }
    if (options->times) {
        return cli_explain_times(options);
    }
    if (cli_refuse_given(options, "patience", "only with --times")) {
        return CLI_USAGE;
    }
    if (options->n_operands == 0) {
        return list_codes();
    }
    for (int i = 0; i < options->n_operands; i++) {
        weft_text_add(&words, "%s%s", i > 0 ? " " : "", options->operands[i]);
    }
    entry = diag_entry_by_code(words.bytes);
    if (entry != NULL) {
        explain_code(entry, &options->style);
    } else if (!explain_symptoms(words.bytes, &options->style)) {
        code = no_such_code(words.bytes);
    }
    weft_text_fini(&words);
    return code;
}

static json_t *diagnose(const char *path)
{
    struct diag_input input = {.hosts = NULL};
    struct diag_findings findings = {NULL, 0};
    struct weft_error error;
    json_t *document = cli_read_json(path);
    json_t *encoded = NULL;

    if (document == NULL) {
        return NULL;
    }
    weft_error_clear(&error);
    if (diag_observations_decode(document, &input, &error) == WEFT_OK) {
        diag(&input, &findings);
        encoded = diag_findings_encode(&findings);
    } else {
        fprintf(stderr, "%s: %s\n", path, error.message);
    }
    diag_findings_fini(&findings);
    diag_input_fini(&input);
    json_decref(document);
    return encoded;
}

int cli_diagnose(struct cli_options *options)
{
    struct weft_text text = {NULL, 0, 0};
    json_t *findings;
    json_t *document;
    int code;

    if (options->n_operands != 1) {
        fprintf(stderr, "usage: weft diagnose [flags] OBS.json\n");
        return CLI_USAGE;
    }
    findings = diagnose(options->operands[0]);
    if (findings == NULL) {
        return CLI_USAGE;
    }
    code = json_array_size(findings) > 0 ? CLI_FAILED : CLI_OK;
    document = json_pack("{s:i, s:o}", "schema_version", 1, "findings", findings);
    if (options->json != NULL) {
        char *dump = json_dumps(document, JSON_INDENT(2));

        weft_text_add(&text, "%s\n", dump);
        free(dump);
        code = cli_write_file(options->json, text.bytes, text.n) ? code : CLI_USAGE;
    } else if (code == CLI_OK) {
        cli_print("no findings\n", 12);
    } else {
        report_findings(document, &options->style, &text);
        cli_print(text.bytes, text.n);
    }
    weft_text_fini(&text);
    json_decref(document);
    return code;
}

/* weft explain CODE and weft diagnose OBS.json: what findings mean, and which they are.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "diag/observations.h"
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

    fprintf(stderr, "weft explain: no such code: %s%s (weft explain lists them)\n",
            diagnose_quote(code, quoted), cli_code_hint(code, hint, sizeof(hint)));
    return CLI_USAGE;
}

int cli_explain(struct cli_options *options)
{
    const struct report_style *style = &options->style;
    const struct diag_entry *entry;

    if (options->n_operands == 0) {
        return list_codes();
    }
    entry = diag_entry_by_code(options->operands[0]);
    if (entry == NULL) {
        return no_such_code(options->operands[0]);
    }
    printf("%s%s%s (%s)\n\n%s\n\n%s\n\nWhat to do: %s\nReference:  %s\n", style->bold,
           entry->code, style->off, diag_severity_name(entry->severity), entry->cause,
           entry->explanation, entry->remedy, entry->reference);
    printf("To decide:  %s\n", entry->decide);
    if (entry->example != NULL) {
        printf("Example:    weft run %s\n", entry->example);
    }
    return CLI_OK;
}

static json_t *diagnose(const char *path)
{
    struct diag_input input = {.hosts = NULL};
    struct diag_findings findings = {NULL, 0};
    struct weft_error error;
    json_error_t syntax;
    json_t *document = json_load_file(path, JSON_REJECT_DUPLICATES, &syntax);
    json_t *encoded = NULL;

    if (document == NULL) {
        fprintf(stderr, "%s:%d:%d: %s\n", path, syntax.line, syntax.column, syntax.text);
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
        fprintf(stderr, "usage: weft diagnose OBS.json [flags]\n");
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

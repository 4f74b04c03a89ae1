#include "diag/catalogue.h"

#include <string.h>

#include "base/check.h"

const struct diag_entry *diag_entry(enum diag_code id)
{
    weft_check((size_t)id < DIAG_N_CODES);
    return &diag_entries[id];
}

const struct diag_entry *diag_entry_by_code(const char *code)
{
    for (int i = 0; i < DIAG_N_CODES; i++) {
        const struct diag_entry *entry = diag_entry((enum diag_code)i);

        if (strcmp(entry->code, code) == 0) {
            return entry;
        }
    }
    return NULL;
}

const char *diag_severity_name(enum diag_severity severity)
{
    static const char *const names[] = {"error", "warning", "info"};

    return (size_t)severity < WEFT_LENGTH(names) ? names[severity] : "?";
}

void diag_catalogue_print(struct weft_text *out)
{
    weft_text_add(
        out, "# Findings\n\n"
             "What `weft run`, `weft diagnose` and `weft doctor` report. A code never "
             "changes its meaning; `weft explain CODE` prints the same text. Generated "
             "from `src/diag/findings.txt`.\n\n"
             "| code | severity | cause |\n|---|---|---|\n");
    for (int i = 0; i < DIAG_N_CODES; i++) {
        const struct diag_entry *entry = diag_entry((enum diag_code)i);

        weft_text_add(out, "| [`%s`](#%d) | %s | %s |\n", entry->code, i + 1,
                      diag_severity_name(entry->severity), entry->cause);
    }
    for (int i = 0; i < DIAG_N_CODES; i++) {
        const struct diag_entry *entry = diag_entry((enum diag_code)i);

        weft_text_add(out, "\n<a id=\"%d\"></a>\n## `%s`\n\n", i + 1, entry->code);
        weft_text_add(out, "**Cause.** %s.\n\n%s\n\n", entry->cause, entry->explanation);
        weft_text_add(out,
                      "**Remedy.** %s.\n\n**To decide.** `%s`.\n\n**Reference.** %s.\n",
                      entry->remedy, entry->decide, entry->reference);
        if (entry->example != NULL) {
            weft_text_add(out, "\n**Example.** `weft run %s`.\n", entry->example);
        }
    }
}

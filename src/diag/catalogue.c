#include "diag/catalogue.h"

#include <string.h>

#include "base/check.h"
#include "diag/catalogue_entries.h"

const struct diag_entry *diag_entry(enum diag_code id)
{
    const struct diag_entries *const parts[] = {
        &diag_entries_first,    &diag_entries_paths,   &diag_entries_causes,
        &diag_entries_plugin,   &diag_entries_slow,    &diag_entries_programs,
        &diag_entries_process,  &diag_entries_transit, &diag_entries_machine,
        &diag_entries_recovery, &diag_entries_settings};
    size_t at = (size_t)id;

    for (size_t i = 0; i < WEFT_LENGTH(parts); i++) {
        if (at < parts[i]->n) {
            weft_check(parts[i]->items[at].id == id);
            return &parts[i]->items[at];
        }
        at -= parts[i]->n;
    }
    weft_check(false);
    return NULL;
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
             "from `src/diag/catalogue*.c`.\n\n"
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

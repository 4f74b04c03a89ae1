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

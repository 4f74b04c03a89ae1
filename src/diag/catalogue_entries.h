/* The parts of the table of findings, concatenated by diag_entry() in the order of enum
 * diag_code. */
#ifndef WEFT_DIAG_CATALOGUE_ENTRIES_H
#define WEFT_DIAG_CATALOGUE_ENTRIES_H

#include "diag/catalogue.h"

struct diag_entries {
    const struct diag_entry *items; /* [n] */
    size_t n;
};

extern const struct diag_entries diag_entries_first, diag_entries_paths,
    diag_entries_causes, diag_entries_plugin, diag_entries_slow, diag_entries_programs,
    diag_entries_process, diag_entries_transit, diag_entries_machine,
    diag_entries_recovery, diag_entries_settings;

#endif

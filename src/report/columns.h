/* A table whose columns are as wide as their widest cell. */
#ifndef WEFT_REPORT_COLUMNS_H
#define WEFT_REPORT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

#define COLUMNS_MAX 12

struct columns {
    char **cells; /* Owned [n_cells], row by row, heads first */
    size_t n_cells, cap;
    unsigned n_columns;
    bool right[COLUMNS_MAX];
};

/* Creates a table. Copies `heads`; n_columns <= COLUMNS_MAX. */
void columns_init(struct columns *columns, const char *const *heads, unsigned n_columns);
void columns_fini(struct columns *columns);
/* Aligns a column (from 0) to the right. */
void columns_right(struct columns *columns, unsigned column);
/* Starts a row and fills the previous one up with blank cells. */
void columns_row(struct columns *columns);
/* Adds a cell. Replaces control characters by '?'. */
void columns_cell(struct columns *columns, const char *format, ...) WEFT_PRINTF(2, 3);
/* Appends the table, each line after `indent`, with two blanks between columns. */
void columns_print(const struct columns *columns, const char *indent,
                   struct weft_text *out);

#endif

#include "report/columns.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "report/canvas.h"

/* Takes over `text`. */
static void add_cell(struct columns *columns, char *text)
{
    if (columns->n_cells == columns->cap) {
        columns->cap = columns->cap == 0 ? 64 : 2 * columns->cap;
        columns->cells = weft_realloc(columns->cells, columns->cap * sizeof(char *));
    }
    columns->cells[columns->n_cells++] = text;
}

void columns_init(struct columns *columns, const char *const *heads, unsigned n_columns)
{
    weft_check(n_columns > 0 && n_columns <= COLUMNS_MAX);
    memset(columns, 0, sizeof(*columns));
    columns->n_columns = n_columns;
    for (unsigned i = 0; i < n_columns; i++) {
        add_cell(columns, weft_strdup(heads[i]));
    }
}

void columns_fini(struct columns *columns)
{
    for (size_t i = 0; i < columns->n_cells; i++) {
        free(columns->cells[i]);
    }
    free(columns->cells);
    memset(columns, 0, sizeof(*columns));
}

void columns_right(struct columns *columns, unsigned column)
{
    weft_check(column < columns->n_columns);
    columns->right[column] = true;
}

void columns_row(struct columns *columns)
{
    while (columns->n_cells % columns->n_columns != 0) {
        add_cell(columns, weft_strdup(""));
    }
}

void columns_cell(struct columns *columns, const char *format, ...)
{
    va_list args;
    int n_bytes;
    char *text;

    va_start(args, format);
    n_bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    weft_check(n_bytes >= 0);
    text = weft_alloc((size_t)n_bytes + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)n_bytes + 1, format, args);
    va_end(args);
    /* A line break would end the row, and other control characters are for the terminal. */
    for (int i = 0; i < n_bytes; i++) {
        text[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
    }
    add_cell(columns, text);
}

void columns_print(const struct columns *columns, const char *indent,
                   struct weft_text *out)
{
    int width[COLUMNS_MAX] = {0};

    for (size_t i = 0; i < columns->n_cells; i++) {
        int cell = canvas_columns(columns->cells[i]);

        if (cell > width[i % columns->n_columns]) {
            width[i % columns->n_columns] = cell;
        }
    }
    for (size_t i = 0; i < columns->n_cells; i++) {
        unsigned column = (unsigned)(i % columns->n_columns);
        int pad = width[column] - canvas_columns(columns->cells[i]);
        bool is_last = column + 1 == columns->n_columns || i + 1 == columns->n_cells;

        weft_text_add(out, "%s", column == 0 ? indent : "  ");
        if (columns->right[column]) {
            weft_text_add(out, "%*s%s", pad, "", columns->cells[i]);
        } else {
            weft_text_add(out, "%s%*s", columns->cells[i], is_last ? 0 : pad, "");
        }
        if (is_last) {
            weft_text_add(out, "\n");
        }
    }
}

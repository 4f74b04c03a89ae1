/* Text in lines that are no wider than a screen, its later lines under its first. */
#ifndef WEFT_REPORT_PARAGRAPH_H
#define WEFT_REPORT_PARAGRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* Columns of a line; a piece that is longer has one to itself. */
#define PARAGRAPH_COLUMNS 96

struct paragraph {
    struct weft_text *out;
    int indent;  /* columns before the text of every line but the first */
    int columns; /* so many are in the line already */
    bool is_list;
};

/* Begins with `label`, which counts as columns too: later lines begin below what follows it. */
void paragraph_begin(struct paragraph *paragraph, const char *label,
                     struct weft_text *out);
/* Adds n bytes that must stay in one line, after a blank if they are not the first in it. */
void paragraph_piece(struct paragraph *paragraph, const char *piece, size_t n);
/* Adds one of a list, after a comma if it is not the first. */
void paragraph_item(struct paragraph *paragraph, const char *item);
/* Adds a sentence, word by word. */
void paragraph_words(struct paragraph *paragraph, const char *sentence);
void paragraph_end(struct paragraph *paragraph);

#endif

/* Breaks text into lines that fit a terminal and indents all lines but the first. */
#ifndef WEFT_REPORT_PARAGRAPH_H
#define WEFT_REPORT_PARAGRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* Maximum columns of a line. A longer piece gets a line of its own. */
#define PARAGRAPH_COLUMNS 96

struct paragraph {
    struct weft_text *out;
    int indent;  /* columns before the text in every line but the first */
    int columns; /* columns used in the current line */
    bool is_list;
};

/* Begins a paragraph with `label`. Later lines are indented by its width. */
void paragraph_begin(struct paragraph *paragraph, const char *label,
                     struct weft_text *out);
/* Adds n bytes that must stay on one line, after a blank unless they are the first on it. */
void paragraph_piece(struct paragraph *paragraph, const char *piece, size_t n);
/* Adds an item of a list, after a comma unless it is the first. */
void paragraph_item(struct paragraph *paragraph, const char *item);
/* Adds a sentence, word by word. */
void paragraph_words(struct paragraph *paragraph, const char *sentence);
void paragraph_end(struct paragraph *paragraph);

#endif

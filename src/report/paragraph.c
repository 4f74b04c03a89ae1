#include "report/paragraph.h"

#include <string.h>

/* Returns the number of characters in n bytes of UTF-8, all of width one. */
static int columns_of(const char *text, size_t n)
{
    int columns = 0;

    for (size_t i = 0; i < n; i++) {
        columns += ((unsigned char)text[i] & 0xc0) != 0x80 ? 1 : 0;
    }
    return columns;
}

void paragraph_begin(struct paragraph *paragraph, const char *label,
                     struct weft_text *out)
{
    paragraph->out = out;
    paragraph->indent = columns_of(label, strlen(label));
    paragraph->columns = paragraph->indent;
    paragraph->is_list = false;
    weft_text_add(out, "%s", label);
}

void paragraph_piece(struct paragraph *paragraph, const char *piece, size_t n)
{
    int columns = columns_of(piece, n);
    bool is_first = paragraph->columns == paragraph->indent;

    if (!is_first && paragraph->columns + 1 + columns > PARAGRAPH_COLUMNS) {
        weft_text_add(paragraph->out, "\n%*s", paragraph->indent, "");
        paragraph->columns = paragraph->indent;
        is_first = true;
    }
    weft_text_add(paragraph->out, "%s%.*s", is_first ? "" : " ", (int)n, piece);
    paragraph->columns += columns + (is_first ? 0 : 1);
}

void paragraph_item(struct paragraph *paragraph, const char *item)
{
    if (paragraph->is_list) {
        weft_text_add(paragraph->out, ",");
        paragraph->columns++;
    }
    paragraph->is_list = true;
    paragraph_piece(paragraph, item, strlen(item));
}

void paragraph_words(struct paragraph *paragraph, const char *sentence)
{
    while (*sentence != '\0') {
        size_t n = strcspn(sentence, " ");

        paragraph_piece(paragraph, sentence, n);
        sentence += n;
        sentence += strspn(sentence, " ");
    }
}

void paragraph_end(struct paragraph *paragraph)
{
    weft_text_add(paragraph->out, "\n");
}

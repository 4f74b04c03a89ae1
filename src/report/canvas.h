/* A small text canvas for drawing meshes: rows of cells, each one Unicode character. */
#ifndef WEFT_REPORT_CANVAS_H
#define WEFT_REPORT_CANVAS_H

#include <stdint.h>

#include "base/text.h"

struct canvas {
    uint32_t *cells; /* Owned [height * width], Unicode; 0: blank */
    int width, height;
};

/* Blank; aborts when out of memory. */
void canvas_init(struct canvas *canvas, int width, int height);
void canvas_fini(struct canvas *canvas);
/* Writes UTF-8 `text` from (x, y) to the right; what falls outside is cut. */
void canvas_text(struct canvas *canvas, int x, int y, const char *text);
/* The same, ending at x (right-aligned) or around x (centred). */
void canvas_text_right(struct canvas *canvas, int x, int y, const char *text);
void canvas_text_centre(struct canvas *canvas, int x, int y, const char *text);
/* A box with corners at (x, y) and (x + w - 1, y + h - 1) and `label` centred. */
void canvas_box(struct canvas *canvas, int x, int y, int w, int h, const char *label);
void canvas_hline(struct canvas *canvas, int x0, int x1, int y, uint32_t cell);
void canvas_vline(struct canvas *canvas, int x, int y0, int y1, uint32_t cell);
void canvas_cell(struct canvas *canvas, int x, int y, uint32_t cell);
/* Appends the rows up to the last that is not blank, each without trailing blanks and with a
 * newline. */
void canvas_print(const struct canvas *canvas, struct weft_text *out);
/* Columns that UTF-8 `text` takes: characters, all of width one. */
int canvas_columns(const char *text);

#endif

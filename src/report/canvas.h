/* A small text canvas for drawing meshes: rows of cells, each one Unicode character. */
#ifndef WEFT_REPORT_CANVAS_H
#define WEFT_REPORT_CANVAS_H

#include <stdint.h>

#include "base/text.h"

struct canvas {
    uint32_t *cells; /* Owned [height * width], Unicode; 0: blank */
    int width, height;
};

/* Creates a blank canvas. Aborts when out of memory. */
void canvas_init(struct canvas *canvas, int width, int height);
void canvas_fini(struct canvas *canvas);
/* Writes UTF-8 `text` from (x, y) to the right. Cells outside the canvas are dropped. */
void canvas_text(struct canvas *canvas, int x, int y, const char *text);
/* Write `text` so that it ends at x (right-aligned) or is centred at x. */
void canvas_text_right(struct canvas *canvas, int x, int y, const char *text);
void canvas_text_centre(struct canvas *canvas, int x, int y, const char *text);
/* Draws a box with corners at (x, y) and (x + w - 1, y + h - 1) and `label` centred. */
void canvas_box(struct canvas *canvas, int x, int y, int w, int h, const char *label);
void canvas_hline(struct canvas *canvas, int x0, int x1, int y, uint32_t cell);
void canvas_vline(struct canvas *canvas, int x, int y0, int y1, uint32_t cell);
void canvas_cell(struct canvas *canvas, int x, int y, uint32_t cell);
/* Appends the rows up to the last one that is not blank, each without trailing blanks and with a
 * newline. */
void canvas_print(const struct canvas *canvas, struct weft_text *out);
/* Returns the width of valid UTF-8 `text` in columns: its characters, all of width one. */
int canvas_columns(const char *text);

#endif

#include "report/canvas.h"

#include <stdlib.h>

#include "base/check.h"

void canvas_init(struct canvas *canvas, int width, int height)
{
    weft_check(width > 0 && height > 0);
    canvas->width = width;
    canvas->height = height;
    canvas->cells = weft_calloc((size_t)width * (size_t)height, sizeof(*canvas->cells));
}

void canvas_fini(struct canvas *canvas)
{
    free(canvas->cells);
    canvas->cells = NULL;
}

void canvas_cell(struct canvas *canvas, int x, int y, uint32_t cell)
{
    if (x >= 0 && x < canvas->width && y >= 0 && y < canvas->height) {
        canvas->cells[y * canvas->width + x] = cell;
    }
}

/* Returns the next character of UTF-8 text and advances `*text`. A character that is cut short ends
 * before the first byte that does not continue it, so that the end of the text is never passed. */
static uint32_t next_character(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    uint32_t value = at[0];
    int more = value >= 0xf0 ? 3 : value >= 0xe0 ? 2 : value >= 0xc0 ? 1 : 0;
    int i = 1;

    if (more > 0) {
        value &= 0x3fu >> more;
        for (; i <= more && (at[i] & 0xc0u) == 0x80; i++) {
            value = value << 6 | (at[i] & 0x3fu);
        }
    }
    *text += i;
    return value;
}

int canvas_columns(const char *text)
{
    int n = 0;

    while (*text != '\0') {
        next_character(&text);
        n++;
    }
    return n;
}

void canvas_text(struct canvas *canvas, int x, int y, const char *text)
{
    while (*text != '\0') {
        canvas_cell(canvas, x++, y, next_character(&text));
    }
}

void canvas_text_right(struct canvas *canvas, int x, int y, const char *text)
{
    canvas_text(canvas, x - canvas_columns(text) + 1, y, text);
}

void canvas_text_centre(struct canvas *canvas, int x, int y, const char *text)
{
    canvas_text(canvas, x - canvas_columns(text) / 2, y, text);
}

void canvas_hline(struct canvas *canvas, int x0, int x1, int y, uint32_t cell)
{
    for (int x = x0; x <= x1; x++) {
        canvas_cell(canvas, x, y, cell);
    }
}

void canvas_vline(struct canvas *canvas, int x, int y0, int y1, uint32_t cell)
{
    for (int y = y0; y <= y1; y++) {
        canvas_cell(canvas, x, y, cell);
    }
}

void canvas_box(struct canvas *canvas, int x, int y, int w, int h, const char *label)
{
    int right = x + w - 1;
    int bottom = y + h - 1;

    canvas_hline(canvas, x + 1, right - 1, y, 0x2500);
    canvas_hline(canvas, x + 1, right - 1, bottom, 0x2500);
    canvas_vline(canvas, x, y + 1, bottom - 1, 0x2502);
    canvas_vline(canvas, right, y + 1, bottom - 1, 0x2502);
    canvas_cell(canvas, x, y, 0x250c);
    canvas_cell(canvas, right, y, 0x2510);
    canvas_cell(canvas, x, bottom, 0x2514);
    canvas_cell(canvas, right, bottom, 0x2518);
    canvas_text_centre(canvas, x + w / 2, y + h / 2, label);
}

static void print_character(struct weft_text *out, uint32_t value)
{
    char bytes[4];
    size_t n = 0;

    if (value < 0x80) {
        bytes[n++] = (char)value;
    } else if (value < 0x800) {
        bytes[n++] = (char)(0xc0 | value >> 6);
        bytes[n++] = (char)(0x80 | (value & 0x3f));
    } else {
        bytes[n++] = (char)(0xe0 | value >> 12);
        bytes[n++] = (char)(0x80 | (value >> 6 & 0x3f));
        bytes[n++] = (char)(0x80 | (value & 0x3f));
    }
    weft_text_add_bytes(out, bytes, n);
}

/* Returns the number of columns of a row up to its last character. */
static int row_end(const struct canvas *canvas, int y)
{
    const uint32_t *row = canvas->cells + y * canvas->width;
    int end = canvas->width;

    while (end > 0 && (row[end - 1] == 0 || row[end - 1] == ' ')) {
        end--;
    }
    return end;
}

void canvas_print(const struct canvas *canvas, struct weft_text *out)
{
    int height = canvas->height;

    while (height > 0 && row_end(canvas, height - 1) == 0) {
        height--;
    }
    for (int y = 0; y < height; y++) {
        const uint32_t *row = canvas->cells + y * canvas->width;
        int end = row_end(canvas, y);

        for (int x = 0; x < end; x++) {
            print_character(out, row[x] == 0 ? ' ' : row[x]);
        }
        weft_text_add_bytes(out, "\n", 1);
    }
}

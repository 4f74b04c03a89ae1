/* Colour for terminals, or none. */
#ifndef WEFT_REPORT_STYLE_H
#define WEFT_REPORT_STYLE_H

#include <stdbool.h>

/* The escape sequences to use; all empty without colour. */
struct report_style {
    const char *bold, *dim, *good, *bad, *warn, *off;
};

/* ECMA-48 select graphic rendition, or nothing. */
struct report_style report_style(bool colour);

#endif

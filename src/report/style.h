/* Terminal colours. */
#ifndef WEFT_REPORT_STYLE_H
#define WEFT_REPORT_STYLE_H

#include <stdbool.h>

/* The escape sequences to use; all empty without colour. */
struct report_style {
    const char *bold, *dim, *good, *bad, *warn, *off;
};

/* Returns ECMA-48 select graphic rendition sequences if `colour`, otherwise empty strings. */
struct report_style report_style(bool colour);

#endif

/* Text inside XML and HTML. */
#ifndef WEFT_REPORT_ESCAPE_H
#define WEFT_REPORT_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* Appends n bytes so that they mean themselves: in an attribute quotes and newlines are
 * escaped too, and control characters that XML 1.0 does not have become '?'. */
void report_escape(const char *text, size_t n, bool is_attribute, struct weft_text *out);

#endif

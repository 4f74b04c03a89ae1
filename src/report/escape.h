/* Escapes text for XML and HTML. */
#ifndef WEFT_REPORT_ESCAPE_H
#define WEFT_REPORT_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* Appends n bytes, escaped. In an attribute also escapes quotes and newlines. Replaces control
 * characters that XML 1.0 does not permit, and in an attribute tabs, by '?'. */
void report_escape(const char *text, size_t n, bool is_attribute, struct weft_text *out);

#endif
